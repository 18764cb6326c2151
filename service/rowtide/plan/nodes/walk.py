"""Walking over plans."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from rowtide.plan.nodes.node import Node


def with_inputs(node: Node, inputs: Sequence[Node]) -> Node:
    """Return ``node`` reading ``inputs``; the node itself if it reads them already."""
    if all(new is old for new, old in zip(inputs, node.inputs, strict=True)):
        return node
    return node.reading(inputs)


def rewrite(node: Node, rule: Callable[[Node], Node]) -> Node:
    """Apply ``rule`` to every node, inputs first. A node that is read twice is rewritten once."""
    done: dict[int, Node] = {}

    def visit(each: Node) -> Node:
        if id(each) not in done:
            done[id(each)] = rule(with_inputs(each, [visit(one) for one in each.inputs]))
        return done[id(each)]

    return visit(node)


def nodes_below(node: Node) -> Iterator[Node]:
    """Yield ``node`` and all that it reads, each object once, readers before what they read."""
    seen: set[int] = set()
    pending = [node]
    while pending:
        each = pending.pop()
        if id(each) not in seen:
            seen.add(id(each))
            yield each
            pending += reversed(each.inputs)


def below_same_rowtime(node: Node) -> Node:
    """Return the first node, from ``node`` downwards, that does more than drop rows and change fields."""
    while node.keeps_rowtime:
        (node,) = node.inputs
    return node
