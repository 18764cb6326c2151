"""pyarrow converts without pandas, and pandas is there for who asks for it."""

import subprocess
import sys

import pytest

pytest.importorskip("pandas")


def test_arrays_are_made_without_pandas_and_become_series_all_the_same() -> None:
    program = (
        "import sys, pyarrow as pa\n"
        "from rowtide.startup import leave_pandas_out\n"
        "leave_pandas_out()\n"
        "made = pa.array(['a', None])\n"
        "print('pandas' in sys.modules, made.to_pandas().tolist())"
    )
    environment = {"PYTHONPATH": ":".join(sys.path)}
    run = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == "False ['a', None]"
