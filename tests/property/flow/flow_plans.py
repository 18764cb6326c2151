"""Plans that the flow's properties run: shared views, unions, diamonds, groups, tables and joins.

Every relation has the fields (K, N, T), so that each can be put on top of any
other. Relations have names of their own; a later one may read any earlier one,
and one relation may be read by several.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

from rowtide.expr.tree import AggregateCall, Call, Expr, FieldRef, Literal, RowtimeRef
from rowtide.plan.nodes import (
    AsOfJoin,
    BoundPolicy,
    Filter,
    GroupByPeriod,
    JoinKind,
    KeyedTable,
    Merge,
    Node,
    Project,
    Promote,
    Sort,
    Source,
    TableSource,
)
from rowtide.rows.types import BIGINT, BOOLEAN, INTERVAL_DAY, TIMESTAMP, VARCHAR, Field, RowType
from rowtide.rowtime.period import Period, PeriodEdge

ROW = RowType((Field("K", VARCHAR), Field("N", BIGINT), Field("T", TIMESTAMP)))
K, N, T = FieldRef(0, VARCHAR), FieldRef(1, BIGINT), FieldRef(2, TIMESTAMP)
STREAMS = {name: Source(name, ROW, foreign=foreign) for name, foreign in (("A", False), ("B", True))}
SOURCES = {**STREAMS, "C": Source("C", ROW, foreign=True, in_log_order=True)}
QUOTIENT = Call("/", (Literal(12, BIGINT), N), BIGINT)
"""Has no value where N is 0."""


@dataclass(frozen=True)
class FlowPlan:
    """Nodes by name, the partitions of each source, and the relations that take explicit bounds."""

    outputs: dict[str, Node]
    partitions: dict[str, tuple[int, ...]]
    judges: tuple[tuple[str, int], ...]


def ordered(name: str) -> Node:
    """Read a source in order of its messages' time."""
    return Merge(name, (Sort(name, SOURCES[name], 0),))


def project(name: str, node: Node, *expressions: Expr) -> Node:
    """Compute K, N and T."""
    return Project(name, node, expressions, ROW)


def promoted(draw: st.DrawFn, name: str, below: Sequence[Node]) -> Node:
    """Promote T of a source, and sort by it, partition by partition."""
    source = draw(st.sampled_from(sorted(STREAMS)))
    chain: Node = SOURCES[source]
    if not SOURCES[source].foreign:
        chain = Sort(source, chain, 0)
    policy = BoundPolicy.PASS if SOURCES[source].foreign else BoundPolicy.DROP
    if draw(st.booleans()):
        chain = Filter(name, chain, Call("<", (Literal(0, BIGINT), QUOTIENT), BOOLEAN))
    moved = Promote(name, chain, T, policy, draw(st.sampled_from((None, 4))))
    return Merge(name, (Sort(name, moved, draw(st.sampled_from((0, 2, 5)))),))


def filtered(draw: st.DrawFn, name: str, below: Sequence[Node]) -> Node:
    """Keep some rows; the condition has no value for others."""
    return Filter(name, draw(st.sampled_from(below)), Call("<", (QUOTIENT, Literal(9, BIGINT)), BOOLEAN))


def computed(draw: st.DrawFn, name: str, below: Sequence[Node]) -> Node:
    """Compute something that has no value for some rows."""
    return project(name, draw(st.sampled_from(below)), K, QUOTIENT, T)


def union(draw: st.DrawFn, name: str, below: Sequence[Node]) -> Node:
    """UNION ALL; of one relation with itself, too."""
    return Merge(name, tuple(draw(st.lists(st.sampled_from(below), min_size=2, max_size=3))))


def grouped(draw: st.DrawFn, name: str, below: Sequence[Node]) -> Node:
    """Count and add up by key in a period."""
    edge = draw(st.sampled_from(PeriodEdge))
    period = Period(edge) if edge is PeriodEdge.EXACT else Period(edge, None, 3, 1)
    calls = (AggregateCall("SUM", N, BIGINT),)
    given = RowType((Field("P", TIMESTAMP), Field("K", VARCHAR), Field("S", BIGINT)))
    group = GroupByPeriod(name, draw(st.sampled_from(below)), period, (0,), calls, given)
    return project(name, group, FieldRef(1, VARCHAR), FieldRef(2, BIGINT), FieldRef(0, TIMESTAMP))


def shifted(draw: st.DrawFn, name: str, below: Sequence[Node]) -> Node:
    """Move all rows by one length of time."""
    by = Literal(draw(st.sampled_from((-2, 3))), INTERVAL_DAY)
    return Promote(
        name, draw(st.sampled_from(below)), Call("+", (RowtimeRef(), by), TIMESTAMP), BoundPolicy.MAP
    )


def stepped(draw: st.DrawFn, name: str, below: Sequence[Node]) -> Node:
    """Promote ROWTIME to the beginning of its step: rows of different rowtimes get an equal one."""
    step = Call("STEP", (RowtimeRef(), Literal(3, INTERVAL_DAY)), TIMESTAMP)
    return Sort(name, Promote(name, draw(st.sampled_from(below)), step, BoundPolicy.MAP), 0)


def sorted_again(draw: st.DrawFn, name: str, below: Sequence[Node]) -> Node:
    """Promote T of a relation that is merged, and sort it by time once more."""
    moved = Promote(name, draw(st.sampled_from(below)), T, BoundPolicy.DROP)
    return Sort(name, moved, draw(st.sampled_from((0, 3))))


def joined(draw: st.DrawFn, name: str, below: Sequence[Node]) -> Node:
    """Join with a table that is loaded once, or that another relation feeds."""
    if draw(st.booleans()):
        rows = (("a", 1, None), ("b", 0, 5), ("a", 2, 7))
        feed: Node = TableSource(f"{name}_T", ROW, rows, loaded_once=True)
    else:
        feed = draw(st.sampled_from(below))
    table = KeyedTable(f"{name}_T", feed, draw(st.sampled_from(((0,), ()))))
    given = RowType((*ROW.fields, *(Field(f"T_{each.name}", each.type) for each in ROW)))
    kind = draw(st.sampled_from((JoinKind.INNER, JoinKind.LEFT)))
    join = AsOfJoin(name, table, draw(st.sampled_from(below)), (0,), (0,), kind, given)
    return project(name, join, K, FieldRef(4, BIGINT), T)


STEPS: tuple[Callable[[st.DrawFn, str, Sequence[Node]], Node], ...] = (
    promoted,
    filtered,
    computed,
    union,
    union,
    grouped,
    shifted,
    stepped,
    sorted_again,
    joined,
)


@st.composite
def flow_plans(draw: st.DrawFn) -> FlowPlan:
    """Return a plan of a few relations, most of them built on others."""
    partitions = {name: tuple(range(draw(st.integers(1, 3)))) for name in SOURCES}
    below = [ordered(name) for name in SOURCES]
    judges: list[tuple[str, int]] = []
    for number in range(draw(st.integers(1, 4))):
        step = draw(st.sampled_from(STEPS))
        below.append(step(draw, f"V{number}", below))
        if step in (promoted, sorted_again):
            judges.append((f"V{number}", 0))
    outputs = {f"out{number}": node for number, node in enumerate(below)}
    if draw(st.booleans()):
        # The last one alone: sources that it does not read have no entrances.
        outputs = {"out": below[-1]}
    return FlowPlan(outputs, partitions, tuple(judges))
