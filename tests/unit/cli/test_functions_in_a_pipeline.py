"""Functions in Python across restarts: a changed module is another function, and a replay finds what differs."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from rowtide.cli.main import app
from support.pipeline import FilesWithModule

SQL = """
CREATE SERVER k FOREIGN DATA WRAPPER MEMORY OPTIONS (broker '{file}');
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite:///{file}');
CREATE FUNCTION rate(x INTEGER) RETURNS INTEGER LANGUAGE PYTHON AS 'pipeline_rates.rate';
CREATE FOREIGN STREAM readings (sensor VARCHAR(8), amount INTEGER)
  SERVER k OPTIONS (topic 'readings', partitions '1', format 'JSON');
CREATE FOREIGN TABLE rated (at TIMESTAMP, sensor VARCHAR(8), rate INTEGER, PRIMARY KEY (at)) SERVER d;
CREATE PUMP p STARTED AS INSERT INTO rated SELECT STREAM ROWTIME, sensor, rate(amount) FROM readings;
"""
CONFIG = """
[service]
listen = "127.0.0.1:0"
"""
TWICE = "def rate(x):\n    return 2 * x\n"
THRICE = "def rate(x):\n    if x == 5:\n        raise ValueError(x)\n    return 3 * x\n"
COUNTED = "CALLS = []\n\ndef rate(x):\n    CALLS.append(x)\n    return len(CALLS)\n"


class Files(FilesWithModule):
    def __init__(self, folder: Path, module: str) -> None:
        super().__init__(folder, SQL, CONFIG, {"pipeline_rates.py": module})

    def rates(self) -> list[object]:
        return [row[2] for row in sorted(self.rows("rated"), key=str)]


def test_a_changed_module_is_refused_by_name_and_applied(tmp_path: Path) -> None:
    files = Files(tmp_path / "before", TWICE)
    files.produce(3)
    files.run()
    assert files.rates() == [0, 2, 4]
    changed = tmp_path / "after"
    changed.mkdir()
    (changed / "pipeline_rates.py").write_text(THRICE)
    was, files.sql = files.sql, changed / files.sql.name
    files.sql.write_text(was.read_text())
    refused = files.call("run", "--until-end", code=2)
    assert 'function "RATE" has changed; pump "P" has changed' in " ".join(refused.split())
    files.call("apply", "--was", str(was), "--yes")
    files.produce(4)
    files.run()
    assert files.rates() == [0, 2, 4, 9, 12, 18]
    assert "RATE(5) raised ValueError: 5 (pipeline_rates.py, line 3)" in files.call("errors list", "--json")


def test_a_replay_finds_a_function_that_is_not_deterministic(tmp_path: Path) -> None:
    files = Files(tmp_path / "counted", COUNTED)
    files.produce(3)
    files.run()
    assert "RATED" in files.call("replay", "--compare", code=1)


def test_the_prompt_calls_functions() -> None:
    statements = (
        "CREATE FUNCTION root(x DOUBLE) RETURNS DOUBLE LANGUAGE PYTHON AS 'math.sqrt'",
        "CREATE TABLE t (x DOUBLE PRIMARY KEY)",
        "INSERT INTO t VALUES (root(9e0)), (16e0), (-1e0)",
        "SELECT root(x) AS r FROM t WHERE x > 3 OR root(x) > 3 ORDER BY root(x)",
    )
    command = ["sql", *(word for each in statements for word in ("-e", each))]
    result = CliRunner().invoke(app, command)
    assert "4.0" in result.output, result.output
    assert "ROOT(-1.0) raised ValueError: math domain error" in result.output


def test_a_replay_of_a_deterministic_function_finds_nothing(tmp_path: Path) -> None:
    files = Files(tmp_path / "twice", TWICE)
    files.produce(3)
    files.run()
    files.call("replay", "--compare")
