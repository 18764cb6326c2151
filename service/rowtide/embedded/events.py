"""What an engine answers to a statement, as it arrives: the columns of a result, its rows, notes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from rowtide.errors import StatementError
from rowtide.sql.grammar.statement_grammar import parse
from rowtide.sql.grammar.statements import Describe, QueryStatement, Show, Statement


@dataclass(frozen=True, slots=True)
class ResultColumns:
    """The shape of the rows that follow.

    ``changes``: they are changes of a table; ``timed`` False: they are the contents of a table.
    """

    names: tuple[str, ...]
    types: tuple[str, ...]
    changes: bool
    timed: bool = True


@dataclass(frozen=True, slots=True)
class ResultRow:
    """One row; ``op`` is + or -; ``rowtime`` is None for a row of a table's contents."""

    op: str
    rowtime: int | None
    row: Sequence[object]


@dataclass(frozen=True, slots=True)
class ResultNote:
    """A message beside the rows."""

    text: str


QueryEvent = ResultColumns | ResultRow | ResultNote


class Engine(Protocol):
    """An engine that executes statements."""

    def execute(self, text: str) -> Iterator[QueryEvent]:
        """Execute one statement, and yield its results as they arrive.

        Raises:
          StatementError, TransientError, OptionError.
        """

    def names(self) -> list[str]:
        """Return names that completion may offer."""


def statement_of(text: str) -> Statement | None:
    """Return the first statement of a text; None: it has none.

    Raises:
      StatementError: the text is not a statement.
    """
    try:
        statements = parse(text)
    except StatementError as error:
        error.text = text
        raise
    return statements[0] if statements else None


def is_query(statement: Statement | None) -> bool:
    """Return whether a statement is a query, SHOW or DESCRIBE; all others but PRINT define or insert something."""
    return isinstance(statement, QueryStatement | Show | Describe)
