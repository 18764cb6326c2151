"""A flow that takes over from one of another plan gives what that would have given, and its links hold.

The newer plan has its relations in another order, so steps and origins have other numbers, and what has come
new reads in the middle of others.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from property.flow.flow_plans import FlowPlan, flow_plans
from property.flow.links import Links
from property.flow.test_flow_row_by_row import Event, Running, ends, logs, run
from rowtide.flow.flow import Flow
from rowtide.operators.contract import RESUBMITTED
from rowtide.plan.nodes import Node
from rowtide.runtime.live.resubmission import end


class Succeeding(Running):
    """A flow at work, and all that it and those after it have given."""

    def go_on(self, outputs: dict[str, Node]) -> None:
        """Let a flow of these outputs take over."""
        self.plan = FlowPlan(outputs, self.plan.partitions, self.plan.judges)
        older, self.flow = self.flow, Flow(outputs, self.plan.partitions)
        self.flow.succeed(older)
        self.links = Links()
        self.links.watch(self.flow)
        self.out = {name: self.out.get(name, []) for name in outputs}

    def be_followed(self, outputs: dict[str, Node]) -> None:
        """Let a flow of these outputs continue from a copy in another process, as a query of the service does."""
        self.plan = FlowPlan(outputs, self.plan.partitions, self.plan.judges)
        copied = Flow(outputs, self.plan.partitions)
        copied.accompany(self.flow)
        self.flow = Flow(outputs, self.plan.partitions)
        self.flow.begin_from(pickle.loads(pickle.dumps(copied.image())))
        self.links = Links()
        self.links.watch(self.flow)
        self.out = {name: [] for name in outputs}


@settings(max_examples=15)
@given(data=st.data())
def test_a_flow_goes_on_under_other_numbers_and_with_new_readers(data: st.DataObject) -> None:
    plan = data.draw(flow_plans())
    always, later = list(plan.outputs)[:2], list(plan.outputs)[2:]
    first = FlowPlan({name: plan.outputs[name] for name in always}, plan.partitions, ())
    stays, changes = Running(first), Succeeding(first)
    events = data.draw(logs(first, stays.flow))
    run(data, stays, events, ())
    for part in parts(events, data.draw(st.lists(st.integers(0, len(events)), max_size=3))):
        run(data, changes, part, ())
        # What has come stays: to take away what rows wait for is refused.
        came = len(changes.plan.outputs) - len(always)
        names = [*always, *later[: data.draw(st.integers(came, len(later)))]]
        changes.go_on({name: plan.outputs[name] for name in data.draw(st.permutations(names))})
    changes.drain()
    assert {name: changes.out[name] for name in always} == stays.out


@settings(max_examples=60)
@given(data=st.data())
def test_a_partition_that_has_ended_holds_no_later_reader_back(data: st.DataObject) -> None:
    drawn = data.draw(flow_plans())
    plan = FlowPlan(drawn.outputs, drawn.partitions, ())
    always = data.draw(st.sets(st.sampled_from(list(plan.outputs)), min_size=1))
    more = {name: (*numbers, RESUBMITTED + 1) for name, numbers in plan.partitions.items()}
    outputs = {name: plan.outputs[name] for name in sorted(always)}
    without = Succeeding(FlowPlan(outputs, plan.partitions, ()))
    ended = Succeeding(FlowPlan(outputs, more, ()))

    def end_all(relations: list[str]) -> list[str]:
        read = [relation for relation in relations if ended.flow.reads(relation)]
        for relation in read:
            end(ended.flow, (relation, RESUBMITTED + 1))
        ended.drain()
        return read

    events = data.draw(logs(plan, Flow(plan.outputs, plan.partitions)))
    before, after = parts(events, [data.draw(st.integers(0, len(events)))])
    for running in (without, ended):
        run(data, running, [each for each in before if without.flow.reads(each.relation)], ())
    read = end_all(list(more))
    if data.draw(st.booleans()):
        ended.restart()
    is_followed = data.draw(st.booleans())
    for running in (without, ended):
        if is_followed:
            running.be_followed(plan.outputs)
        else:
            running.go_on(plan.outputs)
    # Streams that only the later readers have begin here with all their partitions.
    end_all([relation for relation in more if relation not in read])
    for part in (after, ends(plan, without.flow)):
        for running in (without, ended):
            run(data, running, part, ())
    assert ended.out == without.out


def parts(events: list[Event], cuts: Sequence[int]) -> list[list[Event]]:
    """Cut a log at these places."""
    return [events[start:stop] for start, stop in pairwise([0, *sorted(cuts), len(events)])]
