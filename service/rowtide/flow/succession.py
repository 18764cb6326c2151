"""A changed plan goes on where the one before it stood.

Steps of the two plans are matched by what they do themselves, not by what they
read: a grouped view keeps its open groups when a view below it is replaced.
What is matched keeps its state, everything else begins empty at this place of
the log: rows that a replaced step still held in a t-sort, group or join are
not in the new one. Rows that wait in a merge are never lost: a change that
would leave some without a port is refused.

A new reader of an engine table is given the table's present contents first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, replace

import numpy as np
import pyarrow as pa

from rowtide.errors import StatementError
from rowtide.flow.program import Program, Step
from rowtide.operators.contract import Operator, State
from rowtide.operators.keyed_table import KeyedTableOperator
from rowtide.plan.nodes import AsOfJoin, Merge, Node, Sort, Source, TableSource
from rowtide.plan.walk import rewrite
from rowtide.rows.tray import ORIGIN, Tray
from rowtide.rows.types import RowType, Type
from rowtide.rowtime.bound import NO_BOUND

Signature = tuple[object, ...]
ORIGIN_COLUMNS = (ORIGIN, "origin")
"""Columns of snapshots that hold origins: of rows, and of bounds."""


class Succession:
    """Which steps of ``newer`` stand for which steps of ``older``, by position."""

    def __init__(self, older: Program, newer: Program) -> None:
        self._older = older
        self._newer = newer
        waiting: dict[Signature, list[int]] = {}
        for at, step in enumerate(older.steps):
            waiting.setdefault(_signature(step), []).append(at)
        self.matched: dict[int, int] = {}
        for at, step in enumerate(newer.steps):
            same = waiting.get(_signature(step))
            if same:
                self.matched[at] = same.pop(0)
        self._origins = {
            older.steps[before].place.origin: newer.steps[at].place.origin
            for at, before in self.matched.items()
        }

    def state(self, at: int, operator: Operator) -> State:
        """Give the state of matched step ``at`` from the operator that it had in the older plan.

        Raises:
          StatementError: if rows wait in a merge for a port that is no longer there.
        """
        state = operator.snapshot()
        if isinstance(self._newer.steps[at].node, Merge):
            state = self._ports_moved(at, state)
        return {name: self._origins_moved(table) for name, table in state.items()}

    def check_merges(self, operators: Mapping[int, Operator | None]) -> None:
        """Check that no merge that is gone still holds rows.

        Raises:
          StatementError: naming its relation.
        """
        kept = set(self.matched.values())
        for at, operator in operators.items():
            step = self._older.steps[at]
            if operator is not None and at not in kept and isinstance(step.node, Merge) and operator.held():
                raise _waiting(step)

    def unmatched(self) -> Iterator[int]:
        """Give the steps that are new, in the order of the program."""
        return (at for at in range(len(self._newer.steps)) if at not in self.matched)

    def replaced_judge(self, at: int) -> int | None:
        """Give the older step that judged the same relation's rows, where ``at`` is a new judge."""
        step = self._newer.steps[at]
        if not isinstance(step.node, Sort):
            return None
        for position, before in self._older.sorts():
            if before.node.relation == step.node.relation and before.partition == step.partition:
                return position
        return None

    def _ports_moved(self, at: int, state: State) -> State:
        before = self.matched[at]
        old_ports = {position: port for port, position in _inputs(self._older, before)}
        ports = [
            old_ports.pop(self.matched.get(position, -1), None) for _, position in _inputs(self._newer, at)
        ]
        if any(len(state[f"queue {port}"]) for port in old_ports.values()):
            raise _waiting(self._older.steps[before])
        empty = state["queue 0"].slice(0, 0)
        bounds = state["bounds"]
        no_bound = _no_bound(bounds)
        moved = {
            f"queue {port}": empty if source is None else state[f"queue {source}"]
            for port, source in enumerate(ports)
        }
        rows = [no_bound if source is None else bounds.slice(source, 1) for source in ports]
        return {"account": state["account"], "bounds": pa.concat_tables(rows), **moved}

    def _origins_moved(self, table: pa.Table) -> pa.Table:
        for name in ORIGIN_COLUMNS:
            if name in table.column_names:
                column = table.column(name)
                moved = [self._origins.get(origin, origin) for origin in column.to_pylist()]
                place = table.column_names.index(name)
                table = table.set_column(place, name, pa.array(moved, type=column.type))
        return table


def contents_read_by_new(
    newer: Program, succession: Succession, operators: Mapping[int, Operator | None]
) -> Iterator[tuple[int, int, Tray]]:
    """Give position and port of each new step that reads a table that was there, and what it holds."""
    for at, operator in operators.items():
        if at in succession.matched and isinstance(operator, KeyedTableOperator):
            held = operator.contents()
            in_time = held.take(np.lexsort((held.counter, held.origin, held.rowtime)))
            for target, port in newer.steps[at].targets:
                if target not in succession.matched:
                    yield target, port, in_time


def inputs_of_new(newer: Program, succession: Succession) -> Iterator[tuple[int, int, int]]:
    """Give position, port and input of each port of a new step whose input was there before."""
    for at in succession.unmatched():
        for port, position in _inputs(newer, at):
            if position in succession.matched:
                yield at, port, position


def _inputs(program: Program, at: int) -> list[tuple[int, int]]:
    """Give the ports of a step, and the step that each reads, in order of the ports."""
    return sorted(
        (port, position)
        for position, step in enumerate(program.steps)
        for target, port in step.targets
        if target == at
    )


def _signature(step: Step) -> Signature:
    """Give what a step does itself: everything of its node but what it reads, of that only the row types."""
    node = step.node
    match node:
        case Source() | TableSource():
            return (_plain(node), step.partition)
        case AsOfJoin(table=table):
            # Its state is an image of the table: it holds for this very table only.
            own: tuple[object, ...] = (rewrite(table, _plain),)
        case _:
            own = ()
    own += tuple(
        (field.name, getattr(node, field.name))
        for field in fields(node)
        if field.name not in ("input", "sources", "table", "stream", "row_type")
    )
    types = tuple(_types(each.row_type) for each in (node, *node.inputs))
    return (type(node), own, types, step.partition)


def _types(row_type: RowType) -> tuple[Type, ...]:
    """Give what the state depends on: neither names nor whether a column can be NULL."""
    return tuple(column.type for column in row_type)


def _plain(node: Node) -> Node:
    """Leave out of a table's source what its INSERT statements say: more of them are no other table."""
    return replace(node, rows=(), loaded_once=False) if isinstance(node, TableSource) else node


def _no_bound(bounds: pa.Table) -> pa.Table:
    values = {"rowtime": NO_BOUND.rowtime, "origin": NO_BOUND.origin, "counter": NO_BOUND.counter}
    return pa.table({name: [value] for name, value in values.items()}).cast(bounds.schema)


def _waiting(step: Step) -> StatementError:
    return StatementError(
        f'rows still wait in the merge of "{step.node.relation}" for what is taken away',
        hint="They leave when the rowtime bounds of its other inputs have passed them.",
    )
