"""A promotion to an expression that falls here and there: no row is late, and bounds are the least later value."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowtide.expr.rowwise import compile_row
from rowtide.expr.tree import Call, Expr, Literal, RowtimeRef
from rowtide.operators.contract import OperatorSite
from rowtide.operators.registry import make
from rowtide.plan.nodes import BoundPolicy, Merge, Promote, Sort, Source
from rowtide.plan.order import place_order
from rowtide.rows.rowop import Opcode, TimedRow
from rowtide.rows.tray import Tray
from rowtide.rows.types import BIGINT, INTERVAL_DAY, INTERVAL_MONTH, TIMESTAMP, VARCHAR, Field, RowType
from rowtide.rowtime.bound import EARLIEST, LATEST, Bound

MINUTE_MS = 60_000
DAY_MS = 1_440 * MINUTE_MS
ROW_TYPE = RowType((Field("N", BIGINT),))


def moved(by: int) -> Expr:
    return Call("+", (RowtimeRef(), Literal(by, INTERVAL_DAY)), TIMESTAMP)


def local(zone: str, of: Expr | None = None) -> Expr:
    return Call("FROM_UTC_TIMESTAMP", (of or RowtimeRef(), Literal(zone, VARCHAR)), TIMESTAMP)


def months(sign: str, by: int, of: Expr | None = None) -> Expr:
    return Call(sign, (of or RowtimeRef(), Literal(by, INTERVAL_MONTH)), TIMESTAMP)


def ms(text: str) -> int:
    at = datetime.fromisoformat(f"{text}+00:00")
    return int((at - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(milliseconds=1))


FALLS: tuple[tuple[Expr, int], ...] = (
    (local("Europe/Berlin"), ms("2024-10-27 01:00")),
    (local("Europe/Berlin", moved(5 * MINUTE_MS)), ms("2024-10-27 01:00")),
    (local("Australia/Lord_Howe"), ms("2024-04-06 15:00")),
    (local("Pacific/Kwajalein"), ms("1969-09-30 13:00")),
    (local("America/Goose_Bay"), ms("2010-11-07 03:01")),
    (local("Europe/Berlin"), ms("2024-03-31 01:00")),
    (months("+", 1), ms("2023-01-31 00:00")),
    (months("-", 1), ms("2023-03-31 00:00")),
    (months("+", 1, moved(-90 * MINUTE_MS)), ms("2023-01-31 01:30")),
    (Call("-", (months("+", 13), Literal(7 * MINUTE_MS, INTERVAL_DAY)), TIMESTAMP), ms("2023-01-30 00:00")),
)
"""Expressions, each with a ROWTIME near which it falls, or where clocks go forward."""


def planned(rowtime: Expr) -> tuple[Sort, Promote]:
    source = Source("S", ROW_TYPE)
    node = place_order(Promote("P", source, rowtime, BoundPolicy.DROP))
    assert isinstance(node, Sort)
    assert isinstance(node.input, Promote)
    assert isinstance(node.input.input, Merge)
    return node, node.input


@pytest.mark.parametrize(("rowtime", "near"), FALLS)
def test_a_bound_becomes_the_least_value_of_a_later_rowtime(rowtime: Expr, near: int) -> None:
    _, node = planned(rowtime)
    operator = make(node, OperatorSite(1))
    value = compile_row(rowtime)
    times = range(near - 2 * DAY_MS, near + 5 * DAY_MS, MINUTE_MS)
    least = LATEST
    for bound in reversed(times):
        found = value((), bound)
        assert isinstance(found, int)
        least = min(least, found)
        if bound < near + DAY_MS and (bound // MINUTE_MS) % 17 == 0:
            assert operator.step(0, None, Bound(bound)).bound == Bound(least)


@given(st.sampled_from(FALLS), st.lists(st.integers(-3_000, 3_000), min_size=1, max_size=40), st.data())
def test_no_row_is_late_and_all_come_in_order(
    fall: tuple[Expr, int], minutes: list[int], data: st.DataObject
) -> None:
    rowtime, near = fall
    sort, promote = planned(rowtime)
    value = compile_row(rowtime)
    times = [near + each * MINUTE_MS for each in sorted(minutes)]
    cuts = sorted({0, len(times), *data.draw(st.lists(st.integers(0, len(times))))})
    promoted, sorted_ = make(promote, OperatorSite(1)), make(sort, OperatorSite(2, True, ((0,),)))
    out: list[TimedRow] = []
    bounds = [EARLIEST]
    for first, last in pairwise(cuts):
        rows = [TimedRow(times[at], 0, at, Opcode.INSERT, (at,)) for at in range(first, last)]
        moved_on = promoted.step(0, Tray.from_rows(ROW_TYPE, rows), Bound(times[last - 1]))
        given = sorted_.step(0, moved_on.tray, moved_on.bound)
        assert not moved_on.faults
        assert not given.faults
        out += [] if given.tray is None else given.tray.rows()
        bounds.append(given.bound.rowtime)
    end = sorted_.step(0, None, Bound(LATEST))
    out += [] if end.tray is None else end.tray.rows()
    assert bounds == sorted(bounds)
    assert [each.rowtime for each in out] == sorted(each.rowtime for each in out)
    assert {each.row[0]: each.rowtime for each in out} == {
        at: value((), times[at]) for at in range(len(times))
    }
