"""Table functions in Python: a class whose methods make a state, and rows of the rows that are added to it.

A state is stored as that of an aggregate is. Whatever a class raises or returns, only the row is rejected.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any

from rowtide.errors import Reason, RejectedRowError
from rowtide.expr.python.aggregate_loading import TABLE_FUNCTION, load_class
from rowtide.expr.python.failures import file_of, given, raised, shown_with_type
from rowtide.expr.python.results import ResultMisfit, fit_of
from rowtide.expr.python.states import KEPT_FUNCTIONS
from rowtide.expr.tree import PythonTable
from rowtide.rows.rowop import Row
from rowtide.rows.typed_values import STORABLE, StateError, dump_state, load_state

MOST_ROWS = 100_000
"""The most rows that one row can make: all of them are in memory together, and in one commit."""


@lru_cache(KEPT_FUNCTIONS)
def row_maker_of(of: PythonTable) -> RowMaker:
    """Return a table function, ready to be called.

    Raises:
      LoadingError: its module cannot be imported here, or its class has no state to begin with.
    """
    return RowMaker(of)


class RowMaker:
    """A table function over stored states; None is the state without any row."""

    def __init__(self, of: PythonTable) -> None:
        found = load_class(of.path, of.folder, TABLE_FUNCTION)
        self._name = of.name
        self._first = found.first
        self._object = found.object
        self._file = file_of(found.object.add)
        self._fits = [(field.name, fit_of(field.type)) for field in of.returns]

    def added(self, state: bytes | None, rowtime: int, args: Sequence[object]) -> tuple[bytes, list[Row]]:
        """Return the state with a row, and the rows that come out.

        Raises:
          RejectedRowError: the class raises, or does not return a state and rows of the declared columns.
        """
        try:
            returned = self._object.add(load_state(state or self._first), rowtime, *args)
            is_pair = isinstance(returned, tuple) and len(returned) == 2
            made = list(islice(returned[1], MOST_ROWS + 1)) if is_pair and _holds_rows(returned[1]) else None
        except (Exception, SystemExit) as error:
            raise self._rejected(args, raised(error, 1, self._file)) from error
        if made is None:
            raise self._rejected(args, "did not return two values: the new state and a list of rows")
        if len(made) > MOST_ROWS:
            raise self._rejected(args, f"returned more than {MOST_ROWS} rows")
        rows = [self._row(args, each) for each in made]
        try:
            if returned[0] is not None:
                return dump_state(returned[0]), rows
            why = "returned None as the state: return the new state"
        except StateError as error:
            why = f"returned a state that cannot be kept: {error}; a state has {STORABLE}"
        raise self._rejected(args, why)

    def _row(self, args: Sequence[object], values: Any) -> Row:
        """Return one row in row form."""
        if not isinstance(values, tuple | list) or len(values) != len(self._fits):
            count = len(self._fits)
            what = (
                f"a row of {len(values)} values"
                if isinstance(values, tuple | list)
                else type(values).__name__
            )
            wanted = f"a tuple of {count} {'value' if count == 1 else 'values'}"
            raise self._rejected(args, f"returned {what} where {wanted} is a row")
        row: list[object] = []
        for (name, fit), value in zip(self._fits, values, strict=True):
            try:
                row.append(None if value is None else fit(value))
            except ResultMisfit as misfit:
                why = f"returned {shown_with_type(value)} for {name}, {misfit}"
                raise self._rejected(args, why) from misfit
        return tuple(row)

    def _rejected(self, args: Sequence[object], why: str) -> RejectedRowError:
        return RejectedRowError(Reason.FUNCTION, f"{self._name}({given(args)}) {why}")


def _holds_rows(value: object) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str | bytes | dict)
