"""Succession: a changed plan continues at the positions of the old one.

Steps of the two plans are matched by what they do themselves, not by what they
read: a grouped view keeps its open groups when a view below it is replaced.
Matched steps keep their state, all others begin empty at this place of the log:
rows that a replaced step still held in a t-sort, group or join are not in the
new one. Rows that wait in a merge are never lost: they leave when it is left
with one input, and a change that would leave some without a port is refused.

A new reader of an engine table first receives the table's current contents. A
model that is replaced does not know the rows that the old one left in its
tables: they leave as DELETEs, so that every reader sees the change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from rowtide.errors import StatementError
from rowtide.flow.program import Port, Program, Step
from rowtide.operators.contract import HoldsTable, Operator, State
from rowtide.operators.merge.merge import PROMISED, queue_of
from rowtide.plan.nodes import KeyedTable, Merge, Model, Node, Sort, below_same_rowtime
from rowtide.rows.rowop import Opcode
from rowtide.rows.tray import ORIGIN, Tray
from rowtide.rowtime.bound import LATEST, NO_BOUND, UNMARKED, Bound

StepSignature = tuple[object, ...]
ORIGIN_COLUMNS = (ORIGIN, "origin")
"""Columns of snapshots that hold origins: of rows, and of bounds."""


@dataclass(frozen=True, slots=True)
class Released:
    """Rows that a merge held until only one of its inputs was left.

    ``outputs`` are the names of the merge's outputs, ``ports`` its readers, which now read
    ``position``, the input.
    """

    tray: Tray
    outputs: tuple[str, ...]
    ports: tuple[Port, ...]
    position: int


class Succession:
    """The steps of ``older`` that correspond to steps of ``newer``, by position."""

    def __init__(self, older: Program, newer: Program) -> None:
        self._older = older
        self._newer = newer
        waiting: dict[StepSignature, list[int]] = {}
        for at, step in enumerate(older.steps):
            waiting.setdefault(_signature(step), []).append(at)
        self.matched: dict[int, int] = {}
        for at, step in enumerate(newer.steps):
            same = waiting.get(_signature(step))
            if same:
                self.matched[at] = same.pop(0)
        self.emptied = {at for at in self.matched if self._is_of_replaced_model(newer.steps[at].node)}
        """Tables of replaced models: their rows leave."""
        self._origins = {
            older.steps[before].place.origin: newer.steps[at].place.origin
            for at, before in self.matched.items()
        }

    def state(self, at: int, operator: Operator) -> State:
        """Return the state of matched step ``at`` from the operator that it had in the older plan.

        Raises:
          StatementError: rows wait in a merge for a port that no longer exists.
        """
        state = operator.snapshot()
        if isinstance(self._newer.steps[at].node, Merge):
            state = self._ports_moved(at, state)
        return {name: self._origins_moved(table) for name, table in state.items()}

    def bound(self, bound: Bound) -> Bound:
        """Convert a bound to the newer plan, in which origins have other numbers.

        A mark of a removed origin means nothing there, and its number may belong to another origin.
        """
        if bound.origin in self._origins:
            return Bound(bound.rowtime, self._origins[bound.origin], bound.counter)
        return Bound(bound.rowtime)

    def released(self, operators: Mapping[int, Operator | None]) -> list[Released]:
        """Return the rows that waited in merges of which only one input is left.

        Raises:
          StatementError: rows wait in a merge for a removed input, or come from it.
        """
        found = []
        kept = set(self.matched.values())
        newer = {before: at for at, before in self.matched.items()}
        for at, operator in operators.items():
            step = self._older.steps[at]
            if operator is None or at in kept or not isinstance(step.node, Merge) or not operator.held():
                continue
            state = operator.snapshot()
            inputs = dict(_inputs(self._older, at))
            held = [port for port in inputs if len(state[queue_of(port)])]
            if len(held) != 1 or inputs[held[0]] not in newer:
                raise _waiting(step)
            rows = self._origins_moved(state[queue_of(held[0])])
            position = newer[inputs[held[0]]]
            readers = {newer.get(target) for target, _ in step.targets}
            names = tuple(name for name, place in self._older.outputs.items() if place == at)
            ports = tuple(port for port in self._newer.steps[position].targets if port[0] in readers)
            stands_for_it = any(self._newer.outputs.get(name) == position for name in names)
            if not stands_for_it and not ports:
                # The remaining input is another one: the rows came from a removed input.
                raise _waiting(step)
            found.append(Released(Tray.from_arrow(step.node.row_type, rows), names, ports, position))
        return found

    def unmatched(self) -> Iterator[int]:
        """Return the steps that are new, in the order of the program."""
        return (at for at in range(len(self._newer.steps)) if at not in self.matched)

    def replaced_judge(self, at: int) -> int | None:
        """Return the older step that judged the same relation's rows, if ``at`` is a new judge."""
        step = self._newer.steps[at]
        if not isinstance(step.node, Sort):
            return None
        for position, before in self._older.sorts():
            if before.node.relation == step.node.relation and before.partition == step.partition:
                return position
        return None

    def _is_of_replaced_model(self, node: Node) -> bool:
        """Return whether a step is a table of a model that has been replaced."""
        if not isinstance(node, KeyedTable):
            return False
        behind = below_same_rowtime(node.input)
        if not isinstance(behind, Model) or not node.relation.startswith(f"{behind.relation}."):
            return False
        return not any(at in self.matched for at in self._newer.positions(behind))

    def _ports_moved(self, at: int, state: State) -> State:
        """Return the state of a merge, with the rows of each port moved to the port that reads its input now.

        If inputs were replaced, for example by a stopped pump, and their number is the same, a port
        keeps its rows.
        """
        before = self.matched[at]
        # Several ports may read one input, as in a stream's union with itself.
        left: dict[int, list[int]] = {}
        for port, position in _inputs(self._older, before):
            left.setdefault(position, []).append(port)
        inputs = _inputs(self._newer, at)
        count = sum(map(len, left.values()))
        ports = [
            held.pop(0) if (held := left.get(self.matched.get(position, -1))) else None
            for _, position in inputs
        ]
        replaced = {port for held in left.values() for port in held}
        if len(ports) == count:
            ports = [
                port if source is None and port in replaced else source for port, source in enumerate(ports)
            ]
            replaced.difference_update(port for port in ports if port is not None)
        if any(len(state[queue_of(port)]) for port in replaced):
            raise _waiting(self._older.steps[before])
        empty = state[queue_of(0)].slice(0, 0)
        bounds = state["bounds"]
        no_bound = _no_bound(bounds)
        moved = {
            queue_of(port): empty if source is None else state[queue_of(source)]
            for port, source in enumerate(ports)
        }
        rows = [no_bound if source is None else bounds.slice(source, 1) for source in ports]
        kept = {name: state[name] for name in ("account", PROMISED)}
        return {**kept, "bounds": pa.concat_tables(rows), **moved}

    def _origins_moved(self, table: pa.Table) -> pa.Table:
        for name in ORIGIN_COLUMNS:
            if name in table.column_names:
                column = table.column(name)
                moved = [self._origin_moved(origin, name) for origin in column.to_pylist()]
                place = table.column_names.index(name)
                table = table.set_column(place, name, pa.array(moved, type=column.type))
        return table

    def _origin_moved(self, origin: int, column: str) -> int:
        """Return the new number of an origin. Rows keep a removed one, the mark of a bound becomes None."""
        return self._origins.get(origin, origin if column == ORIGIN else UNMARKED)


def contents_read_by_new(
    newer: Program, succession: Succession, operators: Mapping[int, Operator | None]
) -> Iterator[tuple[int, int, Tray]]:
    """Yield position and port of each new reader of an existing table, and the contents of the table."""
    for at, operator in operators.items():
        if at in succession.matched and isinstance(operator, HoldsTable):
            held = operator.contents()
            in_time = held.take(np.lexsort((held.counter, held.origin, held.rowtime)))
            for target, port in newer.steps[at].targets:
                if target not in succession.matched:
                    yield target, port, in_time


def left_by_replaced_models(
    newer: Program,
    succession: Succession,
    operators: Mapping[int, Operator | None],
    bounds: Mapping[int, Bound],
) -> Iterator[tuple[int, Tray]]:
    """Yield the position of each table of a replaced model, and DELETEs of its rows.

    They come after the table's bound: ``bounds`` are those of the steps.
    """
    for at in sorted(succession.emptied):
        step, operator = newer.steps[at], operators[at]
        if not isinstance(operator, HoldsTable):
            continue
        held = operator.contents()
        if not len(held):
            continue
        rowtime, last = bounds[at].rowtime, int(held.rowtime.max())
        bound = bounds[at] if last <= rowtime < LATEST else Bound(last, *_last_mark(held, last))
        origin = step.origins[0] if bound.origin == UNMARKED else bound.origin
        count = len(held)
        yield (
            at,
            Tray(
                held.row_type,
                held.columns,
                np.full(count, bound.rowtime, dtype=np.int64),
                np.full(count, origin, dtype=np.int32),
                np.arange(bound.counter + 1, bound.counter + 1 + count, dtype=np.int64),
                np.full(count, Opcode.DELETE, dtype=np.int8),
            ),
        )


def _last_mark(held: Tray, rowtime: int) -> tuple[int, int]:
    """Return origin and counter of the last of the rows at ``rowtime``."""
    at = np.flatnonzero(held.rowtime == rowtime)
    last = at[np.lexsort((held.counter[at], held.origin[at]))[-1]]
    return int(held.origin[last]), int(held.counter[last])


def inputs_of_new(newer: Program, succession: Succession) -> Iterator[tuple[int, int, int]]:
    """Yield position, port and input of each port of a new step whose input existed before."""
    for at in succession.unmatched():
        for port, position in _inputs(newer, at):
            if position in succession.matched:
                yield at, port, position


def _inputs(program: Program, at: int) -> list[tuple[int, int]]:
    """Return the ports of a step, and the step that each reads, in order of the ports."""
    return sorted(
        (port, position)
        for position, step in enumerate(program.steps)
        for target, port in step.targets
        if target == at
    )


def _signature(step: Step) -> StepSignature:
    """Return the definition of a step without its inputs."""
    return (*step.node.signature(), step.partition)


def _no_bound(bounds: pa.Table) -> pa.Table:
    values = {"rowtime": NO_BOUND.rowtime, "origin": NO_BOUND.origin, "counter": NO_BOUND.counter}
    return pa.table({name: [value] for name, value in values.items()}).cast(bounds.schema)


def _waiting(step: Step) -> StatementError:
    return StatementError(
        f'rows still wait in the merge of "{step.node.relation}" for what is taken away',
        hint="They leave when the rowtime bounds of its other inputs have passed them.",
    )
