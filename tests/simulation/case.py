"""A case: a workload, its number of messages, and what goes wrong at which step. As text it replays a run."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """What happens at a step, to the process that has reached it or to what it calls."""

    DIES = "dies"
    """The process dies."""
    BREAKS = "breaks"
    """The call fails: before it, it is not done; after it, only the reply is lost. So do all calls of the same
    dependency for the following steps."""
    PAUSES = "pauses"
    """The process is suspended for some steps of others, and goes on as if nothing had happened."""
    READ_ONLY = "read-only"
    """The database takes no writes for some steps."""


_LENGTHS: Mapping[Kind, Sequence[int]] = {
    Kind.DIES: (0,),
    Kind.BREAKS: (1, 1, 3, 10, 100),
    # A start takes a few hundred steps: only then has another process taken over.
    Kind.PAUSES: (10, 100, 300, 600, 1_000),
    Kind.READ_ONLY: (1, 10, 100),
}
_WEIGHTS = {Kind.DIES: 4, Kind.BREAKS: 4, Kind.PAUSES: 3, Kind.READ_ONLY: 1}
_OF_A_CALL = 0.7


@dataclass(frozen=True, slots=True, order=True)
class Fault:
    """What happens at a step of the world; ``steps`` is how long it lasts."""

    step: int
    kind: Kind
    steps: int = 0

    def __str__(self) -> str:
        """Return the text that ``parsed`` reads."""
        lasting = f"+{self.steps}" if self.steps else ""
        return f"{self.kind.value}@{self.step}{lasting}"


@dataclass(frozen=True, slots=True)
class Case:
    """One run: ``messages`` of a workload, and its faults in the order of their steps.

    With several ``replicas``, so many processes run at a time: one leads, the others follow and take over.
    """

    workload: str
    messages: int
    faults: tuple[Fault, ...] = ()
    replicas: int = 1

    def __str__(self) -> str:
        """Return the text that ``parsed`` reads."""
        size = str(self.messages) if self.replicas == 1 else f"{self.messages}x{self.replicas}"
        return "/".join([self.workload, size, *map(str, self.faults)])


def parsed(text: str) -> Case:
    """Return the case of a text such as ``groups/60/dies@17/pauses@88+30``; ``60x2`` has two replicas.

    Raises:
      ValueError: the text is not one.
    """
    workload, size, *faults = text.split("/")
    messages, _, replicas = size.partition("x")
    return Case(workload, int(messages), tuple(map(_fault, faults)), int(replicas or "1"))


def _fault(text: str) -> Fault:
    kind, _, when = text.partition("@")
    step, _, steps = when.partition("+")
    return Fault(int(step), Kind(kind), int(steps or "0"))


def drawn(seed: int, workload: str, messages: int, calls: Sequence[Sequence[int]], replicas: int = 1) -> Case:
    """Return the case of a seed: one to six faults.

    ``calls`` has the steps of a run without faults once it has started, one list for each kind of call: a rare kind
    is drawn as often as a frequent one. Other faults are anywhere, also later, because recoveries take steps, too.
    """
    rng = random.Random(f"{workload} {seed}")
    end = max(map(max, calls))
    faults = []
    for kind in rng.choices(tuple(_WEIGHTS), weights=tuple(_WEIGHTS.values()), k=rng.randint(1, 6)):
        step = rng.choice(rng.choice(calls)) if rng.random() < _OF_A_CALL else rng.randrange(1, 2 * end)
        faults.append(Fault(step, kind, rng.choice(_LENGTHS[kind])))
    return Case(workload, messages, tuple(sorted(faults, key=lambda each: each.step)), replicas)
