"""A plan as a dataflow of operators, one for each partition where order is not needed yet.

Nodes are shared by value: all readers of a view read the same steps. Steps
are numbered from the inputs on, in an order that depends on the plan alone,
so that origins and snapshot keys mean the same after a restart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from rowtide.errors import FaultError
from rowtide.operators.contract import PARTITION_BITS, OperatorSite
from rowtide.operators.merge.ranks import order_of_all
from rowtide.plan.nodes import KeyedTable, Merge, Node, Sort, Source, TableSource

Port = tuple[int, int]
"""The position of a step in the program, and the number of one of its ports."""


def origin_of(ordinal: int, partition: int = 0) -> int:
    """Return the origin of rows that step ``ordinal`` makes or, for a source, lets in at ``partition``."""
    return ordinal << PARTITION_BITS | partition


@dataclass(slots=True)
class Step:
    """One operator of the flow, or one entrance of a source.

    ``key`` names it in snapshots. ``targets`` are the ports that read its output, in the order of
    the program. ``origins`` are those of its output rows, in their order at one rowtime.
    """

    key: str
    node: Node
    ordinal: int
    partition: int | None
    place: OperatorSite
    origins: tuple[int, ...]
    targets: list[Port] = field(default_factory=list)

    @property
    def is_source(self) -> bool:
        """Return whether rows enter here."""
        return isinstance(self.node, Source | TableSource)


@dataclass(slots=True)
class Steps:
    """The steps of one relation, by position: those that read from outside it, and those read only outside it."""

    all: list[int] = field(default_factory=list)
    first: list[int] = field(default_factory=list)
    last: list[int] = field(default_factory=list)


class _ContradictionError(Exception):
    """Two ports of a merge of changes have the same origins in different orders."""


class Program:
    """The steps of a flow in the order of the data, and the steps of each output.

    ``outputs`` maps a name to the position of its step (for a Source: of each partition's). ``entrances``
    maps a source relation and partition to its step. ``repeated`` are merged steps that do the work of
    partition steps of another reader: their faults have been reported (docs/sql/semantics.md#error-rows:
    one error row, however many read the relation). ``meetings`` are the steps with several inputs, each
    with all source relations of its rows.
    """

    def __init__(self, outputs: Mapping[str, Node], partitions: Mapping[str, Sequence[int]]) -> None:
        self._partitions = partitions
        try:
            self._put_all(outputs, as_entered=False)
        except _ContradictionError:
            self._put_all(outputs, as_entered=True)
        self.repeated = self._repeated()

    def _put_all(self, outputs: Mapping[str, Node], *, as_entered: bool) -> None:
        self._as_entered = as_entered
        self.steps: list[Step] = []
        self.entrances: dict[tuple[str, int], int] = {}
        self.meetings: dict[int, frozenset[str]] = {}
        self._sources: list[frozenset[str]] = []
        self._positions: dict[Node, list[int]] = {}
        self.outputs = {name: self._add(node)[0] for name, node in outputs.items()}
        for at, step in self.sorts():
            if step.partition is not None and self._feeds_tables(at):
                step.place = replace(step.place, feeds_tables=True)

    def sorts(self) -> Iterator[tuple[int, Step]]:
        """Return the steps that judge lateness, where explicit bounds enter."""
        return ((at, step) for at, step in enumerate(self.steps) if isinstance(step.node, Sort))

    def first_judges(self, at: int) -> list[int]:
        """Return the first steps after step ``at``, in its partition, that judge lateness."""
        found = []
        for target, _ in self.steps[at].targets:
            if isinstance(self.steps[target].node, Sort):
                found.append(target)
            elif self.steps[target].partition is not None:
                found += self.first_judges(target)
        return found

    @cached_property
    def relations(self) -> dict[str, Steps]:
        """Return the steps of each relation, entrances of sources excepted."""
        found: dict[str, Steps] = {}
        entered: set[int] = set()
        for at, step in enumerate(self.steps):
            relation = None if step.is_source else step.node.relation
            targets = [target for target, _ in step.targets]
            entered.update(each for each in targets if self.steps[each].node.relation != relation)
            if relation is not None:
                own = found.setdefault(relation, Steps())
                own.all.append(at)
                if at in entered:
                    own.first.append(at)
                if all(self.steps[each].node.relation != relation for each in targets):
                    own.last.append(at)
        return found

    def positions(self, node: Node) -> list[int]:
        """Return the steps of a node: several if it runs for each partition, none if nothing reads it."""
        return list(self._positions.get(node, ()))

    def _add(self, node: Node) -> list[int]:
        """Return the positions of the steps of ``node``: several if it runs for each partition."""
        if node in self._positions:
            return self._positions[node]
        inputs = [self._add(each) for each in node.inputs]
        ordinal = len(self._positions)
        match node:
            case Source(relation=relation):
                found = [self._enter(node, ordinal, each) for each in self._partitions.get(relation, (0,))]
            case TableSource():
                found = [self._enter(node, ordinal, 0)]
            case Merge(of_changes=True) if self._contradict(inputs):
                # Signed again, each input has one origin.
                signed = [self._add(Sort(node.relation, each, 0)) for each in node.inputs]
                ordinal = len(self._positions)
                found = [self._put(node, ordinal, None, [at for each in signed for at in each])]
            case _:
                scope = node.scope()
                if scope.merges:
                    found = [self._put(node, ordinal, None, [at for each in inputs for at in each])]
                elif scope.by_partition:
                    found = [self._put(node, ordinal, self.steps[at].partition, [at]) for at in inputs[0]]
                else:
                    found = [self._put(node, ordinal, None, [self._single(node, each) for each in inputs])]
        self._positions[node] = found
        return found

    def _enter(self, node: Source | TableSource, ordinal: int, partition: int) -> int:
        origin = origin_of(ordinal, partition)
        key = f"{ordinal} {node.relation} source/{partition}"
        # An engine table has one entrance, so no merge follows it.
        where = partition if isinstance(node, Source) else None
        self.steps.append(Step(key, node, ordinal, where, OperatorSite(origin), (origin,)))
        self._sources.append(frozenset({node.relation}))
        self.entrances[node.relation, partition] = len(self.steps) - 1
        return len(self.steps) - 1

    def _put(self, node: Node, ordinal: int, partition: int | None, inputs: Sequence[int]) -> int:
        merged = partition is None
        own = origin_of(ordinal)
        port_origins = tuple(self.steps[at].origins for at in inputs)
        order: tuple[int, ...] = ()
        if isinstance(node, Merge) and node.of_changes:
            origins = order = self._order_of_changes(port_origins)
        else:
            origins = node.origins(own, port_origins, merged=merged)
        key = f"{ordinal} {node.relation} {type(node).__name__}"
        if partition is not None:
            key += f"/{partition}"
        self.steps.append(
            Step(key, node, ordinal, partition, OperatorSite(own, merged, port_origins, order), origins)
        )
        self._sources.append(frozenset().union(*(self._sources[at] for at in inputs)))
        position = len(self.steps) - 1
        if len(inputs) > 1:
            self.meetings[position] = self._sources[position]
        for port, at in enumerate(inputs):
            self.steps[at].targets.append((position, port))
        return position

    def _order_of_changes(self, port_origins: Sequence[Sequence[int]]) -> tuple[int, ...]:
        """Return an order that keeps that of each port: a DELETE may retract an INSERT of another origin.

        If two ports contradict each other, the whole program takes the order in which rows enter it. If
        they still do, their rows are signed again.
        """
        order = self._order_of_all(port_origins)
        if order is None:
            raise _ContradictionError
        return order

    def _order_of_all(self, port_origins: Sequence[Sequence[int]]) -> tuple[int, ...] | None:
        given = [origin for each in port_origins for origin in each]
        return order_of_all(port_origins, sorted(given) if self._as_entered else given)

    def _contradict(self, inputs: Sequence[Sequence[int]]) -> bool:
        """Return whether inputs of a merge of changes have the same origins in orders that cannot be one."""
        port_origins = [self.steps[at].origins for each in inputs for at in each]
        return self._as_entered and self._order_of_all(port_origins) is None

    def _feeds_tables(self, at: int) -> bool:
        """Return whether rows of a step go only to keyed tables."""
        targets = [position for position, _ in self.steps[at].targets]
        return bool(targets) and at not in self.outputs.values() and all(map(self._is_for_tables, targets))

    def _is_for_tables(self, at: int) -> bool:
        node = self.steps[at].node
        if isinstance(node, KeyedTable):
            return bool(node.key)
        return (isinstance(node, Merge) or node.keeps_rowtime) and self._feeds_tables(at)

    def _repeated(self) -> frozenset[int]:
        seen: dict[object, set[int]] = {}
        for step in self.steps:
            if step.partition is not None:
                seen.setdefault(step.node.own_text(), set()).update(step.origins)
        return frozenset(
            at
            for at, step in enumerate(self.steps)
            if step.partition is None
            and step.node.is_row_wise
            and seen.get(step.node.own_text(), set()).issuperset(step.origins)
        )

    def _single(self, node: Node, inputs: Sequence[int]) -> int:
        (first, *others) = inputs
        if others or self.steps[first].partition is not None:
            kind = type(node).__name__
            raise FaultError(f'{kind} of "{node.relation}" reads partitions that are not merged')
        return first
