"""The scheduler against the plainest interpreter of its rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from rowtide.engine import INSERT, Label, Rowop, RowType, Unit

LABELS = 6
EMPTY = RowType()


@dataclass(frozen=True)
class Program:
    """What each label does when it runs, and which labels are chained to it; always to later ones."""

    actions: Mapping[int, list[tuple[str, int]]]
    chains: Mapping[int, list[int]]


@st.composite
def programs(draw: st.DrawFn) -> Program:
    actions = {}
    chains = {}
    for label in range(LABELS):
        later = st.integers(label + 1, LABELS)
        action = st.tuples(st.sampled_from(["call", "fork", "schedule"]), later)
        actions[label] = draw(st.lists(action, max_size=3)) if label < LABELS - 1 else []
        chains[label] = draw(st.lists(later, max_size=2, unique=True)) if label < LABELS - 1 else []
    actions[LABELS] = []
    chains[LABELS] = []
    return Program(actions, chains)


def run_in_the_model(program: Program) -> list[tuple[int, int]]:
    """Interpret a program over nested lists; give (label, depth) in order of execution."""
    log: list[tuple[int, int]] = []
    outermost = list(range(LABELS + 1))

    def call(label: int, depth: int) -> None:
        execute(label, [], depth + 1)

    def execute(label: int, frame: list[int], depth: int) -> None:
        log.append((label, depth))
        for verb, target in program.actions[label]:
            if verb == "call":
                call(target, depth)
            else:
                (frame if verb == "fork" else outermost).append(target)
        while frame:
            call(frame.pop(0), depth)
        for follower in program.chains[label]:
            execute(follower, frame, depth)

    while outermost:
        call(outermost.pop(0), 1)
    return log


def run_in_the_unit(program: Program) -> list[tuple[int, int]]:
    unit = Unit("u")
    log: list[tuple[int, int]] = []

    def make(number: int) -> Label:
        def handle(rowop: Rowop) -> None:
            log.append((number, unit.stack_depth))
            for verb, target in program.actions[number]:
                getattr(unit, verb)(labels[target].rowop(INSERT, ()))

        return unit.label(str(number), EMPTY, handle)

    labels = [make(number) for number in range(LABELS + 1)]
    for number, followers in program.chains.items():
        for follower in followers:
            labels[number].chain(labels[follower])
    unit.schedule(*(label.rowop(INSERT, ()) for label in labels))
    unit.drain()
    assert unit.is_empty
    assert unit.stack_depth == 1
    return log


@given(programs())
def test_labels_run_in_the_order_of_the_rules(program: Program) -> None:
    assert run_in_the_unit(program) == run_in_the_model(program)
