"""Cases of each operator: nodes, places, and the rows and bounds of their ports."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import strategies as st

from contract.operators.changes_cases import changelog_items
from contract.operators.drawn_windows import (
    CUMULATES_BY_MONTHS,
    HOPS,
    HOPS_BY_MONTHS,
    MONTHS,
    PERIODS,
    times_in,
)
from contract.operators.engine_models import engine_models
from contract.operators.in_python import IN_PYTHON
from contract.operators.inputs import (
    INTEGERS,
    KEY_TYPES,
    MOSTLY_INSERTS,
    NARROW,
    OF_COLLECTIONS,
    REAL,
    TEXTS,
    TINYINT,
    VARBINARY,
    WIDE,
    WIDEST,
    Case,
    in_order,
    logged_items,
    of_table,
    ordered_items,
    row_type_of,
    with_rowtime,
)
from contract.operators.kinds import CASES_OF
from contract.operators.looping_models import looping_models
from contract.operators.meanings import FIRST_TIMESTAMP, LAST_TIMESTAMP
from contract.operators.over_cases import overs, overs_abreast
from contract.operators.table_join_model import table_joins
from contract.operators.top_changes_model import top_changes
from rowtide.expr.aggregates import AGGREGATES
from rowtide.expr.functions.arguments import PACKED
from rowtide.expr.functions.pairs import NUMBER_PAIR
from rowtide.expr.tree import AggregateCall, Call, Expr, FieldRef, Literal, RowtimeRef
from rowtide.operators.contract import OperatorSite
from rowtide.plan import nodes
from rowtide.plan.nodes import (
    AsOfJoin,
    AsOfJoinOn,
    BoundPolicy,
    Filter,
    FilterInserts,
    GroupByCumulate,
    GroupByHop,
    GroupByPeriod,
    GroupBySession,
    GroupChanges,
    JoinKind,
    JoinTime,
    KeyedTable,
    Merge,
    Model,
    NumberedChanges,
    PatchedTable,
    Project,
    ProjectKeys,
    Promote,
    Sort,
    SortInPeriod,
    Source,
    UniqueTable,
    WindowJoin,
)
from rowtide.rows.rowop import Row, TimedRow
from rowtide.rows.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTERVAL_DAY,
    INTERVAL_MONTH,
    TIMESTAMP,
    VARCHAR,
    Field,
    RowType,
    Type,
    decimal,
)
from rowtide.rowtime.period import Cumulate, CumulateByMonths, Hop, HopByMonths, Period, Session

OWN = 9 << 16
"""The origin of the operator itself."""
NEAR = st.integers(-3, 6)
"""Rowtimes that meet."""
TIES = st.integers(0, 2)
"""Rowtimes of which most are the same, so that origins and counters decide."""
MINUTE = 60_000


@st.composite
def sorts(draw: st.DrawFn) -> Case:
    """A t-sort of one partition, or of a merged stream."""
    row_type = row_type_of(draw(st.lists(st.sampled_from((BIGINT, VARCHAR, WIDE)), min_size=1, max_size=2)))
    merged = draw(st.booleans())
    origins = (3 << 16, 1 << 16) if merged else (2 << 16,)
    of_table = draw(st.sampled_from((False, False, True)))
    within = 0 if of_table else draw(st.sampled_from((0, 0, 1, 3, 100)))
    node = Sort("V", Source("S", row_type, in_log_order=of_table), within)
    times = NEAR | st.sampled_from((-(2**63), -(2**63) + 1, 2**62))
    return Case(node, OperatorSite(OWN, merged, (origins,)), (draw(logged_items(row_type, origins, times)),))


@st.composite
def merges(draw: st.DrawFn) -> Case:
    """Partitions, a union, and diamonds, where several ports bring rows of one origin."""
    row_type = row_type_of((BIGINT, VARCHAR))
    known = [origin << 16 for origin in (5, 2, 7, 4)]
    port_origins = tuple(
        tuple(draw(st.permutations(known))[: draw(st.integers(1, 3))]) for _ in range(draw(st.integers(1, 4)))
    )
    ports = tuple(
        draw(ordered_items(row_type, origins, TIES, copies=True, rows=6)) for origins in port_origins
    )
    node = Merge("U", tuple(Source(f"S{port}", row_type) for port in range(len(port_origins))))
    if len(port_origins) == 1:
        node = Merge("U", (Source("S", row_type),))
    return Case(node, OperatorSite(OWN, True, port_origins), ports)


NUMBER, OTHER, TRUTH, TIME = (
    FieldRef(0, BIGINT),
    FieldRef(1, BIGINT),
    FieldRef(2, BOOLEAN),
    FieldRef(3, TIMESTAMP),
)
SCALARS = row_type_of((BIGINT, BIGINT, BOOLEAN, TIMESTAMP, VARCHAR, WIDE))
QUOTIENT = Call("/", (NUMBER, OTHER), BIGINT)
SUM = Call("+", (NUMBER, OTHER), BIGINT)
LESS = Call("<", (NUMBER, OTHER), BOOLEAN)
CONDITIONS: tuple[Expr, ...] = (
    TRUTH,
    LESS,
    Call("<", (SUM, QUOTIENT), BOOLEAN),
    Call("AND", (TRUTH, Call("=", (QUOTIENT, Literal(1, BIGINT)), BOOLEAN)), BOOLEAN),
    Literal(True, BOOLEAN),
    Literal(None, BOOLEAN),
)
SCALAR_EXPRESSIONS: tuple[Expr, ...] = (
    *(FieldRef(index, field.type) for index, field in enumerate(SCALARS)),
    SUM,
    QUOTIENT,
    LESS,
    RowtimeRef(),
    Literal("x", VARCHAR),
    Literal(None, BIGINT),
)
TWO_ORIGINS = (6 << 16, 2 << 16)


@st.composite
def filters(draw: st.DrawFn, kind: type[Filter] = Filter) -> Case:
    """Conditions that are TRUE, FALSE, NULL or have no value."""
    node = kind("F", Source("S", SCALARS), draw(st.sampled_from(CONDITIONS)))
    items = draw(ordered_items(SCALARS, TWO_ORIGINS, NEAR, opcodes=MOSTLY_INSERTS, copies=True))
    return Case(node, OperatorSite(OWN, True, (TWO_ORIGINS,)), (items,))


@st.composite
def projects(draw: st.DrawFn) -> Case:
    """Expressions that may have no value, into fields that may be NOT NULL."""
    expressions = draw(st.lists(st.sampled_from(SCALAR_EXPRESSIONS), min_size=1, max_size=3))
    fields = [Field(f"R{at}", each.type, draw(st.booleans())) for at, each in enumerate(expressions)]
    node = Project("P", Source("S", SCALARS), tuple(expressions), RowType(tuple(fields)))
    items = draw(ordered_items(SCALARS, TWO_ORIGINS, NEAR, opcodes=MOSTLY_INSERTS, copies=True))
    return Case(node, OperatorSite(OWN, True, (TWO_ORIGINS,)), (items,))


@st.composite
def projected_keys(draw: st.DrawFn) -> Case:
    """Fields, and expressions that may have no value: keys of a join that keeps its rows, or not."""
    expressions = draw(st.lists(st.sampled_from(SCALAR_EXPRESSIONS), min_size=1, max_size=4))
    keys = tuple(at for at in range(len(expressions)) if draw(st.booleans()))
    row_type = RowType(tuple(Field(f"R{at}", each.type) for at, each in enumerate(expressions)))
    node = ProjectKeys("P", Source("S", SCALARS), tuple(expressions), row_type, keys)
    items = draw(ordered_items(SCALARS, TWO_ORIGINS, NEAR, opcodes=MOSTLY_INSERTS, copies=True))
    return Case(node, OperatorSite(OWN, True, (TWO_ORIGINS,)), (items,))


MONOTONIC: tuple[Expr, ...] = (
    RowtimeRef(),
    *(Call("+", (RowtimeRef(), Literal(by, INTERVAL_DAY)), TIMESTAMP) for by in (5, -5, 10**14, -(10**14))),
    Call("FLOOR_TO", (RowtimeRef(), Literal("MINUTE", VARCHAR)), TIMESTAMP),
)


@st.composite
def promotes(draw: st.DrawFn) -> Case:
    """A field of a partition's rows, or a monotonic expression of the old rowtime."""
    source = Source("S", SCALARS, foreign=True)
    if draw(st.booleans()):
        times = NEAR | st.sampled_from((59_999, 60_000, 60_001, LAST_TIMESTAMP, FIRST_TIMESTAMP))
        node = Promote("P", source, draw(st.sampled_from(MONOTONIC)), BoundPolicy.MAP)
        items = draw(ordered_items(SCALARS, TWO_ORIGINS, times, copies=True))
        return Case(node, OperatorSite(OWN, True, (TWO_ORIGINS,)), (items,))
    policy = draw(st.sampled_from((BoundPolicy.PASS, BoundPolicy.DROP)))
    ahead = draw(st.sampled_from((None, 0, 3)))
    origins = TWO_ORIGINS[:1]
    items = draw(logged_items(SCALARS, origins, NEAR))
    # Explicit bounds are not judged here: a row that breaks one is late at the Sort behind.
    node = Promote("P", source, TIME, policy, ahead)
    return Case(node, OperatorSite(OWN, False, (origins,)), (items,), ordered=False)


INTERVALS = (INTERVAL_DAY, INTERVAL_MONTH)
ARGUMENTS: dict[str, tuple[Type, ...]] = {
    "COUNT": (VARCHAR, BIGINT, DOUBLE, WIDE, BOOLEAN),
    "SUM": (TINYINT, BIGINT, REAL, DOUBLE, NARROW, WIDE, *INTERVALS),
    "AVG": (TINYINT, BIGINT, REAL, DOUBLE, NARROW, WIDE, WIDEST, *INTERVALS),
    "MIN": (TINYINT, BIGINT, REAL, DOUBLE, NARROW, WIDE, VARCHAR, VARBINARY, BOOLEAN, DATE, TIMESTAMP),
}
ARGUMENTS["MAX"] = ARGUMENTS["MIN"]
SPREADS = ("VAR_POP", "VAR_SAMP", "STDDEV_POP", "STDDEV_SAMP")
PICKS = ("FIRST_VALUE", "LAST_VALUE", "ANY_VALUE", "MODE", "PERCENTILE_DISC")
TRUTHS = ("EVERY", "BOOL_AND", "BOOL_OR")
ARGUMENTS |= dict.fromkeys(SPREADS, (TINYINT, BIGINT, REAL, DOUBLE, NARROW, WIDE))
ARGUMENTS |= dict.fromkeys(PICKS, ARGUMENTS["MIN"])
ARGUMENTS |= dict.fromkeys(TRUTHS, (BOOLEAN,))
ARGUMENTS |= dict.fromkeys(("LISTAGG", "SORTED_LISTAGG"), (VARCHAR,))
ARGUMENTS |= dict.fromkeys(("MEDIAN", "PERCENTILE_CONT"), ARGUMENTS["AVG"])
ARGUMENTS |= {
    name: tuple(of for of in (*ARGUMENTS["MIN"], NUMBER_PAIR) if each.result(of) is not None)
    for name, each in AGGREGATES.items()
    if each.in_groups and name not in (*ARGUMENTS, *OF_COLLECTIONS)
}
"""And what is declared and not listed here."""
ARGUMENTS |= {"TOTAL": (INTEGERS,), "MOVING": (INTEGERS,), "TEXTS": (TEXTS,), **OF_COLLECTIONS}
COMPILED_ARGUMENTS: dict[str, tuple[Type, ...]] = {
    "COUNT": ARGUMENTS["COUNT"],
    "SUM": (TINYINT, BIGINT, REAL, DOUBLE, *INTERVALS),
    "AVG": (REAL, DOUBLE),
    "MIN": (TINYINT, BIGINT, REAL, DOUBLE, NARROW, BOOLEAN, DATE, TIMESTAMP),
}
COMPILED_ARGUMENTS["MAX"] = COMPILED_ARGUMENTS["MIN"]
"""What a kernel tells the changes of."""
CHANGED_ARGUMENTS = dict(COMPILED_ARGUMENTS)
NUMBERS = (TINYINT, BIGINT, REAL, DOUBLE, NARROW)
CHANGED_ARGUMENTS |= dict.fromkeys(("SUM", "AVG"), (*NUMBERS, *INTERVALS))
CHANGED_ARGUMENTS |= dict.fromkeys(SPREADS, NUMBERS)
"""The same where rows come and go."""
FRACTIONS = tuple(map(Fraction, ("0", "1/4", "1/2", "0.9", "1")))


def result_type(function: str, argument: Type) -> Type:
    """Return the type of an aggregate (docs/sql/semantics.md#numbers)."""
    match function:
        case _ if function in IN_PYTHON:
            return PACKED
        case "COUNT":
            return BIGINT
        case "SUM" if argument.is_integer:
            return BIGINT
        case "SUM" | "AVG" | "MEDIAN" | "PERCENTILE_CONT" if argument in INTERVALS:
            return argument
        case "SUM" | "AVG" | "MEDIAN" | "PERCENTILE_CONT" if argument.is_float:
            return DOUBLE
        case _ if function in SPREADS:
            return DOUBLE
        case "SUM":
            return decimal(38, argument.scale)
        case "AVG" | "MEDIAN" | "PERCENTILE_CONT":
            return decimal(38, max(6, argument.scale))
        case _:
            found = AGGREGATES[function].result(argument)
            assert found is not None
            return found


@st.composite
def group_fields(
    draw: st.DrawFn, arguments: dict[str, tuple[Type, ...]] = ARGUMENTS, least: int = 1
) -> tuple[list[Type], tuple[int, ...], tuple[AggregateCall, ...]]:
    """Fields of an input, keys among them, and aggregates of ``arguments``; DISTINCT too, if of any."""
    fields: list[Type] = [draw(st.sampled_from(KEY_TYPES)) for _ in range(draw(st.integers(0, 2)))]
    keys = tuple(range(len(fields)))
    calls = []
    for _ in range(draw(st.integers(least, 3))):
        function = draw(st.sampled_from(sorted(arguments)))
        if function == "COUNT" and draw(st.booleans()):
            argument = None
            kind = BIGINT
        else:
            argument = FieldRef(len(fields), draw(st.sampled_from(arguments[function])))
            kind = result_type(function, argument.type)
            fields.append(argument.type)
        condition = None
        if draw(st.integers(0, 3)) == 0:
            condition = FieldRef(len(fields), BOOLEAN)
            fields.append(BOOLEAN)
        picks = function in ("FIRST_VALUE", "LAST_VALUE")
        distinct = argument is not None and not picks and arguments is ARGUMENTS and draw(st.booleans())
        ignore_nulls = picks and draw(st.booleans())
        fraction = None
        if function == "MEDIAN":
            fraction = Fraction(1, 2)
        elif "PERCENTILE" in function:
            fraction = draw(st.sampled_from(FRACTIONS))
        of = IN_PYTHON.get(function)
        number = draw(st.integers(1, 3)) if of is None and AGGREGATES[function].takes_number else None
        calls.append(
            AggregateCall(function, argument, kind, distinct, condition, ignore_nulls, fraction, of, number)
        )
    return fields, keys, tuple(calls)


def group_row(fields: list[Type], keys: tuple[int, ...], calls: tuple[AggregateCall, ...]) -> RowType:
    """Return the row type of a group."""
    given = [TIMESTAMP, *(fields[key] for key in keys), *(call.type for call in calls)]
    return RowType(tuple(Field(f"R{index}", kind) for index, kind in enumerate(given)))


@st.composite
def groups(draw: st.DrawFn) -> Case:
    """Groups by any period and keys, with any aggregates."""
    fields, keys, calls = draw(group_fields())
    period = draw(st.sampled_from(PERIODS))
    row_type = row_type_of(fields)
    node = GroupByPeriod("G", Source("S", row_type), period, keys, calls, group_row(fields, keys, calls))
    items = draw(ordered_items(row_type, TWO_ORIGINS, times_in(period), rows=14))
    return Case(node, OperatorSite(OWN, True, (TWO_ORIGINS,)), (items,))


@st.composite
def hops(draw: st.DrawFn) -> Case:
    """Windows that overlap, touch or leave rows out, in milliseconds or months."""
    fields, keys, calls = draw(group_fields())
    hop: Hop | HopByMonths = draw(HOPS | HOPS_BY_MONTHS)
    row_type = row_type_of(fields)
    node = GroupByHop("H", Source("S", row_type), hop, keys, calls, group_row(fields, keys, calls))
    times = times_in(MONTHS) if isinstance(hop, HopByMonths) else NEAR | st.integers(7, 14)
    items = draw(ordered_items(row_type, TWO_ORIGINS, times, rows=10))
    return Case(node, OperatorSite(OWN, True, (TWO_ORIGINS,)), (items,))


@st.composite
def cumulates(draw: st.DrawFn) -> Case:
    """Windows that grow, by one step or by several, and from an offset, or by the calendar."""
    fields, keys, calls = draw(group_fields())
    step = draw(st.integers(1, 4))
    fixed = Cumulate(step, step * draw(st.integers(1, 4)), draw(st.integers(0, 3)))
    cumulate: Cumulate | CumulateByMonths = draw(st.just(fixed) | CUMULATES_BY_MONTHS)
    row_type = row_type_of(fields)
    node = GroupByCumulate("C", Source("S", row_type), cumulate, keys, calls, group_row(fields, keys, calls))
    times = times_in(MONTHS) if isinstance(cumulate, CumulateByMonths) else NEAR | st.integers(7, 14)
    items = draw(ordered_items(row_type, TWO_ORIGINS, times, rows=10))
    return Case(node, OperatorSite(OWN, True, (TWO_ORIGINS,)), (items,))


@st.composite
def sessions(draw: st.DrawFn) -> Case:
    """Sessions of keys that meet, with gaps just reached and just not reached."""
    fields, keys, calls = draw(group_fields())
    session = Session(draw(st.integers(1, 4)))
    row_type = row_type_of(fields)
    node = GroupBySession("G", Source("S", row_type), session, keys, calls, group_row(fields, keys, calls))
    items = draw(ordered_items(row_type, TWO_ORIGINS, NEAR | st.integers(7, 20), rows=14))
    return Case(node, OperatorSite(OWN, True, (TWO_ORIGINS,)), (items,))


@st.composite
def groups_of_changes(draw: st.DrawFn, *, compiled: bool = True) -> Case:
    """Changes after every row of groups of a table's rows, or every few milliseconds."""
    fields, keys, calls = draw(group_fields(CHANGED_ARGUMENTS, least=0) if compiled else group_fields())
    row_type = row_type_of(fields)
    every = None if compiled else draw(st.none() | st.integers(1, 5))
    kind = RowType(group_row(fields, keys, calls).fields[1:])
    node = GroupChanges("G", Source("S", row_type), None, keys, calls, kind, every, of_changes=True)
    items = draw(changelog_items(row_type, TWO_ORIGINS, NEAR))
    return Case(node, OperatorSite(OWN, True, (TWO_ORIGINS,)), (items,))


@st.composite
def group_changes(draw: st.DrawFn) -> Case:
    """Changes after every row or every few milliseconds, of groups with any window, or of a table's rows."""
    if draw(st.integers(0, 2)) == 0:
        return draw(groups_of_changes(compiled=draw(st.booleans())))
    compiled = draw(st.booleans())
    fields, keys, calls = draw(group_fields(COMPILED_ARGUMENTS if compiled else ARGUMENTS))
    row_type = row_type_of(fields)
    given = group_row(fields, keys, calls)
    every = None if compiled else draw(st.none() | st.integers(1, 5))
    source = Source("S", row_type)
    place = OperatorSite(OWN, True, (TWO_ORIGINS,))
    windows: list[st.SearchStrategy[Period | Hop | HopByMonths | Session]] = [st.sampled_from(PERIODS)]
    if not compiled:
        windows += [HOPS, HOPS_BY_MONTHS]
        windows.append(st.builds(Session, st.integers(1, 4)))
    window = draw(st.none() | st.one_of(windows))
    retention = draw(st.none() | st.integers(0, 4)) if window is None and not compiled else None
    times = NEAR | st.integers(7, 14)
    if isinstance(window, Period | HopByMonths):
        times = times_in(window if isinstance(window, Period) else MONTHS)
    kind = given if window is not None else RowType(given.fields[1:])
    node = GroupChanges("G", source, window, keys, calls, kind, every, retention_ms=retention)
    return Case(node, place, (draw(ordered_items(row_type, TWO_ORIGINS, times, rows=12)),))


@st.composite
def period_sorts(draw: st.DrawFn) -> Case:
    """Orders by several keys, up and down, with ties and NULLs."""
    fields = [draw(st.sampled_from((*KEY_TYPES, TIMESTAMP))) for _ in range(draw(st.integers(1, 3)))]
    ordered = in_order(fields, draw(st.permutations(range(len(fields)))))[: draw(st.integers(0, 2))]
    keys = tuple((index, draw(st.booleans())) for index in ordered)
    period, row_type = draw(st.sampled_from(PERIODS)), row_type_of(fields)
    items = draw(ordered_items(row_type, TWO_ORIGINS, times_in(period), rows=14))
    limits = draw(st.none() | st.integers(0, 3)), draw(st.integers(0, 2))
    node = SortInPeriod("O", with_rowtime(Source("S", row_type)), period, keys, *limits)
    return Case(node, OperatorSite(OWN, True, (TWO_ORIGINS,)), (items,))


@st.composite
def tables(draw: st.DrawFn) -> Case:
    """Tables with a key of one or two fields, and without one."""
    fields = [draw(st.sampled_from(KEY_TYPES)) for _ in range(draw(st.integers(1, 3)))]
    key = tuple(draw(st.permutations(range(len(fields)))))[: draw(st.integers(0, min(2, len(fields))))]
    row_type = row_type_of(fields)
    origins = (6 << 16, 2 << 16)
    items = draw(ordered_items(row_type, origins, NEAR, opcodes=MOSTLY_INSERTS, copies=True, rows=14))
    return Case(KeyedTable("T", Source("S", row_type), key), OperatorSite(OWN, True, (origins,)), (items,))


@st.composite
def unique_tables(draw: st.DrawFn) -> Case:
    """Tables with one or two UNIQUEs, which may overlap, with a key and without one."""
    fields = [draw(st.sampled_from(KEY_TYPES)) for _ in range(draw(st.integers(1, 3)))]
    places = range(len(fields))
    key = tuple(draw(st.permutations(places)))[: draw(st.integers(0, min(2, len(fields))))]
    sets = st.lists(st.sampled_from(places), min_size=1, max_size=2, unique=True).map(tuple)
    unique = tuple(draw(st.lists(sets, min_size=1, max_size=2)))
    row_type = row_type_of(fields)
    origins = (6 << 16, 2 << 16)
    items = draw(ordered_items(row_type, origins, NEAR, opcodes=MOSTLY_INSERTS, copies=True, rows=14))
    node = UniqueTable("T", Source("S", row_type), key, unique)
    return Case(node, OperatorSite(OWN, True, (origins,)), (items,))


@st.composite
def patched_tables(draw: st.DrawFn) -> Case:
    """Tables some of whose INSERTs leave columns that are not of the key as they are, or have the row before them."""
    own = row_type_of([draw(st.sampled_from(KEY_TYPES)) for _ in range(draw(st.integers(2, 4)))])
    row_type = RowType((*own, Field("KEPT", VARCHAR), *row_type_of([each.type for each in own], "BEFORE")))
    others = st.lists(st.integers(1, len(own) - 1), min_size=1, unique=True).map(sorted)
    kept = st.none() | others.map(lambda places: ",".join(map(str, places)))

    def change(row: Row) -> Row:
        before, blank = row[-len(own) :], (None,) * len(own)
        return *row[: len(own)], draw(kept), *draw(st.sampled_from([before, blank, (before[0], *blank[1:])]))

    origins = (6 << 16, 2 << 16)
    given = draw(ordered_items(row_type, origins, NEAR, opcodes=MOSTLY_INSERTS, copies=True, rows=14))
    items = tuple(at._replace(row=change(at.row)) if isinstance(at, TimedRow) else at for at in given)
    return Case(PatchedTable("T", Source("S", row_type), (0,)), OperatorSite(OWN, True, (origins,)), (items,))


@st.composite
def joins(draw: st.DrawFn) -> Case:
    """Joins by no key, one or two, of a table and a stream that may stem from one source.

    The table's changes are any, or those of a table whose primary key is among what is joined by.
    """
    keyed = draw(st.lists(st.sampled_from((VARCHAR, BIGINT, DOUBLE, NARROW)), max_size=2))
    table, stream = row_type_of([*keyed, DATE], "T"), row_type_of([BOOLEAN, *keyed], "S")
    source, key = Source("T", table), tuple(range(draw(st.integers(0, len(keyed)))))
    node = AsOfJoin(
        "J",
        KeyedTable("T", source, key) if key else source,
        Source("S", stream),
        tuple(range(len(keyed))),
        tuple(range(1, len(keyed) + 1)),
        draw(st.sampled_from((JoinKind.INNER, JoinKind.LEFT))),
        RowType((*stream.fields, *table.fields)),
    )
    port_origins = ((6 << 16,), (8 << 16, 6 << 16))
    changes = draw(ordered_items(table, port_origins[0], NEAR, opcodes=MOSTLY_INSERTS, copies=True))
    return Case(
        node,
        OperatorSite(OWN, True, port_origins),
        (
            of_table(changes, key) if key else changes,
            draw(ordered_items(stream, port_origins[1], NEAR, copies=True)),
        ),
    )


@st.composite
def joins_on(draw: st.DrawFn) -> Case:
    """Joins as of a rowtime with a condition on both sides, which fails for some pairs."""
    table, stream = row_type_of([VARCHAR, BIGINT], "T"), row_type_of([VARCHAR, BIGINT], "S")
    quotient = Call("/", (FieldRef(1, BIGINT), FieldRef(3, BIGINT)), BIGINT)
    node = AsOfJoinOn(
        "J",
        Source("T", table),
        Source("S", stream),
        (0,),
        (0,),
        draw(st.sampled_from((JoinKind.INNER, JoinKind.LEFT))),
        RowType((*stream.fields, *table.fields)),
        Call("=", (quotient, Literal(1, BIGINT)), BOOLEAN),
    )
    port_origins = ((6 << 16,), (8 << 16, 6 << 16))
    return Case(
        node,
        OperatorSite(OWN, True, port_origins),
        (
            draw(ordered_items(table, port_origins[0], NEAR, opcodes=MOSTLY_INSERTS, copies=True)),
            draw(ordered_items(stream, port_origins[1], NEAR, copies=True)),
        ),
    )


@st.composite
def window_joins(draw: st.DrawFn) -> Case:
    """Any window, before, around or after, on one side or both, outer or not, with a condition or not."""
    keyed = draw(st.lists(st.sampled_from((VARCHAR, BIGINT, WIDE)), max_size=1))
    left, right = row_type_of([*keyed, BIGINT], "L"), row_type_of([*keyed, BIGINT], "R")
    low = draw(st.integers(-3, 2))
    numbers = FieldRef(len(keyed), BIGINT), FieldRef(2 * len(keyed) + 1, BIGINT)
    quotient = Call("/", numbers, BIGINT)
    conditions = (None, None, Call("=", (quotient, Literal(1, BIGINT)), BOOLEAN))
    delays = st.integers(0, 3)
    node = WindowJoin(
        "W",
        Source("L", left),
        Source("R", right),
        tuple(range(len(keyed))),
        tuple(range(len(keyed))),
        low,
        low + draw(st.integers(0, 4)),
        draw(st.sampled_from(JoinTime)),
        draw(st.sampled_from(JoinKind)),
        RowType((*left.fields, *right.fields)),
        draw(st.sampled_from(conditions)),
        draw(delays),
        draw(delays),
    )
    port_origins = ((6 << 16, 3 << 16), (8 << 16, 6 << 16))
    ports = tuple(
        draw(ordered_items(kind, origins, NEAR, rows=6))
        for kind, origins in zip((left, right), port_origins, strict=True)
    )
    return Case(node, OperatorSite(OWN, True, port_origins), ports)


CASES: dict[type, st.SearchStrategy[Case]] = {
    nodes.Filter: filters(),
    nodes.FilterInserts: filters(FilterInserts),
    nodes.Project: projects(),
    nodes.ProjectKeys: projected_keys(),
    nodes.Promote: promotes(),
    nodes.Sort: sorts(),
    nodes.Merge: merges(),
    nodes.GroupByPeriod: groups(),
    nodes.GroupByHop: hops(),
    nodes.GroupByCumulate: cumulates(),
    nodes.SortInPeriod: period_sorts(),
    nodes.GroupBySession: sessions(),
    nodes.GroupChanges: group_changes(),
    nodes.TableJoin: table_joins(),
    nodes.TopChanges: top_changes(),
    NumberedChanges: top_changes(numbered=True),
    nodes.WindowAggregate: overs(),
    nodes.WindowsAbreast: overs_abreast(),
    nodes.KeyedTable: tables(),
    PatchedTable: patched_tables(),
    UniqueTable: unique_tables(),
    nodes.AsOfJoin: joins(),
    nodes.AsOfJoinOn: joins_on(),
    nodes.WindowJoin: window_joins(),
    Model: st.one_of(engine_models(), looping_models()),
    **CASES_OF,
}
"""Node type to its cases: every registered operator has some."""
