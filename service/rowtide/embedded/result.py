"""The rows of a query or a relation, held as columns."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from rowtide.embedded.values import moment_of, to_arrow, to_python
from rowtide.errors import StatementError
from rowtide.rows.column import Column
from rowtide.rows.rowop import Opcode
from rowtide.rows.tray import Tray
from rowtide.rows.types import MIN_TIMESTAMP_MS, TIMESTAMP, VARCHAR

if TYPE_CHECKING:
    import pandas
    import polars

ROWTIME, OP = "ROWTIME", "OP"


class Result:
    """Rows with names and types of their columns.

    Rows of a stream begin with ROWTIME, changes of a table with OP (``+`` or ``-``) and ROWTIME; rows of a table have
    neither. A ``Result`` is iterable, and its rows are tuples; whatever reads Arrow reads it as it is.
    """

    def __init__(
        self,
        tray: Tray,
        *,
        timed: bool = False,
        changes: bool = False,
        bound: int | None = None,
        notes: tuple[str, ...] = (),
    ) -> None:
        columns = dict(zip(tray.row_type.names, tray.columns, strict=True))
        leading = {}
        if changes:
            deleted = tray.opcode == Opcode.DELETE
            leading[OP] = Column.from_arrow(VARCHAR, pa.array(np.where(deleted, "-", "+"), pa.string()))
        if timed or changes:
            # Rows of INSERT statements of the pipeline come before all time: NULL.
            leading[ROWTIME] = Column(TIMESTAMP, tray.rowtime, tray.rowtime >= MIN_TIMESTAMP_MS)
        if both := leading.keys() & columns.keys():
            name = both.pop()
            raise StatementError(
                f'column "{name}" of the result has the name of what each row begins with',
                hint=f"Name it in the query: {name} AS other_name.",
            )
        self._columns = leading | columns
        self._bound = bound
        self._notes = notes

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(self._columns)

    @property
    def types(self) -> tuple[str, ...]:
        """The SQL types of the columns."""
        return tuple(str(column.type) for column in self._columns.values())

    @property
    def bound(self) -> datetime | None:
        """The rowtime bound: no further row would have an earlier ROWTIME; None if there is none, or no further row."""
        return None if self._bound is None else moment_of(self._bound)

    @property
    def notes(self) -> tuple[str, ...]:
        """A line for each row that the query could not process, with the relation and the reason."""
        return self._notes

    def to_arrow(self) -> pa.Table:
        """Return the rows as a table of Arrow."""
        return pa.table({name: to_arrow(column) for name, column in self._columns.items()})

    def to_pandas(self) -> pandas.DataFrame:
        """Return the rows as a DataFrame of pandas, which must be installed.

        Raises:
          StatementError: it is not.
        """
        _required("pandas")
        return self.to_arrow().to_pandas()

    def to_polars(self) -> polars.DataFrame:
        """Return the rows as a DataFrame of Polars, which must be installed.

        Raises:
          StatementError: it is not.
        """
        return _required("polars").from_arrow(self.to_arrow())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def __len__(self) -> int:
        return len(next(iter(self._columns.values())))

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return zip(*map(to_python, self._columns.values()), strict=True)

    def __repr__(self) -> str:
        names = ", ".join(f"{name} {kind}" for name, kind in zip(self.columns, self.types, strict=True))
        return f"<Result of {len(self)} rows: {names}>"


def _required(package: str) -> Any:
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise StatementError(
            f'package "{package}" is not installed', hint=f"Run: pip install {package}"
        ) from error
