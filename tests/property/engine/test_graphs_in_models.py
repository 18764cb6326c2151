"""A graph in a model gives what going row by row gives, with loops of every use: nothing is logged."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from property.engine.graph_model import Arrival, InOneOrder, Shape, arrivals, shapes
from rowtide.engine import ModelSetup, RowType
from rowtide.engine.graph import Use, run_in_model
from rowtide.engine.model import ModelRun, Sent
from rowtide.engine.typed_state import dump_state, load_state
from rowtide.rows.rowop import Opcode

PAIR = RowType(energy="int64", mark="int64")
ALL_USES = (Use.LIMITED, Use.RECORDED, Use.CONSISTENT)
FAR = 10_000
Out = dict[str, list[tuple[int, object]]]


def model_of(shape: Shape) -> ModelRun:
    def wire(setup: ModelSetup) -> None:
        inputs = dict.fromkeys(shape.graph.sources, PAIR)
        run_in_model(setup, shape.graph, inputs, dict.fromkeys(shape.outputs, PAIR))

    return ModelRun("graph", wire)


def referred(shape: Shape, arrived: list[Arrival], skipped: tuple[int, int] | None = None) -> Out:
    reference = InOneOrder(shape.graph)
    if skipped is not None:
        reference.skip(*skipped)
    for each in arrived:
        reference.insert(each)
    return {name: [(stamp.rowtime, row) for stamp, row in rows] for name, rows in reference.run().items()}


def by_output(shape: Shape, sent: list[Sent]) -> Out:
    found: Out = {name: [] for name in shape.outputs}
    for each in sent:
        found[each.output].append((each.rowtime, tuple(each.row)))
    return found


@st.composite
def in_one_order(draw: st.DrawFn, shape: Shape) -> list[Arrival]:
    """Rows as a pipeline gives them: by rowtime, over all inputs."""
    return sorted(draw(arrivals(shape.graph, most=8)), key=lambda each: each.rowtime)


@given(data=st.data())
def test_any_bounds_and_restarts_give_what_going_row_by_row_gives(data: st.DataObject) -> None:
    shape = data.draw(shapes(uses=ALL_USES))
    arrived = data.draw(in_one_order(shape))
    model = model_of(shape)
    sent: list[Sent] = []
    for each in arrived:
        if data.draw(st.booleans()):
            sent += model.advance(each.rowtime)
        if data.draw(st.booleans()):
            # As it goes into a snapshot and comes out of it.
            state = load_state(dump_state(model.snapshot()))
            model = model_of(shape)
            model.restore(state)
        sent += model.take(each.source, Opcode.INSERT, PAIR.row(*each.row), each.rowtime)
    sent += model.advance(FAR)
    assert by_output(shape, sent) == referred(shape, arrived)
    assert [each.rowtime for each in sent] == sorted(each.rowtime for each in sent)


@given(data=st.data())
def test_a_jump_of_time_gives_the_same_whenever_it_becomes_known(data: st.DataObject) -> None:
    shape = data.draw(shapes(uses=ALL_USES, resets=True))
    arrived = data.draw(in_one_order(shape))
    cut = data.draw(st.integers(0, len(arrived)))
    reached = arrived[cut - 1].rowtime if cut else 0
    # Rows may come in between, at both of its ends, and after it.
    before = reached + data.draw(st.sampled_from((0, 3)))
    after = before + data.draw(st.sampled_from((1, 4, 9, 30)))
    known_after = data.draw(st.integers(0, cut))
    model = model_of(shape)
    sent: list[Sent] = []
    for number, each in enumerate(arrived):
        if number == cut:
            sent += model.advance(min(before, each.rowtime))
        if number == known_after:
            model.jump(before, after)
        if data.draw(st.booleans()):
            state = load_state(dump_state(model.snapshot()))
            model = model_of(shape)
            model.restore(state)
            # A replay tells it of what its state knows already.
            if number >= known_after:
                model.jump(before, after)
        sent += model.take(each.source, Opcode.INSERT, PAIR.row(*each.row), each.rowtime)
    if known_after == len(arrived):
        sent += model.advance(before)
        model.jump(before, after)
    sent += model.advance(FAR)
    is_told = any(habits.resets for habits in shape.habits.values())
    assert by_output(shape, sent) == referred(shape, arrived, (before, after) if is_told else None)
