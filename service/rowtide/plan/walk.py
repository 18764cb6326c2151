"""Walking over plans: the same node with other inputs, and rewriting from the inputs up."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from rowtide.plan.models import Model
from rowtide.plan.nodes import (
    AsOfJoin,
    Filter,
    GroupByHop,
    GroupByPeriod,
    GroupBySession,
    GroupChanges,
    KeyedTable,
    Merge,
    Node,
    Project,
    Promote,
    Sort,
    SortInPeriod,
    Source,
    TableSource,
    WindowAggregate,
    WindowJoin,
    WindowsAbreast,
)
from rowtide.plan.table_join import TableJoin
from rowtide.plan.top_changes import TopChanges


def with_inputs(node: Node, inputs: Sequence[Node]) -> Node:
    """Give ``node`` reading ``inputs``; the node itself if they are the ones it reads."""
    if all(new is old for new, old in zip(inputs, node.inputs, strict=True)):
        return node
    match node:
        case Source() | TableSource():
            return node
        case Filter() | Project() | Promote() | Sort() | SortInPeriod() | KeyedTable():
            return replace(node, input=inputs[0])
        case GroupByPeriod() | GroupByHop() | GroupBySession() | GroupChanges() | WindowAggregate() | Model():
            return replace(node, input=inputs[0])
        case TableJoin() | TopChanges() | WindowsAbreast():
            return replace(node, input=inputs[0])
        case Merge():
            return replace(node, sources=tuple(inputs))
        case AsOfJoin():
            return replace(node, table=inputs[0], stream=inputs[1])
        case WindowJoin():
            return replace(node, left=inputs[0], right=inputs[1])


def rewrite(node: Node, rule: Callable[[Node], Node]) -> Node:
    """Apply ``rule`` to every node, inputs first; a node that is read twice is rewritten once."""
    done: dict[int, Node] = {}

    def visit(each: Node) -> Node:
        if id(each) not in done:
            done[id(each)] = rule(with_inputs(each, [visit(one) for one in each.inputs]))
        return done[id(each)]

    return visit(node)


def nodes_below(node: Node) -> Iterator[Node]:
    """Give ``node`` and all that it reads, each object once, readers before what they read."""
    seen: set[int] = set()
    pending = [node]
    while pending:
        each = pending.pop()
        if id(each) not in seen:
            seen.add(id(each))
            yield each
            pending += reversed(each.inputs)


def gives_changes(node: Node) -> bool:
    """Tell whether a DELETE may come of ``node`` that takes back what another row has told."""
    match node:
        case GroupChanges() | KeyedTable() | TableJoin() | TopChanges() | Model():
            return True
        case Filter() | Project() | Promote() | Sort() | Merge():
            return any(gives_changes(each) for each in node.inputs)
        case _:
            return False


def only_comes(node: Node) -> bool:
    """Tell whether it is certain that no DELETE comes of ``node``: it is of streams, whose rows stay."""
    match node:
        case GroupByPeriod() | GroupByHop() | GroupBySession() | WindowAggregate() | SortInPeriod():
            return True
        case AsOfJoin() | WindowJoin() | WindowsAbreast():
            return True
        case Sort(input=Source()) | Promote(input=Source()):
            return True
        case Filter() | Project() | Promote() | Sort() | Merge():
            return all(only_comes(each) for each in node.inputs)
        case _:
            return False


def merged(relation: str, pumped: Sequence[Node]) -> Merge:
    """Give the union of what pumps write to one stream or table, in the order in which they were made.

    Where any of it is changes, the order in which each pump tells them is kept (sql-decisions 14, 15).
    """
    return Merge(relation, tuple(pumped), of_changes=any(gives_changes(each) for each in pumped))
