"""Table functions in Python across restarts: the state continues, and a changed class is another function."""

from __future__ import annotations

from pathlib import Path

from support.pipeline import FilesWithModule

SQL = """
CREATE SERVER k FOREIGN DATA WRAPPER MEMORY OPTIONS (broker '{file}');
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite:///{file}');
CREATE FUNCTION steps(x INTEGER) RETURNS TABLE (was INTEGER, came INTEGER) LANGUAGE PYTHON AS 'pipeline_steps.Steps';
CREATE FOREIGN STREAM readings (sensor VARCHAR(8), amount INTEGER)
  SERVER k OPTIONS (topic 'readings', partitions '1', format 'JSON');
CREATE FOREIGN TABLE steps (was INTEGER, came INTEGER) SERVER d;
CREATE PUMP p STARTED AS INSERT INTO steps
  SELECT STREAM was, came FROM TABLE(steps(CURSOR(SELECT STREAM amount FROM readings))) AS t;
"""
CONFIG = """
[service]
listen = "127.0.0.1:0"
"""
STEPS = """
class Steps:
    def create(self):
        return -1

    def add(self, state, rowtime, x):
        return x, [(state, {weight} * x)] * 2
"""


class Files(FilesWithModule):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder, SQL, CONFIG, {"pipeline_steps.py": STEPS.format(weight=1)})

    def steps(self) -> list[tuple[object, ...]]:
        return [tuple(row) for row in self.rows("steps")]


def test_the_state_continues_after_a_stop_and_a_changed_class_is_refused_by_name(tmp_path: Path) -> None:
    files = Files(tmp_path / "before")
    files.produce(2)
    files.run()
    assert files.steps() == [(-1, 0), (-1, 0), (0, 1), (0, 1)]
    files.produce(1)
    files.run()
    assert files.steps()[4:] == [(1, 2), (1, 2)]
    files.call("replay", "--compare")
    changed = tmp_path / "after"
    changed.mkdir()
    (changed / "pipeline_steps.py").write_text(STEPS.format(weight=10))
    was, files.sql = files.sql, changed / files.sql.name
    files.sql.write_text(was.read_text())
    refused = files.call("run", "--until-end", code=2)
    assert 'function "STEPS" has changed; pump "P" has changed' in " ".join(refused.split())
    files.call("apply", "--was", str(was), "--yes", "--lose")
    files.produce(1)
    files.run()
    assert files.steps()[6:] == [(-1, 30), (-1, 30)]
