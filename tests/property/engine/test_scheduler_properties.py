"""The scheduler against the plainest interpreter of its rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from rowtide.engine import (
    INSERT,
    ExecutionError,
    Label,
    Moment,
    Rowop,
    RowType,
    Scheduling,
    TextTracer,
    TraceEvent,
    Unit,
)

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


def run_with_shared_frames(program: Program) -> list[tuple[int, int]]:
    """Interpret a program by the rules of release 1.1: what is forked waits for the whole chain."""
    log: list[tuple[int, int]] = []
    outermost = list(range(LABELS + 1))

    def call(label: int, depth: int) -> None:
        frame = [label]
        while frame:
            execute(frame.pop(0), frame, depth + 1)

    def execute(label: int, frame: list[int], depth: int) -> None:
        log.append((label, depth))
        for verb, target in program.actions[label]:
            if verb == "call":
                call(target, depth)
            else:
                (frame if verb == "fork" else outermost).append(target)
        for follower in program.chains[label]:
            execute(follower, frame, depth)

    while outermost:
        call(outermost.pop(0), 1)
    return log


INTERPRETERS = {
    Scheduling.OWN_FRAMES: run_in_the_model,
    Scheduling.SHARED_FRAMES: run_with_shared_frames,
}


class Running:
    """A program wired up in a unit; may be reported to fail when it gets to its n-th label."""

    def __init__(self, program: Program, scheduling: Scheduling = Scheduling.OWN_FRAMES) -> None:
        self.unit = Unit("u", scheduling=scheduling)
        self.log: list[tuple[int, int]] = []
        self.fails_at: int | None = None
        self.labels = [self.make(number, program.actions[number]) for number in range(LABELS + 1)]
        for number, followers in program.chains.items():
            for follower in followers:
                self.labels[number].chain(self.labels[follower])

    def make(self, number: int, actions: list[tuple[str, int]]) -> Label:
        def handle(rowop: Rowop) -> None:
            self.log.append((number, self.unit.stack_depth))
            if len(self.log) == self.fails_at:
                raise ZeroDivisionError
            for verb, target in actions:
                getattr(self.unit, verb)(self.labels[target].rowop(INSERT, ()))

        return self.unit.label(str(number), EMPTY, handle)

    def run(self) -> list[tuple[int, int]]:
        self.log.clear()
        self.unit.schedule(*(label.rowop(INSERT, ()) for label in self.labels))
        self.unit.drain()
        assert self.unit.is_empty
        assert self.unit.stack_depth == 1
        return list(self.log)


@given(programs(), st.sampled_from(Scheduling))
def test_labels_run_in_the_order_of_the_rules(program: Program, scheduling: Scheduling) -> None:
    assert Running(program, scheduling).run() == INTERPRETERS[scheduling](program)


@given(programs())
def test_with_shared_frames_every_moment_of_a_trace_is_paired(program: Program) -> None:
    running = Running(program, Scheduling.SHARED_FRAMES)
    opened: list[tuple[str, Label, Rowop]] = []

    def check(event: TraceEvent) -> None:
        when, _, what = event.moment.value.partition("-")
        if when == "before":
            opened.append((what, event.label, event.rowop))
        else:
            assert when == "after"
            assert opened.pop() == (what, event.label, event.rowop)

    running.unit.tracer = check
    assert running.run() == run_with_shared_frames(program)
    assert opened == []


@given(programs())
def test_a_trace_changes_nothing_and_is_properly_nested(program: Program) -> None:
    running = Running(program)
    open_labels: list[tuple[Label, int]] = []
    last: dict[int, Moment] = {}

    def check(event: TraceEvent) -> None:
        if event.moment is Moment.BEFORE:
            open_labels.append((event.label, len(open_labels)))
            last[len(open_labels)] = event.moment
            return
        assert open_labels[-1][0] is event.label
        before = last[len(open_labels)]
        if event.moment is Moment.DRAIN:
            assert before is Moment.BEFORE
        elif event.moment is Moment.BEFORE_CHAINED:
            assert before is Moment.DRAIN
            assert event.label.followers
        else:
            assert before is (Moment.BEFORE_CHAINED if event.label.followers else Moment.DRAIN)
            open_labels.pop()
            return
        last[len(open_labels)] = event.moment

    running.unit.tracer = check
    assert running.run() == run_in_the_model(program)
    assert open_labels == []


@given(programs(), st.sampled_from(Scheduling), st.integers(1, 20), st.booleans())
def test_after_an_error_the_unit_works_as_before(
    program: Program, scheduling: Scheduling, fails_at: int, is_traced: bool
) -> None:
    running = Running(program, scheduling)
    running.unit.tracer = TextTracer() if is_traced else None
    running.fails_at = fails_at
    try:
        running.run()
    except ExecutionError as error:
        failed = running.log[-1][0]
        assert error.label == str(failed)
        assert error.stack[0].startswith(f'label "{failed}", ')
        assert running.unit.stack_depth == 1
    running.fails_at = None
    assert running.run() == INTERPRETERS[scheduling](program)
