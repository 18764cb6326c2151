"""Snapshots of tables: the state of a table as plain values.

A table that is restored from a snapshot behaves exactly like the original: it has
the same rows, the same order of rows and groups in every index, and the same
aggregator states.
"""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any, NamedTuple

from rowtide.engine.errors import TableError
from rowtide.engine.table.handle import RowHandle
from rowtide.engine.table.tree import Group, Groups, Node

if TYPE_CHECKING:
    from rowtide.engine.table.table import Table


class TableState(NamedTuple):
    """The state of a table.

    ``rows`` are plain tuples, in order of insertion. ``groups`` has the order of the groups: for each
    group, outer ones first, the path of its index and the position in ``rows`` of one of its rows.
    ``aggregates`` has the state for each aggregator and group; the group is again identified by the
    position of a row, -1 for the group of all rows.
    """

    rows: list[tuple[Any, ...]]
    groups: list[tuple[tuple[str, ...], int]]
    aggregates: list[tuple[str, int, Any]]


def snapshot_table(table: Table) -> TableState:
    """Return the state of a table, without changing it.

    Raises:
      TableError: if the table is broken or being changed.
    """
    if table._barred is not None:
        raise TableError(table.name, "cannot be saved: it is broken or being changed")
    handles = sorted(table.handles(), key=lambda handle: handle.number)
    places = {handle: place for place, handle in enumerate(handles)}
    state = TableState([tuple(handle.row) for handle in handles], [], [])
    _save_group(table._top, -1, places, state)
    return state


def _save_group(group: Group, place: int, places: dict[RowHandle, int], state: TableState) -> None:
    for node, held in zip(group.nodes, group.states, strict=True):
        if node.index_type.aggregator is not None:
            aggregator = node.index_type.aggregator
            state.aggregates.append((aggregator.name, place, deepcopy(aggregator.save_state(held))))
    for index in group.indexes:
        if isinstance(index, Groups):
            for inner in index.in_order():
                first = inner.indexes[0].first()
                assert first is not None
                state.groups.append((index.node.path, places[first]))
                _save_group(inner, places[first], places, state)


def restore_table(table: Table, state: TableState) -> None:
    """Restore, in an empty table, the state of a table of an equal type; no rowops are sent.

    Raises:
      TableError: if the table is not empty, or is broken.
      ModelError, FieldValueError: if the rows do not fit its row type.
    """
    if len(table) or table._barred is not None:
        raise TableError(table.name, "can only be restored while it is empty and not broken")
    rows = [table.row_type.adopt(row) for row in state.rows]
    for path, place in state.groups:
        node = table.type.node(*path)
        index = node.locate(table._top, rows[place])
        assert isinstance(index, Groups)
        index.open(node.key_of(rows[place]))
    for row in rows:
        handle = RowHandle(table, row)
        table._changes += 1
        handle.number = table._changes
        for top in table._indexes:
            top.add(handle)
    table._size = len(rows)
    carriers = {
        node.index_type.aggregator.name: node for node in table.type.walk() if node.index_type.aggregator
    }
    for name, place, held in state.aggregates:
        node = carriers[name]
        assert node.index_type.aggregator is not None
        group = table._top if place < 0 else _group_above(table, node, rows[place])
        group.states[node.position] = node.index_type.aggregator.load_state(deepcopy(held))


def _group_above(table: Table, node: Node, row: Any) -> Group:
    assert node.parent is not None
    groups = node.parent.locate(table._top, row)
    assert isinstance(groups, Groups)
    group: Group = groups.groups.get(node.parent.key_of(row))
    return group
