"""The hash of a node goes through all nodes below it: each computes it once."""

from __future__ import annotations

import pickle

from rowtide.expr.tree import Literal
from rowtide.plan.nodes import Filter, Node, Source
from rowtide.rows.types import BOOLEAN, INTEGER, Field, RowType


class Name(str):
    """A name that counts how often its hash is computed."""

    __slots__ = ()
    asked = 0

    def __hash__(self) -> int:
        Name.asked += 1
        return super().__hash__()


def chain(length: int) -> list[Node]:
    """Return a source and filters, each over the one before."""
    found: list[Node] = [Source(Name("S"), RowType((Field("A", INTEGER),)))]
    for _ in range(length):
        found.append(Filter(Name("S"), found[-1], Literal(True, BOOLEAN)))
    return found


def test_each_node_of_a_chain_computes_its_hash_once() -> None:
    found = chain(60)
    Name.asked = 0
    for _ in range(3):
        assert len(set(found)) == 61
    assert Name.asked == 61


def test_equal_nodes_have_one_hash() -> None:
    assert set(chain(5)) == set(chain(5))
    assert len({hash(each) for each in chain(5)}) == 6


def test_a_hash_is_not_pickled() -> None:
    node = chain(3)[-1]
    before = pickle.dumps(node)
    found = hash(node)
    assert pickle.dumps(node) == before
    again = pickle.loads(before)
    assert again == node
    assert hash(again) == found
