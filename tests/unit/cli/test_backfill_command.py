"""rowtide backfill on a machine without PySpark."""

import sys
from pathlib import Path

import pytest

from pipeline_kit import PipelineFiles

SQL = """
CREATE SERVER k FOREIGN DATA WRAPPER KAFKA OPTIONS (bootstrap_servers 'localhost:1');
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite:///{file}');
CREATE FOREIGN STREAM readings (amount INTEGER) SERVER k OPTIONS (topic 'readings', format 'JSON');
CREATE FOREIGN TABLE amounts (amount INTEGER) SERVER d;
CREATE PUMP p STARTED AS INSERT INTO amounts SELECT STREAM amount FROM readings;
"""


def test_without_pyspark_it_says_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    files = PipelineFiles(tmp_path, SQL, "")
    said = files.call("backfill", "--until", "2026-01-01 00:00:00", code=2)
    assert "PySpark is not installed" in said
    assert "pip install 'rowtide[spark]'" in said
