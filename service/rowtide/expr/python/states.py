"""Aggregates in Python: a class whose methods make a state, add rows to it, and return its result.

A state is a value: after every call it is stored as bytes (``rows.typed_values``) and read again, so nothing
that a class keeps elsewhere, or changes afterwards, can differ after a restart. Whatever a class raises or
returns, only the row is rejected, or the row of the result.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

from rowtide.errors import Reason, RejectedRowError
from rowtide.expr.functions.arguments import unpacking
from rowtide.expr.python.aggregate_loading import AGGREGATE, load_class
from rowtide.expr.python.failures import file_of, given, raised, shown_with_type
from rowtide.expr.python.results import ResultMisfit, fit_of
from rowtide.expr.tree import PythonAggregate
from rowtide.rows.typed_values import STORABLE, StateError, dump_state, load_state

KEPT_FUNCTIONS = 256
"""Functions that are kept loaded: more than a pipeline has."""


@lru_cache(KEPT_FUNCTIONS)
def aggregator_of(of: PythonAggregate) -> Aggregator:
    """Return an aggregate, ready to be called.

    Raises:
      LoadingError: its module cannot be imported here, or its class has no state to begin with.
    """
    return Aggregator(of)


class Aggregator:
    """An aggregate over stored states; None is the state without any row."""

    def __init__(self, of: PythonAggregate) -> None:
        found = load_class(of.path, of.folder, AGGREGATE)
        self._name = of.name
        self._first = found.first
        self._object = found.object
        self._file = file_of(found.object.add)
        self._unpacked = unpacking(of.takes)
        self._fit = fit_of(of.returns)

    def added(self, state: bytes | None, packed: bytes) -> bytes:
        """Return the state with a row.

        Raises:
          RejectedRowError: the class raises, or the value that it returns cannot be stored as a state.
        """
        return self._changed("add", state, packed)

    def retracted(self, state: bytes | None, packed: bytes) -> bytes:
        """Return the state without a row that was added before.

        Raises:
          RejectedRowError: as for ``added``.
        """
        return self._changed("retract", state, packed)

    def folded(self, rows: Iterable[bytes]) -> bytes | None:
        """Return the state with these rows, in their order; None without rows. It is stored once.

        Raises:
          RejectedRowError: as for ``added``, for one of them.
        """
        state: Any = None
        args: Sequence[object] = ()
        for packed in rows:
            args = self._unpacked(packed)
            before = load_state(self._first) if state is None else state
            try:
                state = self._object.add(before, *args)
            except (Exception, SystemExit) as error:
                raise self._failed("add", args, error) from error
            if state is None:
                break
        else:
            if state is None:
                return None
        return self._stored("add", args, state)

    def result(self, state: bytes) -> object:
        """Return the result of a state in row form; None for NULL.

        Raises:
          RejectedRowError: the class raises, or its result is not a value of its type.
        """
        try:
            found = self._object.result(load_state(state))
        except (Exception, SystemExit) as error:
            raise RejectedRowError(
                Reason.FUNCTION, f"{self._name}.result {raised(error, 1, self._file)}"
            ) from error
        try:
            return None if found is None else self._fit(found)
        except ResultMisfit as misfit:
            what = f"{self._name}.result returned {shown_with_type(found)}, {misfit}"
            raise RejectedRowError(Reason.FUNCTION, what) from misfit

    def _changed(self, method: str, state: bytes | None, packed: bytes) -> bytes:
        """Return the state that ``add`` or ``retract`` makes of a state and a row."""
        args = self._unpacked(packed)
        try:
            found = getattr(self._object, method)(load_state(state or self._first), *args)
        except (Exception, SystemExit) as error:
            raise self._failed(method, args, error) from error
        return self._stored(method, args, found)

    def _failed(self, method: str, args: Sequence[object], error: BaseException) -> RejectedRowError:
        return self._rejected(method, args, raised(error, 1, self._file))

    def _stored(self, method: str, args: Sequence[object], state: object) -> bytes:
        try:
            if state is not None:
                return dump_state(state)
            why = "returned None: return the new state"
        except StateError as error:
            why = f"returned a state that cannot be kept: {error}; a state has {STORABLE}"
        raise self._rejected(method, args, why)

    def _rejected(self, method: str, args: Sequence[object], why: str) -> RejectedRowError:
        """Return the error of a row; calls of ``add`` are shown as they are written in SQL."""
        name = self._name if method == "add" else f"{self._name}.{method}"
        return RejectedRowError(Reason.FUNCTION, f"{name}({given(args)}) {why}")
