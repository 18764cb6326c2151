"""What a run begins from: the state that the live flow, or an earlier run, has left at the first offsets.

The snapshot is that of a commit. Operators continue from it: each part of a
segment from the state of its keys, each partition of a source from its own.
Rows that wait in merges are rows again, before all others of their port.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from rowtide.checkpoint.parts.gathered import kept_of
from rowtide.checkpoint.parts.kept import KeptPart, parts_in
from rowtide.checkpoint.snapshot import PARTS
from rowtide.flow.circuit import Circuit
from rowtide.flow.flow import bounds_of
from rowtide.flow.program import Port, Program
from rowtide.flow.segments import Segment
from rowtide.operators.contract import Account, Operator, State
from rowtide.operators.merge.merge import queue_of
from rowtide.operators.registry import split
from rowtide.plan.nodes import Merge
from rowtide.rows.tray import Tray
from rowtide.rows.types import RowType
from rowtide.rowtime.bound import NO_BOUND, Bound
from rowtide.runners.spark.parts.elsewhere import StateElsewhere
from rowtide.runners.spark.parts.keeping import Begins, PartKeeper
from rowtide.runners.spark.shuffle.runs import BLOCK_ROWS, Numbered, numbered
from rowtide.runners.spark.stage import steps_behind

Snapshot = Mapping[str, State]
"""The snapshot of a flow, by the key of each step."""


@dataclass(frozen=True, slots=True)
class Beginning:
    """What a run begins from, and where its tasks keep state in parts.

    ``snapshot`` is that of a flow of the same definition, which the run continues; None: the first state. Without a
    ``keeper`` all state goes to the driver.
    """

    snapshot: Snapshot | None = None
    keeper: PartKeeper | None = None


class Start:
    """The state that a run of a program begins from; None: the first state.

    Args:
      program: the program.
      beginning: the snapshot.
    """

    def __init__(self, program: Program, beginning: Beginning) -> None:
        self._program = program
        snapshot = beginning.snapshot
        if snapshot is not None and beginning.keeper is not None:
            snapshot = kept_of(snapshot)
        self.snapshot = snapshot
        self.waiting: dict[Port, pa.Table] = {}
        """The rows that wait at ports of merges, where they are here."""
        self.kept_waiting: dict[Port, list[KeptPart]] = {}
        """The parts of the rows that wait at ports of merges, where they are kept in parts."""
        self.promised: dict[tuple[str, int], Bound] = {}
        """The explicit bounds of the sources' partitions."""
        self._states: dict[int, State] = {}
        self._bounds: dict[int, Bound] = {}
        if snapshot is None:
            return
        given, explicit = bounds_of(snapshot, "given"), bounds_of(snapshot, "bounds")
        entered = {at: place for place, at in program.entrances.items()}
        for at, step in enumerate(program.steps):
            if step.key in snapshot:
                self._states[at] = self._apart(at, snapshot[step.key])
            self._bounds[at] = given.get(step.key, NO_BOUND)
            if at in entered and explicit.get(step.key, NO_BOUND) != NO_BOUND:
                self.promised[entered[at]] = explicit[step.key]

    def __bool__(self) -> bool:
        """Return whether there is an earlier state."""
        return self.snapshot is not None

    def circuit(self, segment: Segment) -> Circuit:
        """Return the circuit of a segment in this state, without the rows that wait in its merge."""
        circuit = Circuit(self._program, segment.steps)
        for at, operator in list(circuit.operators.items()):
            if operator is not None and at in self._states:
                circuit.operators[at] = self._restored(at, operator)
        circuit.bounds |= {at: self._bounds[at] for at in segment.steps if at in self._bounds}
        return circuit

    def _restored(self, at: int, operator: Operator) -> Operator:
        state = self._states[at]
        found = StateElsewhere(self._program.steps[at].node, operator) if PARTS in state else operator
        found.restore(state)
        return found

    def rows_out(self, at: int) -> int:
        """Return the number of rows that the operator of a step has given before."""
        return Account.from_arrow(self._states[at]["account"]).rows_out if at in self._states else 0

    def state(self, at: int) -> State:
        """Return the state of a step."""
        return self._states[at]

    def waiting_rows(self, at: int) -> int:
        """Return the number of rows that wait at a merge."""
        here = sum(len(rows) for (merge, _), rows in self.waiting.items() if merge == at)
        kept = (each for (merge, _), parts in self.kept_waiting.items() if merge == at for each in parts)
        return here + sum(each.facts.held for each in kept)

    def bound(self, at: int) -> Bound:
        """Return the last bound of a step."""
        return self._bounds.get(at, NO_BOUND)

    def parts_of(self, at: int) -> list[KeptPart]:
        """Return the parts in which the state of a step is kept; none: it is here, or is the first state."""
        return parts_in(self._states[at]) if at in self._states else []

    def parts(self, segment: Segment, parts: int) -> list[bytes]:
        """Return the states that tasks with some keys each begin with, for one: with all. Empty: the first state."""
        if not self:
            return []
        apart = self._split(segment, parts)
        return [pickle.dumps({at: states[part] for at, states in apart.items()}) for part in range(parts)]

    def begins(self, segment: Segment, parts: int) -> list[bytes]:
        """Return what tasks begin with that keep state in parts: each gets the names of all parts of the state."""
        kept = {at: found for at in segment.steps if (found := self.parts_of(at))}
        apart = self._split(segment, parts)
        return [
            pickle.dumps(Begins(part, parts, {**kept, **{at: states[part] for at, states in apart.items()}}))
            for part in range(parts)
        ]

    def _split(self, segment: Segment, parts: int) -> dict[int, Sequence[State]]:
        """Return the states of a segment that are here, by step and part, without that of the merge at its entry."""
        merge = segment.entries[:1] if segment.is_merge(self._program) else ()
        return {
            at: split(self._program.steps[at].node, self._states[at], parts)
            for at in segment.steps
            if at in self._states and at not in merge and PARTS not in self._states[at]
        }

    def partitions(self, segment: Segment, *, is_kept: bool) -> dict[int, bytes]:
        """Return the states behind each entrance of a source, for the task that reads it.

        ``is_kept``: the task keeps state in parts, and reads it.
        """
        found = {}
        for entry in segment.entries if self else ():
            behind = steps_behind(self._program, entry, frozenset(segment.steps))
            if states := {at: self._states[at] for at in sorted(behind) if at in self._states}:
                left = {at: self.parts_of(at) or state for at, state in states.items()}
                found[entry] = pickle.dumps(Begins(0, 1, left) if is_kept else left)
        return found

    def _apart(self, at: int, state: State) -> State:
        """Return the state of a step, of a merge without the rows that wait in it."""
        if not isinstance(self._program.steps[at].node, Merge):
            return state
        found, held = {name: table for name, table in state.items() if name != PARTS}, 0
        parts = parts_in(state)
        for port in range(len(self._program.steps[at].place.port_origins)):
            queue = queue_of(port)
            rows = state[queue]
            if len(rows):
                self.waiting[at, port] = rows
                held += len(rows)
                found[queue] = rows.slice(0, 0)
            if kept := [each for each in parts if each.tables[0].name == queue]:
                self.kept_waiting[at, port] = kept
                held += sum(each.facts.held for each in kept)
        account = Account.from_arrow(state["account"])
        found["account"] = replace(account, rows_in=account.rows_in - held).to_arrow()
        return found


def rows_of(table: pa.Table, row_type: RowType) -> Iterator[Numbered]:
    """Yield the rows that wait at a port, some at a time: those of one place are numbered together."""
    left = Tray.empty(row_type)
    for batch in table.to_batches(max_chunksize=BLOCK_ROWS):
        rows = Tray.concat([left, Tray.from_arrow(row_type, pa.Table.from_batches([batch]))])
        is_last = (
            (rows.rowtime == rows.rowtime[-1])
            & (rows.origin == rows.origin[-1])
            & (rows.counter == rows.counter[-1])
        )
        start = len(rows) - int(np.argmin(is_last[::-1])) if not is_last.all() else 0
        if start:
            yield numbered(rows.slice(0, start), None)
        left = rows.slice(start, len(rows))
    if len(left):
        yield numbered(left, None)
