"""``rowtide run --standby`` and the settings of replicas."""

from pathlib import Path

import pytest

from support.pipeline import PipelineFiles

SQL = """
CREATE SERVER k FOREIGN DATA WRAPPER MEMORY OPTIONS (broker '{file}');
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite:///{file}');
CREATE FOREIGN STREAM readings (n INTEGER) SERVER k OPTIONS (topic 'readings', format 'JSON');
CREATE FOREIGN TABLE seen (n INTEGER) SERVER d;
CREATE PUMP p STARTED AS INSERT INTO seen SELECT STREAM n FROM readings;
"""
LISTEN = '[service]\nlisten = "127.0.0.1:0"\n'


@pytest.mark.parametrize(
    ("config", "arguments"), [(LISTEN, ["--standby"]), (f"{LISTEN}[standby]\nenabled = true\n", [])]
)
def test_a_replica_does_not_stop_at_the_end(tmp_path: Path, config: str, arguments: list[str]) -> None:
    files = PipelineFiles(tmp_path, SQL, config)
    said = files.call("run", "--until-end", *arguments, code=2)
    assert "a standby does not stop at the end" in said
    assert "--until-end" in said


def test_the_time_out_is_at_least_two_commit_intervals(tmp_path: Path) -> None:
    config = f"{LISTEN}[commit]\ninterval_ms = 3000\n[standby]\ntakeover_ms = 5000\n"
    files = PipelineFiles(tmp_path, SQL, config)
    said = files.call("run", "--standby", code=2)
    assert "standby.takeover_ms is 5000, which is less than two commit intervals" in said
    assert "Set it to 6000 or more" in said
