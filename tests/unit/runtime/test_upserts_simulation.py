"""A topic of upserts holds the table that is written to it, wherever processes die and however the input is cut."""

from __future__ import annotations

import json
import random
from collections.abc import Callable

import pytest

from rowtide.codec.message import MessageEncoder
from rowtide.codec.registry import decoder_for
from rowtide.errors import Reason
from rowtide.plan.plan import ForeignStream, Plan
from rowtide.rows.rowop import Opcode, TimedRow
from rowtide.rows.tray import Tray
from rowtide.rows.types import DOUBLE, VARCHAR, Field, RowType
from rowtide.rowtime.bound import EARLIEST
from rowtide.runtime.crashpoints import SimulatedCrash
from rowtide.runtime.pace import Pace
from rowtide.runtime.service import Service
from rowtide.runtime.state.stream_output import StreamOutput
from rowtide.testing.in_memory_topic import InMemoryTopic
from rowtide_connectors.memory.broker import MemoryBroker
from support.outbox import fails_sometimes, latest_plan, sent, sink_of
from support.runtime import World, fill
from support.seeds import seeds

Message = tuple[int, bytes | None, bytes | None]


class DiesSometimes:
    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def reach(self, point: str) -> None:
        if self._rng.random() < 0.04:
            raise SimulatedCrash(point)


def run(
    seed: int, cut: int | None, plan: Plan, pace: Pace, dies: bool, fate: Callable[[str], None]
) -> tuple[World, list[Message]]:
    topic = InMemoryTopic("readings", 3, None if cut is None else random.Random(cut))
    fill(topic, random.Random(seed))
    world, broker = World(topic, plan=plan), MemoryBroker()
    rng = random.Random(seed)
    for attempt in range(80):
        changes = {"crash_points": DiesSometimes(rng)} if dies and attempt < 30 else {}
        try:
            sinks = sink_of(plan, broker, fate)
            Service(world.context(pace=pace, sinks=sinks, **changes)).run(until_end=True)
        except SimulatedCrash:
            continue
        return world, sent(broker)
    raise AssertionError("no process got to the end")


def table_of(messages: list[Message]) -> dict[object, dict[str, object]]:
    """Return the rows that are left after the messages: what a compacted topic keeps."""
    found: dict[object, dict[str, object]] = {}
    for _, key, value in messages:
        assert key is not None
        if value is None:
            found.pop(json.loads(key), None)
        else:
            found[json.loads(key)] = json.loads(value)
    return found


@pytest.mark.parametrize("seed", seeds(6, few=2))
def test_the_messages_are_those_of_one_process_that_never_fails(seed: int) -> None:
    whole, wanted = run(seed, None, latest_plan(), Pace(10**9, 10**9, None, None), False, lambda _: None)
    world, found = run(
        seed, seed, latest_plan(), Pace(60, 30, 90, None), True, fails_sometimes(random.Random(seed), 0.1)
    )
    assert found == wanted
    assert len(wanted) > 200
    latest = {
        row[0]: {"sensor": row[0], "amount": row[1]}
        for row in whole.database.contents.tables["LATEST"].values()
    }
    assert table_of(found) == latest
    # An update is one message: nothing is deleted from this table.
    assert all(value is not None for _, _, value in found)
    assert world.database.contents.tables["LATEST"] == whole.database.contents.tables["LATEST"]


ROWS = RowType((Field("WHO", VARCHAR), Field("X", DOUBLE)))


def output(**options: str) -> StreamOutput:
    given = {"topic": "t", "key": "who", "changes": "upsert"} | options
    return StreamOutput(ForeignStream("UPSERTS", ROWS, "K", tuple(given.items())))


def rowops(*given: tuple[int, int, str | None, float | None]) -> list[TimedRow]:
    """Rowops of (rowtime, opcode, who, x); those of one rowtime have one cause."""
    return [TimedRow(time, 0, time, opcode, (who, x)) for time, opcode, who, x in given]


PUT, GONE = int(Opcode.INSERT), int(Opcode.DELETE)


def written(
    made: StreamOutput, rows: list[TimedRow], at_once: bool
) -> tuple[list[tuple[bytes | None, bytes | None]], list[str]]:
    cuts = [rows] if at_once else [[row] for row in rows]
    faults = made.add([Tray.from_rows(ROWS, each) for each in cuts])
    taken = made.take()
    messages = [] if taken is None else [(each.key, each.value) for each in taken.messages]
    made.account.check("UPSERTS", 0)
    return messages, [f"{fault.reason}: {fault.message}" for fault in faults]


@pytest.mark.parametrize("at_once", [True, False])
def test_the_last_rowop_of_each_key_that_a_row_caused_is_written(at_once: bool) -> None:
    given = rowops(
        (1, PUT, "a", 1.0),
        (2, GONE, "a", 1.0),
        (2, PUT, "a", 2.0),
        (3, GONE, "a", 2.0),
        (3, PUT, "b", 2.0),
        (4, PUT, "a", 5.0),
        (4, GONE, "b", 2.0),
        (5, PUT, "c", 1.0),
        (5, GONE, "c", 1.0),
    )
    assert written(output(), given, at_once) == (
        [
            (b'"a"', b'{"who":"a","x":1.0}'),
            (b'"a"', b'{"who":"a","x":2.0}'),
            (b'"a"', None),
            (b'"b"', b'{"who":"b","x":2.0}'),
            (b'"a"', b'{"who":"a","x":5.0}'),
            (b'"b"', None),
            (b'"c"', None),
        ],
        [],
    )


def test_a_row_that_cannot_be_written_is_an_error_row_and_the_row_before_it_is_gone() -> None:
    given = rowops(
        (1, PUT, "a", 1.0),
        (2, GONE, "a", 1.0),
        (2, PUT, "a", float("nan")),
        (3, PUT, None, 1.0),
        (4, GONE, None, 1.0),
    )
    messages, faults = written(output(), given, True)
    assert messages == [(b'"a"', b'{"who":"a","x":1.0}'), (b'"a"', None)]
    assert faults == [
        'CONSTRAINT: column "X" is nan, which JSON cannot carry',
        'NULL_KEY: column "WHO" is of the key and NULL',
    ]


def test_rows_of_insert_statements_are_stamped_at_the_beginning() -> None:
    made = output()
    assert made.add([Tray.from_rows(ROWS, rowops((EARLIEST, PUT, "a", 1.0)))]) == []
    taken = made.take()
    assert taken is not None
    assert [each.timestamp_ms for each in taken.messages] == [1]
    (fault,) = made.add([Tray.from_rows(ROWS, rowops((0, PUT, "a", 1.0)))])
    assert fault.reason is Reason.CONSTRAINT


@pytest.mark.parametrize("key_format", [None, "JSON", "TEXT"])
def test_a_table_that_the_topic_fills_reads_keys_of_every_format(key_format: str | None) -> None:
    options = {} if key_format is None else {"key_format": key_format}
    messages, _ = written(output(**options), rowops((1, PUT, "a b", 1.0), (2, GONE, "a b", 1.0)), True)
    decoder = decoder_for("JSON", "T", ROWS, options=options, key=(0,))
    decoded = decoder.decode_changes([value for _, value in messages], [key for key, _ in messages])  # type: ignore[attr-defined]
    assert decoded.faults == ()
    assert decoded.columns[0].to_list() == ["a b", "a b"]
    assert decoded.opcodes.tolist() == [PUT, GONE]


KEYED = RowType((Field("WHO", VARCHAR, nullable=False), Field("X", DOUBLE)))


def envelopes(**options: str) -> StreamOutput:
    given = {"topic": "t", "key": "who", "changes": "upsert", "format": "DEBEZIUM_JSON"} | options
    return StreamOutput(ForeignStream("S", KEYED, "K", tuple(given.items())))


def images(messages: list[tuple[bytes | None, bytes | None]]) -> list[tuple[object, ...]]:
    """Return key, operation, x before and x after of each message; of one without a value only the key."""
    found: list[tuple[object, ...]] = []
    for key, value in messages:
        assert key is not None
        if value is None:
            found.append((json.loads(key),))
            continue
        envelope = json.loads(value)
        sides = (envelope[side] and envelope[side]["x"] for side in ("before", "after"))
        found.append((json.loads(key), envelope["op"], *sides))
    return found


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize("tombstones", ["true", "false"])
def test_an_envelope_has_what_a_row_changed_from_and_to(at_once: bool, tombstones: str) -> None:
    given = rowops(
        (1, PUT, "a", 1.0),
        (2, GONE, "a", 1.0),
        (2, PUT, "a", 2.0),
        (3, GONE, "a", 2.0),
        (3, PUT, "b", 2.0),
        (4, GONE, "b", 2.0),
        (4, PUT, "b", 3.0),
        (4, GONE, "b", 3.0),
        (4, PUT, "b", 4.0),
        (5, PUT, "c", 1.0),
        (5, GONE, "c", 1.0),
    )
    messages, faults = written(envelopes(tombstones=tombstones), given, at_once)
    assert faults == []
    wanted: list[tuple[object, ...]] = [
        ("a", "c", None, 1.0),
        ("a", "u", 1.0, 2.0),
        ("a", "d", 2.0, None),
        ("a",),
        ("b", "c", None, 2.0),
        ("b", "u", 2.0, 4.0),
        ("c", "d", 1.0, None),
        ("c",),
    ]
    assert images(messages) == [each for each in wanted if len(each) > 1 or tombstones == "true"]


def test_an_envelope_is_written_with_its_place_and_rowtime() -> None:
    messages, _ = written(envelopes(), rowops((7, PUT, "a", 1.0)), True)
    assert messages == [
        (
            b'"a"',
            b'{"before":null,"after":{"who":"a","x":1.0},"source":{"connector":"rowtide","name":"rowtide","ts_ms":7,'
            b'"snapshot":"false","db":"","table":"s"},"op":"c","ts_ms":7}',
        )
    ]


def test_a_row_that_no_envelope_can_carry_is_an_error_row_once() -> None:
    given = rowops(
        (1, PUT, "a", 1.0),
        (2, GONE, "a", 1.0),
        (2, PUT, "a", float("nan")),
        (3, GONE, "a", float("nan")),
        (3, PUT, "a", 3.0),
        (4, PUT, "b", float("nan")),
        (5, GONE, "b", float("nan")),
        (6, PUT, None, 1.0),
        (7, GONE, None, 1.0),
    )
    messages, faults = written(envelopes(tombstones="false"), given, True)
    assert images(messages) == [("a", "c", None, 1.0), ("a", "d", 1.0, None), ("a", "c", None, 3.0)]
    assert faults == [
        'CONSTRAINT: column "X" is nan, which JSON cannot carry',
        'CONSTRAINT: column "X" is nan, which JSON cannot carry',
        'NULL_KEY: column "WHO" is of the key and NULL',
    ]


@pytest.mark.parametrize("name", ["XML", "BSON", "JSON", "PROTOBUF", "DEBEZIUM_JSON"])
def test_a_table_of_the_same_format_reads_the_default_keys(name: str) -> None:
    more = {"registry_url": "http://localhost:1"} if name == "PROTOBUF" else {}
    given = {"topic": "t", "key": "who", "changes": "upsert", "format": name} | more
    encoder = MessageEncoder(ForeignStream("S", KEYED, "K", tuple(given.items())))
    if encoder.writes_changes:
        message = encoder.encode_change(("7", 1.0), None, 1)[-1]
    else:
        message = encoder.encode(("7", 1.0), deletes=True)
    decoder = decoder_for(name, "T", KEYED, options=more, key=(0,), patched=name == "DEBEZIUM_JSON")
    decoded = decoder.decode_changes([message.value], [message.key])  # type: ignore[attr-defined]
    assert (decoded.faults, decoded.columns[0].to_list(), decoded.opcodes.tolist()) == ((), ["7"], [GONE])
