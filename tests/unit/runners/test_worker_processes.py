"""Worker processes of Spark: what one keeps from task to task."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from rowtide.runners.spark.shuffle.exchange import OnWorker


def test_a_task_leaves_no_archive_to_be_read_again_and_modules_are_found_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = str(tmp_path / "files.zip")
    with ZipFile(archive, "w") as file:
        file.writestr("packed_one.py", "VALUE = 1\n")
        file.writestr("packed_two.py", "VALUE = 2\n")
    monkeypatch.syspath_prepend(archive)
    assert importlib.import_module("packed_one").VALUE == 1
    assert archive in sys.path_importer_cache
    assert list(OnWorker(iter)([])) == []
    assert archive not in sys.path_importer_cache
    importlib.invalidate_caches()
    assert importlib.import_module("packed_two").VALUE == 2
