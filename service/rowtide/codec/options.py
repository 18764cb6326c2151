"""Options that a format declares for a foreign stream and for its columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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
    """The declarations of a foreign stream about its messages: columns, and the options of the format."""

    relation: str
    row_type: RowType
    options: Options = field(default_factory=dict)
    columns: Mapping[str, Options] = field(default_factory=dict)
    """Options of columns by the column's name."""
    key: tuple[int, ...] = ()
    """The PRIMARY KEY of the table that the messages fill; empty for a stream."""
    patched: bool = False
    """Whether rows name the columns that are unchanged."""

    @property
    def what(self) -> str:
        """The relation of the messages, as errors name it."""
        return f'{"table" if self.key else "foreign stream"} "{self.relation}"'

    def of(self, column: str) -> Options:
        """Return the options of a column."""
        return self.columns.get(column, {})

    def is_on(self, option: str, *, default: str = "true") -> bool:
        """Return the value of a boolean option of the stream.

        Raises:
          FormatOptionError: it is neither true nor false.
        """
        given = self.options.get(option, default).lower()
        if given not in ("true", "false"):
            raise self.error(option, f'"{given}" is neither true nor false')
        return given == "true"

    def error(
        self, option: str, problem: str, *, column: str | None = None, hint: str | None = None
    ) -> FormatOptionError:
        """Return the error about an option of the stream, or of one of its columns."""
        where = f'column "{column}" of ' if column is not None else ""
        message = f'option "{option}" of {where}{self.what}: {problem}'
        return FormatOptionError(message, option, column=column, hint=hint)


def check_options_taken(
    format_name: str, declared: Declared, taken: Sequence[FormatOption], every: Iterable[FormatOption]
) -> None:
    """Reject options that a format does not take; ``every`` are those of all formats.

    Raises:
      FormatOptionError: names the option.
    """
    own = [option.name for option in taken if not option.of_column]
    for option in every:
        if not option.of_column and option.name in declared.options and option.name not in own:
            hint = f"Options of the format are: {', '.join(own)}." if own else None
            raise declared.error(option.name, f"format {format_name} does not take it", hint=hint)
    names = [option.name for option in taken if option.of_column]
    for column, options in declared.columns.items():
        for name in options:
            if name not in names:
                hint = f"Options of a column are: {', '.join(names)}." if names else None
                raise declared.error(
                    name, f"a column of format {format_name} does not take it", column=column, hint=hint
                )
