"""Aggregates in Python across restarts: the state continues, and a changed class is another aggregate."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from rowtide.cli.main import app
from support.pipeline import FilesWithModule

SQL = """
CREATE SERVER k FOREIGN DATA WRAPPER MEMORY OPTIONS (broker '{file}');
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite:///{file}');
CREATE AGGREGATE FUNCTION total(x INTEGER) RETURNS INTEGER LANGUAGE PYTHON AS 'pipeline_totals.Total';
CREATE FOREIGN STREAM readings (sensor VARCHAR(8), amount INTEGER)
  SERVER k OPTIONS (topic 'readings', partitions '1', format 'JSON');
CREATE FOREIGN TABLE totals (at TIMESTAMP, total INTEGER, last_two INTEGER, PRIMARY KEY (at)) SERVER d;
CREATE PUMP p STARTED AS INSERT INTO totals
  SELECT STREAM ROWTIME, total(amount) OVER (ORDER BY ROWTIME), total(amount) OVER (ROWS 1 PRECEDING) FROM readings;
"""
CONFIG = """
[service]
listen = "127.0.0.1:0"
"""
TOTAL = """
class Total:
    def create(self):
        return 0

    def add(self, state, x):
        return state + {weight} * x

    def retract(self, state, x):
        return state - {weight} * x

    def result(self, state):
        return state
"""


class Files(FilesWithModule):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder, SQL, CONFIG, {"pipeline_totals.py": TOTAL.format(weight=1)})

    def totals(self) -> list[tuple[object, ...]]:
        return [tuple(row[1:]) for row in sorted(self.rows("totals"), key=str)]


def test_the_state_continues_after_a_stop_and_a_changed_class_is_refused_by_name(tmp_path: Path) -> None:
    files = Files(tmp_path / "before")
    files.produce(3)
    files.run()
    assert files.totals() == [(0, 0), (1, 1), (3, 3)]
    files.produce(2)
    files.run()
    assert files.totals()[3:] == [(6, 5), (10, 7)]
    files.call("replay", "--compare")
    changed = tmp_path / "after"
    changed.mkdir()
    (changed / "pipeline_totals.py").write_text(TOTAL.format(weight=2))
    was, files.sql = files.sql, changed / files.sql.name
    files.sql.write_text(was.read_text())
    refused = files.call("run", "--until-end", code=2)
    assert 'function "TOTAL" has changed; pump "P" has changed' in " ".join(refused.split())
    assert "the state of P would be lost" in files.call("apply", "--was", str(was), "--yes", code=2)
    files.call("apply", "--was", str(was), "--yes", "--lose")
    files.produce(2)
    files.run()
    assert files.totals()[5:] == [(10, 10), (22, 22)]


def test_the_prompt_aggregates_and_lists_what_is_declared(tmp_path: Path) -> None:
    (tmp_path / "prompt_totals.py").write_text(TOTAL.format(weight=1))
    file = tmp_path / "pipeline.sql"
    file.write_text(
        "CREATE AGGREGATE FUNCTION total(x INTEGER) RETURNS BIGINT LANGUAGE PYTHON AS 'prompt_totals.Total';"
    )
    statements = (
        "CREATE TABLE t (k VARCHAR(1), x INTEGER)",
        "INSERT INTO t VALUES ('a', 1), ('a', 2), ('b', 40), ('b', NULL)",
        "SELECT k, total(x) + 100 AS v FROM t GROUP BY k HAVING total(x) > 5",
        "SELECT COALESCE(total(x), -7) AS v FROM t WHERE FALSE",
        "SELECT function_kind FROM SYS.FUNCTIONS WHERE function_name = 'TOTAL'",
    )
    command = ["sql", str(file), *(word for each in statements for word in ("-e", each))]
    result = CliRunner().invoke(app, command)
    for each in ("b | 140", "-7", "USER-DEFINED AGGREGATE"):
        assert each in result.output, result.output
    assert "103" not in result.output
    listed = CliRunner().invoke(app, ["check", str(file)])
    assert "aggregate function TOTAL(X INTEGER) returns BIGINT" in listed.output
