"""Rows of INSERT statements that a changed file edits or removes: ``apply`` changes the tables that follow them."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.pipeline import PipelineFiles

SQL = """
CREATE SERVER k FOREIGN DATA WRAPPER MEMORY OPTIONS (broker '{file}');
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite:///{file}');
CREATE FOREIGN STREAM readings (sensor VARCHAR(8))
  SERVER k OPTIONS (topic 'readings', partitions '1', format 'JSON');
CREATE TABLE names (sensor VARCHAR(8) PRIMARY KEY, name VARCHAR(9));
INSERT INTO names VALUES ('a', 'one'), ('b', 'two'), ('c', 'three');
CREATE FOREIGN TABLE listed (sensor VARCHAR(8), name VARCHAR(9), PRIMARY KEY (sensor)) SERVER d;
CREATE FOREIGN TABLE named (at TIMESTAMP, name VARCHAR(9), PRIMARY KEY (at)) SERVER d;
CREATE PUMP l STARTED AS INSERT INTO listed SELECT sensor, name FROM names;
CREATE PUMP p STARTED AS INSERT INTO named
  SELECT STREAM r.ROWTIME, n.name FROM readings AS r LEFT JOIN names AS n ON r.sensor = n.sensor;
"""
CONFIG = """
[service]
listen = "127.0.0.1:0"
"""
INSERTED = "INSERT INTO names VALUES ('a', 'one'), ('b', 'two'), ('c', 'three');"


@pytest.mark.parametrize(
    "changes",
    [
        "INSERT INTO names VALUES ('a', 'ONE'), ('c', 'three');",
        f"{INSERTED} UPDATE names SET name = UPPER(name) WHERE sensor = 'a'; DELETE FROM names WHERE sensor = 'b';",
        f"{INSERTED} TRUNCATE TABLE names; INSERT INTO names VALUES ('c', 'three'), ('a', 'ONE');",
    ],
)
def test_apply_changes_and_deletes_rows(tmp_path: Path, changes: str) -> None:
    files = PipelineFiles(tmp_path, SQL, CONFIG)
    files.broker.ensure_topic("readings", 1)

    def read(second: int) -> None:
        for place, sensor in enumerate("abc"):
            value = b'{"sensor":"%s"}' % sensor.encode()
            files.broker.produce("readings", [value], timestamps=[1_000 * second + place], partition=0)
        files.run()

    read(1)
    assert sorted(row[:2] for row in files.rows("listed")) == [("a", "one"), ("b", "two"), ("c", "three")]
    was, files.sql = files.sql, tmp_path / "changed" / files.sql.name
    files.sql.parent.mkdir()
    files.sql.write_text(was.read_text().replace(INSERTED, changes))
    files.call("apply", "--was", str(was), "--yes")
    assert sorted(row[:2] for row in files.rows("listed")) == [("a", "ONE"), ("c", "three")]
    read(2)
    assert [row[1] for row in sorted(files.rows("named"), key=str)] == [
        "one",
        "two",
        "three",
        "ONE",
        None,
        "three",
    ]
