from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
ALL_OPERATORS = ("tests/scenarios", "tests/property/operators", "tests/contract/operators")
HERE_ALONE = "not long and not spark and not kafka and not postgres"


@pytest.mark.long
@pytest.mark.timeout(1_800)
def test_no_kernel_leaves_its_arrays(tmp_path: Path) -> None:
    # A kernel that writes beyond an array changes other memory, and what that breaks shows far away.
    checked = {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-x",
            "-p",
            "no:cacheprovider",
            "-m",
            HERE_ALONE,
            *ALL_OPERATORS,
        ],
        cwd=ROOT,
        env=os.environ | checked,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5_000:]
