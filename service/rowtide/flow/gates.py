"""Gates: resubmitted rows go only to the relation that had refused them.

Error rows of one relation enter again in a separate partition. On the way to
that relation, the target, they pass steps that have already processed them:
these pass them only to the target. From the target on they are rows like
others. So a row that one of several readers had refused reaches that reader,
and none of the others a second time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rowtide.errors import StatementError
from rowtide.flow.program import Port, Program
from rowtide.plan.nodes import Sort, Source
from rowtide.rows.tray import Tray

PlaceName = tuple[str, int]
"""A source relation and the number of a partition."""


@dataclass(frozen=True, slots=True)
class Target:
    """The relation that had refused rows. ``entered`` False: the source itself, before any step."""

    relation: str
    entered: bool


class Gates:
    """The edges that rows of some partitions must not pass.

    Raises:
      StatementError: the rows would change the state of steps that have already processed them.
    """

    def __init__(self, program: Program, targets: Mapping[PlaceName, Target]) -> None:
        self._edges: dict[tuple[int, Port], list[int]] = {}
        self._outputs: dict[str, list[int]] = {}
        for place, target in targets.items():
            if target.entered:
                self._close(program, program.entrances[place], target.relation)

    def through(self, at: int, port: Port, tray: Tray | None) -> Tray | None:
        """Return the rows of step ``at`` that may pass to ``port``."""
        return _without(self._edges.get((at, port)), tray)

    def given(self, output: str, trays: Iterable[Tray]) -> list[Tray]:
        """Return the rows that may leave as ``output``."""
        shut = self._outputs.get(output)
        return [left for tray in trays if (left := _without(shut, tray)) is not None]

    def __bool__(self) -> bool:
        return bool(self._edges or self._outputs)

    def _close(self, program: Program, entrance: int, relation: str) -> None:
        origin = program.steps[entrance].place.origin
        below = _reachable(program, [entrance])
        named = {
            at
            for at in below
            if program.steps[at].node.relation == relation and not isinstance(program.steps[at].node, Source)
        }
        goals = named or {at for name, at in program.outputs.items() if name == relation and at in below}
        if not goals:
            raise StatementError(
                f'"{relation}" does not read what "{program.steps[entrance].node.relation}" brings'
            )
        behind = _reachable(program, named)
        before = {at for at in below - behind if _reachable(program, [at]) & goals}
        for at in sorted(before):
            _refuse_state(program, at, relation)
            for port in program.steps[at].targets:
                if port[0] not in before and port[0] not in named:
                    self._edges.setdefault((at, port), []).append(origin)
        for name, at in program.outputs.items():
            if at in before and name != relation:
                self._outputs.setdefault(name, []).append(origin)


def _refuse_state(program: Program, at: int, relation: str) -> None:
    step = program.steps[at]
    sorts_partition = isinstance(step.node, Sort) and step.partition is not None
    if sorts_partition or step.node.may_pass_again():
        return
    raise StatementError(
        f'on the way to "{relation}" the rows would pass "{step.node.relation}" again, which has kept them',
        hint="Rows after a table, a window or a sort of a merged stream cannot be resubmitted.",
    )


def _reachable(program: Program, begin: Iterable[int]) -> set[int]:
    """Return ``begin`` and every step after it."""
    found: set[int] = set()
    waiting = list(begin)
    while waiting:
        at = waiting.pop()
        if at not in found:
            found.add(at)
            waiting.extend(position for position, _ in program.steps[at].targets)
    return found


def _without(origins: Sequence[int] | None, tray: Tray | None) -> Tray | None:
    if tray is None or not origins:
        return tray
    shut = np.isin(tray.origin, origins)
    if not shut.any():
        return tray
    return None if shut.all() else tray.where(~shut)
