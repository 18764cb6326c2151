"""The steps of a program as rows of arrays, and the graph whose relations they are put together for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np
import numpy.typing as npt

from rowtide.flow.program import Program, Step
from rowtide.plan.nodes import Model, Source
from rowtide.plan.plan import ForeignTable, Plan
from rowtide.rowtime.bound import EARLIEST
from rowtide.runtime.progress.graph import Edge, GraphNode, GraphOperator, PlanGraph

Integers = npt.NDArray[np.int64]
COUNTED = ("rows_in", "rows_out", "filtered", "late", "rejected", "held")
"""The counts of a step or relation, as rows of arrays have them before the bound."""
BOUND = len(COUNTED)
"""The column of the bound, in ms."""


@dataclass(frozen=True)
class _Group:
    """Rows of the array, put together for some nodes: ``starts`` are the places where those of the next begin."""

    nodes: Integers
    rows: Integers
    starts: Integers

    @classmethod
    def of(cls, rows_of: Sequence[Sequence[int]]) -> _Group:
        """Group the rows of each node; a node may have none."""
        nodes = [node for node, rows in enumerate(rows_of) if rows]
        lengths = [len(rows_of[node]) for node in nodes]
        return cls(
            np.array(nodes, np.int64),
            np.fromiter(chain.from_iterable(rows_of), np.int64),
            np.cumsum([0, *lengths[:-1]], dtype=np.int64)[: len(nodes)],
        )

    def put(self, reduced: np.ufunc, numbers: Integers, into: Integers) -> None:
        """Reduce the numbers of each node's rows."""
        if len(self.nodes):
            into[self.nodes] = reduced.reduceat(numbers[self.rows], self.starts)


class StepLayout:
    """The steps of a program as the rows of arrays, and its graph.

    The steps with an operator come first, then a step for each source (that of its first partition), which counts what
    has been read, and one for each target, numbered after the program's, which counts what has been written.
    """

    def __init__(self, plan: Plan, program: Program) -> None:
        self._plan = plan
        self.program = program
        self.operators = tuple(at for at, step in enumerate(program.steps) if not step.is_source)
        self.sources: dict[str, int] = {}
        for (relation, _), at in program.entrances.items():
            if isinstance(program.steps[at].node, Source):
                self.sources.setdefault(relation, at)
        self.writes = {each.name: len(program.steps) + number for number, each in enumerate(plan.targets)}
        self.order = (*self.operators, *self.sources.values(), *self.writes.values())

    def by_node(self, numbers: Integers) -> Integers:
        """Return the counts and bound of each node of the graph: ``numbers`` has those of each of ``order``.

        Rows in and out are those of its ends, other counts those of all its steps, the bound is the least of its rows.
        """
        first, last, every, unread = self._groups
        nodes = np.zeros((len(self.graph.nodes), BOUND + 1), np.int64)
        nodes[:, BOUND] = EARLIEST
        first.put(np.add, numbers[:, 0], nodes[:, 0])
        last.put(np.add, numbers[:, 1], nodes[:, 1])
        for column in range(2, BOUND):
            every.put(np.add, numbers[:, column], nodes[:, column])
        last.put(np.minimum, numbers[:, BOUND], nodes[:, BOUND])
        nodes[unread, 0] = nodes[unread, 1]
        return nodes

    @cached_property
    def _groups(self) -> tuple[_Group, _Group, _Group, Integers]:
        row = {at: number for number, at in enumerate(self.order)}
        nodes = self.graph.nodes
        return (
            _Group.of([[row[at] for at in node.first] for node in nodes]),
            _Group.of([[row[at] for at in node.last] for node in nodes]),
            _Group.of([[row[each.step] for each in node.operators] for node in nodes]),
            np.array([at for at, node in enumerate(nodes) if not node.first], np.int64),
        )

    @cached_property
    def graph(self) -> PlanGraph:
        """The graph. It takes some milliseconds, once, and any thread may ask for it."""
        return PlanGraph(tuple(self._nodes()), tuple(dict.fromkeys(self._edges())))

    def _nodes(self) -> Iterator[GraphNode]:
        own: dict[str, list[GraphOperator]] = {}
        for at, step in enumerate(self.program.steps):
            if not step.is_source or self.sources.get(step.node.relation) == at:
                own.setdefault(step.node.relation, []).append(_shown(at, step))
        for target in self._plan.targets:
            rows = "messages"
            if isinstance(target, ForeignTable):
                key = ", ".join(target.row_type[field].name for field in target.key)
                rows = f"one row for each {key}" if key else "each row"
            own.setdefault(target.name, []).append(
                GraphOperator(
                    self.writes[target.name], "Write", f'{rows}, server "{target.server}"', None, None
                )
            )
        kinds = {each.name: each.kind for each in self._plan.definitions}
        written = dict(self._plan.relations)
        for name in dict.fromkeys([*kinds, *own]):
            operators = own.get(name, [])
            steps = self.program.relations.get(name)
            first = () if steps is None else tuple(steps.first)
            last = () if steps is None else tuple(steps.last)
            if name in self.sources:
                first = (self.sources[name],)
                last = last or first
            if name in self.writes:
                first, last = first or (self.writes[name],), (self.writes[name],)
            if not last and name in written:
                # Sources have an entrance for each partition, and their rows are counted at the first.
                last = tuple(dict.fromkeys(self._counted(at) for at in self.program.positions(written[name])))
                last = tuple(at for at in last if at >= 0)
            kind = kinds.get(name) or self._kind(operators)
            yield GraphNode(name, name, kind, first, last, tuple(operators))

    def _counted(self, at: int) -> int:
        """Return the step that counts the rows of step ``at``; -1: none does."""
        step = self.program.steps[at]
        return self.sources.get(step.node.relation, -1) if step.is_source else at

    def _kind(self, operators: Iterable[GraphOperator]) -> str:
        """Return the kind of what no statement has defined under its name: a model, or the parts of one."""
        nodes = [
            self.program.steps[each.step].node for each in operators if each.step < len(self.program.steps)
        ]
        return "model" if any(isinstance(node, Model) for node in nodes) else "relation"

    def _edges(self) -> Iterator[Edge]:
        defined = {each.name for each in self._plan.definitions}
        for each in self._plan.definitions:
            for read in each.reads:
                yield read, each.name
        # What no statement has defined under its name, such as a model, reads what its steps read.
        steps = self.program.steps
        read_by = [(step, steps[target].node.relation) for step in steps for target, _ in step.targets]
        read_by += [(steps[at], name) for name, at in self.program.outputs.items()]
        for step, reader in read_by:
            read = step.node.relation
            if read != reader and not (read in defined and reader in defined):
                yield read, reader


def _shown(at: int, step: Step) -> GraphOperator:
    # The rows that are read are counted for all partitions together.
    partition = None if step.is_source else step.partition
    return GraphOperator(at, type(step.node).__name__, step.node.detail(), step.node.keeps(), partition)
