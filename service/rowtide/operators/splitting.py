"""Splits the states of operators by key, as ``storage.key_parts`` splits their rows.

An operator's ``split`` names the tables of its state that have rows of a key. The first part takes over the account.
Each part gets all other tables, which hold for every key.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from rowtide.errors import FaultError
from rowtide.operators.contract import Account, State
from rowtide.operators.storage.key_parts import parts_of
from rowtide.plan.nodes import Node, PartitionKey
from rowtide.rows.arrays import Int64s
from rowtide.rows.column import Column
from rowtide.rows.types import RowType, Type

BEFORE = "before"
"""Output rows of the whole operator before it was split; 0 for one that is not a part."""


class Whole:
    """An operator that has no parts: its node declares no key."""

    @staticmethod
    def merge(states: Sequence[State]) -> State:
        (state,) = states
        return state

    @staticmethod
    def split(node: Node, state: State, parts: int) -> list[State]:
        del state, parts
        key_of(node)
        raise AssertionError(f"{type(node).__name__} declares a key")


def can_split(node: Node) -> bool:
    """Return whether the operator of a node runs in parts: its node declares a key, or is row-wise."""
    return node.is_row_wise or any(node.partition_key() or ())


def key_of(node: Node) -> PartitionKey:
    """Return the fields by which the operator of a node is split, input by input.

    Raises:
      FaultError: it has no parts.
    """
    key = node.partition_key()
    if key is None or not any(key):
        raise FaultError(f'the state of "{node.relation}" cannot be split: {type(node).__name__} has no key')
    return key


def parts_of_rows(row_type: RowType, table: pa.Table, fields: Iterable[int], parts: int) -> Int64s:
    """Return the part of each row of a table that has the fields of ``row_type`` by name."""
    found = (row_type[index] for index in fields)
    return parts_of([Column.from_arrow(each.type, table.column(each.name)) for each in found], parts)


def parts_of_keys(kinds: Sequence[Type], table: pa.Table, parts: int) -> Int64s:
    """Return the part of each row of a table with the columns ``key 0``, ``key 1`` and so on."""
    columns = [Column.from_arrow(kind, table.column(f"key {at}")) for at, kind in enumerate(kinds)]
    return parts_of(columns, parts)


def parts_of_groups(node: Node, groups: pa.Table, parts: int) -> Int64s:
    """Return the part of each group of a node with one input."""
    (key,) = key_of(node)
    return parts_of_keys([node.inputs[0].row_type[index].type for index in key], groups, parts)


def split_state(state: State, by_part: Mapping[str, Int64s], parts: int) -> list[dict[str, pa.Table]]:
    """Return the states of the parts. ``by_part`` has the part of each row of the tables that are split."""
    without = Account().to_arrow()
    return [
        {
            name: table.filter(pa.array(by_part[name] == part))
            if name in by_part
            else without
            if name == "account" and part
            else table
            for name, table in state.items()
        }
        for part in range(parts)
    ]


def split_clock(clock: pa.Table) -> pa.Table:
    """Return the clock of each part: it numbers its output rows after those of the whole operator."""
    given, at = clock.column("given"), clock.schema.get_field_index(BEFORE)
    return clock.set_column(at, BEFORE, given)


def merged_given(clocks: Sequence[Mapping[str, Any]]) -> int:
    """Return the number of output rows of parts and of the operator that was split into them, if there was one."""
    # Snapshots of older versions have no such column.
    before = [int(clock.get(BEFORE, 0)) for clock in clocks]
    return max(before) + sum(int(clock["given"]) for clock in clocks) - sum(before)
