"""A model that can be taken back: after an error it stands as if what failed had never come.

An error leaves a model in the middle of something, and no label says what it
has changed already. So a model that failed is thrown away: a fresh one takes
over the last state that was kept and repeats what came since. That gives the
same as before, as a model remembers nothing but what its snapshots hold. Only
one whose parts all tell that they have not changed yet goes on as it is.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from rowtide.engine.errors import ExecutionError
from rowtide.engine.model import ModelRun, Sent
from rowtide.engine.row_type import Row
from rowtide.engine.table.table import Table
from rowtide.errors import FaultError
from rowtide.rows.rowop import Opcode

KEEP_AFTER = 8192
"""Rows and events that are repeated at most: a state is kept after as many, or after as many as it
holds rows, so that keeping costs little against what they cost."""


class Taken(NamedTuple):
    """One rowop that an input of a model took."""

    name: str
    opcode: Opcode
    row: Row
    rowtime: int


class Jumped(NamedTuple):
    """Time jumped, from ``before`` to ``after`` (ms)."""

    before: int
    after: int


class ModelFailure(Exception):
    """A row or an event made the model fail; the model is as if it had not come."""


Judge = Callable[[Sent], None]
"""Raises ValueError where what the model gives cannot be an output."""


class RecoverableModel:
    """A model at work that takes a row or runs an event as a whole or not at all.

    ``make`` gives a new run of the model, ``judge`` raises where what it sends must not leave;
    ``keep_after`` is the least number of steps after which a state is kept.
    """

    def __init__(self, make: Callable[[], ModelRun], judge: Judge, keep_after: int = KEEP_AFTER) -> None:
        self._make = make
        self._keep_after = keep_after
        self._judge = judge
        self._run = make()
        # As bytes: what a part of the model gives may be what it goes on changing.
        self._kept: bytes | None = None
        # What came since: a rowop, a jump of time, or an event that ran (True) or that failed (False).
        self._since: list[Taken | Jumped | bool] = []
        self._keep_at = keep_after

    @property
    def next_event(self) -> int | None:
        """The rowtime of the next event, or None."""
        return self._run.next_event

    @property
    def last_event(self) -> int | None:
        """The rowtime of the last of the events that are known now, or None."""
        return self._run.last_event

    @property
    def tables(self) -> Mapping[str, Table]:
        """The tables that the model lets others read, by name; not to be kept beyond the next step."""
        return self._run.tables

    def take(self, taken: Taken) -> list[Sent]:
        """Let an input take a rowop; every event up to its rowtime must have run.

        Raises:
          ModelFailure: the model failed; the rowop was not taken.
        """
        mark = self._run.mark()
        try:
            sent = self._judged(self._run.take(*taken))
        except Exception as error:
            # Whatever a model raises: it is thrown away, and the row is the one that is told of.
            if not self._run.forget_since(mark):
                self._take_back()
            raise ModelFailure(failure_text(error)) from error
        self._log(taken)
        return sent

    def run_event(self) -> list[Sent]:
        """Run the next event.

        Raises:
          ModelFailure: the model failed; the event is dropped.
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
        """Tell whether the model wants to know when history is over."""
        return self._run.wants_jump

    def jump(self, before: int, after: int) -> None:
        """Tell the model that history ended at ``before`` and what is live begins at ``after`` (ms)."""
        self._run.jump(before, after)
        self._log(Jumped(before, after))

    def snapshot(self) -> Mapping[str, Any]:
        """Give everything that the model remembers, as plain values by name."""
        return self._run.snapshot()

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over, while new, what ``snapshot`` gave."""
        self._run.restore(state)
        self._keep()

    def _judged(self, sent: list[Sent]) -> list[Sent]:
        for each in sent:
            self._judge(each)
        return sent

    def _log(self, step: Taken | Jumped | bool) -> None:
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
            self._run.restore(pickle.loads(self._kept))
        for step in self._since:
            if step is True:
                self._run.run_event()
            elif step is False:
                self._run.drop_event()
            elif isinstance(step, Jumped):
                self._run.jump(*step)
            else:
                self._run.take(*step)
        # Repeating a step costs several times what keeping a row does.
        if len(self._since) * 4 > self._run.held():
            self._keep()


def stored(state: object, model: str) -> bytes:
    """Give a model's state as bytes.

    Raises:
      FaultError: something in it is no plain value.
    """
    try:
        return pickle.dumps(state, protocol=5)
    except Exception as error:
        # What a part of a model gives is the model's own, and pickling it fails in any way.
        raise FaultError(
            f'the state of model "{model}" cannot be stored: {type(error).__name__}: {error}',
            hint="What snapshot() gives must be plain values: numbers, text, tuples, lists, dicts.",
        ) from error


def failure_text(error: BaseException) -> str:
    """Say what a model failed with: the label and what was raised in it, on one line."""
    where, cause = "", error
    if isinstance(error, ExecutionError):
        where = f'label "{error.label}": '
        cause = error.__cause__ or error
    text = " ".join(str(getattr(cause, "message", cause)).split())
    return f"{where}{type(cause).__name__}: {text}" if text else f"{where}{type(cause).__name__}"
