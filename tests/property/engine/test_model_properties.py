"""A model that is saved and restored anywhere gives what it would have given."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowtide.engine import (
    DELETE,
    INSERT,
    AdditiveAggregator,
    Collapse,
    Count,
    Fifo,
    First,
    Hashed,
    Ordered,
    Row,
    Rowop,
    RowType,
    Sum,
    Table,
    TableType,
)
from rowtide.engine.model import ModelRun, ModelSetup, Sent
from rowtide.engine.recoverable import ModelFailure, RecoverableModel, TakenRowop
from rowtide.engine.typed_state import dump_state, load_state

READING = RowType(time="int64", sensor="string", value="int64")


class Totals:
    """Sums up readings by sensor, forgets them after a while, and reports every sensor that fell silent."""

    def __init__(self, setup: ModelSetup, keep: int) -> None:
        unit, clock = setup.unit, setup.clock
        totals = AdditiveAggregator(
            "totals", READING, sensor=First("sensor"), total=Sum("value"), rows=Count()
        )
        readings = Table(
            unit,
            "readings",
            TableType(
                READING,
                by_time=Ordered("time", same=Fifo()),
                by_sensor=Hashed("sensor", arrived=Fifo().aggregate(totals)),
            ),
        )
        silent = unit.label("silent", READING)

        @unit.handler(READING)
        def expire(rowop: Rowop) -> None:
            readings.remove_while(lambda row: bool(row.time <= clock.rowtime - keep))
            if not len(readings.index("by_sensor").group(rowop.row)):
                silent.insert(rowop.row)

        @unit.handler(READING)
        def arrive(rowop: Rowop) -> None:
            row = READING.changed(rowop.row, time=clock.rowtime)
            readings.input.send(rowop.opcode, row)
            clock.at(clock.rowtime + keep, expire.rowop(INSERT, row))

        setup.input("readings", arrive)
        setup.output("totals", readings.results("totals"))
        setup.output("silent", silent)


steps = st.lists(
    st.tuples(
        st.integers(0, 4),
        st.sampled_from([INSERT, INSERT, INSERT, DELETE]),
        st.sampled_from("ab"),
        st.integers(0, 3),
    ),
    max_size=20,
)
Steps = list[tuple[int, int, str, int]]


def feed(run: ModelRun, made: Steps, rowtime: int) -> tuple[list[Sent], int]:
    sent: list[Sent] = []
    for gap, opcode, sensor, value in made:
        rowtime += gap
        sent += run.take("readings", INSERT if opcode > 0 else DELETE, (None, sensor, value), rowtime)
    return sent, rowtime


@given(steps, st.integers(0, 20), st.integers(1, 5))
def test_a_restored_model_gives_what_the_original_gives(made: Steps, cut: int, keep: int) -> None:
    whole = ModelRun("totals", Totals, {"keep": keep})
    expected, end = feed(whole, made, 0)
    expected += whole.advance(end + keep)

    first = ModelRun("totals", Totals, {"keep": keep})
    given, rowtime = feed(first, made[:cut], 0)
    second = ModelRun("totals", Totals, {"keep": keep})
    second.restore(load_state(dump_state(first.snapshot())))
    rest, end = feed(second, made[cut:], rowtime)
    assert given + rest + second.advance(end + keep) == expected
    assert second.next_event is None


def judge(sent: Sent) -> None:
    """Refuse some of what the model sends, when it has long changed its tables for it."""
    if sent.output == "silent" and sent.row.sensor == "b":
        raise ValueError("b is never silent")
    if sent.output == "totals" and sent.row.total == 4:
        raise ValueError("4 is no total")


def replayed(history: list[TakenRowop | bool]) -> ModelRun:
    """Return a model that has seen just this: rows, events that ran, and events that were dropped."""
    return repeated(ModelRun("totals", Totals, {"keep": 3}), history)


def repeated(run: ModelRun, history: list[TakenRowop | bool]) -> ModelRun:
    for each in history:
        if isinstance(each, TakenRowop):
            run.take(*each)
        elif each:
            run.run_event()
        else:
            run.drop_event()
    return run


@given(steps, st.sampled_from([1, 2, 5, 1000]))
def test_a_model_that_failed_is_as_if_the_row_or_the_event_had_not_come(made: Steps, keep_after: int) -> None:
    model = RecoverableModel(lambda: ModelRun("totals", Totals, {"keep": 3}), judge, keep_after)
    history: list[TakenRowop | bool] = []
    rowtime = 0
    for gap, opcode, sensor, value in made:
        rowtime += gap
        while model.next_event is not None and model.next_event <= rowtime:
            with suppress(ModelFailure):
                history.append(False)
                model.run_event()
                history[-1] = True
        taken = TakenRowop("readings", INSERT if opcode > 0 else DELETE, (None, sensor, value), rowtime)
        with suppress(ModelFailure):
            model.take(taken)
            history.append(taken)
        assert model.snapshot() == replayed(history).snapshot()


@given(steps, st.lists(st.integers(0, 3), max_size=20))
def test_bounds_between_rows_change_nothing_but_when_events_are_seen(made: Steps, waits: list[int]) -> None:
    plain = ModelRun("totals", Totals, {"keep": 3})
    expected, end = feed(plain, made, 0)
    expected += plain.advance(end + 3)
    bounded = ModelRun("totals", Totals, {"keep": 3})
    sent: list[Sent] = []
    rowtime = 0
    for (gap, opcode, sensor, value), wait in zip(made, [*waits, *[0] * 20], strict=False):
        sent += bounded.advance(rowtime + min(gap, wait))
        rowtime += gap
        sent += bounded.take("readings", INSERT if opcode > 0 else DELETE, (None, sensor, value), rowtime)
    assert sent + bounded.advance(rowtime + 3) == expected


class FailsSomewhere:
    """Changes one part after the other, and fails before, between or after, as the row says."""

    def __init__(self, setup: ModelSetup, is_counting: bool = True) -> None:
        unit, clock = setup.unit, setup.clock
        readings = Table(unit, "readings", TableType(READING, by_sensor=Hashed("sensor")))
        changed = Collapse("changed", READING, "sensor", unit=unit)
        later = unit.label("later", READING)
        if not is_counting:
            unit.keep("own", Remembers())

        def fail(row: Row, here: int) -> None:
            if row.value == here:
                raise ValueError(here)

        @unit.handler(READING)
        def again(rowop: Rowop) -> None:
            fail(rowop.row, 4)
            readings.delete(rowop.row)
            fail(rowop.row, 5)

        @unit.handler(READING)
        def arrive(rowop: Rowop) -> None:
            row = rowop.row
            fail(row, 0)
            readings.input.forward(rowop)
            fail(row, 1)
            changed.input.forward(rowop)
            fail(row, 2)
            unit.schedule(later.adopt(rowop))
            fail(row, 3)
            clock.at(clock.rowtime + 2, again.adopt(rowop))
            fail(row, 6)

        setup.input("readings", arrive)
        setup.output("later", later)


class Remembers:
    """A part of a model's own that does not tell whether it has changed."""

    def snapshot(self) -> int:
        return 0

    def restore(self, state: int) -> None:
        assert state == 0


failing = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from("ab"), st.sampled_from([0, 0, 1, 2, 3, 4, 5, 6, 7])),
    max_size=20,
)


@given(failing, st.integers(1, 5), st.booleans())
def test_wherever_a_model_fails_nothing_stays(
    made: list[tuple[int, str, int]], keep_after: int, is_counting: bool
) -> None:
    def fresh() -> ModelRun:
        return ModelRun("fails", FailsSomewhere, {"is_counting": is_counting})

    model = RecoverableModel(fresh, lambda sent: None, keep_after)
    history: list[TakenRowop | bool] = []
    rowtime = 0
    for gap, sensor, value in made:
        rowtime += gap
        while model.next_event is not None and model.next_event <= rowtime:
            history.append(False)
            with suppress(ModelFailure):
                model.run_event()
                history[-1] = True
        taken = TakenRowop("readings", INSERT, (None, sensor, value), rowtime)
        with suppress(ModelFailure):
            assert [sent.row.value for sent in model.take(taken)] == [value]
            history.append(taken)
        assert model.snapshot() == repeated(fresh(), history).snapshot()


def test_a_model_that_fails_before_it_has_changed_anything_is_not_made_anew() -> None:
    made: list[int] = []

    def make() -> ModelRun:
        made.append(1)
        return ModelRun("fails", FailsSomewhere)

    model = RecoverableModel(make, lambda sent: None)
    model.take(TakenRowop("readings", INSERT, (None, "a", 4), 0))
    for _ in range(3):
        with pytest.raises(ModelFailure):
            model.take(TakenRowop("readings", INSERT, (None, "a", 0), 1))
    with pytest.raises(ModelFailure):
        model.run_event()
    assert len(made) == 1
    with pytest.raises(ModelFailure):
        model.take(TakenRowop("readings", INSERT, (None, "a", 1), 3))
    assert len(made) == 2
