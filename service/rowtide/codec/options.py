"""Options of formats: of a foreign stream and of its columns, declared once by each format."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from rowtide.errors import StatementError
from rowtide.rows.types import RowType

Options = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class FormatOption:
    """An option that a format takes, of the stream or of one of its columns (``of_column``)."""

    name: str
    meaning: str
    of_column: bool = False
    default: str | None = None
    secret: bool = False


class FormatOptionError(StatementError):
    """An option of a format is wrong; ``option`` is its name, ``column`` the column that has it, if one has."""

    def __init__(
        self, message: str, option: str, *, column: str | None = None, hint: str | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.option = option
        self.column = column


@dataclass(frozen=True, slots=True)
class Declared:
    """What a foreign stream declares of its messages: columns, and the options of the format."""

    relation: str
    row_type: RowType
    options: Options = field(default_factory=dict)
    columns: Mapping[str, Options] = field(default_factory=dict)
    """Options of columns by the column's name."""

    def of(self, column: str) -> Options:
        """Return the options of a column."""
        return self.columns.get(column, {})

    def error(
        self, option: str, problem: str, *, column: str | None = None, hint: str | None = None
    ) -> FormatOptionError:
        """Return the error about an option of the stream, or of one of its columns."""
        where = f'column "{column}" of ' if column is not None else ""
        message = f'option "{option}" of {where}foreign stream "{self.relation}": {problem}'
        return FormatOptionError(message, option, column=column, hint=hint)


def check_column_options(format_name: str, declared: Declared, taken: Iterable[FormatOption]) -> None:
    """Refuse options of columns that a format does not take.

    Raises:
      FormatOptionError: naming the option.
    """
    names = [option.name for option in taken if option.of_column]
    for column, options in declared.columns.items():
        for name in options:
            if name not in names:
                hint = f"Options of a column are: {', '.join(names)}." if names else None
                raise declared.error(
                    name, f"a column of format {format_name} does not take it", column=column, hint=hint
                )
