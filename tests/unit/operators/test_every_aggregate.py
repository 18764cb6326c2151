"""Every aggregate has a form at each place where it may be used; all forms give what is declared."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rowtide.errors import Reason, RejectedRowError
from rowtide.expr.aggregates import AGGREGATES, OF_GROUPS, SPELLED, Aggregate, Calling, Family, FrameShape
from rowtide.expr.functions.pairs import NUMBER_PAIR, PAIR, as_pair, by, numbers
from rowtide.expr.tree import AggregateCall, FieldRef
from rowtide.operators.aggregates.changes import change_functions, running_aggregates
from rowtide.operators.aggregates.groups import accumulators as aggregates
from rowtide.operators.aggregates.groups import value_functions
from rowtide.operators.aggregates.groups.accumulators import make_accumulator
from rowtide.operators.aggregates.row_functions import WindowFunction
from rowtide.operators.aggregates.windows import make
from rowtide.operators.changes import changed_groups
from rowtide.plan.frames import WindowCall
from rowtide.rows.column import Column
from rowtide.rows.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    JSON,
    TIMESTAMP,
    VARCHAR,
    Field,
    RowType,
    Type,
    array_of,
    decimal,
)

ARRAY = array_of(BIGINT)
TYPES = (
    BIGINT,
    DOUBLE,
    decimal(8, 2),
    decimal(38, 2),
    BOOLEAN,
    VARCHAR,
    TIMESTAMP,
    PAIR,
    NUMBER_PAIR,
    ARRAY,
    JSON,
)
VALUES: dict[Type, st.SearchStrategy[Any]] = {
    BIGINT: st.integers(-3, 3),
    DOUBLE: st.sampled_from((-1.5, 0.0, 0.25, 3.0)),
    decimal(8, 2): st.sampled_from((Decimal("-1.00"), Decimal("0.00"), Decimal("2.25"))),
    BOOLEAN: st.booleans(),
    VARCHAR: st.sampled_from(("", "a", "b")),
    ARRAY: st.sampled_from(((), (1,), (None,), (2, None, 1))),
    JSON: st.sampled_from(("[]", "[1]", "[null]", '["a",{}]')),
}
NUMBERS = st.sampled_from((-1.5, 0.0, 0.25, 3.0))
OF_PAIRS = {
    "$BY": st.builds(
        lambda value, key: by(VARCHAR, value, DOUBLE, key), st.sampled_from((None, "", "a")), NUMBERS
    ),
    "$NUMBERS": st.builds(numbers, NUMBERS, NUMBERS),
    "$ORDERED": st.builds(
        as_pair, st.sampled_from((b"", b"a", b"b")), st.sampled_from((b"[]", b"[1]", b'["a",{}]'))
    ),
}
"""What aggregates of two arguments take."""
TABLES: dict[str, Iterable[str]] = {
    "groups": aggregates.MAKERS,
    "windows": value_functions.MAKERS,
    "windows, compiled": make.MAKERS,
    "changes of rows": change_functions.MAKERS_OF_ROWS,
    "changes of changes": change_functions.MAKERS_OF_CHANGES,
    "picks of changes": change_functions.OF_ENDS,
    "changes of rows, compiled": running_aggregates.MAKERS,
    "changes of changes, compiled": changed_groups.MAKERS,
}
FINITE = [each for each in AGGREGATES.values() if each.finite]
BY_VALUES = [each for each in AGGREGATES.values() if each.of_values is not None and each.in_groups]


def call_of(
    aggregate: Aggregate, of: Type, *, distinct: bool = False, ignore_nulls: bool = False
) -> AggregateCall:
    """Return a call of an aggregate of the first field."""
    kind = aggregate.result(of)
    assert kind is not None
    fraction = Fraction("0.9") if aggregate.takes_fraction else aggregate.fraction
    number = 2 if aggregate.takes_number else None
    return AggregateCall(
        aggregate.name, FieldRef(0, of), kind, distinct, None, ignore_nulls, fraction, number=number
    )


def over(call: AggregateCall) -> WindowCall:
    """Return the same call over a window."""
    return WindowCall(
        call.function,
        call.argument,
        call.type,
        call.distinct,
        ignore_nulls=call.ignore_nulls,
        fraction=call.fraction,
        number=call.number or 1,
    )


@pytest.mark.parametrize("table", TABLES)
def test_the_tables_name_what_is_declared(table: str) -> None:
    assert set(TABLES[table]) <= set(AGGREGATES)


@pytest.mark.parametrize("aggregate", AGGREGATES.values(), ids=lambda each: each.name)
def test_every_aggregate_has_every_entry(aggregate: Aggregate) -> None:
    by_values = aggregate.of_values is not None
    if aggregate.in_groups:
        assert by_values or aggregate.name in aggregates.MAKERS
    if aggregate.over_windows and aggregate.family is not Family.SHARE:
        assert by_values or aggregate.name in value_functions.MAKERS
    assert aggregate.summary or not aggregate.names


@pytest.mark.parametrize("aggregate", AGGREGATES.values(), ids=lambda each: each.name)
def test_what_is_declared_as_compiled_has_a_maker(aggregate: Aggregate) -> None:
    for of in TYPES:
        if aggregate.result(of) is None:
            continue
        for distinct in (False, True):
            call = call_of(aggregate, of, distinct=distinct)
            forms: list[tuple[Callable[[AggregateCall], bool], Iterable[str]]] = [
                (aggregate.compiled.group, aggregates.MAKERS),
                (aggregate.compiled.running, running_aggregates.MAKERS),
                (aggregate.compiled.retracting, changed_groups.MAKERS),
            ]
            assert all(call.function in table for is_compiled, table in forms if is_compiled(call))
            for endless, running in ((False, False), (True, False), (True, True)):
                if aggregate.compiled.window(over(call), FrameShape(endless, running)):
                    assert call.function in make.MAKERS


def test_names_are_of_one_aggregate() -> None:
    names = [name for each in AGGREGATES.values() for name in each.names]
    assert len(names) == len(set(names)) == len(SPELLED)
    assert SPELLED["STDDEV"].name == "STDDEV_SAMP"
    assert SPELLED["STRING_AGG"].name == "LISTAGG"
    assert "SORTED_LISTAGG" not in OF_GROUPS


# ------------------------------------------------------------ forms by values


@pytest.mark.parametrize("aggregate", BY_VALUES, ids=lambda each: each.name)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_every_form_gives_what_is_declared(aggregate: Aggregate, data: st.DataObject) -> None:
    pair = NUMBER_PAIR if aggregate.pair_of == "$NUMBERS" else PAIR
    kinds = [pair] if aggregate.pair_of else [each for each in VALUES if aggregate.result(each) is not None]
    of = data.draw(st.sampled_from(kinds))
    some = OF_PAIRS[aggregate.pair_of] if aggregate.pair_of else VALUES[of]
    distinct = aggregate.distinct_matters and data.draw(st.booleans())
    ignore_nulls = aggregate.family is Family.PLACE and data.draw(st.booleans())
    call = call_of(aggregate, of, distinct=distinct, ignore_nulls=ignore_nulls)
    drawn = data.draw(st.lists(st.one_of(st.none(), some), max_size=8))
    assert grouped(call, of, drawn) == wanted(call, drawn)
    if aggregate.over_windows and not (distinct and aggregate.order_matters):
        check_windows(call, drawn, data.draw(st.integers(1, 4)))
    check_changes(call, of, drawn, data.draw(st.lists(st.integers(0, 7), max_size=8, unique=True)))


def wanted(call: AggregateCall, values: Sequence[Any]) -> object:
    """Return what an aggregate means."""
    aggregate = AGGREGATES[call.function]
    taken = [value for value in values if value is not None or aggregate.counts_nulls(call)]
    if call.distinct:
        taken = list(dict.fromkeys(taken))
    return aggregate.value_of(call, sorted(taken) if aggregate.ascending else taken)


def grouped(call: AggregateCall, of: Type, values: Sequence[Any]) -> object:
    """Return the result of a group that takes its rows in two trays, with a snapshot in between."""
    accumulator = make_accumulator(call)
    accumulator.reserve(1)
    nulls = AGGREGATES[call.function].counts_nulls(call)
    for part in (values[:3], values[3:]):
        column = Column.from_values(of, part)
        use = np.ones(len(part), dtype=np.bool_) if nulls else column.valid_mask()
        groups = np.zeros(len(part), dtype=np.int64)
        refused = accumulator.refused(column, use)
        assert refused is None or not refused.any()
        assert accumulator.fits(groups, column, use)
        accumulator.add(groups, column, use)
        state = accumulator.state(1)
        accumulator = make_accumulator(call)
        accumulator.load(state)
    return accumulator.results(1).to_list()[0]


def check_windows(call: AggregateCall, values: Sequence[Any], size: int) -> None:
    """Compare a frame that moves, and one without a start that is saved after each row."""
    moving = value_functions.make_window_function(over(call), endless=False)
    growing = value_functions.make_window_function(over(call), endless=True)
    for at, value in enumerate(values):
        moving.add(value)
        if at >= size:
            moving.drop(values[at - size])
        assert moving.result() == wanted(call, values[max(0, at - size + 1) : at + 1])
        growing.add(value)
        growing = reloaded(growing, value_functions.make_window_function(over(call), endless=True))
        assert growing.result() == wanted(call, values[: at + 1])


def check_changes(call: AggregateCall, of: Type, values: Sequence[Any], gone: Sequence[int]) -> None:
    """Compare groups of rows that only come, and of rows of which some go again."""
    row_type = RowType((Field("X", of), Field("N", BIGINT)))
    aggregate = AGGREGATES[call.function]

    def fresh(*, of_changes: bool) -> WindowFunction:
        return change_functions.make(call, row_type, of_changes=of_changes)

    comes, changes = fresh(of_changes=False), fresh(of_changes=True)
    rows = [(value, at) for at, value in enumerate(values)]
    taken = [row for row in rows if row[0] is not None or aggregate.counts_nulls(call)]
    by_row = change_functions.takes_rows(call)
    held = []
    for row in taken:
        comes.add(row[0])
        comes = reloaded(comes, fresh(of_changes=False))
        changes.add(row if by_row else row[0])
        held.append(row)
        assert comes.result() == changes.result() == wanted(call, [value for value, _ in held])
    for at in gone:
        if at < len(rows) and rows[at] in held:
            changes.drop(rows[at] if by_row else rows[at][0])
            held.remove(rows[at])
            changes = reloaded(changes, fresh(of_changes=True))
            assert changes.result() == wanted(call, [value for value, _ in held])


def reloaded(function: WindowFunction, fresh: WindowFunction) -> WindowFunction:
    """Return a fresh function that goes on from what another has kept."""
    fresh.load(json.loads(json.dumps(function.save())))
    return fresh


# ------------------------------------------------------------ what no form takes


def product(call: Calling, values: Sequence[Any]) -> object:
    """Return the product of integers."""
    del call
    found = math.prod(values)
    if abs(found) >= 2**63:
        raise RejectedRowError(Reason.OVERFLOW, "an aggregate leaves the range of its type")
    return found


@pytest.mark.parametrize("distinct", [False, True])
def test_what_is_only_declared_may_fail(monkeypatch: pytest.MonkeyPatch, *, distinct: bool) -> None:
    declared = Aggregate(
        "SMALL_PRODUCT",
        "",
        lambda argument: argument,
        can_fail=True,
        of_values=product,
    )
    monkeypatch.setitem(cast(dict[str, Aggregate], AGGREGATES), "SMALL_PRODUCT", declared)
    call = call_of(declared, BIGINT, distinct=distinct)
    accumulator = make_accumulator(call)
    accumulator.reserve(2)
    column, groups = Column.from_values(BIGINT, [2**40, 2**40]), np.array([0, 1], dtype=np.int64)
    accumulator.add(groups, column, np.ones(2, dtype=np.bool_))
    small, large = Column.from_values(BIGINT, [2, 3]), Column.from_values(BIGINT, [2, 2**23])
    use = np.ones(2, dtype=np.bool_)
    assert not accumulator.fits(groups, large, use)
    assert accumulator.fits(groups, small, use)
    accumulator.add(groups, small, use)
    assert accumulator.results(2).to_list() == [2**41, 3 * 2**40]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("aggregate", FINITE, ids=lambda each: each.name)
def test_no_form_takes_nan_and_infinity(aggregate: Aggregate, value: float) -> None:
    call = call_of(aggregate, DOUBLE)
    column, use = Column.from_values(DOUBLE, [1.0, value]), np.ones(2, dtype=np.bool_)
    groups = np.zeros(2, dtype=np.int64)
    accumulator = make_accumulator(call)
    accumulator.reserve(1)
    refused = accumulator.refused(column, use)
    assert not accumulator.fits(groups, column, use) if refused is None else refused.tolist() == [False, True]
    never = change_functions.limit_of(call)
    assert never is not None
    assert never(value)
    assert not never(1.0)
