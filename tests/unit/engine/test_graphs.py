"""Graphs in consistent time, by the pictures of the articles on it by the author of Triceps."""

from collections.abc import Sequence
from typing import Any

import pytest

from rowtide.engine.errors import ExecutionError, ModelError
from rowtide.engine.graph import At, Graph, GraphRun, Timer, Use, run_in_model
from rowtide.engine.model import ModelRun, ModelSetup
from rowtide.engine.recoverable import ModelFailure, RecoverableModel, TakenRowop, failure_text
from rowtide.engine.row_type import RowType
from rowtide.errors import BoundRegressionError, RejectedRowError
from rowtide.rows.rowop import Opcode
from rowtide.rowtime.bound import LATEST


class Marks:
    """Sends each row on with the node's name after it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def row(self, _port: str, row: object, at: At) -> None:
        at.send(f"{row}{self._name}")

    def event(self, payload: object, at: At) -> None:
        at.send(f"{payload}{self._name}!")


def diamond() -> Graph:
    """A feeds B and C, D reads both and prefers B."""
    graph = Graph()
    graph.source("in")
    graph.node("A", lambda: Marks("a"), ["in"])
    graph.node("B", lambda: Marks("b"), ["A"])
    graph.node("C", lambda: Marks("c"), ["A"])
    graph.node("D", lambda: Marks("d"), ["B", "C"])
    return graph


def rows(run: GraphRun, node: str = "D") -> list[object]:
    return [given.row for given in run.taken(node)]


def test_a_diamond_gives_the_copies_of_a_row_together_the_preferred_input_first() -> None:
    run = GraphRun(diamond(), ["D"])
    run.insert("in", 5, "x")
    run.insert("in", 5, "y")
    # C is far ahead of B, and D knows that it must not go before B.
    for node in ("A", "C", "D"):
        run.step(node, 10)
    assert rows(run) == []
    run.drain()
    # The last copy of y waits for nothing: B is past it once it has worked it off.
    assert rows(run) == ["xabd", "xacd", "yabd", "yacd"]


class Averages:
    """An alarm where no row has come for ten ms: one timer that every row moves."""

    def __init__(self) -> None:
        self._timer: int | None = None
        self.resets: list[tuple[int, int, int]] = []

    def row(self, _port: str, row: object, at: At) -> None:
        if self._timer is None:
            self._timer = at.schedule(at.rowtime + 10, row)
        else:
            at.reschedule(self._timer, at.rowtime + 10)

    def event(self, payload: object, at: At) -> None:
        self._timer = None
        at.send(("silent since", payload, at.rowtime))

    def reset(self, before: int, after: int, due: Sequence[Timer], at: At) -> None:
        self.resets.append((before, after, len(due)))
        self._timer = None
        at.send(("closed over night", before))


def alarm() -> tuple[Graph, Averages]:
    graph, processor = Graph(), Averages()
    graph.source("in")
    graph.node("D", lambda: processor, ["in"])
    return graph, processor


def test_a_timer_comes_when_its_time_is_reached_before_the_rows_of_that_time() -> None:
    graph, _ = alarm()
    run = GraphRun(graph, ["D"])
    run.insert("in", 1, "x")
    run.insert("in", 8, "y")
    run.drain()
    assert rows(run) == []
    run.insert("in", 18, "z")
    run.drain()
    assert rows(run) == [("silent since", "x", 18)]
    run.bound("in", 27)
    run.drain()
    assert rows(run) == []
    run.bound("in", 28)
    run.drain()
    assert rows(run) == [("silent since", "z", 28)]


def test_the_night_between_a_replay_and_today_is_told_once() -> None:
    graph, processor = alarm()
    run = GraphRun(graph, ["D"])
    run.insert("in", 100, "yesterday")
    run.reset(50_000)
    run.insert("in", 50_000, "today")
    run.bound("in", 50_100)
    run.drain()
    assert rows(run) == [("closed over night", 100), ("silent since", "today", 50_010)]
    assert processor.resets == [(100, 50_000, 1)]
    with pytest.raises(RejectedRowError, match="before its bound"):
        run.insert("in", 40_000, "too late")


class Down:
    """Sends a number on, and one less back into the loop."""

    def row(self, _port: str, row: object, at: At) -> None:
        assert isinstance(row, int)
        at.send((at.rowtime, row))
        if row:
            at.send(row - 1, to="back")

    def event(self, payload: object, at: At) -> None:
        at.send(payload)


class DownInRows(Down):
    """The same with rows of one field, as a model has them."""

    def row(self, _port: str, row: Any, at: At) -> None:
        (number,) = row
        at.send(row)
        if number:
            at.send((number - 1,), to="back")


class Passes:
    def row(self, _port: str, row: object, at: At) -> None:
        at.send(row)

    def event(self, payload: object, at: At) -> None:
        at.send(payload)


def looping(use: Use, delay_ms: int | None, down: type[Down] = Down) -> Graph:
    graph = Graph()
    graph.source("in")
    graph.node("B", Passes, ["in"])
    graph.node("D", down, ["B"])
    graph.loop("back", "D", "B", delay_ms, use)
    return graph


def test_a_consistent_loop_comes_back_exactly_one_delay_later() -> None:
    run = GraphRun(looping(Use.CONSISTENT, 10), ["D"])
    run.insert("in", 100, 2)
    run.insert("in", 115, 0)
    run.drain()
    assert rows(run) == [(100, 2), (110, 1), (115, 0)]
    # The next time round is at 120, and the input may still bring something before it.
    run.bound("in", 1_000_000)
    run.drain()
    assert rows(run) == [(120, 0)]
    assert run.decisions().restamped == []


def test_a_limited_loop_comes_back_as_soon_as_it_can_and_its_log_says_when() -> None:
    graph = looping(Use.LIMITED, 10)
    run = GraphRun(graph, ["D"])
    run.insert("in", 100, 1)
    run.insert("in", 104, 0)
    run.bound("in", 200)
    # Nothing can come back before 110, so B may go on.
    assert run.jump()
    run.step("B", 1)
    run.step("D", 1)
    run.drain()
    out = rows(run)
    # The second row still waited at B when the first came back: that went just before it.
    assert out == [(100, 1), (104, 0), (104, 0)]
    log = run.decisions()
    (decision,) = log.restamped
    assert (decision.link, decision.number, decision.original.rowtime) == ("back", 1, 100)
    assert (decision.stamp.rowtime, decision.last) == (104, False)
    late = GraphRun(graph, ["D"])
    late.insert("in", 100, 1)
    late.insert("in", 104, 0)
    late.bound("in", 200)
    # Here B had processed both: what comes back comes when the delay is over.
    late.drain()
    assert rows(late) == [(100, 1), (104, 0), (110, 0)]
    again = GraphRun(graph, ["D"], log)
    again.insert("in", 100, 1)
    again.insert("in", 104, 0)
    again.bound("in", 200)
    for _ in range(20):
        for node in ("B", "D"):
            again.step(node, 1)
    again.drain()
    assert rows(again) == out


def test_a_scheduler_that_a_loop_drives_wakes_the_node_above() -> None:
    class Wakes:
        def row(self, _port: str, row: object, at: At) -> None:
            # Wanted at once, and in an hour.
            at.schedule(at.rowtime, (row, "soon"), on="clock")
            at.schedule(at.rowtime + 3_600_000, (row, "late"), on="clock")

        def event(self, payload: object, at: At) -> None:
            raise AssertionError(payload, at)

    class Told:
        def row(self, _port: str, row: object, at: At) -> None:
            at.send(row)

        def event(self, payload: object, at: At) -> None:
            answer.append((at.rowtime, payload))

    answer: list[tuple[int, object]] = []
    graph = Graph()
    graph.source("in")
    graph.node("B", Told, ["in"])
    graph.node("D", Wakes, ["B"])
    graph.scheduler("clock", driven_by="D", to="B", delay_ms=50)
    run = GraphRun(graph, ["B"])
    run.insert("in", 1_000, "x")
    run.bound("in", 10_000_000)
    run.drain()
    assert answer == [(1_050, ("x", "soon")), (3_601_000, ("x", "late"))]


@pytest.mark.parametrize("use", [Use.LIMITED, Use.RECORDED])
def test_in_a_model_what_loops_comes_back_before_the_next_row(use: Use) -> None:
    reading = RowType(n="int64")
    graph = looping(use, 5, DownInRows)
    model = ModelRun("m", lambda setup: run_in_model(setup, graph, {"in": reading}, {"D": reading}))
    sent = [
        each
        for rowtime, n in ((100, 2), (100, 1), (103, 0))
        for each in model.take("in", Opcode.INSERT, reading.row(n), rowtime)
    ]
    # Each of the first two goes round as often as its number says.
    answer = [(each.rowtime, *each.row) for each in sent]
    assert answer == [(100, 2), (100, 1), (100, 0), (100, 1), (100, 0), (103, 0)]
    assert model.next_event is None


def test_in_a_model_a_loop_without_end_is_refused() -> None:
    class Echoes:
        def row(self, _port: str, row: object, at: At) -> None:
            at.send(row, to="back")

        def event(self, payload: object, at: At) -> None:
            raise AssertionError(payload, at)

    graph = Graph()
    graph.source("in")
    graph.node("A", Echoes, ["in"])
    graph.loop("back", "A", "A", use=Use.RECORDED)
    reading = RowType(n="int64")
    model = ModelRun("m", lambda setup: run_in_model(setup, graph, {"in": reading}, {"A": reading}))
    with pytest.raises(ExecutionError) as raised:
        model.take("in", Opcode.INSERT, reading.row(1), 7)
    assert 'looping link "back" loops without end at rowtime 7' in failure_text(raised.value)


def test_a_model_needs_a_row_type_for_each_source() -> None:
    reading = RowType(n="int64")
    with pytest.raises(ModelError, match="needs a row type"):
        run_in_model(ModelSetup("m"), looping(Use.CONSISTENT, 5), {"other": reading}, {"D": reading})


def test_what_cannot_be_a_graph_is_refused() -> None:
    graph = diamond()
    with pytest.raises(ModelError, match="is taken"):
        graph.node("D", Passes, ["A"])
    with pytest.raises(ModelError, match="not declared"):
        graph.node("E", Passes, ["F"])
    with pytest.raises(ModelError, match="needs inputs"):
        graph.node("E", Passes, [])
    with pytest.raises(ModelError, match="needs a delay"):
        graph.loop("back", "D", "B")
    with pytest.raises(ModelError, match="needs a delay"):
        graph.scheduler("clock", "D", "B", 0)
    with pytest.raises(ModelError, match="not a node"):
        graph.loop("back", "D", "in", 5)
    run = GraphRun(graph, ["D"])
    run.bound("in", 10)
    with pytest.raises(BoundRegressionError):
        run.bound("in", 9)
    with pytest.raises(BoundRegressionError):
        run.reset(9)
    run.bound("in", LATEST)
    run.drain()
    assert rows(run) == []


def test_in_a_model_an_event_that_fails_is_dropped_and_what_comes_later_comes() -> None:
    class Fails:
        def row(self, port: str, row: object, at: At) -> None:
            if port == "in":
                at.schedule(at.rowtime + 10, "fails")
                at.schedule(at.rowtime + 20, "comes")
                at.send(row, to="back")
            at.send(row)

        def event(self, payload: object, at: At) -> None:
            if payload == "fails":
                raise ValueError("it fails")
            at.send((0,))

    def wire(setup: ModelSetup) -> None:
        graph = Graph()
        graph.source("in")
        graph.node("A", Fails, ["in"])
        graph.loop("back", "A", "A", 15)
        run_in_model(setup, graph, {"in": reading}, {"A": reading})

    reading = RowType(n="int64")
    model = RecoverableModel(lambda: ModelRun("m", wire), lambda _sent: None)
    for _ in range(2):
        model.take(TakenRowop("in", Opcode.INSERT, reading.row(7), 100))
    assert (model.next_event, model.last_event) == (110, 120)
    with pytest.raises(ModelFailure, match="it fails"):
        model.run_event()
    # Nothing else was due at 110. The rest of the time goes on, and rows are not to blame.
    answer = []
    answer += model.take(TakenRowop("in", Opcode.INSERT, reading.row(8), 112))
    while model.next_event is not None and model.next_event < 122:
        answer += model.run_event()
    assert [(each.rowtime, *each.row) for each in answer] == [
        (112, 8),
        (115, 7),
        (115, 7),
        (120, 0),
        (120, 0),
    ]
