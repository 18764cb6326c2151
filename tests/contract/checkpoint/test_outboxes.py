"""What every outbox does: in memory, on SQLite, and on real PostgreSQL and MariaDB."""

from __future__ import annotations

import pytest

from rowtide.checkpoint.outbox import NewMessage, Outbox
from rowtide_connectors.api import Database, OutgoingMessage
from support.checkpoint import ledger_of


@pytest.fixture
def outbox(database: Database) -> Outbox:
    ledger = ledger_of(database, "p")
    ledger.claim("{}", "here")
    return ledger.outbox("ALERTS")


def add(database: Database, outbox: Outbox, *values: bytes) -> None:
    with database.begin() as transaction:
        outbox.add(transaction, [NewMessage(value, 5) for value in values])


def test_numbers_ascend_by_one_over_commits(database: Database, outbox: Outbox) -> None:
    assert outbox.state() is None
    first = outbox.open()
    assert (first.last, first.sent, first.pending) == (0, None, 0)
    assert outbox.open() == first
    add(database, outbox, b"a", b"b")
    add(database, outbox)
    add(database, outbox, b"c")
    assert [(each.number, each.value) for each in outbox.read(0, 10, 1000)] == [
        (1, b"a"),
        (2, b"b"),
        (3, b"c"),
    ]
    state = outbox.state()
    assert state is not None
    assert (state.sender, state.last, state.pending) == (first.sender, 3, 3)


def test_a_message_is_read_as_it_was_added(database: Database, outbox: Outbox) -> None:
    outbox.open()
    given = [
        NewMessage(b"\0\xff", 1, b"key\0", (("h", b"\xfe"), ("h", b"")), 7),
        NewMessage(b"", 2**60, None, (), None),
        NewMessage(None, 3, b"gone"),
    ]
    with database.begin() as transaction:
        outbox.add(transaction, given)
    assert list(outbox.read(0, 10, 1000)) == [
        OutgoingMessage(number, each.value, each.timestamp_ms, each.key, each.headers, each.partition)
        for number, each in enumerate(given, 1)
    ]


def test_what_is_rolled_back_has_no_number(database: Database, outbox: Outbox) -> None:
    outbox.open()
    with pytest.raises(ZeroDivisionError), database.begin() as transaction:
        outbox.add(transaction, [NewMessage(b"lost", 1)])
        raise ZeroDivisionError
    add(database, outbox, b"kept")
    assert [(each.number, each.value) for each in outbox.read(0, 10, 1000)] == [(1, b"kept")]


def test_reading_is_limited_by_messages_and_by_size_and_makes_progress(
    database: Database, outbox: Outbox
) -> None:
    outbox.open()
    add(database, outbox, *(b"x" * 10 for _ in range(6)))
    assert [each.number for each in outbox.read(1, 2, 1000)] == [2, 3]
    assert [each.number for each in outbox.read(0, 10, 25)] == [1, 2, 3]
    assert [each.number for each in outbox.read(4, 10, 1)] == [5]


def test_settled_messages_are_gone_and_their_number_stays(database: Database, outbox: Outbox) -> None:
    outbox.open()
    add(database, outbox, b"a", b"b", b"c")
    outbox.settle(0)
    outbox.settle(2)
    outbox.settle(1)
    assert [each.number for each in outbox.read(0, 10, 1000)] == [3]
    outbox.settle(3)
    state = outbox.state()
    assert state is not None
    assert (state.last, state.sent, state.pending) == (3, 3, 0)
    add(database, outbox, b"d")
    assert [each.number for each in outbox.read(0, 10, 1000)] == [4]


def test_outboxes_know_nothing_of_each_other_and_end_with_their_pipeline(
    database: Database, outbox: Outbox
) -> None:
    other = ledger_of(database, "q")
    other.claim("{}", "here")
    others = [ledger_of(database, "p").outbox("OTHER"), other.outbox("ALERTS")]
    senders = {each.open().sender for each in (outbox, *others)}
    assert len(senders) == 3
    add(database, outbox, b"a")
    add(database, others[1], b"x", b"y")
    others[1].settle(1)
    assert [each.value for each in outbox.read(0, 10, 1000)] == [b"a"]
    mine = ledger_of(database, "p")
    assert mine.drop()
    assert outbox.state() is None
    assert [each.value for each in others[1].read(0, 10, 1000)] == [b"y"]
    mine.claim("{}", "here")
    assert outbox.open().last == 0
