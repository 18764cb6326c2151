"""Rows of statements that a changed file edits, gives or removes: ``apply`` changes all that follows their tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.pipeline import PipelineFiles

CONFIG = """
[service]
listen = "127.0.0.1:0"
"""
SERVERS = """
CREATE SERVER k FOREIGN DATA WRAPPER MEMORY OPTIONS (broker '{file}');
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite:///{file}');
"""
INSERTED = "INSERT INTO names VALUES ('a', 'one'), ('b', 'two'), ('c', 'three');"
TABLES = f"""
CREATE TABLE empty (sensor VARCHAR(8) PRIMARY KEY, name VARCHAR(9));
CREATE TABLE names (sensor VARCHAR(8) PRIMARY KEY, name VARCHAR(9));
{INSERTED}
CREATE TABLE places (sensor VARCHAR(8) PRIMARY KEY, place VARCHAR(9));
INSERT INTO places VALUES ('a', 'attic'), ('b', 'barn'), ('d', 'door');
CREATE FOREIGN TABLE listed (sensor VARCHAR(8), name VARCHAR(9), PRIMARY KEY (sensor)) SERVER d;
CREATE PUMP l STARTED AS INSERT INTO listed SELECT sensor, name FROM names;
CREATE FOREIGN TABLE placed (sensor VARCHAR(8), name VARCHAR(9), place VARCHAR(9), PRIMARY KEY (sensor)) SERVER d;
CREATE PUMP j STARTED AS INSERT INTO placed
  SELECT n.sensor, n.name, p.place FROM names AS n JOIN places AS p ON n.sensor = p.sensor;
CREATE FOREIGN TABLE known (sensor VARCHAR(8), PRIMARY KEY (sensor)) SERVER d;
CREATE PUMP u STARTED AS INSERT INTO known
  SELECT sensor FROM names UNION SELECT sensor FROM places EXCEPT SELECT sensor FROM empty;
CREATE FOREIGN TABLE lost (sensor VARCHAR(8), place VARCHAR(9), PRIMARY KEY (sensor)) SERVER d;
CREATE PUMP o STARTED AS INSERT INTO lost
  SELECT sensor, place FROM places WHERE sensor NOT IN (SELECT sensor FROM names);
"""
STREAMS = """
CREATE FOREIGN STREAM readings (sensor VARCHAR(8))
  SERVER k OPTIONS (topic 'readings', partitions '1', format 'JSON');
CREATE FOREIGN TABLE named (at TIMESTAMP, name VARCHAR(9), PRIMARY KEY (at)) SERVER d;
CREATE PUMP p STARTED AS INSERT INTO named
  SELECT STREAM r.ROWTIME, n.name FROM readings AS r LEFT JOIN names AS n ON r.sensor = n.sensor;
CREATE FOREIGN TABLE found (at TIMESTAMP, place VARCHAR(9), PRIMARY KEY (at)) SERVER d;
CREATE PUMP f STARTED AS INSERT INTO found
  SELECT STREAM r.ROWTIME, v.place FROM readings AS r
  LEFT JOIN (SELECT n.sensor, p.place FROM names AS n JOIN places AS p ON n.sensor = p.sensor) AS v
  ON r.sensor = v.sensor;
CREATE TABLE seen (sensor VARCHAR(8) PRIMARY KEY, last VARCHAR(8));
INSERT INTO seen VALUES ('a', 'never'), ('x', 'never');
CREATE PUMP s STARTED AS INSERT INTO seen SELECT STREAM sensor, 'read' FROM readings;
CREATE FOREIGN TABLE lately (sensor VARCHAR(8), last VARCHAR(8), name VARCHAR(9), PRIMARY KEY (sensor)) SERVER d;
CREATE PUMP y STARTED AS INSERT INTO lately
  SELECT s.sensor, s.last, n.name FROM seen AS s LEFT JOIN names AS n ON s.sensor = n.sensor;
"""
OF_TABLES = ("listed", "placed", "known", "lost")
CHANGES = {
    "a row is edited, one removed": "INSERT INTO names VALUES ('a', 'ONE'), ('c', 'three');",
    "UPDATE and DELETE": f"{INSERTED} UPDATE names SET name = UPPER(name) WHERE sensor = 'a'; "
    "DELETE FROM names WHERE sensor = 'b';",
    "TRUNCATE and other rows": f"{INSERTED} TRUNCATE TABLE names; "
    "INSERT INTO names VALUES ('c', 'three'), ('a', 'ONE');",
    "a row is replaced": f"{INSERTED} INSERT INTO names VALUES ('a', 'ONE'); DELETE FROM names WHERE sensor = 'b';",
    "the last rows are taken away": "",
    "DELETE of all": f"{INSERTED} DELETE FROM names;",
    "TRUNCATE": f"{INSERTED} TRUNCATE TABLE names;",
    "a table has its first rows": f"{INSERTED} INSERT INTO empty VALUES ('b', 'x'), ('d', 'y');",
}


class _Changing:
    """A pipeline whose file changes; it reads messages of three sensors."""

    def __init__(self, folder: Path, sql: str) -> None:
        folder.mkdir(exist_ok=True)
        self.files = PipelineFiles(folder, SERVERS + sql, CONFIG)
        self.files.broker.ensure_topic("readings", 1)
        self.times = 0

    def read(self) -> None:
        self.times += 1
        for place, sensor in enumerate("abc"):
            at, value = 1_000 * self.times + place, b'{"sensor":"%s"}' % sensor.encode()
            self.files.broker.produce("readings", [value], timestamps=[at], partition=0)
        self.files.run()

    def change(self, old: str, new: str) -> None:
        text = self.files.sql.read_text()
        was = self.files.sql.with_name("was.sql")
        was.write_text(text)
        assert old in text
        self.files.sql.write_text(text.replace(old, new))
        self.files.call("apply", "--was", str(was), "--yes")

    def rows(self, table: str, columns: int = 4) -> list[tuple[object, ...]]:
        return sorted((row[:columns] for row in self.files.rows(table)), key=str)

    def contents(self) -> dict[str, list[tuple[object, ...]]]:
        return {table: self.rows(table) for table in OF_TABLES}


@pytest.mark.parametrize("streams", [STREAMS, ""], ids=["with streams", "without streams"])
def test_apply_changes_what_a_new_start_would_give(tmp_path: Path, streams: str) -> None:
    marked = "/* changes from here */"
    pipeline = _Changing(
        tmp_path / "changing", TABLES.replace(INSERTED, f"{marked}{INSERTED}{marked}") + streams
    )
    pipeline.read()
    statements = INSERTED
    for number, (what, changed) in enumerate(CHANGES.items()):
        pipeline.change(f"{marked}{statements}{marked}", f"{marked}{changed}{marked}")
        statements = changed
        fresh = _Changing(tmp_path / f"fresh {number}", TABLES.replace(INSERTED, changed))
        fresh.files.run()
        assert pipeline.contents() == fresh.contents(), what
    before = pipeline.contents()
    pipeline.read()
    assert pipeline.contents() == before
    assert not pipeline.files.rows("rowtide_errors")


def test_rows_of_streams_see_the_changed_tables(tmp_path: Path) -> None:
    pipeline = _Changing(tmp_path, TABLES + STREAMS)
    pipeline.read()
    pipeline.change(INSERTED, CHANGES["a row is edited, one removed"])
    assert [row[2] for row in pipeline.rows("lately")] == ["ONE", None, "three", None]
    pipeline.read()
    assert [row[1] for row in pipeline.rows("named")] == ["one", "two", "three", "ONE", None, "three"]
    assert [row[1] for row in pipeline.rows("found")] == ["attic", "barn", None, "attic", None, None]


def test_a_row_that_a_pump_has_replaced_stays(tmp_path: Path) -> None:
    pipeline = _Changing(tmp_path, TABLES + STREAMS)
    pipeline.read()
    assert pipeline.rows("lately", 2) == [("a", "read"), ("b", "read"), ("c", "read"), ("x", "never")]
    pipeline.change("INSERT INTO seen VALUES ('a', 'never'), ('x', 'never');", "")
    assert pipeline.rows("lately", 2) == [("a", "read"), ("b", "read"), ("c", "read")]
    assert not pipeline.files.rows("rowtide_errors")


def test_a_pipeline_without_streams_is_not_run_with_another_file(tmp_path: Path) -> None:
    pipeline = _Changing(tmp_path, TABLES)
    pipeline.files.run()
    assert "unchanged" in pipeline.files.call("plan")
    text = pipeline.files.sql.read_text()
    for changed in (text.replace(INSERTED, ""), text.replace("UNION", "INTERSECT")):
        pipeline.files.sql.write_text(changed)
        assert "rowtide apply" in pipeline.files.call("run", "--until-end", code=2)
        assert "has changed" in pipeline.files.call("plan", code=1)
