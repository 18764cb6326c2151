"""A model whose text has changed is another one: a start says so, and apply goes on with it."""

from __future__ import annotations

from pathlib import Path

from support.pipeline import PipelineFiles

SQL = """
CREATE SERVER k FOREIGN DATA WRAPPER MEMORY OPTIONS (broker '{file}');
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite:///{file}');
CREATE FOREIGN STREAM readings (sensor VARCHAR(8), amount BIGINT)
  SERVER k OPTIONS (topic 'readings', format 'JSON');
CREATE MODEL adding AS 'changing_sums:Sums';
CREATE FOREIGN TABLE totals (sensor VARCHAR, total BIGINT, PRIMARY KEY (sensor)) SERVER d;
CREATE PUMP p1 STARTED AS INSERT INTO adding.readings SELECT STREAM sensor, amount FROM readings;
CREATE PUMP p2 STARTED AS INSERT INTO totals SELECT sensor, total FROM adding.sums;
"""
MODEL = """
from changing_scale import SCALE
from rowtide.engine import Hashed, RowType, Table, TableType

READING = RowType(sensor="string", amount="int64")
SUM = RowType(sensor="string", total="int64")


class Sums:
    def __init__(self, setup):
        sums = Table(setup.unit, "sums", TableType(SUM, by_sensor=Hashed("sensor")))

        @setup.unit.handler(READING)
        def add(rowop):
            held = sums.find_by(sensor=rowop.row.sensor)
            before = held.row.total if held is not None else 0
            sums.insert(SUM.row(rowop.row.sensor, before + SCALE * rowop.row.amount))

        setup.input("readings", add)
        setup.table("sums", sums)
"""
CONFIG = """
[service]
listen = "127.0.0.1:0"
"""


def write(folder: Path, scale: int, more: str = "") -> None:
    folder.mkdir(exist_ok=True)
    (folder / "changing_sums.py").write_text(MODEL + more)
    (folder / "changing_scale.py").write_text(f"SCALE = {scale}\n")


def test_a_start_names_the_changed_model_and_apply_begins_it_without_the_rows_of_the_old_one(
    tmp_path: Path,
) -> None:
    for folder, scale, more in [("old", 1, ""), ("same", 1, "\n\n# Only said better.\n"), ("new", 10, "")]:
        write(tmp_path / folder, scale, more)
    files = PipelineFiles(tmp_path / "old", SQL, CONFIG, name="r")
    files.broker.ensure_topic("readings", 1)
    was = files.sql

    def produce() -> None:
        for sensor in ("a", "b", "a"):
            value = b'{"sensor":"%s","amount":1}' % sensor.encode()
            files.broker.produce("readings", [value], timestamps=[1_000])

    def move(folder: str) -> None:
        files.sql = tmp_path / folder / "r.sql"
        files.sql.write_text(files.text)

    produce()
    files.run()
    assert sorted(files.rows("totals")) == [("a", 2), ("b", 1)]

    move("same")
    produce()
    files.run()
    assert sorted(files.rows("totals")) == [("a", 4), ("b", 2)]

    move("new")
    # What the model imports from its own folder belongs to it.
    refused = files.call("run", "--until-end", code=2)
    assert 'model "ADDING" has changed' in refused
    planned = files.call("plan", "--was", str(was), code=1)
    assert 'model "ADDING" has changed' in planned
    lost = planned.partition("state that is lost:")[2]
    assert "ADDING.SUMS" in lost
    files.call("apply", "--was", str(was), "--yes", "--lose")
    assert files.rows("totals") == []
    files.broker.produce("readings", [b'{"sensor":"b","amount":1}'], timestamps=[2_000])
    files.run()
    assert files.rows("totals") == [("b", 10)]
