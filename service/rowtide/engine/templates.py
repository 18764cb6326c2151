"""Templates: pieces of a model that are made again and again, put together from tables and labels."""

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
"""Tells for a query row and a row of the table whether the query asks for it."""


def equal_where_set(row_type: RowType, *fields: str) -> Condition:
    """Give the condition that a row equals the query in ``fields`` (default: all) that the query sets.

    A field of the query is not set if it is NULL, 0 or empty.
    """
    places = [row_type.index(name) for name in fields or row_type.names]
    tests = [f"(not query[{place}] or query[{place}] == row[{place}])" for place in places]
    return generated("equal_where_set", ("query", "row"), [f"return {' and '.join(tests) or True}"])


def equal_to(query: Row, row_type: RowType, *fields: str) -> Callable[[Row], bool]:
    """Give the condition that a row equals this very query in ``fields`` (default: all) that it sets.

    Made for each query: what is not asked for is not looked at.
    """
    places = [row_type.index(name) for name in fields or row_type.names]
    tests = [f"row[{place}] == query[{place}]" for place in places if query[place]]
    return generated("equal_to", ("row",), [f"return {' and '.join(tests) or True}"], query=query)


class TableQuery:
    """Answers each rowop at ``input`` with the rows of a table at ``out``, then an all-NULL NOP.

    The labels are ``name.in`` and ``name.out``, or end in other ``suffixes``. ``fields`` are patterns as
    in ``engine.projection``; ``where`` picks rows.
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
    """A table together with its query (seed 000, lines 5341-5459).

    A rowop at ``query`` (the label ``name.query``) is answered at ``response`` (``name.response``) as by
    ``TableQuery``; ``input``, ``pre`` and ``out`` are the table's own labels. Where the original adds a
    factory for its templates to the unit, the class is called with the unit.
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
    """Removes rows a few at a time, so that a long clearing does not hold up the rest of the model.

    A rowop at ``input`` removes up to ``limit`` rows from the beginning of the table, as long as they are
    ``unwanted``. If more are left, the rowop is put into ``idle``, for the model to schedule when it has
    nothing else to do; else it goes on to ``done``.
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
            # Adopted, so that only this label runs again and not a whole chain above it.
            self._idle.append(self.input.adopt(rowop))
        else:
            self.done.forward(rowop)
