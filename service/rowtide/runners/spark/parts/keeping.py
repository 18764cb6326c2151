"""State in parts inside a task: what it begins with is read from the store, what is left goes there.

Imported by workers; never imports pyspark.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from rowtide.checkpoint.parts.kept import SEVERAL, KeptPart, PartFacts, part_of, put
from rowtide.checkpoint.parts.store import PartStore
from rowtide.flow.program import Program
from rowtide.operators.contract import Account, Explaining, Meeting, Operator, State


@dataclass(frozen=True, slots=True)
class PartKeeper:
    """Where the tasks of a run keep state. Pickled to the workers.

    ``folder`` is that of the commit in the store. An attempt of a task writes names of its own there.
    """

    store: PartStore
    folder: str

    def keep(self, number: int, of: int, kind: type, operator: Operator) -> KeptPart:
        """Store the state of one part of a step, whose node is of this kind."""
        ahead = operator.ahead() if isinstance(operator, Meeting) else 0
        wants = tuple(operator.wants()) if isinstance(operator, Explaining) else ()
        return self.put(number, of, kind, operator.snapshot(), PartFacts(operator.held(), ahead, wants))

    def put(self, number: int, of: int, kind: type, state: State, facts: PartFacts) -> KeptPart:
        """Store a state under a new name."""
        name = f"{self.folder}/{uuid.uuid4().hex}"
        size = sum(table.nbytes for table in state.values())
        tables = put(self.store, name, state)
        return KeptPart(number, of, name, self.store.where, kind.__name__, size, tables, facts)


@dataclass(frozen=True, slots=True)
class Begins:
    """What part ``number`` of ``of`` begins with: by position of the step its state, or the names of all parts."""

    number: int
    of: int
    states: Mapping[int, State | Sequence[KeptPart]]

    def load(self, program: Program, store: PartStore) -> dict[int, State]:
        """Return the states, reading those that are in the store."""
        return {
            at: given
            if isinstance(given, Mapping)
            else part_of(program.steps[at].node, given, self.number, self.of, store)
            for at, given in self.states.items()
        }


WHOLE = Begins(0, 1, {})
"""A part that is all: of a step of one partition."""


@dataclass(frozen=True, slots=True)
class KeptState:
    """What a task reports of the state of a step that it has kept: its part of it, and of the account."""

    part: KeptPart
    account: Account


@dataclass(frozen=True, slots=True)
class Keeping:
    """The keeping of one task: of ``steps`` it keeps the state. ``begins`` has its parts, usually one."""

    keeper: PartKeeper
    steps: Collection[int]
    begins: Sequence[Begins]

    def kept(self, program: Program, at: int, operator: Operator) -> KeptState:
        """Keep the state of a step."""
        number = self.begins[0].number if len(self.begins) == 1 else SEVERAL
        kind: type = type(program.steps[at].node)
        return KeptState(self.keeper.keep(number, self.begins[0].of, kind, operator), operator.account)
