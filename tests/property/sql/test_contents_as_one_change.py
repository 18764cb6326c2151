"""Windows that take what a query begins with as one change report the contents that they report row by row."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from property.sql.drawn_tables import KEYS, TABLES, Queries
from property.sql.test_drawn_table_queries import (
    REFUSED,
    Change,
    Changes,
    as_text,
    changes,
    changes_of,
    promise,
    put,
)
from rowtide.errors import StatementError
from rowtide.flow.flow import Flow
from rowtide.plan.nodes import Node
from rowtide.rowtime.bound import LATEST
from rowtide.sql.pipeline import SqlSession

READERS_OF_TIMES = (
    "SELECT STREAM s.id, q.place FROM s JOIN (SELECT id, RANK() OVER (ORDER BY n) AS place FROM a) AS q ON s.id = q.id",
    "SELECT place, ARRAY_TO_STRING(ARRAY_AGG(id), ',') AS ids"
    " FROM (SELECT id, RANK() OVER (ORDER BY n) AS place FROM a) AS q GROUP BY place",
)
"""Queries whose results depend on when, or in which order, the results of windows change."""


def drawn(random: Random) -> Node | None:
    """Return a query with a window; None if it is refused."""
    query = ""
    while " OVER (" not in query:
        query, _ = Queries(random).query(random.randint(1, 3))
    session = SqlSession(inserted=KEYS)
    session.feed(TABLES)
    try:
        return session.query(query)
    except StatementError as refused:
        assert refused.message in REFUSED
        return None


def put_all(flow: Flow, fed: list[Change], first: int, bound: int, random: Random) -> Changes:
    """Return all that is reported after changes from number ``first`` on, drained anywhere."""
    reported = []
    for counter, change in enumerate(fed, start=first):
        put(flow, counter, change)
        if random.random() < 0.3:
            reported += changes_of(flow)
    promise(flow, bound)
    return reported + changes_of(flow)


def settled(flow: Flow) -> Changes:
    emitted = flow.settle()
    assert emitted.faults == []
    rows = [timed for tray in emitted.outputs["Q"] for timed in tray.rows()]
    return [(each.rowtime, int(each.opcode), as_text(each.row)) for each in rows]


def contents(reported: Changes) -> Counter[tuple[str, ...]]:
    held: Counter[tuple[str, ...]] = Counter()
    for _, opcode, row in reported:
        held[row] += opcode
        assert held[row] >= 0, "what is deleted was there"
    return +held


def begins_as_row_by_row(seed: int) -> None:
    random = Random(seed)
    node = drawn(random)
    if node is None:
        return
    fed = changes(random)
    cut = random.randint(1, len(fed))
    before, after = fed[:cut], fed[cut:]
    bound = after[0].rowtime if after else LATEST
    row_by_row, *collecting = (Flow({"Q": node}, {}) for _ in range(3))
    begun = contents(put_all(row_by_row, before, 0, bound, random))
    collected = []
    for flow in collecting:
        flow.collect()
        reported = put_all(flow, before, 0, bound, random)
        collected.append(reported + settled(flow))
    assert contents(collected[0]) == begun
    ended = begun + Counter()
    for _, opcode, row in put_all(row_by_row, after, cut, LATEST, random):
        ended[row] += opcode
    for number, flow in enumerate(collecting):
        collected[number] += put_all(flow, after, cut, LATEST, random)
    assert collected[0] == collected[1], "no cut is seen"
    assert contents(collected[0]) == +ended


@settings(max_examples=20)
@given(seed=st.integers(0, 2**32))
def test_the_contents_are_those_of_row_by_row(seed: int) -> None:
    begins_as_row_by_row(seed)


@pytest.mark.long
@settings(settings.get_profile("long"), max_examples=3000)
@given(seed=st.integers(0, 2**32))
def test_the_contents_are_those_of_row_by_row_for_long(seed: int) -> None:
    begins_as_row_by_row(seed)


@pytest.mark.parametrize("query", READERS_OF_TIMES)
@settings(max_examples=10)
@given(seed=st.integers(0, 2**32))
def test_who_can_know_of_states_between_sees_them(query: str, seed: int) -> None:
    session = SqlSession(inserted=KEYS)
    session.feed(f"{TABLES} CREATE STREAM s (id INTEGER);")
    node = session.query(query)
    fed = [each for each in changes(Random(seed)) if each.table == "A"]
    row_by_row, collecting = Flow({"Q": node}, {}), Flow({"Q": node}, {})
    collecting.collect()
    for flow in (row_by_row, collecting):
        for counter, change in enumerate(fed):
            put(flow, counter, change)
        promise(flow, LATEST)
    assert changes_of(collecting) + settled(collecting) == changes_of(row_by_row)
