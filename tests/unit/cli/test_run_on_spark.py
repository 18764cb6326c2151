"""``rowtide run --runner spark``: what is refused before Spark starts. No test of these has PySpark."""

import sys
from pathlib import Path

import pytest

from support.pipeline import PipelineFiles

SQL = """
CREATE SERVER k FOREIGN DATA WRAPPER KAFKA OPTIONS (bootstrap_servers 'localhost:1');
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite:///{file}');
CREATE FOREIGN STREAM readings (amount INTEGER) SERVER k OPTIONS (topic 'readings', format 'JSON');
CREATE FOREIGN TABLE amounts (amount INTEGER) SERVER d;
CREATE PUMP p STARTED AS INSERT INTO amounts SELECT STREAM amount FROM readings;
"""
WRITES = """
CREATE FOREIGN STREAM copies (amount INTEGER) SERVER k OPTIONS (topic 'copies', format 'JSON');
CREATE PUMP q STARTED AS INSERT INTO copies SELECT STREAM amount FROM readings;
"""
OTHER_SOURCE = """
CREATE SERVER m FOREIGN DATA WRAPPER MEMORY OPTIONS (broker '{file}');
CREATE FOREIGN STREAM others (amount INTEGER) SERVER m OPTIONS (topic 'others', format 'JSON');
CREATE PUMP q STARTED AS INSERT INTO amounts SELECT STREAM amount FROM others;
"""


@pytest.fixture(autouse=True)
def _no_pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    monkeypatch.setenv("COLUMNS", "200")


@pytest.mark.parametrize(
    ("options", "answer"),
    [
        (["--standby"], "a standby follows in one process"),
        (["--staging", "/no/such/folder"], "mkdir -p /no/such/folder"),
        (["--conf", "executor.memory=4g"], "spark.executor.memory=4g"),
        (["--py-files", "none.zip"], 'file "none.zip" of --py-files does not exist'),
        (["--trigger", "often"], "Type --trigger '5 SECOND', for example."),
        (["--batch-messages", "0"], "--batch-messages"),
        (["--parts", "0"], "--parts"),
        ([], "pip install 'rowtide[spark]'"),
        (["--trigger", "5 SECOND", "--batch-messages", "7", "--until-end"], "pip install 'rowtide[spark]'"),
    ],
)
def test_what_is_refused_before_spark_starts(tmp_path: Path, options: list[str], answer: str) -> None:
    files = PipelineFiles(tmp_path, SQL, "")
    said = files.call("run", "--runner", "spark", *options, code=2)
    assert answer in said
    assert ("PySpark is not installed" in said) is ("pip install" in answer)


@pytest.mark.parametrize(
    "options",
    [["--master", "local[2]"], ["--trigger", "5 SECOND"], ["--ui"], ["--conf", "spark.executor.memory=4g"]],
)
def test_options_of_spark_without_it_are_refused(tmp_path: Path, options: list[str]) -> None:
    files = PipelineFiles(tmp_path, SQL, "")
    said = files.call("run", *options, code=2)
    assert "options of Spark are given, and the runner is not Spark" in said
    assert "Add --runner spark." in said


@pytest.mark.parametrize(
    ("more", "answer"),
    [
        (WRITES, 'pumps write to foreign streams: "COPIES"'),
        (OTHER_SOURCE, '"OTHERS" is read through MEMORY'),
    ],
)
def test_pipelines_that_spark_does_not_run_are_refused(tmp_path: Path, more: str, answer: str) -> None:
    files = PipelineFiles(tmp_path, SQL + more, "")
    said = files.call("run", "--runner", "spark", code=2)
    assert answer in said
    assert "without --runner spark" in said
