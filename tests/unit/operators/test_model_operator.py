"""What a model in a pipeline must not do, and what happens when its class has changed."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from rowtide.engine import Fifo, Hashed, ModelSetup, Rowop, RowType, Table, TableType
from rowtide.errors import FaultError
from rowtide.operators import model as operator
from rowtide.operators.contract import OperatorSite
from rowtide.operators.registry import make
from rowtide.plan.nodes import Model, ModelPort, Source
from rowtide.plan.nodes.model import tagged
from rowtide.rows import types
from rowtide.rows.rowop import Opcode, TimedRow
from rowtide.rows.tray import Tray
from rowtide.rowtime.bound import LATEST, Bound

ROW = RowType(n="int64")
COLUMNS = types.RowType((types.Field("n", types.BIGINT),))
PORTS = (ModelPort("rows", COLUMNS),)
OWN = 5 << 16


class Ticking:
    """Asks for an event after each event; ``every`` milliseconds later."""

    def __init__(self, setup: ModelSetup, every: int = 0) -> None:
        ticks = setup.unit.label("ticks", ROW)

        @setup.unit.handler(ROW)
        def tick(rowop: Rowop) -> None:
            ticks.insert(rowop.row)
            setup.clock.at(setup.clock.rowtime + every, tick.adopt(rowop))

        setup.input("rows", tick)
        setup.output("ticks", ticks)


class Keeping:
    """Keeps rows; in another version under another index."""

    def __init__(self, setup: ModelSetup, version: int = 1) -> None:
        index = Hashed("n") if version == 1 else Hashed("n", all=Fifo())
        table = Table(setup.unit, f"rows{version}", TableType(ROW, by_n=index))
        setup.input("rows", table.input)
        setup.output("ticks", table.out)


class Touch:
    """Unpickled, it makes a file."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.file,)


class Careless:
    """Counts rows, fails at 13, and gives what it goes on changing as its state; it may be no plain value."""

    def __init__(self, setup: ModelSetup, plain: int = 1) -> None:
        self.seen: list[object] = []
        ticks = setup.unit.label("ticks", ROW)

        @setup.unit.handler(ROW)
        def see(rowop: Rowop) -> None:
            self.seen.append(rowop.row.n if plain else see)
            if rowop.row.n == 13:
                raise ValueError("unlucky")
            ticks.insert(ROW.row(len(self.seen)))

        setup.input("rows", see)
        setup.output("ticks", ticks)
        setup.unit.keep("seen", self)

    def snapshot(self) -> object:
        return self.seen

    def restore(self, state: object) -> None:
        assert isinstance(state, list)
        self.seen = state


def node(name: str, **options: str) -> Model:
    path = f"unit.operators.test_model_operator:{name}"
    given = (ModelPort("ticks", COLUMNS),)
    return Model("M", Source("S", tagged(PORTS)), path, tuple(options.items()), PORTS, given, tagged(given))


def rows(*times: int) -> Tray:
    timed = [TimedRow(at, 1 << 16, at, Opcode.INSERT, (0, at)) for at in times]
    return Tray.from_rows(tagged(PORTS), timed)


def test_events_without_end_stop_the_pipeline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operator, "MOST_EVENTS", 50)
    run = make(node("Ticking"), OperatorSite(OWN))
    with pytest.raises(FaultError, match='model "M" schedules events at rowtime 7 without end'):
        run.step(0, rows(7), Bound(7))


def test_a_model_that_ticks_for_ever_ends_at_the_end_of_time() -> None:
    run = make(node("Ticking", every="10"), OperatorSite(OWN))
    output = run.step(0, rows(0), Bound(25))
    assert output.tray is not None
    assert output.tray.rowtime.tolist() == [0, 10, 20]
    last = run.step(0, None, Bound(LATEST))
    assert last.tray is not None
    assert last.tray.rowtime.tolist() == [30]
    assert last.bound == Bound(LATEST)


def test_an_event_at_the_epoch_is_one_like_any_other() -> None:
    run = make(node("Ticking", every="10"), OperatorSite(OWN))
    run.step(0, rows(-10), Bound(-10))
    last = run.step(0, None, Bound(LATEST))
    assert last.tray is not None
    assert last.tray.rowtime.tolist() == [0]


def test_a_state_that_does_not_fit_the_class_any_more_is_refused_by_name() -> None:
    run = make(node("Keeping"), OperatorSite(OWN))
    run.step(0, rows(1, 2), Bound(2))
    newer = make(node("Keeping", version="2"), OperatorSite(OWN))
    with pytest.raises(FaultError, match='the state of model "M" does not fit') as caught:
        newer.restore(run.snapshot())
    assert "rows1" in caught.value.message
    assert caught.value.hint == "Run the version of the module that wrote it."


def test_a_stored_state_runs_no_code(tmp_path: Path) -> None:
    touched = tmp_path / "touched"
    run = make(node("Keeping"), OperatorSite(OWN))
    state = run.snapshot()
    content = pa.array([pickle.dumps(Touch(touched))], pa.large_binary())
    models = state[operator.MODELS]
    spoilt = models.set_column(models.schema.get_field_index(operator.STATE), operator.STATE, content)
    with pytest.raises(FaultError, match='the state of model "M" does not fit'):
        make(node("Keeping"), OperatorSite(OWN)).restore({**state, operator.MODELS: spoilt})
    assert not touched.exists()


def test_a_row_is_taken_back_from_a_state_that_the_model_goes_on_changing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(operator, "KEEP_AFTER", 2)
    run = make(node("Careless"), OperatorSite(OWN))
    output = run.step(0, rows(1, 2, 13, 13, 14, 13, 15), Bound(15))
    assert output.tray is not None
    assert [timed.row[-1] for timed in output.tray.rows()] == [1, 2, 3, 4]
    assert len(output.faults) == 3


def test_a_state_that_cannot_be_stored_or_is_too_large_stops_the_pipeline_by_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = make(node("Careless", plain="0"), OperatorSite(OWN))
    run.step(0, rows(1), Bound(1))
    with pytest.raises(FaultError, match='the state of model "M" cannot be stored: ') as caught:
        run.snapshot()
    assert "plain values" in (caught.value.hint or "")
    monkeypatch.setattr(operator, "MOST_STATE_BYTES", 20)
    large = make(node("Careless"), OperatorSite(OWN))
    large.step(0, rows(1), Bound(1))
    with pytest.raises(FaultError, match='state of model "M" is too large for a snapshot: more than 20 byt'):
        large.snapshot()
