"""Rows of scenario files as rows of a relation: input rows and expected rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from rowtide.codec.written.times import ScenarioDay
from rowtide.codec.written.values import number_of, value_of
from rowtide.errors import StatementError
from rowtide.rows.rowop import Opcode, Row
from rowtide.rows.types import Field, Kind, RowType, Type
from rowtide.testing.compare import ANY, ExpectedRow, Misfit
from rowtide.testing.scenario import Cell, ListRow, NamedRow, ScenarioRow

OPCODES = {"+": Opcode.INSERT, "-": Opcode.DELETE}
ROWTIME, OP = "ROWTIME", "OP"


@dataclass(frozen=True, slots=True)
class RelationShape:
    """The shape of a relation's rows in a scenario.

    ``name`` is the catalog name. With ``is_changes``, rows begin with an opcode: rows of a table or a
    changelog.
    """

    name: str
    row_type: RowType
    is_changes: bool = False


@dataclass(frozen=True, slots=True)
class InputRow:
    """One row to insert; without ``rowtime`` (ms) it gets the time of arrival."""

    rowtime: int | None
    row: Row
    opcode: Opcode = Opcode.INSERT


class RowReader:
    """Converts rows of one relation.

    Args:
      shape: the relation's.
      day: the date of values that have only a time of day.
      fold: returns the catalog name of a column, as SQL folds it.
    """

    def __init__(self, shape: RelationShape, day: ScenarioDay, fold: Callable[[str], str]) -> None:
        self._shape = shape
        self._day = day
        self._fold = fold

    def inputs(self, rows: Iterable[ScenarioRow]) -> list[InputRow]:
        """Convert rows to insert.

        Raises:
          StatementError: if a row does not fit the relation; the message has the line.
        """
        return [self._input(row) for row in rows]

    def wanted(self, rows: Iterable[ScenarioRow]) -> list[ExpectedRow]:
        """Convert rows that are expected to come out.

        Raises:
          StatementError: if one has other columns than the relation.
        """
        return [self._wanted(row) for row in rows]

    def wanted_contents(self, rows: Iterable[ScenarioRow]) -> list[ExpectedRow]:
        """Convert rows that a table is expected to hold: without opcode and ROWTIME.

        Raises:
          StatementError: if one has other columns than the relation.
        """
        return [self._wanted_content(row) for row in rows]

    def _refusal(self, row: ScenarioRow, message: str) -> StatementError:
        names = ", ".join(self._shape.row_type.names)
        return StatementError(
            f'line {row.line}: {message} "{self._shape.name}"', hint=f"Its columns are {names}."
        )

    def _input(self, row: ScenarioRow) -> InputRow:
        if isinstance(row, NamedRow):
            opcode, rowtime, named = self._split(row)
            cells = [named.get(column.name) for column in self._shape.row_type]
            given = OPCODES.get(opcode or "+")
            if given is None:
                raise self._refusal(row, f'OP is "+" or "-", not "{opcode}", in a row of')
        else:
            given, rowtime, cells = self._positional(row)
            missing = len(self._shape.row_type) - len(cells)
            # A delete needs only the key, and key columns mostly come first.
            if given is Opcode.DELETE and missing > 0:
                cells += [None] * missing
            self._counted(row, cells)
        values = (
            self._value(row, column, cell) for column, cell in zip(self._shape.row_type, cells, strict=True)
        )
        return InputRow(self._rowtime(row, rowtime), tuple(values), given)

    def _value(self, row: ScenarioRow, column: Field, cell: Cell) -> object:
        if cell is None:
            return None
        try:
            return self._value_of(cell, column.type)
        except ValueError as error:
            raise self._refusal(row, f'{error}, in column "{column.name}" of') from error

    def _value_of(self, cell: str | tuple[str | None, ...], kind: Type) -> object:
        """Return the value of a cell; a list is an array.

        Raises:
          ValueError: it is not a value of the type.
        """
        if isinstance(cell, str):
            return value_of(cell, kind, self._day)
        element = kind.element
        if element is None:
            raise ValueError(f"a list is not a value of {kind}: text that looks like YAML needs quotes")
        return tuple(None if each is None else value_of(each, element, self._day) for each in cell)

    def _rowtime(self, row: ScenarioRow, cell: Cell) -> int | None:
        if cell is None:
            return None
        try:
            return self._day.parse(_one(cell))
        except ValueError as error:
            raise self._refusal(row, f"{error}, in ROWTIME of") from error

    def _positional(self, row: ListRow) -> tuple[Opcode, Cell, list[Cell]]:
        cells = list(row.cells)
        opcode = Opcode.INSERT
        if cells and isinstance(cells[0], str) and cells[0] in OPCODES:
            opcode = OPCODES[cells[0]]
            del cells[0]
        if not cells:
            raise self._refusal(row, "a row begins with its ROWTIME, in a row of")
        return opcode, cells[0], cells[1:]

    def _counted(self, row: ScenarioRow, cells: list[Cell]) -> None:
        wanted = len(self._shape.row_type)
        if len(cells) != wanted:
            raise self._refusal(
                row, f"a row has {wanted} columns after its ROWTIME, not {len(cells)}, in a row of"
            )

    def _split(self, row: NamedRow) -> tuple[str | None, Cell, dict[str, Cell]]:
        """Return opcode, ROWTIME and the named columns by catalog name."""
        opcode: str | None = None
        rowtime: Cell = None
        named: dict[str, Cell] = {}
        known = self._shape.row_type.names
        for text, cell in row.cells:
            name = self._fold(text)
            if name in named:
                raise self._refusal(row, f'column "{name}" is named twice in a row of')
            if name in known:
                named[name] = cell
            elif name == ROWTIME:
                rowtime = cell
            elif name == OP and not isinstance(cell, tuple):
                opcode = cell
            else:
                raise self._refusal(row, f'column "{name}" does not exist in')
        return opcode, rowtime, named

    def _names(self, row: NamedRow) -> set[str]:
        return {self._fold(text) for text, _ in row.cells}

    def _wanted(self, row: ScenarioRow) -> ExpectedRow:
        if isinstance(row, NamedRow):
            opcode, rowtime, named = self._split(row)
            names = self._names(row)
            if opcode is not None and opcode not in OPCODES:
                raise self._refusal(row, f'OP is "+" or "-", not "{opcode}", in a row of')
            return ExpectedRow(
                self._wanted_rowtime(rowtime) if ROWTIME in names else ANY,
                self._wanted_named(named),
                ANY if opcode is None else OPCODES[opcode],
            )
        given, rowtime, cells = self._positional(row)
        self._counted(row, cells)
        return ExpectedRow(self._wanted_rowtime(rowtime), self._wanted_values(cells), given)

    def _wanted_content(self, row: ScenarioRow) -> ExpectedRow:
        if isinstance(row, NamedRow):
            opcode, rowtime, named = self._split(row)
            if opcode is not None or rowtime is not None:
                raise self._refusal(row, "rows of expect_table have neither OP nor ROWTIME, in a row of")
            return ExpectedRow(ANY, self._wanted_named(named), ANY)
        cells = list(row.cells)
        if len(cells) != len(self._shape.row_type):
            raise self._refusal(
                row,
                f"a row of expect_table has {len(self._shape.row_type)} columns, and neither opcode nor "
                f"ROWTIME; this one has {len(cells)}, in a row of",
            )
        return ExpectedRow(ANY, self._wanted_values(cells), ANY)

    def _wanted_named(self, named: dict[str, Cell]) -> tuple[object, ...]:
        return tuple(
            self._wanted_value(column, named[column.name]) if column.name in named else ANY
            for column in self._shape.row_type
        )

    def _wanted_values(self, cells: list[Cell]) -> tuple[object, ...]:
        return tuple(
            self._wanted_value(column, cell) for column, cell in zip(self._shape.row_type, cells, strict=True)
        )

    def _wanted_rowtime(self, cell: Cell) -> int | Misfit | None:
        if cell is None:
            return None
        try:
            return self._day.parse(_one(cell))
        except ValueError:
            return Misfit(str(cell))

    def _wanted_value(self, column: Field, cell: Cell) -> object:
        if cell is None:
            return None
        kind = column.type
        try:
            if isinstance(cell, tuple) or kind.element is not None:
                return self._value_of(cell, kind)
            # An expected value may exceed the declared width: that is a difference, not an error in the file.
            if kind.is_string:
                return cell
            if kind.is_exact:
                return number_of(cell)
            if kind.is_binary:
                return value_of(cell, type(kind)(Kind.VARBINARY), self._day)
            return value_of(cell, kind, self._day)
        except ValueError:
            return Misfit(str(cell))


def _one(cell: str | tuple[str | None, ...]) -> str:
    """Return a cell that is not a list.

    Raises:
      ValueError: it is a list.
    """
    if isinstance(cell, str):
        return cell
    raise ValueError("a time is one value, not a list")
