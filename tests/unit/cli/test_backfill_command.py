"""rowtide backfill on a machine without PySpark."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from rowtide.runtime.pipeline import open_pipeline
from rowtide.sql.pipeline import plan_pipeline
from support.pipeline import PipelineFiles

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


def held_by(files: PipelineFiles, pid: int) -> None:
    """Leave what a backfill leaves that has taken the pipeline and committed nothing."""
    plan = plan_pipeline(files.text, file=str(files.sql))
    with open_pipeline(plan, files.sql.stem) as pipeline:
        pipeline.ledger.claim("digest", f"{socket.gethostname()} process {pid}, a backfill")


def test_another_backfill_is_refused_while_its_process_lives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    files = PipelineFiles(tmp_path, SQL, "")
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        held_by(files, other.pid)
        said = files.call("backfill", "--until", "2026-01-01 00:00:00", code=2)
        assert f'another backfill of pipeline "readings" is running: {socket.gethostname()}' in said
        assert "--take-over" in said
        said = files.call("backfill", "--until", "2026-01-01 00:00:00", "--take-over", code=2)
        assert "PySpark is not installed" in said
        other.kill()
        # Ended, but no one has waited for it yet.
        os.waitid(os.P_PID, other.pid, os.WEXITED | os.WNOWAIT)
        said = files.call("backfill", "--until", "2026-01-01 00:00:00", code=2)
        assert "PySpark is not installed" in said
    assert "PySpark is not installed" in files.call("backfill", "--until", "2026-01-01 00:00:00", code=2)


def test_a_backfill_that_had_the_same_process_number_before_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the first process of a container that is started again."""
    monkeypatch.setitem(sys.modules, "pyspark", None)
    files = PipelineFiles(tmp_path, SQL, "")
    held_by(files, os.getpid())
    assert "PySpark is not installed" in files.call("backfill", "--until", "2026-01-01 00:00:00", code=2)


@pytest.mark.parametrize(
    ("options", "answer"),
    [
        (["--staging", "/no/such/folder"], "mkdir -p /no/such/folder"),
        (["--conf", "spark.executor.memory"], 'invalid --conf: "spark.executor.memory"'),
        (["--conf", "executor.memory=4g"], "spark.executor.memory=4g"),
        (["--conf", "spark.sql.session.timeZone=CET"], "cannot be changed"),
        (["--conf", "spark.master=yarn"], "Use --master."),
        (["--conf", "spark.ui.enabled=true"], "Use --ui."),
        (["--py-files", "none.zip"], 'file "none.zip" of --py-files does not exist'),
        (["--py-files", "/etc/passwd"], "Pack packages as a .zip."),
        (["--parts", "0"], "--parts"),
        (["--slice", "fortnight"], "Type --slice '1 DAY', for example."),
        (["--slice", "0 DAY"], "invalid --slice"),
        (["--slice-messages", "-1"], "--slice-messages"),
        (["--from", "yesterday"], '"yesterday" is not a time'),
    ],
)
def test_what_spark_could_not_work_with_is_refused_before_it_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], answer: str
) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    monkeypatch.setenv("COLUMNS", "200")
    files = PipelineFiles(tmp_path, SQL, "")
    said = files.call("backfill", "--until", "2026-01-01 00:00:00", *options, code=2)
    assert answer in said
    assert "PySpark is not installed" not in said


@pytest.mark.parametrize("master", ["spark://host:7077", "yarn", "local[4]"])
def test_no_master_needs_a_shared_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, master: str
) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    files = PipelineFiles(tmp_path, SQL, "")
    options = ("--until", "2026-01-01 00:00:00", "--master", master, "--py-files", __file__)
    for staging in ((), ("--staging", str(tmp_path))):
        assert "PySpark is not installed" in files.call("backfill", *options, *staging, code=2)
