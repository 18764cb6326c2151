"""Why a relation is silent: which operators hold rows for it, and whose bound they wait for (law 7).

Each operator reports the bounds that its ports need
(``operators.contract.Explaining``). These are followed up the program, link
by link, to the partitions whose bounds are too low.

Nothing here changes the flow.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from rowtide.flow.program import Program
from rowtide.operators.contract import Account, Meeting, Operator, Want, wants_of
from rowtide.operators.merge.merge import MergeOperator
from rowtide.plan.nodes import AsOfJoin, Merge, Node, Sort, WindowJoin
from rowtide.plan.nodes.node import WhyFiltered
from rowtide.rowtime.bound import EARLIEST, LATEST, Bound


@dataclass(frozen=True, slots=True)
class Wait:
    """A bound that rows wait for: of ``relation``, and of ``partition`` if it runs for each partition.

    ``has`` is its bound (ms; None: none yet), ``needs`` the bound that is needed; None: no bound helps,
    more rows do.
    """

    relation: str
    partition: int | None
    has: int | None
    needs: int | None


@dataclass(frozen=True, slots=True)
class Holder:
    """An operator that holds rows, its bound, and the bounds that the first of the rows needs."""

    relation: str
    operator: str
    partition: int | None
    rows: int
    bound: int | None
    waits: tuple[Wait, ...]


@dataclass(frozen=True, slots=True)
class Keeper:
    """A partition of a source that keeps rows back.

    ``has`` and ``needs`` are in the rowtime of ``clock``, the relation that judges its rows; ``needs`` None:
    it must deliver more rows, of any time. A row needs rowtime ``row_needs`` for the effect of an explicit
    bound of ``needs``. ``takes_bounds``: an explicit bound on the source reaches ``clock``. ``path`` are the steps from
    the partition to the one where the rows wait, and ``step`` is the one whose bound is ``has``.
    """

    relation: str
    partition: int
    clock: str
    has: int | None
    needs: int | None
    row_needs: int | None
    takes_bounds: bool = True
    path: tuple[int, ...] = field(default=(), compare=False)
    step: int = field(default=-1, compare=False)


@dataclass(frozen=True, slots=True)
class Waiting:
    """A step where ``rows`` wait for the partitions of ``keepers``."""

    relation: str
    rows: int
    keepers: tuple[Keeper, ...]


@dataclass(frozen=True, slots=True)
class Fate:
    """The counts of one step's rows so far.

    ``joins``: it emits only rows that find another. ``why_filtered``: why it drops rows.
    """

    relation: str
    operator: str
    partition: int | None
    account: Account
    held: int
    joins: bool
    why_filtered: WhyFiltered


@dataclass(frozen=True, slots=True)
class Silence:
    """The facts about a relation, in the order of the data. ``sources`` are all that can deliver rows for it.

    ``rows_out`` counts the relation's output so far; None: it is a source, which does not count.
    """

    relation: str
    rows_out: int | None
    holders: tuple[Holder, ...]
    keepers: tuple[Keeper, ...]
    fates: tuple[Fate, ...]
    sources: tuple[Keeper, ...]


class Enquiry:
    """Inspects a running program.

    Args:
      program: its steps.
      operators: by position; None for sources.
      bounds: the last bound of each step.
      entered: the rowtime bounds of the sources' partitions as their first readers know them.
    """

    def __init__(
        self,
        program: Program,
        operators: Mapping[int, Operator | None],
        bounds: Mapping[int, Bound],
        entered: Mapping[tuple[str, int], int],
    ) -> None:
        self._entered = entered
        self._steps = program.steps
        self._program = program
        self._operators = operators
        self._bounds = bounds
        self._feeders: dict[int, dict[int, int]] = {}
        for at, step in enumerate(program.steps):
            for target, port in step.targets:
                self._feeders.setdefault(target, {})[port] = at

    def roots(self, name: str, node: Node | None) -> list[int]:
        """Return the steps whose rows are the relation's; none if nothing that runs reads it."""
        if name in self._program.outputs:
            return [self._program.outputs[name]]
        found = [] if node is None else self._program.positions(node)
        if found:
            return found
        own = [at for at, step in enumerate(self._steps) if step.node.relation == name]
        passed_on = {at for at in own for target, _ in self._steps[at].targets if target in own}
        return [at for at in own if at not in passed_on]

    def silence(self, name: str, roots: Sequence[int]) -> Silence:
        """Return the facts about the relation of ``roots``."""
        above = self._above(roots)
        keepers: dict[Keeper, None] = {}
        holders = []
        last = self._last_waiting(roots)
        for at in above:
            operator = self._operators[at]
            held = 0 if operator is None else operator.held()
            if operator is None or not held:
                continue
            wants = wants_of(operator, len(self._feeders[at]))
            holders.append(self._holder(at, held, wants))
            if at in last:
                for step, needed in self._later(at, wants, roots, {*above}) or [(at, wants)]:
                    keepers.update(dict.fromkeys(self.keeping_back(step, needed)))
        given = [operator.account.rows_out for at in roots if (operator := self._operators[at]) is not None]
        return Silence(
            name,
            sum(given) if given else None,
            tuple(holders),
            _least(keepers),
            tuple(self._fates(above)),
            tuple(self._sources(above)),
        )

    def _last_waiting(self, roots: Sequence[int]) -> set[int]:
        """Return the steps whose rows, once they leave, reach ``roots`` without another step where rows wait.

        What an earlier one releases only waits there, too, so it does not bring the next rows of the roots.
        """
        found: set[int] = set()
        seen: set[int] = set()
        pending = list(roots)
        while pending:
            at = pending.pop()
            if at in seen:
                continue
            seen.add(at)
            operator, feeders = self._operators[at], self._feeders.get(at, {})
            if operator is not None and operator.held():
                found.add(at)
                if self._open(at, wants_of(operator, len(feeders))):
                    continue
            pending += feeders.values()
        return found

    def _later(
        self, at: int, wants: Sequence[Want], roots: Sequence[int], above: set[int]
    ) -> list[tuple[int, Sequence[Want]]]:
        """Return the bounds that bring out what is made of the first row of step ``at``, and the steps they are of.

        It may go into a window of a step that holds no row yet, and that ends later. None if it waits nowhere else, as
        far as is known.
        """
        rowtime = self._first_rowtime(at, wants)
        return [] if rowtime is None else self._windows_after(at, rowtime, roots, above)

    def _first_rowtime(self, at: int, wants: Sequence[Want]) -> int | None:
        """Return the rowtime with which the first row leaves step ``at``, which ``wants`` these bounds for it."""
        node, operator = self._steps[at].node, self._operators[at]
        if isinstance(operator, MergeOperator):
            return operator.first_rowtime()
        bounds = [want.bound for want in wants]
        if len(bounds) != 1 or bounds[0] is None:
            return None
        if isinstance(node, Sort):
            return bounds[0]
        closing = node.closing(0)
        # A window that includes its end is over after it.
        return None if closing is None else bounds[0] - (closing[0] - closing[1])

    def _windows_after(
        self, at: int, rowtime: int, roots: Sequence[int], above: set[int]
    ) -> list[tuple[int, Sequence[Want]]]:
        """Return as ``_later`` for a row of ``rowtime`` that leaves step ``at``."""
        found: list[tuple[int, Sequence[Want]]] = []
        targets = [(target, port) for target, port in self._steps[at].targets if target in above]
        if at in roots or not targets:
            return []
        for target, port in targets:
            node = self._steps[target].node
            closing = node.closing(rowtime)
            if closing is not None:
                bound, end = closing
                found += self._windows_after(target, end, roots, above) or [(target, [Want(port, bound)])]
                continue
            passes = node.keeps_rowtime or isinstance(node, Sort | Merge)
            later = self._windows_after(target, rowtime, roots, above) if passes else []
            if not later:
                return []
            found += later
        return found

    def keeping_back(self, at: int, wants: Iterable[Want]) -> list[Keeper]:
        """Return the partitions that keep back the rows of step ``at``, which ``wants`` these bounds."""
        found: list[Keeper] = []
        for want in self._open(at, wants):
            # A judge waits for its own clock, which rows also advance; others wait for the bound of a port.
            judges = isinstance(self._steps[at].node, Sort)
            if judges:
                found += self._trace(at, want.bound, set(), ())
            else:
                found += self._trace(self._feeders[at][want.port], want.bound, set(), (at,))
        return found

    def waiting(self) -> list[Waiting]:
        """Return the steps where rows wait for partitions, in the order of the data."""
        found = []
        for at, operator in self._operators.items():
            held = 0 if operator is None else operator.held()
            if operator is not None and held:
                keepers = _least(
                    dict.fromkeys(self.keeping_back(at, wants_of(operator, len(self._feeders[at]))))
                )
                found.append(Waiting(self._steps[at].node.relation, held, keepers))
        return found

    def sources(self) -> tuple[Keeper, ...]:
        """Return the partitions of sources from which rows can still come."""
        return tuple(self._sources(range(len(self._steps))))

    def ahead(self) -> dict[int, tuple[int, Sequence[Want]]]:
        """Return the steps where rows wait because another input lags: their number, and what they need."""
        found: dict[int, tuple[int, Sequence[Want]]] = {}
        for at in self._program.meetings:
            operator = self._operators[at]
            if isinstance(operator, Meeting) and (rows := operator.ahead()):
                found[at] = rows, wants_of(operator, len(self._feeders[at]))
        return found

    def keepers(self, at: int, needs: int) -> list[Keeper]:
        """Return the partitions that keep the bound of step ``at`` below ``needs`` (ms)."""
        return self._trace(at, needs, set(), ())

    def wants(self, at: int, bound: int) -> list[tuple[int, int]]:
        """Return the steps whose bounds must advance for step ``at`` to reach ``bound``, and how far (ms)."""
        operator, feeders = self._operators[at], self._feeders.get(at, {})
        if operator is None:
            return []
        wants = wants_of(operator, len(feeders), bound)
        return [(feeders[want.port], want.bound) for want in wants if want.bound is not None]

    def _sources(self, above: Sequence[int]) -> Iterable[Keeper]:
        """Yield the partitions of sources from which rows can still come."""
        for at in above:
            step = self._steps[at]
            place = (step.node.relation, step.partition or 0)
            has = self._entered.get(place, EARLIEST)
            if self._operators[at] is None and has != LATEST:
                yield Keeper(*place, step.node.relation, None if has == EARLIEST else has, None, None)

    def _above(self, roots: Sequence[int]) -> list[int]:
        """Return the roots and all steps before them, in the order of the program."""
        found: set[int] = set()
        pending = list(roots)
        while pending:
            at = pending.pop()
            if at not in found:
                found.add(at)
                pending += self._feeders.get(at, {}).values()
        return sorted(found)

    def _holder(self, at: int, held: int, wants: Iterable[Want]) -> Holder:
        step = self._steps[at]
        waits = []
        for want in self._open(at, wants):
            feeder = self._feeders[at][want.port]
            source = self._steps[feeder]
            has = self._has(at if isinstance(step.node, Sort) else feeder)
            waits.append(Wait(source.node.relation, source.partition, has, want.bound))
        return Holder(step.node.relation, _name(step.node), step.partition, held, self._has(at), tuple(waits))

    def _open(self, at: int, wants: Iterable[Want]) -> list[Want]:
        """Return the needed bounds that are not reached yet."""
        return [
            want
            for want in wants
            if want.bound is None or self._bounds[self._feeders[at][want.port]].rowtime < want.bound
        ]

    def _anything(self, at: int) -> list[Want]:
        return [Want(port, None) for port in self._feeders[at]]

    def _trace(
        self, at: int, needs: int | None, seen: set[tuple[int, int | None]], after: tuple[int, ...]
    ) -> list[Keeper]:
        """Return the partitions that keep step ``at`` below ``needs``, or without more rows.

        ``after`` are the steps after it, up to the one where the rows wait.
        """
        if (at, needs) in seen:
            return []
        seen.add((at, needs))
        step, operator, path = self._steps[at], self._operators[at], (at, *after)
        if operator is None:
            relation, has = step.node.relation, self._has(at)
            return [Keeper(relation, step.partition or 0, relation, has, needs, needs, path=path, step=at)]
        if isinstance(step.node, Sort):
            return self._judged(at, step.node, needs, seen, path)
        ports = len(self._feeders[at])
        # If no bound helps, more rows must come: through the step that waits here, or else through every
        # port.
        wants = (wants_of(operator, ports, needs) if needs is not None else ()) or wants_of(operator, ports)
        feeders = self._feeders[at]
        return [
            keeper
            for want in self._open(at, wants or self._anything(at))
            for keeper in self._trace(feeders[want.port], want.bound, seen, path)
        ]

    def _judged(
        self,
        at: int,
        node: Sort,
        needs: int | None,
        seen: set[tuple[int, int | None]],
        path: tuple[int, ...],
    ) -> list[Keeper]:
        """Return the partitions before a judge, whose clock is that of ``needs``. ``path`` begins at the judge."""
        takes_bounds, below = True, at
        while self._operators[below] is not None and len(self._feeders[below]) == 1:
            operator = self._operators[below]
            if operator is not None and not wants_of(operator, 1, 0):
                takes_bounds = False
            below = self._feeders[below][0]
            path = (below, *path)
        clock = node.relation
        has, row_needs = self._has(at), None if needs is None else needs + node.within_ms
        if self._operators[below] is None:
            source = self._steps[below].node.relation
            partition = self._steps[below].partition or 0
            return [Keeper(source, partition, clock, has, needs, row_needs, takes_bounds, path, at)]
        return [
            replace(each, clock=clock, has=has, needs=needs, row_needs=row_needs, takes_bounds=False, step=at)
            for each in self._trace(below, None, seen, path[1:])
        ]

    def _has(self, at: int) -> int | None:
        promised = self._bounds[at].rowtime
        return None if promised == EARLIEST else promised

    def _fates(self, above: Sequence[int]) -> Iterable[Fate]:
        for at in above:
            operator, step = self._operators[at], self._steps[at]
            if operator is not None:
                joins = isinstance(step.node, AsOfJoin | WindowJoin)
                yield Fate(
                    step.node.relation,
                    _name(step.node),
                    step.partition,
                    operator.account,
                    operator.held(),
                    joins,
                    step.node.why_filtered(),
                )


def _least(keepers: Iterable[Keeper]) -> tuple[Keeper, ...]:
    """Return the first need of each partition and clock."""
    found: dict[tuple[str, int, str], Keeper] = {}
    for keeper in keepers:
        place = (keeper.relation, keeper.partition, keeper.clock)
        before = found.get(place)
        if (
            before is None
            or before.needs is None
            or (keeper.needs is not None and keeper.needs < before.needs)
        ):
            found[place] = keeper
    return tuple(found.values())


def _name(node: Node) -> str:
    return type(node).__name__
