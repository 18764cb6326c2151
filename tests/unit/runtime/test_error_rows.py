"""Messages and rows that cannot be processed become error rows with raw bytes; the pipeline goes on."""

import random
from collections.abc import Iterator, Sequence
from itertools import pairwise

from structlog.testing import capture_logs

from rowtide.checkpoint.ledger import ErrorRow
from rowtide.operators.contract import Account
from rowtide.rows.rowop import Opcode, TimedRow
from rowtide.rows.tray import Tray
from rowtide.rows.types import MAX_TIMESTAMP_MS
from rowtide.runtime.pace import Pace
from rowtide.runtime.pipeline_io import PipelineIO
from rowtide.runtime.service import Service
from rowtide.runtime.state.deadletters import RecentMessages
from rowtide.runtime.state.output import Writes, target_table
from rowtide.runtime.state.pipeline_state import CommitBatch
from rowtide.testing.in_memory_topic import InMemoryTopic
from support.runtime import World


def errors_of(topic: InMemoryTopic, pace: Pace | None = None) -> list[ErrorRow]:
    world = World(topic)
    Service(world.context(**({} if pace is None else {"pace": pace}))).run(until_end=True)
    return world.checkpoint.errors


def test_an_undecodable_message_becomes_an_error_row_with_its_bytes_and_place() -> None:
    topic = InMemoryTopic("readings", 2)
    topic.add(1, 60_000, b'{"sensor":"a","amount":1}')
    topic.add(1, 61_000, b"{broken")
    (row,) = errors_of(topic)
    assert (row.kind, row.relation, row.topic, row.partition, row.offset, row.rowtime, row.raw) == (
        "REJECTED",
        "READINGS",
        "readings",
        1,
        1,
        61_000,
        b"{broken",
    )
    assert row.reason.startswith("DECODE: ")


def test_a_tombstone_and_a_wrong_type_are_rejected_and_the_pipeline_goes_on() -> None:
    topic = InMemoryTopic("readings", 1)
    topic.add(0, 1_000, None)
    topic.add(0, 2_000, b'{"sensor":"a","amount":"one"}')
    topic.add(0, 3_000, b'{"sensor":"a","amount":1}')
    world = World(topic)
    Service(world.context()).run(until_end=True)
    tombstone, wrong = world.checkpoint.errors
    assert tombstone.reason.startswith("TOMBSTONE")
    assert tombstone.raw is None
    assert wrong.reason.startswith('TYPE: field "AMOUNT"')
    assert world.checkpoint.record is not None
    assert world.checkpoint.record.partition_positions[0].next_offset == 3


def test_a_late_row_tells_the_bound_it_missed() -> None:
    topic = InMemoryTopic("readings", 1)
    late = b'{"sensor":"a","amount":2}'
    topic.add(0, 10_000, b'{"sensor":"a","amount":1}')
    topic.add(0, 7_999, late)
    (row,) = errors_of(topic)
    assert (row.kind, row.rowtime, row.bound, row.offset, row.raw) == ("LATE", 7_999, 8_000, 1, late)


def test_the_bytes_of_a_row_that_was_held_over_a_commit_are_fetched_again() -> None:
    topic = InMemoryTopic("readings", 1)
    null_key = b'{"sensor":null,"amount":5}'
    topic.add(0, 10_000, null_key)
    for number in range(30):
        topic.add(0, 10_500, b'{"sensor":"a","amount":%d}' % number)
    topic.add(0, 20_000, b'{"sensor":"a","amount":1}')
    topic.rng = random.Random(1)
    rows = errors_of(topic, Pace(0, 1, None, None))
    (from_table,) = [row for row in rows if row.relation == "LATEST_OF"]
    assert from_table.reason.startswith("NULL_KEY")
    assert from_table.raw == null_key
    assert (0, (0,)) in topic.fetched


def test_a_null_in_the_primary_key_of_a_foreign_table_is_rejected() -> None:
    topic = InMemoryTopic("readings", 1)
    topic.add(0, 10_000, b'{"sensor":null,"amount":5}')
    topic.add(0, 10_000, b'{"sensor":"a","amount":5}')
    topic.add(0, 90_000, b'{"sensor":"b","amount":1}')
    world = World(topic)
    Service(world.context()).run(until_end=True)
    reasons = {row.relation: row.reason for row in world.checkpoint.errors}
    assert reasons["MINUTES"] == 'NULL_KEY: column "SENSOR" is of the PRIMARY KEY and NULL'
    assert [key[1] for key in world.database.contents.tables["MINUTES"]] == ["a"]  # type: ignore[index]


def test_a_bound_record_closes_a_window_and_a_wrong_one_is_rejected() -> None:
    topic = InMemoryTopic("readings", 1)
    topic.add(0, 60_000, b'{"sensor":"a","amount":5}')
    topic.add(0, 60_000, None, rowtide_bound=b"120000")
    topic.add(0, 60_001, None, rowtide_bound=b"119999")
    topic.add(0, 60_002, None, rowtide_bound=b"soon")
    topic.add(0, 60_003, None, rowtide_bound=b"120000", rowtide_strict=b"2")
    topic.add(0, 119_999, b'{"sensor":"a","amount":6}')
    topic.add(0, 60_004, None, rowtide_bound=b"180000", rowtide_strict=b"1")
    topic.add(0, 180_000, b'{"sensor":"a","amount":7}')
    world = World(topic)
    Service(world.context()).run(until_end=True)
    held = world.database.contents
    assert [row[2:] for row in held.tables["MINUTES"].values()] == [(1, 5)]
    back, malformed, strict, *late = world.checkpoint.errors
    assert back.reason.startswith("BOUND: rowtime bound")
    assert (back.offset, back.bound) == (2, 120_000)
    assert malformed.reason.startswith("BOUND: the bound record is malformed")
    assert strict.reason.startswith("BOUND: the bound record is malformed")
    assert [(row.kind, row.bound) for row in late] == [("LATE", 120_000), ("LATE", 180_001)]
    assert world.checkpoint.record is not None
    assert world.checkpoint.record.partition_positions[0].bound == 180_001


def test_a_bound_record_after_the_year_9999_is_rejected_as_a_message_of_then_is() -> None:
    topic = InMemoryTopic("readings", 1)
    topic.add(0, 60_000, b'{"sensor":"a","amount":1}')
    for beyond in (MAX_TIMESTAMP_MS + 1, 10**17):
        topic.add(0, 60_000, None, rowtide_bound=str(beyond).encode())
    topic.add(0, 60_000, b'{"sensor":"a","amount":2}')
    topic.add(0, 60_000, None, rowtide_bound=str(MAX_TIMESTAMP_MS).encode())
    world = World(topic)
    Service(world.context()).run(until_end=True)
    assert world.database.contents.appended["LOG"] == [("a", 1), ("a", 2)]
    reasons = [row.reason for row in world.checkpoint.errors]
    assert reasons == [
        f"BOUND: the bound record is malformed: header rowtide.bound, {beyond} ms, is after the year 9999"
        for beyond in (MAX_TIMESTAMP_MS + 1, 10**17)
    ]
    assert world.checkpoint.record is not None
    assert world.checkpoint.record.partition_positions[0].bound == MAX_TIMESTAMP_MS


def test_bound_records_stand_where_they_stand_among_the_rows() -> None:
    def log(bound_first: bool) -> list[tuple[object, ...]]:
        topic = InMemoryTopic("readings", 1)
        if bound_first:
            topic.add(0, 1, None, rowtide_bound=b"60001")
        topic.add(0, 60_000, b'{"sensor":"a","amount":1}')
        if not bound_first:
            topic.add(0, 1, None, rowtide_bound=b"60001")
        world = World(topic)
        Service(world.context()).run(until_end=True)
        return world.database.contents.appended.get("LOG", [])

    assert log(bound_first=True) == []
    assert log(bound_first=False) == [("a", 1)]


def test_a_row_that_the_database_refuses_becomes_an_error_row_and_the_others_are_written() -> None:
    topic = InMemoryTopic("readings", 1)
    for number in (1, 2, 3, 4):
        topic.add(0, 10_000 + number, b'{"sensor":"a","amount":%d}' % number)
    topic.add(0, 20_000, b'{"sensor":"b","amount":5}')
    world = World(topic)
    world.database.refuses = lambda name, row: (name == "LATEST" and row[1] == 4) or row[1] in (2, 3)
    Service(world.context()).run(until_end=True)
    held = world.database.contents
    # The table's changelog took the old row of the key away before its new one was refused.
    assert held.tables.get("LATEST", {}) == {}
    assert [row[1] for row in held.appended["LOG"]] == [1, 4]
    # Also rows that later ones of their key replace in the same commit.
    found = {(row.relation, row.offset, row.reason.split(":")[0]) for row in world.checkpoint.errors}
    refused = {("LOG", 1), ("LOG", 2), ("LATEST", 1), ("LATEST", 2), ("LATEST", 3)}
    assert found == {(*each, "CONSTRAINT") for each in refused}
    assert len(world.checkpoint.errors) == len(found)


def test_any_number_of_refused_rows_costs_two_transactions_more() -> None:
    topic = InMemoryTopic("readings", 1)
    for number in range(500):
        topic.add(0, 10_000 + number, b'{"sensor":"a","amount":%d}' % number)
    topic.add(0, 20_000, b'{"sensor":"a","amount":1001}')
    world = World(topic)
    world.database.refuses = lambda name, row: name == "LOG" and row[1] in range(0, 500, 2)
    steps: list[str] = []
    world.database.before = steps.append
    with capture_logs() as logged:
        Service(world.context(pace=Pace(10**9, 10**9, None, None))).run(until_end=True)
    assert len(world.database.contents.appended["LOG"]) == 250
    assert len(world.checkpoint.errors) == 250
    assert steps.count("sift") == 1
    said = [each for each in logged if each["event"] == "rows_refused"]
    assert [(each["table"], each["rows"]) for each in said] == [("LOG", 250)]


def test_writes_are_read_again_for_every_attempt_and_never_kept() -> None:
    """Those of a backfill are read from files, and may be more than fits in memory."""
    seen: list[object] = []

    class Chunks:
        def __init__(self, writes: Sequence[Writes]) -> None:
            self.writes = writes

        def __iter__(self) -> Iterator[Writes]:
            for each in self.writes:
                seen.append("read")
                yield each

    def refuses(_: str, row: tuple[object, ...]) -> bool:
        seen.append(row[1])
        return row[1] in (4, 5, 20)

    world = World(InMemoryTopic("readings", 1))
    table = next(each for each in world.plan.foreign_tables if each.name == "LOG")
    rows = [TimedRow(number, 0, number, Opcode.INSERT, ("a", number)) for number in range(30)]
    trays = [Tray.from_rows(table.row_type, rows[start : start + 3]) for start in range(0, 30, 3)]
    chunks = Chunks([Writes("LOG", target_table(table), each, Account()) for each in trays])
    world.database.refuses = refuses
    context = world.context()
    committer = PipelineIO(context).committer(context.ledger.claim("digest", "here"), lambda _: None)
    committer.commit(CommitBatch(chunks, (), (), None, 0), RecentMessages())
    written = [row[1] for row in world.database.contents.appended["LOG"]]
    assert written == [number for number in range(30) if number not in (4, 5, 20)]
    # An attempt that ends at the second chunk, one that finds the refused rows, and one that writes the others.
    assert seen.count("read") == 2 + 10 + 10
    # Each is written before the next one is read.
    assert all((one, other) != ("read", "read") for one, other in pairwise(seen))
    assert sum(each.account.rejected for each in chunks.writes) == 3
