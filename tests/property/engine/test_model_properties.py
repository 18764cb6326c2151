"""A model that is saved and restored anywhere gives what it would have given."""

from __future__ import annotations

import pickle
from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from rowtide.engine import (
    DELETE,
    INSERT,
    AdditiveAggregator,
    Count,
    Fifo,
    First,
    Hashed,
    Ordered,
    Rowop,
    RowType,
    Sum,
    Table,
    TableType,
)
from rowtide.engine.model import ModelRun, ModelSetup, Sent
from rowtide.engine.recoverable import ModelFailure, RecoverableModel, Taken

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
    second.restore(pickle.loads(pickle.dumps(first.snapshot())))
    rest, end = feed(second, made[cut:], rowtime)
    assert given + rest + second.advance(end + keep) == expected
    assert second.next_event is None


def judge(sent: Sent) -> None:
    """Refuse some of what the model sends, when it has long changed its tables for it."""
    if sent.output == "silent" and sent.row.sensor == "b":
        raise ValueError("b is never silent")
    if sent.output == "totals" and sent.row.total == 4:
        raise ValueError("4 is no total")


def replayed(history: list[Taken | bool]) -> ModelRun:
    """Give a model that has seen just this: rows, events that ran, and events that were dropped."""
    run = ModelRun("totals", Totals, {"keep": 3})
    for each in history:
        if isinstance(each, Taken):
            run.take(*each)
        elif each:
            run.run_event()
        else:
            run.drop_event()
    return run


@given(steps, st.sampled_from([1, 2, 5, 1000]))
def test_a_model_that_failed_is_as_if_the_row_or_the_event_had_not_come(made: Steps, keep_after: int) -> None:
    model = RecoverableModel(lambda: ModelRun("totals", Totals, {"keep": 3}), judge, keep_after)
    history: list[Taken | bool] = []
    rowtime = 0
    for gap, opcode, sensor, value in made:
        rowtime += gap
        while model.next_event is not None and model.next_event <= rowtime:
            with suppress(ModelFailure):
                history.append(False)
                model.run_event()
                history[-1] = True
        taken = Taken("readings", INSERT if opcode > 0 else DELETE, (None, sensor, value), rowtime)
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
