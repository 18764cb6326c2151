"""Nodes with one input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from rowtide.plan.nodes.node import Node
from rowtide.rows.types import RowType


@dataclass(frozen=True, slots=True)
class OverOne(Node):
    """A node with one input."""

    relation: str
    input: Node

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The one input."""
        return (self.input,)

    def reading(self, inputs: Sequence[Node]) -> Self:
        """Return this node over another input."""
        return replace(self, input=inputs[0])


@dataclass(frozen=True, slots=True)
class SameFields(OverOne):
    """A node whose rows have the fields of its input."""

    @property
    def row_type(self) -> RowType:
        """That of the input."""
        return self.input.row_type


def newest_first(below: Node, keys: Sequence[tuple[int, bool]]) -> bool:
    """Return whether rows of ``below`` that are equal in all sort keys are sorted against their order of arrival.

    Those of a stream are if a key is ROWTIME and descends: order of arrival is the order within a ROWTIME.
    """
    descend = (index for index, descending in keys if descending)
    return not below.is_changelog() and any(map(below.holds_rowtime, descend))


def terms_of(row_type: RowType, keys: Sequence[tuple[int, bool]]) -> list[str]:
    """Return the terms of an order, for EXPLAIN; ``keys`` are fields, each with True if it descends."""
    return [row_type[index].name + (" DESC" if descending else "") for index, descending in keys]


def names_of(row_type: RowType, fields: Sequence[int]) -> str:
    """Return the names of some fields, for EXPLAIN."""
    return ", ".join(row_type[index].name for index in fields)
