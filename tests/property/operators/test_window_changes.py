"""A change of a table gives what it would if all results of its partition were computed again."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from functools import cache
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rowtide.expr.functions.arguments import packed
from rowtide.operators.contract import OperatorSite
from rowtide.operators.over.window_changes import WindowChangesOperator
from rowtide.plan.nodes import nodes_below
from rowtide.plan.nodes.changes.window_changes import WindowChanges
from rowtide.rows.rowop import Opcode, Row, TimedRow
from rowtide.rows.tray import Tray
from rowtide.rows.types import INTEGER, Field, Kind
from rowtide.rowtime.bound import Bound
from rowtide.sql.pipeline import SqlSession

MODULE = "property.sql.declared_aggregates"
TABLE = f"""
CREATE TABLE t (id INTEGER PRIMARY KEY, k VARCHAR(4), o INTEGER, n BIGINT, x DOUBLE, d DECIMAL(10, 2), b BOOLEAN);
CREATE AGGREGATE FUNCTION total(x INTEGER) RETURNS BIGINT LANGUAGE PYTHON AS '{MODULE}.Total';
CREATE AGGREGATE FUNCTION moving(x INTEGER) RETURNS BIGINT LANGUAGE PYTHON AS '{MODULE}.Moving';
CREATE AGGREGATE FUNCTION refusing_moving(x INTEGER) RETURNS BIGINT LANGUAGE PYTHON AS '{MODULE}.RefusingMoving';
CREATE AGGREGATE FUNCTION drifting(x INTEGER) RETURNS DOUBLE LANGUAGE PYTHON AS '{MODULE}.Drifting';
"""
AGGREGATES = (
    *(
        "COUNT(*)",
        "COUNT(n) FILTER (WHERE b)",
        "SUM(n)",
        "SUM(x)",
        "AVG(d)",
        "MIN(x)",
        "MAX(n)",
        "VAR_POP(x)",
    ),
    *("SUM(DISTINCT x)", "COUNT(DISTINCT x)", "EVERY(b)", "MODE(n)", "MODE(k)", "PRODUCT(o)", "LISTAGG(k)"),
    *("FIRST_VALUE(x)", "LAST_VALUE(n)", "NTH_VALUE(n, 2)", "FIRST_VALUE(n) IGNORE NULLS"),
    *("APPROX_COUNT_DISTINCT(k)", "TOTAL(o)", "MOVING(o)", "REFUSING_MOVING(o)", "DRIFTING(o)"),
)
OTHERS = ("RANK()", "DENSE_RANK()", "ROW_NUMBER()", "LAG(n)", "LAG(x, 2, 0.5e0)", "LEAD(n)", "LEAD(k, 3)")
FRAMES = (
    "",
    "ROWS UNBOUNDED PRECEDING",
    "ROWS 1 PRECEDING",
    "ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING",
    "ROWS BETWEEN 3 PRECEDING AND 2 PRECEDING",
    "ROWS BETWEEN 1 FOLLOWING AND 2 FOLLOWING",
    "ROWS BETWEEN UNBOUNDED PRECEDING AND 2 FOLLOWING",
    "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING",
)
VALUES: dict[Kind, Sequence[Any]] = {
    Kind.INTEGER: (0, 1, 2, 3, 9),
    Kind.BIGINT: (0, 1, -1, 7, 2**62, -(2**62)),
    Kind.DOUBLE: (0.0, -0.0, 0.1, 1e300, 2.0**-70, float("nan"), float("inf")),
    Kind.DECIMAL: (Decimal("0.00"), Decimal("1.25"), Decimal("-0.01")),
    Kind.VARCHAR: ("", "a", "b"),
    Kind.BOOLEAN: (True, False),
    Kind.VARBINARY: tuple(packed((INTEGER,), (number,)) for number in (0, 1, 9)),
}


class Recomputing(WindowChangesOperator):
    """Computes all results of a partition after each change."""

    def _given(self, entries: Any, before: Any = (), first: int = 0, rest: int = 0) -> list[Row]:
        del before, first, rest
        return super()._given(entries)


@cache
def planned(sql: str) -> WindowChanges:
    session = SqlSession()
    session.feed(TABLE)
    return next(each for each in nodes_below(session.query(sql)) if isinstance(each, WindowChanges))


@st.composite
def windows(draw: st.DrawFn) -> WindowChanges:
    """Some calls of one order, each with its frame."""
    partition = draw(st.sampled_from(("", "PARTITION BY k ")))
    order = draw(st.sampled_from(("", "ORDER BY o ", "ORDER BY o DESC, n ", "ORDER BY id ")))
    calls = []
    for number in range(draw(st.integers(1, 3))):
        framed = (
            f"{draw(st.sampled_from(AGGREGATES))} OVER ({partition}{order}{draw(st.sampled_from(FRAMES))})"
        )
        plain = f"{draw(st.sampled_from(OTHERS))} OVER ({partition}{order or 'ORDER BY o'})"
        calls.append(f"{draw(st.sampled_from((framed, plain)))} AS c{number}")
    return planned(f"SELECT id, {', '.join(calls)} FROM t")


def values_of(field: Field) -> st.SearchStrategy[Any]:
    found = st.sampled_from(VALUES[field.type.kind])
    return st.none() | found if field.nullable else found


@given(data=st.data(), node=windows())
def test_a_change_gives_what_a_computation_of_all_gives(data: st.DataObject, node: WindowChanges) -> None:
    some_row = st.tuples(*map(values_of, node.input.row_type))
    live: list[Row] = []
    operators = WindowChangesOperator(node, OperatorSite(1)), Recomputing(node, OperatorSite(1))
    sizes = [data.draw(st.integers(0, 25)), *data.draw(st.lists(st.integers(1, 3), max_size=12))]
    for place, size in enumerate(sizes):
        changes = []
        for _ in range(size):
            is_gone = place > 0 and live and data.draw(st.booleans())
            row = data.draw(st.sampled_from(live)) if is_gone else data.draw(some_row)
            (live.remove if is_gone else live.append)(row)
            changes.append(TimedRow(place, 1, 0, Opcode.DELETE if is_gone else Opcode.INSERT, row))
        tray = Tray.from_rows(node.input.row_type, changes)
        one, other = (shown(operator, tray) for operator in operators)
        assert one == other
    assert operators[0].account == operators[1].account


def shown(operator: WindowChangesOperator, tray: Tray) -> tuple[list[str], list[str]]:
    """Return what comes out, with the signs of zeros."""
    output = operator.step(0, tray, Bound(0))
    rows = [] if output.tray is None else [repr(timed) for timed in output.tray.rows()]
    return rows, [repr(fault) for fault in output.faults]
