"""The judges and merges of a plan, at the places where order is first needed.

See docs/sql/semantics.md#late-rows, #t-sort, #promotion, #merge-order.

The planner builds chains that begin with a bare Source, with a Promote where a
SELECT promotes and a Sort where one sorts by time. Here every such chain gets
what makes a relation of it whose rows come in rowtime order:

| chain over a Source                  | becomes                                             |
|--------------------------------------|-----------------------------------------------------|
| row-wise nodes                       | row-wise(Merge(Sort 0(Source)))                     |
| promotion or t-sort, foreign stream  | Merge(Sort within(Promote(row-wise(Source))))       |
| promotion or t-sort, stream          | Merge(Sort within(Promote(row-wise(Sort 0(Source))))) |
| promotion to a shifted ROWTIME       | Promote(row-wise(Merge(Sort 0(Source))))            |
| promotion to FLOOR, CEIL, STEP of it | Sort 0(Promote(row-wise(Merge(Sort 0(Source)))))    |
| promotion to clocks that go back     | Sort far(Promote(row-wise(Merge(Sort 0(Source)))))  |

Periods give rows of different rowtimes an equal one: rows of different origins
are signed again there, so that copies of a row are adjacent in a union. Local
times of a zone, and months later, fall here and there: rows wait there for those
that come before them, as the bounds say, and none is late.

Over anything that is already merged (a union, a group, another promotion, a
stream that pumps feed) promotion and t-sort work on the merged stream. No
filter moves across a promotion or a t-sort.

Invariants, checked by tests/property/plan/test_order.py:

* every reader that needs order reads an ordered input;
* on every way from a Source there is a judge, and before it only row-wise nodes;
* a foreign stream's rows are judged once by each chain, never on message time
  where they are promoted or t-sorted;
* the row-wise nodes and their order are unchanged.
"""

from __future__ import annotations

from dataclasses import replace

from rowtide.expr.tree import Call, Expr, Literal, RowtimeRef
from rowtide.plan.falls import LONGEST_FALL_MS, falls_of
from rowtide.plan.nodes import (
    BoundPolicy,
    Merge,
    Node,
    Promote,
    Sort,
    Source,
    TableSource,
    below_same_rowtime,
    with_inputs,
)
from rowtide.rows.types import Kind


def place_order(node: Node) -> Node:
    """Return the plan of ``node`` with judges and merges: its rows come out in rowtime order."""
    done: dict[int, Node] = {}

    def ordered(each: Node) -> Node:
        if id(each) not in done:
            done[id(each)] = place(each)
        return done[id(each)]

    def place(each: Node) -> Node:
        match each:
            case Source(relation=relation):
                return Merge(relation, (Sort(relation, each, 0),))
            case TableSource(relation=relation, loaded_once=loaded_once):
                return each if loaded_once else Sort(relation, each, 0)
            case Sort(input=Promote() as promote, within_ms=within):
                return promoted(promote, within)
            case Promote():
                return promoted(each, None)
            case Sort(relation=relation, within_ms=within):
                chain = _chain_to_source(each.input)
                if chain is None:
                    return replace(each, input=ordered(each.input))
                return Merge(relation, (Sort(relation, _entered(each.input, chain), within),))
            case _:
                return with_inputs(each, [ordered(one) for one in each.inputs])

    def promoted(promote: Promote, within: int | None) -> Node:
        relation = promote.relation
        chain = _chain_to_source(promote.input)
        monotonic = is_monotonic(promote.rowtime)
        if monotonic and within is None:
            shifted = replace(
                promote, input=ordered(promote.input), bounds=BoundPolicy.MAP, max_ahead_ms=None
            )
            return shifted if _is_strict(promote.rowtime) else Sort(relation, shifted, 0)
        if within is None and falls_of(promote.rowtime) is not None:
            moved = replace(
                promote, input=ordered(promote.input), bounds=BoundPolicy.LEAST, max_ahead_ms=None
            )
            return Sort(relation, moved, LONGEST_FALL_MS)
        if chain is None:
            policy = BoundPolicy.MAP if monotonic else BoundPolicy.DROP
            moved = replace(promote, input=ordered(promote.input), bounds=policy, max_ahead_ms=None)
            return Sort(relation, moved, within or 0)
        policy = BoundPolicy.PASS if chain.foreign else BoundPolicy.DROP
        if monotonic:
            policy = BoundPolicy.MAP
        # A shift by the query is not the fault of a message: only times in the rows can be in the future.
        max_ahead = promote.max_ahead_ms if policy is BoundPolicy.PASS else None
        moved = replace(promote, input=_entered(promote.input, chain), bounds=policy, max_ahead_ms=max_ahead)
        return Merge(relation, (Sort(relation, moved, within or 0),))

    return ordered(node)


def is_monotonic(rowtime: Expr) -> bool:
    """Return whether an expression never falls while ROWTIME grows, and reads only ROWTIME.

    Months and years are not added monotonically: 30 and 31 January become the same day of February.
    """
    match rowtime:
        case RowtimeRef():
            return True
        case Call(function="+" | "-", args=(left, Literal(value=int(), type=added))):
            return added.kind is Kind.INTERVAL_DAY and is_monotonic(left)
        case Call(function="+", args=(Literal(value=int(), type=added), right)):
            return added.kind is Kind.INTERVAL_DAY and is_monotonic(right)
        case Call(function="FLOOR_TO" | "CEIL_TO" | "STEP", args=(of, Literal())):
            return is_monotonic(of)
        case _:
            return False


def _is_strict(rowtime: Expr) -> bool:
    """Return whether a monotonic expression has different values for different rowtimes."""
    match rowtime:
        case Call(function="+" | "-", args=args):
            return all(_is_strict(each) for each in args)
        case Call():
            return False
        case _:
            return True


def _chain_to_source(node: Node) -> Source | None:
    """Return the Source below ``node`` if no node in between changes their rowtime."""
    below = below_same_rowtime(node)
    return below if isinstance(below, Source) else None


def _entered(node: Node, source: Source) -> Node:
    """Add the judge at the entrance of a stream. A foreign stream does not judge lateness."""
    if source.foreign:
        return node
    if isinstance(node, Source):
        return Sort(node.relation, node, 0)
    return with_inputs(node, [_entered(node.inputs[0], source)])
