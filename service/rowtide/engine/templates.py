"""Templates: parts that many models need, built from tables and labels."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rowtide.engine.generated import generated
from rowtide.engine.projection import EVERY_FIELD, choose_fields, project
from rowtide.engine.row_type import Row, RowType
from rowtide.engine.table.table import Table
from rowtide.engine.table.table_type import TableType
from rowtide.engine.unit.label import Label
from rowtide.engine.unit.rowop import NOP, Rowop, Tray
from rowtide.engine.unit.unit import Unit

Condition = Callable[[Row, Row], bool]
"""Returns, for a query row and a row of the table, whether the query selects that row."""


def equal_where_set(row_type: RowType, *fields: str) -> Condition:
    """Return a condition that is true for rows equal to the query in those of ``fields`` that the query sets.

    The default for ``fields`` is all fields. A field of the query is not set if it is NULL, 0 or empty.
    """
    places = [row_type.index(name) for name in fields or row_type.names]
    tests = [f"(not query[{place}] or query[{place}] == row[{place}])" for place in places]
    return generated("equal_where_set", ("query", "row"), [f"return {' and '.join(tests) or True}"])


def equal_to(query: Row, row_type: RowType, *fields: str) -> Callable[[Row], bool]:
    """Return a condition that is true for rows equal to ``query`` in those of ``fields`` that it sets.

    The default for ``fields`` is all fields. The function is generated for this query and reads only the
    fields that it sets.
    """
    places = [row_type.index(name) for name in fields or row_type.names]
    tests = [f"row[{place}] == query[{place}]" for place in places if query[place]]
    return generated("equal_to", ("row",), [f"return {' and '.join(tests) or True}"], query=query)


class TableQuery:
    """Answers each rowop at ``input`` by sending rows of a table to ``out``, followed by a NOP of NULLs.

    ``where`` selects the rows, given the row of the query and a row of the table; ``fields`` are patterns
    for the fields to send, as for ``choose_fields``. The labels are called ``name.in`` and ``name.out``;
    ``suffixes`` changes these endings.
    """

    def __init__(
        self,
        name: str,
        table: Table,
        *,
        fields: Sequence[str] = EVERY_FIELD,
        where: Condition | None = None,
        suffixes: tuple[str, str] = ("in", "out"),
    ) -> None:
        self._table = table
        self._where = where
        row_type = table.row_type
        self.result_type, self._project = project((row_type, choose_fields(row_type.names, fields)))
        self.input = table.unit.label(f"{name}.{suffixes[0]}", row_type, self._answer)
        self.out = table.unit.label(f"{name}.{suffixes[1]}", self.result_type)

    def _answer(self, rowop: Rowop) -> None:
        for row in self._table:
            if self._where is None or self._where(rowop.row, row):
                self.out.insert(self._project(row))
        self.out.send(NOP, self.result_type.row())


class QueriedTable:
    """A table with a ``TableQuery``.

    A rowop at ``query`` (the label ``name.query``) is answered at ``response`` (``name.response``);
    ``input``, ``pre`` and ``out`` are the labels of the table.
    """

    def __init__(
        self,
        unit: Unit,
        name: str,
        table_type: TableType,
        *,
        fields: Sequence[str] = EVERY_FIELD,
        where: Condition | None = None,
    ) -> None:
        self.name = name
        self.table = Table(unit, name, table_type)
        self.input, self.pre, self.out = self.table.input, self.table.pre, self.table.out
        answers = TableQuery(name, self.table, fields=fields, where=where, suffixes=("query", "response"))
        self.query, self.response = answers.input, answers.out


class ChunkedRemoval:
    """Removes rows in portions, so that clearing a large table does not block the rest of the model.

    A rowop at ``input`` removes up to ``limit`` rows from the beginning of the table while they are
    ``unwanted``. If more such rows are left, the rowop is put into the tray ``idle``, which the model
    schedules when it has nothing else to do; otherwise it is sent to ``done``.
    """

    def __init__(
        self,
        name: str,
        table: Table,
        command_type: RowType,
        idle: Tray,
        *,
        limit: int,
        unwanted: Callable[[Row], bool] = lambda row: True,
    ) -> None:
        self._table = table
        self._idle = idle
        self._limit = limit
        self._unwanted = unwanted
        self.input: Label = table.unit.label(f"{name}.in", command_type, self._remove)
        self.done: Label = table.unit.label(f"{name}.done", command_type)

    def _remove(self, rowop: Rowop) -> None:
        self._table.remove_while(self._unwanted, limit=self._limit)
        first = self._table.first()
        if first is not None and self._unwanted(first.row):
            # Adopted, so that only this label runs again and not the chain that led to it.
            self._idle.append(self.input.adopt(rowop))
        else:
            self.done.forward(rowop)
