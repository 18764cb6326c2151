"""Error rows that are resubmitted enter once, where they had been refused, whatever dies in between."""

import json
import random
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from rowtide.checkpoint import error_stream
from rowtide.checkpoint.ledger import PartitionId, StoredError, is_resubmission
from rowtide.flow.flow import Flow
from rowtide.operators.contract import RESUBMITTED
from rowtide.rowtime.bound import LATEST, Bound
from rowtide.runtime.crashpoints import NoCrash, SimulatedCrash
from rowtide.runtime.live import resubmission
from rowtide.runtime.live.live import Live
from rowtide.runtime.pipeline import open_pipeline
from rowtide.runtime.resubmitting.resubmittable import Resubmittable
from rowtide.runtime.service import Service
from support.growing import DiesAnywhere, Growing, Until
from support.pipeline import PipelineFiles
from support.seeds import seeds

SQL = """
CREATE SERVER k FOREIGN DATA WRAPPER MEMORY OPTIONS (broker '{file}');
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite:///{file}');
CREATE FOREIGN STREAM readings (number INTEGER, at TIMESTAMP, sensor VARCHAR(8))
  SERVER k OPTIONS (topic 'readings', format 'JSON');
CREATE VIEW timed AS SELECT STREAM at AS ROWTIME, number, sensor FROM readings
  ORDER BY at WITHIN INTERVAL '5' SECOND;
CREATE TABLE sensors (sensor VARCHAR(8), factor INTEGER, PRIMARY KEY (sensor));
CREATE FOREIGN STREAM factors (sensor VARCHAR(8), factor INTEGER)
  SERVER k OPTIONS (topic 'factors', format 'JSON');
CREATE FOREIGN TABLE direct (number INTEGER) SERVER d;
CREATE FOREIGN TABLE in_time (at TIMESTAMP, number INTEGER) SERVER d;
CREATE FOREIGN TABLE ratios (number INTEGER, ratio INTEGER) SERVER d;
CREATE FOREIGN TABLE latest (sensor VARCHAR(8), number INTEGER, PRIMARY KEY (sensor)) SERVER d;
CREATE PUMP p0 STARTED AS INSERT INTO sensors SELECT STREAM sensor, factor FROM factors;
CREATE PUMP p1 STARTED AS INSERT INTO direct SELECT STREAM number FROM readings;
CREATE PUMP p2 STARTED AS INSERT INTO in_time SELECT STREAM ROWTIME AS at, number FROM timed;
CREATE PUMP p3 STARTED AS INSERT INTO ratios
  SELECT STREAM number, number / factor FROM timed AS t JOIN sensors AS s ON t.sensor = s.sensor;
CREATE PUMP p4 STARTED AS INSERT INTO latest SELECT STREAM sensor, number FROM timed;
"""
CONFIG = """
[service]
listen = "127.0.0.1:0"
"""


class Files(PipelineFiles):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder, SQL, CONFIG)
        for topic in ("readings", "factors"):
            self.broker.ensure_topic(topic, 1)

    def read(self, number: int, at: int, sensor: str = "a") -> None:
        value = b'{"number":%d,"at":%d,"sensor":"%s"}' % (number, at, sensor.encode())
        self.broker.produce("readings", [value], timestamps=[at])

    def factor(self, sensor: str, factor: int, at: int) -> None:
        value = b'{"sensor":"%s","factor":%d}' % (sensor.encode(), factor)
        self.broker.produce("factors", [value], timestamps=[at])

    def errors(self) -> list[dict[str, object]]:
        errors: list[dict[str, object]] = json.loads(self.call("errors list", "--json"))["errors"]
        return errors


@pytest.fixture
def files(tmp_path: Path) -> Files:
    files = Files(tmp_path)
    files.factor("a", 2, 1_000)
    files.factor("z", 0, 1_000)
    files.factor("a", 2, 900_000)
    files.read(1, 100_000)
    files.read(2, 120_000)
    files.read(3, 101_000)  # Late in TIMED, and late on the message timestamp for DIRECT.
    files.read(4, 121_000, "z")  # Divides by zero.
    files.broker.produce("readings", [b"{broken"], timestamps=[122_000])
    files.read(6, 200_000)
    files.run()
    return files


def test_error_rows_have_their_row_their_stream_and_the_time_of_their_message(files: Files) -> None:
    found = {(row["relation"], row["offset"]): row for row in files.errors()}
    assert set(found) == {("READINGS", 2), ("TIMED", 2), ("P3", 3), ("READINGS", 4)}
    late = found["TIMED", 2]
    assert json.loads(str(late["row"]))["NUMBER"] == 3
    assert (late["stream"], late["message_time"]) == ("READINGS", "1970-01-01 00:01:41.000")
    assert json.loads(str(found["P3", 3]["row"]))["SENSOR"] == "z"
    assert found["READINGS", 4]["row"] is None


def test_a_late_row_goes_to_the_relation_that_refused_it_at_the_least_time_it_accepts(files: Files) -> None:
    before = {table: files.rows(table) for table in ("direct", "in_time", "ratios")}
    answer = files.call("errors resubmit", "--relation", "timed", "--kind", "late", "--dry-run")
    assert "1 rows would be resubmitted, 0 stay. After this the pipeline may have 999 more" in answer
    files.run()
    assert {table: files.rows(table) for table in before} == before
    files.call("errors resubmit", "--relation", "timed", "--kind", "late")
    files.read(7, 300_000)
    files.run()
    assert [row for row in files.rows("in_time") if row[1] == 3] == [("1970-01-01 00:03:15.000", 3)]
    assert [row[0] for row in files.rows("ratios")].count(3) == 1
    assert 3 not in [row[0] for row in files.rows("direct")]
    late = next(row for row in files.errors() if row["relation"] == "TIMED")
    assert late["resubmitted_at"] is not None
    assert "already resubmitted" in files.call("errors resubmit", str(late["number"]), code=2)
    assert "0 rows are resubmitted" in files.call("errors resubmit", "--relation", "timed")
    for _ in range(2):
        files.run()
    assert [row[1] for row in files.rows("in_time")].count(3) == 1
    assert "Equal" in files.call("replay", "--compare")


def test_what_fails_again_is_a_new_error_row_of_the_same_message(files: Files) -> None:
    files.call("errors resubmit", "--reason", "DIVISION_BY_ZERO")
    files.read(7, 300_000)
    files.run()
    again = [row for row in files.errors() if row["resubmitted_at"] is None and row["kind"] == "REJECTED"]
    # The broken message still stands there alone: it is not read a second time.
    assert {(row["relation"], row["partition"], row["offset"]) for row in again} == {
        ("READINGS", 0, 4),
        ("P3", 0, 3),
    }
    broken = next(str(row["number"]) for row in again if row["relation"] == "READINGS")
    stays = files.call("errors resubmit", "--reason", "decode")
    assert f"{broken} stays: the message does not change, and cannot be decoded: " in stays
    assert "0 rows are resubmitted, 1 stay." in stays
    assert "cannot be decoded" in files.call("errors resubmit", broken, code=2)
    assert [row[1] for row in files.rows("in_time")].count(4) == 1
    # Now it goes through.
    files.factor("z", 4, 901_000)
    files.factor("z", 4, 2_000_000)
    files.read(8, 1_000_000)
    files.run()
    files.call("errors resubmit", *(str(row["number"]) for row in again if row["relation"] == "P3"))
    files.read(9, 1_200_000)
    files.run()
    assert (4, 1) in files.rows("ratios")
    assert [row[1] for row in files.rows("in_time")].count(4) == 1
    assert "Equal" in files.call("replay", "--compare")


def test_a_message_that_is_read_again_has_its_own_place_key_and_headers(tmp_path: Path) -> None:
    files = Files(tmp_path)
    files.sql.write_text(
        f"""
        CREATE SERVER k FOREIGN DATA WRAPPER MEMORY OPTIONS (broker '{files.database}');
        CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite:///{files.database}');
        CREATE FOREIGN STREAM readings (number INTEGER) SERVER k OPTIONS (topic 'readings', format 'JSON');
        CREATE FOREIGN TABLE found (number INTEGER, p INTEGER, o BIGINT, k VARBINARY(9), t TIMESTAMP,
          h VARCHAR(99)) SERVER d;
        CREATE PUMP p STARTED AS INSERT INTO found SELECT STREAM number, KAFKA_PARTITION, KAFKA_OFFSET,
          KAFKA_KEY, KAFKA_TIMESTAMP, KAFKA_HEADERS FROM readings;
        """
    )
    for at in (10_000, 5_000, 20_000):
        value, headers = b'{"number":%d}' % at, [[("a", b"\x00\xff"), ("b", b"text")]]
        files.broker.produce("readings", [value], timestamps=[at], keys=[b"k%d" % at], headers=headers)
    files.run()
    files.call("errors resubmit", "--all")
    files.broker.produce("readings", [b'{"number":1}'], timestamps=[30_000])
    files.run()
    (again,) = [row for row in files.rows("found") if row[0] == 5_000]
    (other,) = [row for row in files.rows("found") if row[0] == 10_000]
    assert again[1:5] == (0, 1, b"k5000", "1970-01-01 00:00:05.000")
    assert again[5] == other[5]
    assert "text" in str(again[5])


def test_selecting_nothing_or_what_is_not_there_is_refused(files: Files) -> None:
    assert "no error rows are selected" in files.call("errors resubmit", code=2)
    assert "error row 99 of pipeline" in files.call("errors resubmit", "99", code=2)
    files.sql.write_text(files.sql.read_text().replace("'5' SECOND", "'9' SECOND"))
    assert "under another plan" in files.call("errors resubmit", "--all", code=2)


def test_more_resubmissions_than_a_flow_may_hold_are_refused(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(error_stream, "MAX_RESUBMISSIONS", 1)
    files.call("errors resubmit", "--relation", "timed")
    refused = files.call("errors resubmit", "--relation", "readings", code=2)
    assert "has 1 resubmissions, and 1 is the limit" in refused
    assert "Resubmit many rows at once" in refused
    pending = [row for row in files.errors() if row["resubmitted_at"] is None]
    assert {row["relation"] for row in pending} == {"READINGS", "P3"}


HOURS = """
CREATE FOREIGN TABLE hours (at TIMESTAMP, n BIGINT, total BIGINT, PRIMARY KEY (at)) SERVER d;
CREATE PUMP p5 STARTED AS INSERT INTO hours SELECT STREAM FLOOR(ROWTIME TO HOUR) AS at, COUNT(*) AS n,
  SUM(number) AS total FROM timed GROUP BY FLOOR(ROWTIME TO HOUR);
"""


@pytest.mark.parametrize(
    ("resubmitted_after", "first", "second"),
    [(200_000, 1 + 2 + 3 + 10 + 11, 12), (3_700_000, 1 + 2 + 10, 3 + 11 + 12)],
)
def test_a_late_row_counts_in_its_window_while_that_is_open_and_else_in_the_one_that_is(
    tmp_path: Path, resubmitted_after: int, first: int, second: int
) -> None:
    files = Files(tmp_path)
    files.sql.write_text(files.text + HOURS.format(file=files.database))
    for number, at in ((1, 100_000), (2, 120_000), (3, 60_000), (10, 200_000)):
        files.read(number, at)
    files.run()
    if resubmitted_after > 200_000:
        # The first hour is over before the late row is resubmitted.
        files.read(11, resubmitted_after)
        files.run()
    files.call("errors resubmit", "--relation", "timed")
    for _ in range(2):
        files.run()
    if resubmitted_after == 200_000:
        files.read(11, 300_000)
    files.read(12, 3_800_000)
    files.read(20, 7_300_000)
    files.run()
    assert [row[2] for row in files.rows("hours")] == [first, second]
    assert "Equal" in files.call("replay", "--compare")


def test_rows_that_tables_and_windows_have_kept_are_not_given_to_them_twice(tmp_path: Path) -> None:
    world = Growing(tmp_path, random.Random(1), jitter=(0, 30_000))
    world.produce()
    until = Until(world, 1.0)
    world.run(NoCrash(), until, until.clock)
    resubmittable = Resubmittable(world.plan)
    late = next(row for row in world.errors() if row.row.relation == "TIMED")
    assert resubmittable.refusal(late) is None

    def of(relation: str) -> StoredError:
        return replace(late, row=replace(late.row, relation=relation))

    assert "does not read" in str(resubmittable.refusal(of("NOBODY")))
    assert 'would pass "P1" again' in str(resubmittable.refusal(of("MINUTES")))


def test_a_change_is_applied_once_a_bound_releases_resubmitted_rows_of_a_quiet_stream(files: Files) -> None:
    written, changed = (
        files.sql.read_text(),
        files.sql.read_text().replace("number / factor", "number / factor * 10"),
    )
    was = files.sql.with_name("was.sql")
    was.write_text(written)
    change = ("--was", str(was), "--yes")

    def refused() -> str:
        files.sql.write_text(changed)
        said = files.call("apply", *change, code=2)
        files.sql.write_text(written)
        return said

    files.call("errors resubmit", "--relation", "timed", "--kind", "late")
    assert "are not read yet" in refused()
    files.run()
    assert "rowtide bound TOPIC TIME" in refused()
    files.call("bound", "readings", "1970-01-01 00:10:00")
    files.run()
    assert 3 in [row[1] for row in files.rows("in_time")]
    files.sql.write_text(changed)
    assert "Applied with commit" in files.call("apply", *change)
    files.read(8, 700_000)
    files.read(9, 800_000)
    files.factor("a", 2, 950_000)
    files.run()
    assert (8, 40) in files.rows("ratios")
    assert (3, 1) in files.rows("ratios")


PROMOTED = """
CREATE SERVER k FOREIGN DATA WRAPPER MEMORY OPTIONS (broker '{file}');
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite:///{file}');
CREATE FOREIGN STREAM readings (number INTEGER NOT NULL, at TIMESTAMP NOT NULL)
  SERVER k OPTIONS (topic 'readings', format 'JSON');
CREATE VIEW timed AS SELECT STREAM at AS ROWTIME, number FROM readings;
CREATE FOREIGN TABLE good (number INTEGER) SERVER d;
CREATE PUMP p AS INSERT INTO good SELECT STREAM number FROM timed;
"""
READERS = {
    "raw": "SELECT STREAM number FROM readings",
    "promoted": "SELECT STREAM number FROM (SELECT STREAM at AS ROWTIME, number FROM readings WHERE number > 0)",
    "both": "SELECT STREAM number FROM readings UNION ALL SELECT STREAM -number FROM timed",
}


@pytest.mark.parametrize("of_older_version", [False, True])
def test_whoever_reads_the_stream_later_does_not_wait_for_what_was_resubmitted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, of_older_version: bool
) -> None:
    files = PipelineFiles(tmp_path, PROMOTED, CONFIG)
    files.broker.ensure_topic("readings", 1)

    def send(number: int) -> None:
        value = b'{"number":%d,"at":%d}' % (number, 1_000 * number)
        files.broker.produce("readings", [value], timestamps=[1_000 * number])

    send(1)
    files.broker.produce("readings", [b"{broken"], timestamps=[1_500])
    files.run()
    files.call("errors resubmit", "--all")
    if of_older_version:
        with monkeypatch.context() as older:
            older.setattr(resubmission, "end", _end_at_judges)
            files.run()
    else:
        files.run()
    was = files.sql.with_name("was.sql")
    was.write_text(files.text)
    for name, query in READERS.items():
        files.text += f"CREATE FOREIGN TABLE {name} (number INTEGER) SERVER d;\n"
        files.text += f"CREATE PUMP p_{name} AS INSERT INTO {name} {query};\n"
    files.sql.write_text(files.text)
    files.call("apply", "--was", str(was), "--yes")
    for number in (11, 12, 13):
        send(number)
    files.run()
    assert [(11,), (12,), (13,)] == files.rows("raw") == files.rows("promoted")
    assert {11, -11, 12, -12} <= {row[0] for row in files.rows("both")}


def _end_at_judges(flow: Flow, partition: PartitionId) -> None:
    flow.drain()
    for judge in flow.judges(*partition):
        flow.promise(judge, Bound(LATEST))


def test_a_running_service_finds_what_is_resubmitted(tmp_path: Path) -> None:
    world = Growing(tmp_path, random.Random(3), jitter=(0, 9_000))
    world.produce()

    class Resubmitting(Until):
        def __call__(self) -> bool:
            if self.clock.seconds > 3 and not any(row.resubmitted for row in world.errors()):
                world.resubmit([row for row in world.errors() if row.row.relation == "TIMED"])
                world.produce()
            return super().__call__()

    until = Resubmitting(world, 14.0)
    world.run(NoCrash(), until, until.clock)
    with open_pipeline(world.plan, "p") as pipeline:
        record = pipeline.ledger.read()
    assert record is not None
    assert any(place[1] >= RESUBMITTED and offset > 0 for place, offset in record.positions().items())
    assert world.compare().count == 0


def test_a_commit_takes_in_as_many_resubmissions_as_it_has_room_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(error_stream, "RESUBMITTED_ROWS", 1)
    world = Growing(tmp_path, random.Random(3), jitter=(0, 9_000))
    for _ in range(4):
        world.produce()
    until = Until(world, 1.0)
    world.run(NoCrash(), until, until.clock)
    late = [row for row in world.errors() if row.row.relation == "TIMED"]
    world.resubmit(late)
    admitted, commit = [0], Live.commit

    def noting(live: Live, **options: bool) -> None:
        commit(live, **options)
        admitted.append(sum(is_resubmission(place) for place in live.work.positions))

    monkeypatch.setattr(Live, "commit", noting)
    until = Until(world, 8.0)
    with open_pipeline(world.plan, "p") as pipeline:
        context = world.context(pipeline, NoCrash(), until, until.clock)
        Service(replace(context, pace=replace(context.pace, commit_max_bytes=1))).run()
    assert admitted[-1] == len(late) > 2
    assert max(after - before for before, after in pairwise(admitted)) == 1
    assert world.compare().count == 0


@pytest.mark.parametrize("seed", seeds(4, few=2))
def test_resubmitting_while_dying_anywhere_gives_what_a_replay_gives(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    world = Growing(tmp_path, rng, jitter=(0, 0, 1_000, 9_000))
    sent = 0
    died = 0
    for step in range(20):
        world.produce()
        until = Until(world, rng.choice((0.5, 12.0)), rng.choice((None, None, None, 4.0)))
        try:
            world.run(NoCrash() if step == 0 else DiesAnywhere(rng), until, until.clock)
        except SimulatedCrash:
            died += 1
        waiting = [row for row in world.errors() if row.resubmitted is None]
        if rng.random() < 0.4 and waiting:
            world.resubmit(rng.sample(waiting, rng.randrange(1, len(waiting) + 1)))
            sent += 1
    until = Until(world, 8.0)
    world.run(NoCrash(), until, until.clock)
    assert died
    assert sent
    assert world.compare().count == 0
    # A row that was resubmitted is not late a second time.
    errors = [(row.row.relation, row.row.partition, row.row.offset) for row in world.errors()]
    assert len(set(errors)) == len(errors)
