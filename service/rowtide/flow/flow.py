"""The dataflow as a pure step function: rows and bounds in, rows and faults out.

``insert`` and ``bound`` only record the input; ``drain`` processes it. The
output depends only on the input of each partition: not on how it was cut into
trays, nor on how partitions were interleaved.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from rowtide.errors import BoundRegressionError
from rowtide.flow.circuit import Arrival, Circuit, Passed
from rowtide.flow.counts import Counts
from rowtide.flow.gates import Gates, Target
from rowtide.flow.image import FlowImage, WaitingRows
from rowtide.flow.meetings import Meetings
from rowtide.flow.program import Program, Step
from rowtide.flow.succession import (
    Released,
    Succession,
    contents_read_by_new,
    inputs_of_new,
    left_by_replaced_models,
)
from rowtide.flow.table_changes import (
    LastStatement,
    changeable,
    changed_tables,
    earliest_change,
    end_of,
    initial,
    placed,
)
from rowtide.flow.why_not import Enquiry, Silence
from rowtide.operators.contract import (
    PARTITION_BITS,
    Fault,
    HoldsTable,
    HoldsTables,
    Jumping,
    Meeting,
    Operator,
    State,
)
from rowtide.operators.merge.merge import MergeOperator
from rowtide.operators.sort.sort import TAKEN, BoundGiver, SortOperator
from rowtide.plan.nodes import Node, Sort, TableSource
from rowtide.rows.tray import Tray
from rowtide.rows.types import RowType
from rowtide.rowtime.bound import EARLIEST, LATEST, NO_BOUND, Bound

ENTRANCES = "entrances"
"""The key of a snapshot under which the bounds of the sources are kept."""


@dataclass(slots=True)
class Emitted:
    """The result of one ``drain``: trays by output name, in order, and the faults of all relations."""

    outputs: dict[str, list[Tray]]
    faults: list[Fault] = field(default_factory=list)


class _Entrance:
    """The entrance of rows of one partition of a source, or of an engine table."""

    def __init__(self) -> None:
        self.pending: list[Arrival] = []
        self.bound = NO_BOUND


class Flow:
    """The operators of a plan, wired. Owned by one thread.

    Args:
      outputs: the nodes of the outputs by name, for example of the pumps.
      partitions: the partitions of each source relation at the start. One without a row or bound
        holds the stream back. A relation that is not named has partition 0.
      targets: for partitions of resubmitted rows, the relation that had refused them.
    """

    def __init__(
        self,
        outputs: Mapping[str, Node],
        partitions: Mapping[str, Sequence[int]],
        targets: Mapping[tuple[str, int], Target] | None = None,
    ) -> None:
        self._outputs = dict(outputs)
        self._targets = dict(targets or {})
        self._program = Program(outputs, partitions)
        self._gates = Gates(self._program, self._targets)
        self._circuit = Circuit(self._program, gates=self._gates)
        self._entrances = {at: _Entrance() for at in self._program.entrances.values()}
        self._turns: list[dict[int, list[Arrival]]] = []
        self._promised: dict[tuple[str, int], int] = {}
        self.last_statement = LastStatement()
        self._before: dict[str, list[Tray]] = {}
        self._row_types = {name: node.row_type for name, node in outputs.items()}
        for at, entrance in self._entrances.items():
            node = self._program.steps[at].node
            if isinstance(node, TableSource):
                entrance.pending.append(initial(node, self._program.steps[at]))

    def origin(self, relation: str, partition: int) -> int:
        """Return the origin of rows of this source partition.

        Raises:
          KeyError: the flow has no such entrance.
        """
        return self._program.steps[self._program.entrances[relation, partition]].place.origin

    def source_of(self, origin: int) -> tuple[str, int] | None:
        """Return the source relation and partition of an origin; None if an operator made the row."""
        partition = origin & ((1 << PARTITION_BITS) - 1)
        for (relation, number), at in self._program.entrances.items():
            if number == partition and self._program.steps[at].place.origin == origin:
                return relation, number
        return None

    def reads(self, relation: str) -> bool:
        """Return whether the flow has entrances for this source relation."""
        return any(name == relation for name, _ in self._program.entrances)

    def row_type(self, relation: str) -> RowType:
        """Return the row type of an output or of a source relation."""
        found = self._row_types.get(relation)
        return self.source_type(relation) if found is None else found

    def source_type(self, relation: str) -> RowType:
        """Return the row type in which rows of a source relation enter."""
        at = next(at for (name, _), at in self._program.entrances.items() if name == relation)
        return self._program.steps[at].node.row_type

    def insert(self, relation: str, partition: int, tray: Tray) -> None:
        """Add rows in log order. The next ``drain`` processes them."""
        entrance = self._entrances[self._program.entrances[relation, partition]]
        entrance.pending.append((0, tray, entrance.bound))

    def earliest_change(self, relations: Collection[str]) -> int:
        """Return the rowtime (ms) at which a statement can change engine tables; see ``flow.table_changes``.

        Raises:
          StatementError: statements cannot change one of them.
        """
        entrances = [changeable(self._program, relation) for relation in relations]
        return earliest_change(self._program, self._circuit.operators, entrances, self.last_statement)

    def change_tables(self, statement: LastStatement, changes: Mapping[str, Tray]) -> None:
        """Apply the changes of a statement to engine tables; those that nothing reads here are left out.

        ``statement`` follows the last one. The next ``drain`` processes them.
        """
        for relation, change in changes.items():
            at = self._program.entrances.get((relation, 0))
            if at is not None and len(change):
                origin = self._program.steps[at].place.origin
                self._entrances[at].pending.append((0, placed(change, origin, statement), Bound(LATEST)))
        self.last_statement = statement

    def bound(self, relation: str, partition: int, bound: Bound) -> None:
        """Set an explicit rowtime bound of a source's partition, or of a relation that judges lateness.

        Raises:
          BoundRegressionError: an earlier explicit bound promised more; nothing has changed.
          KeyError: no such relation or partition.
        """
        held = self._promised.get((relation, partition), EARLIEST)
        if bound.rowtime < held:
            raise BoundRegressionError(relation, partition, held=held, offered=bound.rowtime)
        at = self._program.entrances.get((relation, partition))
        if at is None:
            at = next(
                position
                for position, step in self._program.sorts()
                if step.node.relation == relation and step.partition in (None, partition)
            )
            self._entrances.setdefault(at, _Entrance())
            # It judges later rows, not those that are already on their way to the judge.
            self._close_turn()
        self._promised[relation, partition] = bound.rowtime
        entrance = self._entrances[at]
        entrance.bound = entrance.bound.raised(bound)
        entrance.pending.append((0, None, entrance.bound))

    def promise(self, judge: str, bound: Bound) -> None:
        """Set the least rowtime that one judge of lateness accepts. ``judge`` is a name from ``judges``.

        Unlike ``bound`` it is not an explicit bound of the partition, which may later set a lower one. A
        judge of an earlier plan may no longer exist.
        """
        for at, step in self._program.sorts():
            if step.key == judge:
                self._prime(at, (0, None, bound))

    def follow(self, relation: str, partition: int, bound: Bound) -> None:
        """Let an idle partition take a bound, in the clock of the first judges of its rows.

        Unlike ``bound`` it is not an explicit bound of the partition: a bound record may set a lower
        one, and later rows that go only to keyed tables are not late but take effect at the bound.
        """
        # It judges later rows, not those that are already on their way to the judge.
        self._close_turn()
        for at in self._program.first_judges(self._program.entrances[relation, partition]):
            self._prime(at, (TAKEN, None, bound))

    def met(self, idle: Collection[str]) -> dict[tuple[str, int], int]:
        """Return the bounds that partitions of ``idle`` streams take from the streams that meet them (ms)."""
        return self.meetings().taken(idle)

    def meetings(self) -> Meetings:
        """Return where streams meet now. Everything must have been drained."""
        return Meetings(self._program, self._circuit.bounds, self.enquiry())

    def revived(self) -> dict[str, int]:
        """Return, by source relation, the rows that took effect at the bound of an idle partition."""
        found: dict[str, int] = {}
        for (relation, _), at in self._program.entrances.items():
            for judge in self._program.first_judges(at):
                operator = self._circuit.operators[judge]
                if isinstance(operator, SortOperator) and operator.revived:
                    found[relation] = found.get(relation, 0) + operator.revived
        return found

    def judges(self, relation: str, partition: int) -> dict[str, int]:
        """Return the judges of a source partition's lateness, with the bound that it takes there when it joins.

        It is the least bound of the other partitions (ms), EARLIEST if one of them has none. Rows at that bound of the
        partition that has it may be out. So a partition that comes before it in the order of rows with equal rowtime
        takes the next millisecond. Everything must have been drained.
        """
        found = {}
        for at in self._behind(self._program.entrances[relation, partition]):
            step = self._program.steps[at]
            if isinstance(step.node, Sort):
                others = [
                    (self._circuit.bounds[position].rowtime, each.partition)
                    for position, each in self._program.sorts()
                    if each.ordinal == step.ordinal
                    and each.partition is not None
                    and each.partition != partition
                ]
                bound, first = min(others, default=(EARLIEST, partition))
                is_before = bound not in (EARLIEST, LATEST) and partition < first
                found[step.key] = bound + is_before
        return found

    def widened(
        self,
        partitions: Mapping[str, Sequence[int]],
        targets: Mapping[tuple[str, int], Target] | None = None,
    ) -> Flow:
        """Return a flow with more partitions, numbered after the existing ones, that continues from here.

        This flow must not be used any more. Everything must have been drained. The new partitions have no
        bound yet: before the next ``drain`` they must be given their bounds (``promise``). ``targets`` are
        those of new partitions.
        """
        wide = Flow(self._outputs, partitions, self._targets | dict(targets or {}))
        wide.succeed(self)
        return wide

    def drain(self) -> Emitted:
        """Process all input, as far as the bounds allow."""
        self._close_turn()
        emitted = self._emitted(map(self._circuit.push, self._turns))
        self._turns = []
        return emitted

    def collect(self) -> None:
        """Let windows over tables take all that comes until ``settle`` as one change, as ``Circuit.collect``."""
        self._circuit.collect()

    def settle(self) -> Emitted:
        """Process what windows have collected. Everything must have been drained."""
        return self._emitted(self._circuit.settle())

    def _emitted(self, passes: Iterable[Passed]) -> Emitted:
        outputs = {name: self._before.pop(name, []) for name in self._program.outputs}
        faults: list[Fault] = []
        for passed in passes:
            faults += passed.faults
            for name, at in self._program.outputs.items():
                outputs[name] += self._gates.given(name, passed.given.get(at, []))
        return Emitted(outputs, faults)

    def _close_turn(self) -> None:
        """Process the input so far before later input."""
        arrivals = {at: entrance.pending for at, entrance in self._entrances.items() if entrance.pending}
        for at in arrivals:
            self._entrances[at].pending = []
        if arrivals:
            self._turns.append(arrivals)

    def ahead(self) -> dict[frozenset[str], int]:
        """Count, by the source relations that meet there, the rows held because one of them lags."""
        found: dict[frozenset[str], int] = {}
        for at, sources in self._program.meetings.items():
            operator = self._circuit.operators[at]
            if isinstance(operator, Meeting):
                found[sources] = found.get(sources, 0) + operator.ahead()
        return found

    def counts(self) -> Counts:
        """Return the counts of all steps, and check that every row is accounted for (law 4).

        Raises:
          FaultError: naming the relation and its numbers.
        """
        operators = self._circuit.operators.items()
        return Counts(self._program, ((at, each) for at, each in operators if each is not None))

    def check(self) -> None:
        """Check that every row is accounted for (law 4), as ``counts`` does, with the same error."""
        self.counts()

    def held(self) -> int:
        """Count the rows that all steps hold."""
        return sum(operator.held() for _, operator in self._steps())

    def bounds(self) -> dict[tuple[str, int], int]:
        """Return the rowtime bound of each source partition as its first readers know it (ms)."""
        given = self._circuit.bounds
        return {
            place: min(
                (given[judge].rowtime for judge in self._program.first_judges(at)), default=given[at].rowtime
            )
            for place, at in self._program.entrances.items()
        }

    def bound_giver(self, relation: str, partition: int) -> tuple[BoundGiver, int]:
        """Return what has given the bound of a source partition, and the explicit bound at its entrance (ms)."""
        at, given = self._program.entrances[relation, partition], self._circuit.bounds
        least = min(self._program.first_judges(at), key=lambda each: given[each].rowtime, default=at)
        operator = self._circuit.operators[least]
        # Where nothing judges lateness, rows give no bound.
        giver = operator.giver if isinstance(operator, SortOperator) else "explicit"
        return giver, given[at].rowtime

    def step_bounds(self) -> list[int]:
        """Return the rowtime bound of each step (ms), by position."""
        return [bound.rowtime for bound in self._circuit.bounds.values()]

    def step_losses(self) -> dict[int, int]:
        """Return how many rows were late or rejected at each step so far, by position."""
        operators = self._circuit.operators.items()
        return {at: each.account.late + each.account.rejected for at, each in operators if each is not None}

    def promised(self) -> dict[str, int]:
        """Return the rowtime bound of each output (ms)."""
        return {name: self._circuit.bounds[at].rowtime for name, at in self._program.outputs.items()}

    def ranks(self, output: str) -> Mapping[int, int]:
        """Return the ranks of the origins at one rowtime at the merge of an output; none if it is not merged."""
        operator = self._circuit.operators[self._program.outputs[output]]
        return operator.ranks if isinstance(operator, MergeOperator) else {}

    def why_not(self, relation: str, node: Node | None = None) -> Silence | None:
        """Return the operators that hold rows for a relation, and their bounds. Everything must be drained.

        ``relation`` is the name of an output, or of the relation of ``node``. None if nothing that runs
        reads it.
        """
        enquiry = self.enquiry()
        roots = enquiry.roots(relation, node)
        return enquiry.silence(relation, roots) if roots else None

    @property
    def program(self) -> Program:
        """The steps, for inspection. Do not change them."""
        return self._program

    def watch(self, watch: Callable[[int, Tray], None]) -> None:
        """Pass the output of each step to ``watch`` from now on, with its position in the program."""
        self._circuit.watch = watch

    def enquiry(self) -> Enquiry:
        """Return the inspector of waits. Everything must have been drained."""
        return Enquiry(self._program, self._circuit.operators, self._circuit.bounds, self.bounds())

    def table(self, relation: str) -> Tray:
        """Return the current contents of an engine table, or of a table inside a model.

        Raises:
          KeyError: if the flow has no such table.
        """
        for step, operator in self._steps():
            if step.node.relation == relation and isinstance(operator, HoldsTable):
                return operator.contents()
            model, _, name = relation.partition(f"{step.node.relation}.")
            if isinstance(operator, HoldsTables) and not model:
                found = operator.table_inside(name)
                if found is not None:
                    return found
        raise KeyError(relation)

    def jumps_from(self) -> dict[str, int]:
        """Return the models that must be notified when history is over, with the rowtime (ms) of each."""
        found = {}
        for step, operator in self._steps():
            if isinstance(operator, Jumping) and (rowtime := operator.jumps_from()) is not None:
                found[step.node.relation] = rowtime
        return found

    def jump(self, relation: str, before: int, after: int) -> None:
        """Let a model's time jump (ms), if the flow has it; see ``operators.contract.Jumping``."""
        for step, operator in self._steps():
            if step.node.relation == relation and isinstance(operator, Jumping):
                operator.jump(before, after)

    def snapshot(self) -> dict[str, State]:
        """Return the state of the flow. All input must have been drained."""
        state = {step.key: operator.snapshot() for step, operator in self._steps()}
        steps = self._program.steps
        state[ENTRANCES] = {
            "bounds": _bounds_table({steps[at].key: each.bound for at, each in self._entrances.items()}),
            "given": _bounds_table({steps[at].key: bound for at, bound in self._circuit.bounds.items()}),
            "promised": pa.table(
                {
                    "relation": pa.array([relation for relation, _ in self._promised], type=pa.string()),
                    "partition": pa.array([partition for _, partition in self._promised], type=pa.int32()),
                    "bound": pa.array(list(self._promised.values()), type=pa.int64()),
                }
            ),
            **self.last_statement.to_state(),
        }
        return state

    def restore(self, snapshot: Mapping[str, State]) -> None:
        """Restore the snapshot of a flow of the same outputs and partitions. Call it before any row."""
        for step, operator in self._steps():
            operator.restore(snapshot[step.key])
        self.restore_bounds(snapshot)

    def restore_bounds(self, snapshot: Mapping[str, State]) -> None:
        """Restore the bounds of a snapshot, without the states of operators. Call it before any row."""
        for entrance in self._entrances.values():
            entrance.pending = []
        keys = {step.key: at for at, step in enumerate(self._program.steps)}
        for key, bound in bounds_of(snapshot, "bounds").items():
            self._entrances.setdefault(keys[key], _Entrance()).bound = bound
        for key, bound in bounds_of(snapshot, "given").items():
            self._circuit.bounds[keys[key]] = bound
        for row in snapshot[ENTRANCES]["promised"].to_pylist():
            self._promised[row["relation"], row["partition"]] = row["bound"]
        self.last_statement = LastStatement.of_state(snapshot[ENTRANCES])

    def image(self) -> FlowImage:
        """Return all that this flow begins with, for another process; called before the first ``drain``."""
        waiting = {
            at: [WaitingRows.of(arrival) for arrival in entrance.pending]
            for at, entrance in self._entrances.items()
            if entrance.pending
        }
        return FlowImage(self.snapshot(), waiting)

    def begin_from(self, image: FlowImage) -> None:
        """Begin as the flow of the same outputs and partitions that gave ``image``; called before any row."""
        self.restore(image.state)
        for at, arrivals in image.waiting.items():
            self._entrances.setdefault(at, _Entrance()).pending = [each.arrival() for each in arrivals]

    def take_over(self, circuits: Iterable[Circuit], promised: Mapping[tuple[str, int], Bound]) -> None:
        """Take over the state of circuits that are parts of the same program.

        ``promised`` are the explicit bounds of the sources' partitions. Call it before any row.
        """
        for circuit in circuits:
            self._circuit.operators.update(circuit.operators)
            self._circuit.bounds.update(circuit.bounds)
        for entrance in self._entrances.values():
            entrance.pending = []
        for (relation, partition), bound in promised.items():
            self._promised[relation, partition] = bound.rowtime
            self._entrances[self._program.entrances[relation, partition]].bound = bound

    def succeed(self, older: Flow, streams: Mapping[str, tuple[Node, Node]] | None = None) -> None:
        """Continue from a flow of another plan. Call it before any row; do not use ``older`` afterwards.

        ``flow.succession`` decides what is kept, and ``flow.table_changes`` what the statements of the new plan change
        in tables. The next ``drain`` returns the resulting rows. ``streams`` are those that both plans have, with
        the node of each: what they have promised holds for producers that join.

        Raises:
          StatementError: the change would lose rows that wait in a merge; ``older`` is unchanged.
        """
        succession = Succession(older._program, self._program)
        self._go_on(older, succession, succession.released(older._circuit.operators))
        for former_node, new_node in (streams or {}).values():
            self._remember(older, former_node, new_node)

    def accompany(self, other: Flow) -> None:
        """Begin at the state of a flow of the same sources, which continues to run. Call it before any row.

        Raises:
          StatementError: rows wait in a merge of the other for what this one does not read.
        """
        self._go_on(other, Succession(other._program, self._program), ())

    def _go_on(self, older: Flow, succession: Succession, released: Sequence[Released]) -> None:
        for at, before in succession.matched.items():
            operator, former = self._circuit.operators[at], older._circuit.operators[before]
            if operator is not None and former is not None:
                operator.restore(succession.state(at, former))
            self._circuit.bounds[at] = succession.bound(older._circuit.bounds[before])
            node = self._program.steps[at].node
            if before in older._entrances:
                entrance = self._entrances.setdefault(at, _Entrance())
                entrance.bound, entrance.pending = older._entrances[before].bound, []
                if isinstance(node, TableSource):
                    entrance.pending = [(0, None, end_of(node))]
        for at in succession.matched:
            operator = self._circuit.operators[at]
            if isinstance(operator, MergeOperator) and operator.held():
                # The input that it waited for may have left.
                self._prime(at, (0, None, NO_BOUND))
        last = self._change_tables(older, succession)
        for at, port, held in contents_read_by_new(self._program, succession, self._circuit.operators):
            self._prime(at, (port, held, NO_BOUND))
        for at, gone in left_by_replaced_models(
            self._program, succession, self._circuit.operators, self._circuit.bounds
        ):
            self._prime(at, (0, gone, self._circuit.bounds[at]))
        for at, port, position in inputs_of_new(self._program, succession):
            self._prime(at, (port, None, self._circuit.bounds[position]))
        for at in succession.unmatched():
            judge = succession.replaced_judge(at)
            if judge is not None:
                self._prime(at, (0, None, Bound(older._circuit.bounds[judge].rowtime)))
        for each in released:
            for at, port in each.ports:
                self._prime(at, (port, each.tray, self._circuit.bounds[each.position]))
            for name in each.outputs:
                self._before.setdefault(name, []).append(each.tray)
        self.last_statement = last
        self._promised = {
            place: bound for place, bound in older._promised.items() if self._takes_bounds(*place)
        }

    def _change_tables(self, older: Flow, succession: Succession) -> LastStatement:
        """Let the rows enter that the statements of another plan change; return the last change of tables."""
        last, bounds = older.last_statement, self._circuit.bounds
        has_changed = False
        for each in changed_tables(
            older._program, self._program, succession.matched, self._circuit.operators, bounds, last
        ):
            if each.source is not None:
                node = self._program.steps[each.source].node
                self._entrances[each.source].pending = [(0, None, end_of(node))]
            if each.tray is not None:
                self._prime(each.at, (0, each.tray, bounds[each.at]))
                has_changed = True
        return replace(last, of_files=last.of_files + has_changed)

    def _remember(self, older: Flow, before: Node, after: Node) -> None:
        """Let a stream keep the bound that it had with its earlier producers."""
        given = [older._circuit.bounds[at].rowtime for at in older._program.positions(before)]
        for at in self._program.positions(after):
            operator = self._circuit.operators[at]
            if given and isinstance(operator, MergeOperator):
                operator.remember(min(given))

    def _prime(self, at: int, arrival: Arrival) -> None:
        self._entrances.setdefault(at, _Entrance()).pending.append(arrival)

    def _takes_bounds(self, relation: str, partition: int) -> bool:
        judges = (step.node.relation == relation for _, step in self._program.sorts())
        return (relation, partition) in self._program.entrances or any(judges)

    def _steps(self) -> Iterator[tuple[Step, Operator]]:
        """Yield the steps that have an operator, in the order of the program."""
        for at, operator in self._circuit.operators.items():
            if operator is not None:
                yield self._program.steps[at], operator

    def _behind(self, at: int) -> Iterator[int]:
        """Yield the steps of the same partition that read rows of step ``at``."""
        for target, _ in self._program.steps[at].targets:
            if self._program.steps[target].partition is not None:
                yield target
                yield from self._behind(target)


def _bounds_table(bounds: Mapping[str, Bound]) -> pa.Table:
    types = {"rowtime": pa.int64(), "origin": pa.int32(), "counter": pa.int64()}
    columns = {
        name: pa.array([getattr(bound, name) for bound in bounds.values()], type=of)
        for name, of in types.items()
    }
    return pa.table({"step": pa.array(list(bounds), type=pa.string()), **columns})


def bounds_of(snapshot: Mapping[str, State], kind: str) -> dict[str, Bound]:
    """Return bounds of a snapshot by the key of their step: explicit ones ("bounds"), or the last ("given")."""
    rows = snapshot[ENTRANCES][kind].to_pylist()
    return {row["step"]: Bound(row["rowtime"], row["origin"], row["counter"]) for row in rows}
