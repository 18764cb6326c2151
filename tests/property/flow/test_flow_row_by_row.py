"""A flow gives what rows give that go through it one by one, however they are cut, mixed and restarted.

All along, each of its links keeps its order and its promises (property.flow.links).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from contract.operators.inputs import through_bytes
from contract.operators.meanings import bits
from property.flow.flow_model import FaultSeen, FlowModel
from property.flow.flow_plans import ROW, FlowPlan, flow_plans
from property.flow.links import Links
from rowtide.flow.flow import Flow
from rowtide.operators.contract import Fault
from rowtide.operators.faults import in_input_order
from rowtide.rows.rowop import Opcode, Row, TimedRow
from rowtide.rows.tray import Tray
from rowtide.rowtime.bound import LATEST, Bound

TIMES = st.integers(0, 12)


@dataclass(frozen=True)
class Insert:
    """One row comes in."""

    relation: str
    partition: int
    rowtime: int
    row: Row


@dataclass(frozen=True)
class Promise:
    """An explicit bound is set."""

    relation: str
    partition: int
    rowtime: int


Event = Insert | Promise
Judges = Sequence[tuple[str, int]]
"""Relations that take explicit bounds themselves, with a partition."""


@st.composite
def logs(draw: st.DrawFn, plan: FlowPlan, flow: Flow) -> list[Event]:
    """Return what comes in: rows that mostly rise in time, and now and then an explicit bound."""
    places = [
        (name, each) for name, numbers in plan.partitions.items() for each in numbers if flow.reads(name)
    ]
    now = dict.fromkeys(places, 0)
    promised: dict[tuple[str, int], int] = {}
    events: list[Event] = []
    for _ in range(draw(st.integers(0, 18))):
        what = draw(st.integers(0, 9))
        if what == 0:
            place = draw(st.sampled_from([*places, *plan.judges]))
            promised[place] = max(promised.get(place, 0), draw(TIMES))
            events.append(Promise(*place, promised[place]))
            continue
        place = draw(st.sampled_from(places))
        now[place] = max(0, now[place] + draw(st.sampled_from((-2, 0, 0, 1, 1, 2, 5))))
        number = draw(st.sampled_from((0, 1, 2, 3, -6, None)))
        time = draw(st.none() | st.integers(now[place] - 3, now[place] + 5))
        events.append(Insert(*place, now[place], (draw(st.sampled_from(("a", "b", None))), number, time)))
    return events


class Running:
    """A flow at work, and all that it has given."""

    def __init__(self, plan: FlowPlan) -> None:
        self.plan = plan
        self.flow = Flow(plan.outputs, plan.partitions)
        self.links = Links()
        self.links.watch(self.flow)
        self.out: dict[str, list[tuple[object, ...]]] = {name: [] for name in plan.outputs}
        self.faults: list[Fault] = []
        self._counters: dict[tuple[str, int], int] = {}

    def insert(self, rows: Sequence[Insert]) -> None:
        """Insert rows of one partition as a tray."""
        place = (rows[0].relation, rows[0].partition)
        origin = self.flow.origin(*place)
        first = self._counters.get(place, 0)
        self._counters[place] = first + len(rows)
        timed = [
            TimedRow(each.rowtime, origin, first + at, Opcode.INSERT, each.row)
            for at, each in enumerate(rows)
        ]
        self.flow.insert(*place, Tray.from_rows(ROW, timed))

    def drain(self) -> None:
        emitted = self.flow.drain()
        for name, trays in emitted.outputs.items():
            for tray in trays:
                self.out[name] += [(row.rowtime, int(row.opcode), bits(row.row)) for row in tray.rows()]
        self.faults += emitted.faults
        self.flow.check()

    def restart(self) -> None:
        snapshot = {key: through_bytes(state) for key, state in self.flow.snapshot().items()}
        self.flow = Flow(self.plan.outputs, self.plan.partitions)
        self.flow.restore(snapshot)
        self.links.watch(self.flow)

    def fault_rows(self) -> list[FaultSeen]:
        """Return all faults, in order of their input rows within each origin."""
        return [
            (
                fault.relation,
                str(fault.reason),
                fault.rowtime,
                self.flow.source_of(fault.origin),
                fault.counter,
                bits(fault.row),
                fault.bound,
            )
            for fault in in_input_order(self.faults)
        ]


def turns(events: Sequence[Event], judges: Judges) -> list[list[Event]]:
    """Cut a log where the order across partitions matters: at a bound that a relation itself takes."""
    found: list[list[Event]] = [[]]
    for each in events:
        if isinstance(each, Promise) and (each.relation, each.partition) in judges:
            found += [[each], []]
        else:
            found[-1].append(each)
    return [turn for turn in found if turn]


@st.composite
def interleavings(draw: st.DrawFn, events: Sequence[Event]) -> list[Event]:
    """Mix the partitions' events in another way; those of each partition keep their order."""
    queues: dict[tuple[str, int], list[Event]] = {}
    for each in events:
        queues.setdefault((each.relation, each.partition), []).append(each)
    mixed = []
    while queues:
        place = draw(st.sampled_from(sorted(queues)))
        mixed.append(queues[place].pop(0))
        if not queues[place]:
            del queues[place]
    return mixed


def run(
    data: st.DataObject, running: Running, events: Sequence[Event], judges: Sequence[tuple[str, int]]
) -> None:
    """Let events in, in trays of any size, in any interleaving, drained and restarted anywhere."""
    for turn in turns(events, judges):
        mixed = data.draw(interleavings(turn))
        while mixed:
            first = mixed.pop(0)
            if isinstance(first, Promise):
                running.flow.bound(first.relation, first.partition, Bound(first.rowtime))
            else:
                tray = [first]
                while mixed and len(tray) < 4 and data.draw(st.booleans()):
                    after = mixed[0]
                    place = (after.relation, after.partition)
                    if isinstance(after, Promise) or place != (first.relation, first.partition):
                        break
                    tray.append(after)
                    mixed.pop(0)
                running.insert(tray)
            how = data.draw(st.integers(0, 5))
            if how < 2:
                running.drain()
            if how == 0:
                running.restart()
    running.drain()


def follow(model: FlowModel, events: Sequence[Event]) -> None:
    for each in events:
        if isinstance(each, Promise):
            model.bound(each.relation, each.partition, each.rowtime)
        else:
            model.insert(each.relation, each.partition, each.rowtime, each.row)


def ends(plan: FlowPlan, flow: Flow) -> list[Event]:
    """Return the bounds that end all sources' time."""
    sources = [(name, each) for name, numbers in plan.partitions.items() for each in numbers]
    return [Promise(name, each, LATEST) for name, each in sources if flow.reads(name)]


def a_flow_gives_what_rows_give_one_by_one(data: st.DataObject) -> None:
    plan = data.draw(flow_plans())
    running, model = Running(plan), FlowModel(plan.outputs, plan.partitions)
    judges = tuple(judge for judge in plan.judges if takes_bounds(running.flow, judge))
    plan = FlowPlan(plan.outputs, plan.partitions, judges)
    events = data.draw(logs(plan, running.flow))
    event(f"{len(events) // 6 * 6} events or more")
    cut = data.draw(st.integers(0, len(events)))
    for part in (events[:cut], events[cut:], ends(plan, running.flow)):
        run(data, running, part, judges)
        follow(model, part)
        assert running.out == model.out
        event(f"{sum(map(len, running.out.values())) // 10 * 10} rows out or more")
        assert Counter(running.fault_rows()) == Counter(model.faults)


def takes_bounds(flow: Flow, judge: tuple[str, int]) -> bool:
    """Return whether a relation that judges is part of what is wanted."""
    return judge[0] in flow.counts().sums


def any_two_ways_in_give_the_same(data: st.DataObject) -> None:
    plan = data.draw(flow_plans())
    one, other = Running(plan), Running(plan)
    judges = tuple(judge for judge in plan.judges if takes_bounds(one.flow, judge))
    plan = FlowPlan(plan.outputs, plan.partitions, judges)
    events = data.draw(logs(plan, one.flow))
    run(data, one, events, judges)
    run(data, other, events, judges)
    assert one.out == other.out
    assert one.flow.bounds() == other.flow.bounds()
    assert one.flow.counts().by_step == other.flow.counts().by_step
    for origin in {fault.origin for fault in one.faults}:
        assert [
            fault_rows for fault_rows in one.fault_rows() if fault_rows[3] == one.flow.source_of(origin)
        ] == [fault_rows for fault_rows in other.fault_rows() if fault_rows[3] == one.flow.source_of(origin)]


LAWS = (a_flow_gives_what_rows_give_one_by_one, any_two_ways_in_give_the_same)


@pytest.mark.parametrize("law", LAWS, ids=[law.__name__ for law in LAWS])
@settings(max_examples=40)
@given(data=st.data())
def test_a_flow_knows_no_trays(law, data: st.DataObject) -> None:  # type: ignore[no-untyped-def]
    law(data)


@pytest.mark.long
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("law", LAWS, ids=[law.__name__ for law in LAWS])
@settings(settings.get_profile("long"), max_examples=3000)
@given(data=st.data())
def test_a_flow_knows_no_trays_for_long(law, data: st.DataObject) -> None:  # type: ignore[no-untyped-def]
    law(data)
