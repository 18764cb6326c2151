"""Cases of windowed aggregation: any frame, order, partition and calls."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import strategies as st

from contract.operators.in_python import IN_PYTHON
from contract.operators.inputs import (
    ARRAY,
    INTEGERS,
    KEY_TYPES,
    NARROW,
    ORDERED,
    REAL,
    TEXTS,
    TINYINT,
    VARBINARY,
    WIDE,
    WIDEST,
    Case,
    ordered_items,
    row_type_of,
)
from rowtide.errors import SourceSpan
from rowtide.expr.aggregates import AGGREGATES, Family
from rowtide.expr.functions.arguments import PACKED
from rowtide.expr.functions.pairs import NUMBER_PAIR
from rowtide.expr.tree import FieldRef
from rowtide.operators.contract import OperatorSite
from rowtide.plan.frames import CURRENT_ROW, UNBOUNDED_PRECEDING, Edge, EdgeUnit, Frame, WindowCall
from rowtide.plan.nodes import Source, WaitingWindow, WindowAggregate, WindowsAbreast
from rowtide.rows.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INSTANT,
    INTERVAL_DAY,
    INTERVAL_MONTH,
    TIMESTAMP,
    VARCHAR,
    Field,
    RowType,
    Type,
)
from rowtide.rowtime.period import Period, PeriodEdge
from rowtide.sql.expressions.aggregate_list import result_type

NUMBERS: tuple[Type, ...] = (TINYINT, BIGINT, REAL, DOUBLE, NARROW, WIDE, WIDEST)
INTERVALS = (INTERVAL_DAY, INTERVAL_MONTH)
ANY: tuple[Type, ...] = (*NUMBERS, BOOLEAN, VARCHAR, VARBINARY, DATE, TIMESTAMP, INSTANT)
SUMS = ("SUM", "AVG", "VAR_POP", "VAR_SAMP", "STDDEV_POP", "STDDEV_SAMP")
SUMMED = dict.fromkeys(SUMS, NUMBERS) | dict.fromkeys(("SUM", "AVG"), (*NUMBERS, *INTERVALS))
PICKS = ("FIRST_VALUE", "LAST_VALUE", "NTH_VALUE")
VALUES: dict[str, tuple[Type, ...]] = {
    "MEDIAN": (TINYINT, BIGINT, REAL, DOUBLE, NARROW, *INTERVALS),
    "PERCENTILE_CONT": (TINYINT, BIGINT, REAL, DOUBLE, NARROW, *INTERVALS),
    "PERCENTILE_DISC": ANY,
    "MODE": (*ANY, ARRAY),
    "ANY_VALUE": (*ANY, ARRAY),
    "EVERY": (BOOLEAN,),
    "BOOL_OR": (BOOLEAN,),
}
VALUES |= {
    name: tuple(of for of in (*ANY, NUMBER_PAIR) if each.result(of) is not None)
    for name, each in AGGREGATES.items()
    if each.family is Family.VALUES
    and each.over_windows
    and name not in ("COUNT", "MIN", "MAX", "ORDERED_LISTAGG", *SUMS, *VALUES)
}
VALUES |= {"TOTAL": (INTEGERS,), "MOVING": (INTEGERS,), "TEXTS": (TEXTS,), "ORDERED_LISTAGG": (ORDERED,)}
WITH_FRACTION = ("MEDIAN", "PERCENTILE_CONT", "PERCENTILE_DISC", "APPROX_PERCENTILE")
FRACTIONS = tuple(map(Fraction, ("0", "1/4", "1/2", "0.9", "1")))
ORIGINS = (6 << 16, 2 << 16)
ORDERS = (Period(PeriodEdge.EXACT), Period(PeriodEdge.FLOOR, step_ms=3), Period(PeriodEdge.CEIL, step_ms=4))


@st.composite
def frames(draw: st.DrawFn) -> Frame:
    """Frames that do not end before they begin."""
    unit = draw(st.sampled_from((EdgeUnit.ROWS, EdgeUnit.RANGE)))
    first, last = sorted((draw(st.integers(-5, 4)), draw(st.integers(-5, 4))))
    start, end = Edge(unit, first), Edge(unit, last)
    if first <= 0 and draw(st.booleans()):
        end = CURRENT_ROW
    if draw(st.integers(0, 3)) == 0:
        start = UNBOUNDED_PRECEDING
    return Frame(start, end)


@st.composite
def overs(draw: st.DrawFn) -> Case:
    """Windows by any frame, with aggregates and picks; or LAG and LEAD, which have frames of their own."""
    fields = [draw(st.sampled_from(KEY_TYPES)) for _ in range(draw(st.integers(0, 2)))]
    partition = tuple(range(len(fields)))
    frame = draw(frames())
    calls: list[WindowCall] = []
    shift = draw(st.sampled_from((None, None, None, "LAG", "LEAD", "LAG IGNORE NULLS")))
    if shift is not None:
        kind = draw(st.sampled_from((*ANY, ARRAY)))
        default = FieldRef(len(fields) + 1, kind)
        argument: FieldRef | None = FieldRef(len(fields), kind)
        fields += [kind, kind]
        by = draw(st.integers(0, 3))
        edge = Edge(EdgeUnit.ROWS, by if shift == "LEAD" else -by)
        call = WindowCall(shift.split()[0], argument, kind, default=default if draw(st.booleans()) else None)
        frame = Frame(edge, edge)
        if "IGNORE" in shift:
            call = WindowCall("LAG", argument, kind, ignore_nulls=True, number=by + 1, default=call.default)
            frame = Frame(end=Edge(EdgeUnit.ROWS, -1))
        calls = [call]
    while not calls or (shift is None and draw(st.booleans())):
        function = draw(st.sampled_from(("COUNT", "MIN", "MAX", *SUMS, *PICKS, *VALUES)))
        held = (*ANY, ARRAY) if function in PICKS else ANY
        kind = draw(st.sampled_from(SUMMED.get(function) or VALUES.get(function, held)))
        argument = None if function == "COUNT" and draw(st.booleans()) else FieldRef(len(fields), kind)
        fields.append(kind)
        if function in PICKS:
            number = draw(st.integers(1, 3)) if function == "NTH_VALUE" else 1
            calls.append(
                WindowCall(function, argument, kind, ignore_nulls=draw(st.booleans()), number=number)
            )
            continue
        condition = None
        if draw(st.integers(0, 3)) == 0:
            condition = FieldRef(len(fields), BOOLEAN)
            fields.append(BOOLEAN)
        own = IN_PYTHON.get(function)
        may_differ = own is not None
        if own is None:
            declared = AGGREGATES[function]
            may_differ = declared.distinct_matters and not declared.order_matters
        distinct = argument is not None and may_differ and draw(st.booleans())
        of = PACKED if own is not None else result_type(function, kind, SourceSpan(1, 1, 1))
        fraction = draw(st.sampled_from(FRACTIONS)) if function in WITH_FRACTION else None
        number = draw(st.integers(1, 3)) if own is None and declared.takes_number else 1
        calls.append(
            WindowCall(function, argument, of, distinct, condition, number=number, fraction=fraction, of=own)
        )
    row_type = row_type_of(fields)
    results = [Field(f"R{at}", call.type) for at, call in enumerate(calls)]
    node = WindowAggregate(
        "O",
        Source("S", row_type),
        partition,
        draw(st.sampled_from(ORDERS)),
        frame,
        tuple(calls),
        RowType((*row_type.fields, *results)),
    )
    items = draw(ordered_items(row_type, ORIGINS, st.integers(-3, 12), rows=10))
    return Case(node, OperatorSite(9 << 16, True, (ORIGINS,)), (items,))


@st.composite
def overs_abreast(draw: st.DrawFn) -> Case:
    """Two or three windows that let rows wait: for time, for rows, by other partitions and other orders."""
    kind = draw(st.sampled_from(ANY))
    fields = [draw(st.sampled_from(KEY_TYPES)), draw(st.sampled_from(KEY_TYPES)), BIGINT, DOUBLE, kind]
    windows: list[WaitingWindow] = []
    results: list[Field] = []
    for _ in range(draw(st.integers(2, 3))):
        unit = draw(st.sampled_from((EdgeUnit.ROWS, EdgeUnit.RANGE)))
        last = draw(st.integers(0 if unit is EdgeUnit.RANGE else 1, 4))
        start = Edge(unit, draw(st.integers(-3, last)))
        if draw(st.integers(0, 3)) == 0:
            start = UNBOUNDED_PRECEDING
        calls = draw(
            st.lists(
                st.sampled_from(
                    (
                        WindowCall("COUNT", None, BIGINT),
                        WindowCall("SUM", FieldRef(2, BIGINT), BIGINT),
                        WindowCall("SUM", FieldRef(3, DOUBLE), DOUBLE),
                        WindowCall("MAX", FieldRef(4, kind), kind),
                        WindowCall("MODE", FieldRef(4, kind), kind),
                        WindowCall("FIRST_VALUE", FieldRef(4, kind), kind),
                    )
                ),
                min_size=1,
                max_size=2,
                unique=True,
            )
        )
        partition = draw(st.sampled_from(((), (0,), (1,), (0, 1))))
        windows.append(
            WaitingWindow(
                partition, draw(st.sampled_from(ORDERS)), Frame(start, Edge(unit, last)), tuple(calls)
            )
        )
        results += [Field(f"R{len(results) + at}", call.type) for at, call in enumerate(calls)]
    row_type = row_type_of(fields)
    node = WindowsAbreast("O", Source("S", row_type), tuple(windows), RowType((*row_type.fields, *results)))
    items = draw(ordered_items(row_type, ORIGINS, st.integers(-3, 12), rows=10))
    return Case(node, OperatorSite(9 << 16, True, (ORIGINS,)), (items,))
