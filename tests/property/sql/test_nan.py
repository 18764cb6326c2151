"""NaN among doubles: aggregates by order skip it in every operator, in both forms, and a sort puts it last."""

from __future__ import annotations

import math
from collections import Counter
from contextlib import ExitStack
from itertools import pairwise
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rowtide.flow.flow import Flow
from rowtide.operators import registry
from rowtide.plan.nodes import Form
from rowtide.rows.rowop import Opcode, TimedRow
from rowtide.rows.tray import Tray
from rowtide.rowtime.bound import LATEST, Bound
from rowtide.sql.pipeline import SqlSession

STREAM = "CREATE STREAM s (k INTEGER, x DOUBLE);"
TABLE = "CREATE TABLE t (id INTEGER PRIMARY KEY, k INTEGER, x DOUBLE);"
MIDDLE = "PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY x)"
ALL = f"MIN(x) AS a, MAX(x) AS b, {MIDDLE} AS c, TOPK(x, 2) AS d"
FRAMES = {
    "ROWS 2 PRECEDING": lambda at: range(max(0, at - 2), at + 1),
    "ROWS UNBOUNDED PRECEDING": lambda at: range(at + 1),
    "ROWS BETWEEN 3 PRECEDING AND 1 PRECEDING": lambda at: range(max(0, at - 3), at),
    "ROWS BETWEEN CURRENT ROW AND 2 FOLLOWING": lambda at: range(at, at + 3),
    "RANGE INTERVAL '0.003' SECOND PRECEDING": lambda at: range(max(0, at - 3), at + 1),
}
doubles = st.none() | st.sampled_from((math.nan, -0.5, 2.0, math.inf, -math.inf)) | st.floats()
rows = st.lists(st.tuples(st.integers(0, 1), doubles), max_size=12)
by_row = pytest.mark.parametrize("form", Form)


def meant(values: list[float | None]) -> tuple[object, ...]:
    """Return what the aggregates mean."""
    counted = [value for value in values if value is not None]
    numbers = sorted(value for value in counted if not math.isnan(value)) or counted
    if not numbers:
        return None, None, None, None
    best = tuple(numbers[:-3:-1])
    return shown(numbers[0]), shown(numbers[-1]), shown(numbers[(len(numbers) - 1) // 2]), shown(best)


def shown(value: object) -> object:
    """Return a value so that NaNs are equal."""
    if isinstance(value, tuple):
        return tuple(map(shown, value))
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


def run(
    query: str, relation: str, changes: list[tuple[Opcode, tuple[object, ...]]], form: Form
) -> list[TimedRow]:
    """Return the rows of a query over rows a millisecond apart, in one form of its operators."""
    session = SqlSession()
    session.feed(STREAM + TABLE)

    with ExitStack() as stack:
        for kind in registry.BY_ROW if form is Form.BY_ROW else ():
            stack.enter_context(patch.object(kind, "form", lambda _node: Form.BY_ROW))
        flow = Flow({"Q": session.query(query)}, {"S": (0,)} if relation == "S" else {})
    for at, (opcode, row) in enumerate(changes):
        timed = TimedRow(at, flow.origin(relation, 0), at, opcode, row)
        flow.insert(relation, 0, Tray.from_rows(flow.row_type(relation), [timed]))
    flow.bound(relation, 0, Bound(LATEST))
    emitted = flow.drain()
    assert emitted.faults == []
    return [
        timed._replace(row=tuple(map(shown, timed.row)))
        for tray in emitted.outputs["Q"]
        for timed in tray.rows()
    ]


@by_row
@pytest.mark.parametrize("frame", FRAMES)
@settings(max_examples=40)
@given(drawn=rows)
def test_windows_skip_nan(frame: str, form: Form, drawn: list[tuple[int, float | None]]) -> None:
    over = ALL.replace(" AS ", " OVER w AS ")
    query = f"SELECT STREAM k, {over} FROM s WINDOW w AS ({frame})"
    found = run(query, "S", [(Opcode.INSERT, row) for row in drawn], form)
    values = [value for _, value in drawn]
    wanted = [
        (drawn[at][0], *meant([values[place] for place in FRAMES[frame](at) if place < len(values)]))
        for at in range(len(drawn))
    ]
    assert [timed.row for timed in found] == wanted


@by_row
@pytest.mark.parametrize("window", ["FLOOR(ROWTIME TO MINUTE)", "SESSION(ROWTIME, INTERVAL '1' MINUTE)"])
@settings(max_examples=30)
@given(drawn=rows, distinct=st.sampled_from(("", "DISTINCT ")))
def test_groups_skip_nan(
    window: str, form: Form, drawn: list[tuple[int, float | None]], distinct: str
) -> None:
    selected = ALL.replace("(x)", f"({distinct}x)")
    query = f"SELECT STREAM k, {selected} FROM s GROUP BY {window}, k"
    found = run(query, "S", [(Opcode.INSERT, row) for row in drawn], form)
    keys = dict.fromkeys(key for key, _ in drawn)
    wanted = [(key, *meant([value for other, value in drawn if other == key])) for key in keys]
    assert Counter(timed.row for timed in found) == Counter(wanted)


@by_row
@settings(max_examples=60)
@given(drawn=rows)
def test_running_changes_skip_nan(form: Form, drawn: list[tuple[int, float | None]]) -> None:
    query = f"SELECT STREAM k, {ALL} FROM s GROUP BY FLOOR(ROWTIME TO MINUTE), k EMIT CHANGES"
    found = run(query, "S", [(Opcode.INSERT, row) for row in drawn], form)
    keys = dict.fromkeys(key for key, _ in drawn)
    wanted = Counter((key, *meant([value for other, value in drawn if other == key])) for key in keys)
    assert left_by(found) == wanted
    pairs = [(one, other) for one, other in pairwise(found) if one.rowtime == other.rowtime]
    assert not any(one.row == other.row for one, other in pairs)


@by_row
@settings(max_examples=80)
@given(
    drawn=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 1), doubles, st.booleans()), max_size=14),
    direction=st.sampled_from(("", " DESC")),
)
def test_changes_of_a_table_skip_nan(
    form: Form, drawn: list[tuple[int, int, float | None, bool]], direction: str
) -> None:
    changes: list[tuple[Opcode, tuple[Any, ...]]] = [
        (Opcode.DELETE if gone else Opcode.INSERT, tuple(row)) for *row, gone in drawn
    ]
    held: dict[object, tuple[Any, ...]] = {}
    for opcode, row in changes:
        if opcode is Opcode.INSERT:
            held[row[0]] = row
        else:
            held.pop(row[0], None)
    found = run(f"SELECT k, {ALL} FROM t GROUP BY k", "T", changes, form)
    keys = {row[1] for row in held.values()}
    wanted = [(key, *meant([row[2] for row in held.values() if row[1] == key])) for key in keys]
    assert left_by(found) == Counter(wanted)
    first = run(f"SELECT id, x FROM t ORDER BY x{direction}, id LIMIT 2", "T", changes, form)

    def place(row: tuple[Any, ...]) -> tuple[Any, ...]:
        value = row[2]
        if value is None:
            return (-1 if direction else 2, 0, row[0])
        if math.isnan(value):
            return (1, 0, row[0])
        return (0, -value if direction else value, row[0])

    wanted_first = [(row[0], shown(row[2])) for row in sorted(held.values(), key=place)[:2]]
    assert left_by(first) == Counter(wanted_first)


def left_by(changes: list[TimedRow]) -> Counter[tuple[object, ...]]:
    """Return the rows that changes leave."""
    held: Counter[tuple[object, ...]] = Counter()
    for timed in changes:
        held[timed.row] += timed.opcode
    assert all(number >= 0 for number in held.values())
    return +held


@pytest.mark.parametrize("direction", ["", " DESC"])
@settings(max_examples=30)
@given(drawn=rows)
def test_a_sort_puts_nan_last_of_the_values(direction: str, drawn: list[tuple[int, float | None]]) -> None:
    query = f"SELECT STREAM k, x FROM s ORDER BY FLOOR(ROWTIME TO MINUTE), x{direction}"
    found: list[Any] = [
        timed.row[1] for timed in run(query, "S", [(Opcode.INSERT, row) for row in drawn], Form.COMPILED)
    ]
    values = [value for value in found if value not in ("NaN", None)]
    nans, nulls = ["NaN"] * found.count("NaN"), [None] * found.count(None)
    assert found == (
        [*nulls, *sorted(values, reverse=True), *nans] if direction else [*sorted(values), *nans, *nulls]
    )
