"""The last rows of each relation are the tail of all that it has given, whatever the trays and restarts."""

from __future__ import annotations

from collections.abc import Callable
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from contract.operators.meanings import bits
from property.flow.flow_plans import FlowPlan, flow_plans
from property.flow.test_flow_row_by_row import Running, ends, logs, run
from rowtide.flow import latest_trays
from rowtide.flow.latest_trays import LatestTrays
from rowtide.plan.nodes import Node


class Looked(Running):
    """A flow at work whose last rows are kept, also when it restarts."""

    def __init__(self, plan: FlowPlan, settles: Callable[[], bool]) -> None:
        super().__init__(plan)
        self._settles = settles
        own, read = self.relations(), {f"read {name}": node for name, node in plan.outputs.items()}
        self.latest = LatestTrays({**plan.outputs, **read, **own}, 0)
        self.latest.follow(self.flow)

    def drain(self) -> None:
        super().drain()
        if self._settles():
            self.latest.settle()

    def restart(self) -> None:
        super().restart()
        self.latest.follow(self.flow)

    def relations(self) -> dict[str, Node]:
        """Return the relations of the plan whose rows are those of one node, and no changes."""
        steps = self.flow.program.steps
        found = {}
        for name, own in self.flow.program.relations.items():
            nodes = {steps[at].node for at in own.last}
            if len(nodes) == 1 and not any(each.shows_opcodes() for each in nodes):
                (found[name],) = nodes
        return found


@settings(max_examples=60)
@given(data=st.data())
def test_the_last_rows_are_the_tail_of_all(data: st.DataObject) -> None:
    drawn = data.draw(flow_plans())
    plan = FlowPlan(drawn.outputs, drawn.partitions, ())
    few, large, many = (data.draw(st.integers(1, most)) for most in (6, 3, 4))
    with patch.multiple(latest_trays, KEPT_ROWS=few, LARGE_ROWS=large, MANY_TRAYS=many):
        looked = Looked(plan, lambda: data.draw(st.booleans()))
        for part in (data.draw(logs(plan, looked.flow)), ends(plan, looked.flow)):
            run(data, looked, part, ())
            for name, out in looked.out.items():
                count = data.draw(st.integers(0, few + 1))
                for each in (name, f"read {name}"):
                    rows = [
                        (row.rowtime, int(row.opcode), bits(row.row))
                        for row in looked.latest.rows(each, count).rows()
                    ]
                    kept = min(count, few)
                    assert rows == (out[-kept:] if kept else [])
                    assert looked.latest.total(each) == len(out)
        counts = looked.flow.counts().by_relation
        for name in looked.relations():
            assert looked.latest.total(name) == counts[name].rows_out
