"""The plan says which windows run compiled; plain Python takes over where values are too far apart."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import pytest

from rowtide.operators.aggregates.arithmetic.codes import ObjectCodes, Values
from rowtide.operators.contract import OperatorSite
from rowtide.operators.over import frames as over_frames
from rowtide.operators.over.by_row.operator import OverOperator
from rowtide.operators.over.compiled import OverInKernels
from rowtide.operators.registry import make
from rowtide.plan.frames import CURRENT_ROW, Edge, EdgeUnit, Frame
from rowtide.plan.nodes import Node, WindowAggregate
from rowtide.rows.arrays import Mask
from rowtide.rows.column import Column
from rowtide.rows.rowop import Opcode, TimedRow
from rowtide.rows.tray import Tray
from rowtide.rowtime.bound import NO_BOUND
from rowtide.sql.pipeline import plan_pipeline

STREAM = "CREATE STREAM s (k VARCHAR(4), n INTEGER, x DOUBLE, name VARCHAR(9));"


def window_of(query: str) -> WindowAggregate:
    plan = plan_pipeline(f"{STREAM} CREATE VIEW v AS SELECT STREAM {query} FROM s;")
    node: Node = dict(plan.relations)["V"]
    while not isinstance(node, WindowAggregate):
        (node,) = node.inputs
    return node


@pytest.mark.parametrize(
    "query",
    [
        "AVG(x) OVER (PARTITION BY k ROWS 9 PRECEDING) AS a",
        "SUM(n) OVER (PARTITION BY k RANGE INTERVAL '1' MINUTE PRECEDING) AS a",
        "MAX(x) OVER (PARTITION BY k) AS a",
        "LAG(n, 2, 0) OVER (PARTITION BY k) AS a",
        "ROW_NUMBER() OVER (PARTITION BY k) AS a",
        "LEAD(n) OVER (PARTITION BY k) AS a",
        "LAG(name) IGNORE NULLS OVER (PARTITION BY k) AS a",
        "NTH_VALUE(x, 3) OVER (PARTITION BY k ROWS 9 FOLLOWING) AS a",
        "COUNT(DISTINCT name) OVER (PARTITION BY k ROWS 9 PRECEDING) AS a",
        "STDDEV_POP(DISTINCT n) OVER (PARTITION BY k) AS a",
        "MEDIAN(x) OVER (PARTITION BY k ROWS BETWEEN 3 PRECEDING AND 3 FOLLOWING) AS a",
        "PERCENTILE_DISC(0.9) WITHIN GROUP (ORDER BY n) OVER (PARTITION BY k) AS a",
        "STDDEV_POP(x) OVER (PARTITION BY k ROWS 9 PRECEDING) AS a",
        "MIN(x) OVER (PARTITION BY k ROWS BETWEEN 3 PRECEDING AND 3 FOLLOWING) AS a",
        "SUM(n) OVER (RANGE BETWEEN UNBOUNDED PRECEDING AND INTERVAL '1' SECOND FOLLOWING) AS a",
    ],
)
def test_sums_extremes_shifts_and_numbers_are_compiled(query: str) -> None:
    assert type(make(window_of(query), OperatorSite(0))) is OverInKernels


@pytest.mark.parametrize(
    "query",
    [
        "MIN(name) OVER (PARTITION BY k) AS a",
        "MODE(n) OVER (PARTITION BY k) AS a",
    ],
)
def test_text_in_order_and_modes_go_row_by_row(query: str) -> None:
    assert type(make(window_of(query), OperatorSite(0))) is OverOperator


def test_a_sum_of_doubles_that_are_far_apart_is_still_exact() -> None:
    node = window_of("SUM(x) OVER (PARTITION BY k ROWS 2 PRECEDING) AS a")
    assert node.frame == Frame(Edge(EdgeUnit.ROWS, -2), CURRENT_ROW)
    operator = make(node, OperatorSite(0))
    values = [1.0, 0.1, 1e300, 5e-324, -1e300, 0.2, 0.3]
    found = []
    for at, value in enumerate(values):
        row = (("a", 1, value, "b") + (None,) * len(node.input.row_type))[: len(node.input.row_type)]
        tray = Tray.from_rows(node.input.row_type, [TimedRow(at, 1, at, Opcode.INSERT, row)])
        out = operator.step(0, tray, NO_BOUND).tray
        assert out is not None
        found += [timed.row[-1] for timed in out.rows()]
    assert found == [1.0, 1.1, 1e300, 1e300, 5e-324, -1e300, -1e300]


def test_variances_have_no_drift() -> None:
    node = window_of("VAR_SAMP(x) OVER (PARTITION BY k ROWS 1 PRECEDING) AS a")
    operator = make(node, OperatorSite(0))
    values = [1e15, 0.25, 0.75, 1e-8, 3e-8, 2.0**100, 0.0]
    rows = [
        TimedRow(at, 1, at, Opcode.INSERT, (("a", 1, value, "b") + (None,) * 9)[: len(node.input.row_type)])
        for at, value in enumerate(values)
    ]
    out = operator.step(0, Tray.from_rows(node.input.row_type, rows), NO_BOUND).tray
    assert out is not None
    pairs = [(Fraction(one), Fraction(other)) for one, other in pairwise(values)]
    exact = [float((one - other) ** 2 / 2) for one, other in pairs]
    assert [timed.row[-1] for timed in out.rows()] == [None, *exact]


def test_texts_that_are_gone_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    remembered = []
    encode = ObjectCodes.encode

    def watched(codes: ObjectCodes, column: Column) -> tuple[Values, Mask]:
        remembered.append(codes.interned)
        return encode(codes, column)

    monkeypatch.setattr(over_frames, "FORGET_INTERNED_OVER", 8)
    monkeypatch.setattr(ObjectCodes, "encode", watched)
    node = window_of("LAG(name) OVER (PARTITION BY k) AS a")
    operator = make(node, OperatorSite(0))
    found = []
    for at in range(100):
        row = ("a", 1, 1.0, f"name {at}")
        tray = Tray.from_rows(node.input.row_type, [TimedRow(at, 1, at, Opcode.INSERT, row)])
        out = operator.step(0, tray, NO_BOUND).tray
        assert out is not None
        found += [timed.row[-1] for timed in out.rows()]
    assert found == [None, *(f"name {at}" for at in range(99))]
    assert max(remembered) < 20


def test_percentiles_of_thousands_of_values_are_where_they_are_when_sorted() -> None:
    node = window_of("PERCENTILE_DISC(0.9) WITHIN GROUP (ORDER BY n) OVER (ROWS 999 PRECEDING) AS a")
    operator = make(node, OperatorSite(0))
    values = [(at * at * 7919 + at // 3) % 1013 for at in range(3000)]
    rows = [TimedRow(at, 1, at, Opcode.INSERT, ("a", value, 1.0, "b")) for at, value in enumerate(values)]
    out = operator.step(0, Tray.from_rows(node.input.row_type, rows), NO_BOUND).tray
    assert out is not None
    frames = [sorted(values[max(0, at - 999) : at + 1]) for at in range(3000)]
    wanted = [frame[-(-9 * len(frame) // 10) - 1] for frame in frames]
    assert [timed.row[-1] for timed in out.rows()] == wanted
