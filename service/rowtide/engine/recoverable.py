"""A model that can be rolled back: after an error it has the state before the step that failed.

An error leaves a model in an unknown state, so a failed model is discarded: a new
one restores the last state that was kept and repeats the steps since then. The
result is the same, because snapshots hold the whole state of a model. Only a
model whose parts all count their changes, and have not changed, is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from rowtide.engine.errors import ExecutionError
from rowtide.engine.model import ModelRun, Sent
from rowtide.engine.row_type import Row
from rowtide.engine.table.table import Table
from rowtide.engine.typed_state import STORABLE, StateError, dump_state, load_state
from rowtide.errors import FaultError
from rowtide.rows.rowop import Opcode

KEEP_AFTER = 8192
"""The most steps to repeat: the model keeps a state after this number of steps, or of as many steps as it
has rows if that is more, so that states cost little compared with the steps."""


class TakenRowop(NamedTuple):
    """One rowop for an input of a model."""

    name: str
    opcode: Opcode
    row: Row
    rowtime: int


class Jumped(NamedTuple):
    """Time jumped, from ``before`` to ``after`` (ms)."""

    before: int
    after: int


class ModelFailure(Exception):
    """A model failed at a row or an event; it has the state before that step."""


Judge = Callable[[Sent], None]
"""Raises ValueError for a rowop that cannot be an output."""


class RecoverableModel:
    """A running model that handles each row and event completely or not at all.

    ``make`` returns a new run of the model, ``judge`` raises an error for invalid output, and ``keep_after``
    is the least number of steps after which a state is kept.
    """

    def __init__(self, make: Callable[[], ModelRun], judge: Judge, keep_after: int = KEEP_AFTER) -> None:
        self._make = make
        self._keep_after = keep_after
        self._judge = judge
        self._run = make()
        # As bytes: a part of the model can return an object that it modifies later.
        self._kept: bytes | None = None
        # The steps since then: a rowop, a jump of time, or an event that ran (True) or failed (False).
        self._since: list[TakenRowop | Jumped | bool] = []
        self._keep_at = keep_after

    @property
    def next_event(self) -> int | None:
        """The rowtime of the next event, or None."""
        return self._run.next_event

    @property
    def last_event(self) -> int | None:
        """The rowtime of the last event that is known, or None."""
        return self._run.last_event

    @property
    def tables(self) -> Mapping[str, Table]:
        """The tables that can be read, by name; valid until the next step."""
        return self._run.tables

    def take(self, taken: TakenRowop) -> list[Sent]:
        """Run one rowop at an input; all events up to its rowtime must have run.

        Raises:
          ModelFailure: if the model failed; the rowop has had no effect.
        """
        mark = self._run.mark()
        try:
            sent = self._judged(self._run.take(*taken))
        except Exception as error:
            # A model can raise any error. It is discarded, and the error is reported for this row.
            if not self._run.forget_since(mark):
                self._take_back()
            raise ModelFailure(failure_text(error)) from error
        self._log(taken)
        return sent

    def run_event(self) -> list[Sent]:
        """Run the next event.

        Raises:
          ModelFailure: if the model failed; the event is dropped.
        """
        mark = self._run.mark()
        try:
            sent = self._judged(self._run.run_event())
        except Exception as error:
            # As above.
            if not self._run.forget_since(mark, dropped=1):
                self._take_back()
                self._run.drop_event()
            self._log(False)
            raise ModelFailure(failure_text(error)) from error
        self._log(True)
        return sent

    @property
    def wants_jump(self) -> bool:
        """Whether the model has handlers for the end of history."""
        return self._run.wants_jump

    def jump(self, before: int, after: int) -> None:
        """Call the handlers for the end of history, at ``before``; live data begins at ``after`` (ms)."""
        self._run.jump(before, after)
        self._log(Jumped(before, after))

    def snapshot(self) -> Mapping[str, Any]:
        """Return the state of the model by name, as plain values."""
        return self._run.snapshot()

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore, in a new model, the state that ``snapshot`` returned."""
        self._run.restore(state)
        self._keep()

    def _judged(self, sent: list[Sent]) -> list[Sent]:
        for each in sent:
            self._judge(each)
        return sent

    def _log(self, step: TakenRowop | Jumped | bool) -> None:
        self._since.append(step)
        if len(self._since) >= self._keep_at:
            self._keep()

    def _keep(self) -> None:
        self._kept = stored(self._run.snapshot(), self._run.name)
        self._since.clear()
        self._keep_at = max(self._keep_after, self._run.held())

    def _take_back(self) -> None:
        self._run = self._make()
        if self._kept is not None:
            self._run.restore(load_state(self._kept))
        for step in self._since:
            if step is True:
                self._run.run_event()
            elif step is False:
                self._run.drop_event()
            elif isinstance(step, Jumped):
                self._run.jump(*step)
            else:
                self._run.take(*step)
        # Repeating a step costs several times as much as keeping a row.
        if len(self._since) * 4 > self._run.held():
            self._keep()


def stored(state: object, model: str) -> bytes:
    """Return a model's state as bytes that ``load_state`` reads.

    Raises:
      FaultError: if it contains something that is not a plain value.
    """
    try:
        return dump_state(state)
    except StateError as error:
        raise FaultError(
            f'the state of model "{model}" cannot be stored: {error}',
            hint=f"snapshot() must return plain values: {STORABLE}.",
        ) from error


def failure_text(error: BaseException) -> str:
    """Return the error of a model on one line: the label and the exception."""
    where, cause = "", error
    if isinstance(error, ExecutionError):
        where = f'label "{error.label}": '
        cause = error.__cause__ or error
    text = " ".join(str(getattr(cause, "message", cause)).split())
    return f"{where}{type(cause).__name__}: {text}" if text else f"{where}{type(cause).__name__}"
