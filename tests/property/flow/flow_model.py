"""What a flow means: each row goes through all operators' models alone, before the next one comes.

The wiring is worked out here once more, from the docstrings of the plan's nodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from contract.operators.meanings import bits
from contract.operators.model import Model
from contract.operators.models import model_of, origins_out
from rowtide.operators.contract import OperatorSite
from rowtide.plan.nodes import Merge, Node, Sort, Source, TableSource
from rowtide.rows.rowop import Opcode, Row, TimedRow
from rowtide.rowtime.bound import EARLIEST, LATEST, NO_BOUND, Bound

FaultSeen = tuple[object, ...]
"""A fault: relation, reason, rowtime, the source's partition or None, counter, row (as bits), bound."""


@dataclass
class Wire:
    """One operator, or one entrance; ``partition`` is None behind a merge."""

    model: Model | None
    origins: tuple[int, ...]
    partition: int | None
    relation: str
    targets: list[tuple[Wire, int]] = field(default_factory=list)
    inbox: list[tuple[int, TimedRow | Bound]] = field(default_factory=list)
    said: Bound = NO_BOUND


class FlowModel:
    """A flow, row by row. An operator has all rows of a place before it gets the bound after them."""

    def __init__(self, outputs: Mapping[str, Node], partitions: Mapping[str, Sequence[int]]) -> None:
        self._partitions = partitions
        self._wires: dict[Node, list[Wire]] = {}
        self._in_order: list[Wire] = []
        self._entrances: dict[tuple[str, int], Wire] = {}
        self._sources: dict[int, tuple[str, int]] = {}
        self._next_origin = 1
        self._counters: dict[tuple[str, int], int] = {}
        self.out: dict[str, list[tuple[object, ...]]] = {name: [] for name in outputs}
        self.faults: list[FaultSeen] = []
        self._wanted = {name: self._wire(node)[0] for name, node in outputs.items()}
        for node, (wire, *_) in list(self._wires.items()):
            if isinstance(node, TableSource):
                self._load(node, wire)

    def insert(self, relation: str, partition: int, rowtime: int, row: Row) -> int:
        """Let one row in; give its offset."""
        wire = self._entrances[relation, partition]
        counter = self._counters.get((relation, partition), 0)
        self._counters[relation, partition] = counter + 1
        self._pass_on(wire, [TimedRow(rowtime, wire.origins[0], counter, Opcode.INSERT, row)])
        self._run()
        return counter

    def bound(self, relation: str, partition: int, rowtime: int) -> None:
        """Set an explicit bound of a source's partition, or of a relation that judges lateness."""
        if (relation, partition) in self._entrances:
            wire = self._entrances[relation, partition]
            wire.said = Bound(max(rowtime, wire.said.rowtime))
            self._pass_on(wire, [])
            self._run()
            return
        for node, wires in self._wires.items():
            for wire in wires:
                if (
                    isinstance(node, Sort)
                    and wire.relation == relation
                    and wire.partition in (None, partition)
                ):
                    wire.inbox.append((0, Bound(rowtime)))
                    self._run()
                    return

    def _wire(self, node: Node) -> list[Wire]:
        if node not in self._wires:
            inputs = [self._wire(each) for each in node.inputs]
            match node:
                case Source(relation=relation):
                    found = [self._enter(relation, each) for each in self._partitions.get(relation, (0,))]
                case TableSource(relation=relation):
                    found = [self._enter(relation, 0)]
                    found[0].partition = None
                case Merge():
                    found = [self._put(node, [wire for wires in inputs for wire in wires], None)]
                case Sort():
                    found = [self._put(node, [wire], wire.partition) for wire in inputs[0]]
                case _ if node.is_row_wise:
                    found = [self._put(node, [wire], wire.partition) for wire in inputs[0]]
                case _:
                    found = [self._put(node, [wires[0] for wires in inputs], None)]
            self._wires[node] = found
        return self._wires[node]

    def _origin(self) -> int:
        self._next_origin += 1
        return self._next_origin

    def _enter(self, relation: str, partition: int) -> Wire:
        origin = self._origin()
        self._sources[origin] = (relation, partition)
        wire = self._entrances[relation, partition] = Wire(None, (origin,), partition, relation)
        self._in_order.append(wire)
        return wire

    def _put(self, node: Node, inputs: Sequence[Wire], partition: int | None) -> Wire:
        place = OperatorSite(self._origin(), partition is None, tuple(wire.origins for wire in inputs))
        wire = Wire(model_of(node, place), origins_out(node, place), partition, node.relation)
        for port, each in enumerate(inputs):
            each.targets.append((wire, port))
        self._in_order.append(wire)
        return wire

    def _load(self, node: TableSource, wire: Wire) -> None:
        for counter, row in enumerate(node.rows):
            self._pass_on(wire, [TimedRow(EARLIEST, wire.origins[0], counter, Opcode.INSERT, row)])
            self._run()
        if node.loaded_once:
            wire.said = Bound(LATEST)
            self._pass_on(wire, [])
            self._run()

    def _run(self) -> None:
        """Let each operator take what the ones before it have given."""
        for wire in self._in_order:
            inbox, wire.inbox = wire.inbox, []
            if not inbox:
                continue
            model = wire.model
            assert model is not None
            given, faults_before = len(model.out), len(model.faults)
            for port, item in inbox:
                if isinstance(item, Bound):
                    model.bound(port, item)
                else:
                    model.row(port, item)
            for relation, reason, rowtime, origin, counter, row, bound in model.faults[faults_before:]:
                source = self._sources.get(origin)
                self.faults.append((relation, str(reason), rowtime, source, counter, row, bound))
            wire.said = model.promise()
            self._pass_on(wire, model.out[given:])

    def _pass_on(self, wire: Wire, rows: Sequence[TimedRow]) -> None:
        """Put rows and the bound that follows them before the next operators."""
        for name, wanted in self._wanted.items():
            if wanted is wire:
                self.out[name] += [(row.rowtime, int(row.opcode), bits(row.row)) for row in rows]
        for target, port in wire.targets:
            target.inbox += [(port, row) for row in rows]
            target.inbox.append((port, wire.said))
