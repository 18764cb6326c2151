"""Errors by consequence: the class says what its catcher will do.

| base class         | what the catcher does                                     |
|--------------------|-----------------------------------------------------------|
| StatementError     | shows it to the user, caret and all; nothing has changed  |
| RejectedRowError   | sends this one row to the error stream and continues      |
| TransientError     | backs off and repeats the step                            |
| SupersededError    | stops at once, exit 3: another process took the pipeline, |
|                    | or the database has lost commits                          |
| FaultError         | stops the pipeline: an invariant broke                    |

A message is a fragment, lower case, without a full stop, naming the kind of
thing and its name in double quotes. A hint is whole sentences: what to do.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class SourceSpan:
    """A place in a text: 1-based line and column, and how many characters."""

    line: int
    column: int
    length: int = 1


_SECRET = re.compile(
    r"(://)([^@\s']+)(?=@)"
    r"|((?i:[?&][\w.]*(?:password|secret|token|passfile)[\w.]*=))([^&\s']+)"
    r"|((?i:password|secret|token|jaas|private\.key|key\.pem)[\w.]*\"?\s+')([^']+)"
)
"""What of a statement's line is not shown: who logs in where, and the values of parameters and options so
called."""


class RowtideError(Exception):
    """Base of every error that Rowtide raises itself."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class StatementError(RowtideError):
    """A statement, setting or file that the user wrote cannot be accepted; nothing has changed."""

    def __init__(
        self,
        message: str,
        *,
        span: SourceSpan | None = None,
        file: str | None = None,
        text: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.place = span
        self.file = file
        self.text = text

    def render(self) -> str:
        """Return the message as the terminal shows it: place, statement line with caret, hint."""
        where = ""
        if self.file is not None:
            where = f"{self.file}:"
        if self.place is not None:
            where += f"{self.place.line}:{self.place.column}:"
        lines = [f"{where} error: {self.message}" if where else f"error: {self.message}"]
        if self.place is not None and self.text is not None:
            source = self.text.splitlines()
            if 1 <= self.place.line <= len(source):
                line = source[self.place.line - 1]
                lines.append(without_secrets(line))
                pad = "".join("\t" if char == "\t" else " " for char in line[: self.place.column - 1])
                lines.append(pad + "^" * max(1, min(self.place.length, len(line) - len(pad))))
        if self.hint is not None:
            lines.append(f"hint: {self.hint}")
        return "\n".join(lines)


def without_secrets(text: str) -> str:
    """Return a text of the same length, with asterisks for what a user must not see."""

    def masked(found: re.Match[str]) -> str:
        kept = found[1] or found[3] or found[5]
        return kept + "*" * (len(found[0]) - len(kept))

    return _SECRET.sub(masked, text)


class UnusablePartError(StatementError):
    """A part of a stored state is not there, or is not the one that was written."""


class UnknownRelationError(StatementError):
    """A request names a relation that the pipeline does not have."""


class LimitReachedError(StatementError):
    """As many run as the service allows: the same may be accepted later."""


class OvertakenError(StatementError):
    """Another command has changed what this one chose: it may be chosen again."""


class Reason(StrEnum):
    """Why a row was rejected; the first word of REASON in the error stream.

    See docs/sql/semantics.md#error-rows.
    """

    DECODE = "DECODE"
    MISSING_FIELD = "MISSING_FIELD"
    TYPE = "TYPE"
    NULL_KEY = "NULL_KEY"
    CAST = "CAST"
    OVERFLOW = "OVERFLOW"
    DIVISION_BY_ZERO = "DIVISION_BY_ZERO"
    FUTURE = "FUTURE"
    CONSTRAINT = "CONSTRAINT"
    FUNCTION = "FUNCTION"
    TOMBSTONE = "TOMBSTONE"
    SKIPPED = "SKIPPED"
    BOUND = "BOUND"
    LATE = "LATE"
    """Not in the list of the decision: what a LATE row says, so that REASON is never empty."""


class RejectedRowError(RowtideError):
    """One row cannot be processed: it goes to the error stream and the pipeline continues."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


_SHOWN_CHARACTERS = 200
"""Longer texts of unexpected errors are cut: an error row is not a second copy of the row."""


def rejection_of(error: Exception, reason: Reason) -> RejectedRowError:
    """Return the rejection of the one row whose evaluation raised ``error``, whatever it raised.

    So that no row can stop a pipeline: what no one foresaw becomes ``reason`` with the error's text.

    Raises:
      RowtideError: ``error`` itself, if it is about the pipeline or a dependency and not about the row.
      MemoryError: ``error`` itself.
    """
    if isinstance(error, RejectedRowError):
        return error
    if isinstance(error, RowtideError | MemoryError):
        raise error
    name, text = type(error).__name__, " ".join(str(error).split())
    cut = "..." if len(text) > _SHOWN_CHARACTERS else ""
    return RejectedRowError(reason, f"{name}: {text[:_SHOWN_CHARACTERS]}{cut}" if text else name)


class TransientError(RowtideError):
    """A dependency (broker, database) is down or slow: back off and repeat the step."""


class ReplacedSnapshotError(TransientError):
    """Newer snapshots have taken the place of the one that is being read: begin again with the newest."""


class SupersededError(RowtideError):
    """Another process has taken this pipeline's next epoch; nothing of ours was committed."""


class LostCommitsError(SupersededError):
    """The database is at an earlier commit than this process, such as after a failover to a standby that lagged.

    Nothing of ours was committed. What is lost is computed again from the database's last commit.
    """


class FaultError(RowtideError):
    """An invariant broke: stop, so that nothing wrong is committed."""


class BoundRegressionError(StatementError):
    """An explicit rowtime bound went back; nothing has changed (docs/sql/semantics.md#explicit-bounds)."""

    def __init__(self, relation: str, partition: int, *, held: int, offered: int) -> None:
        super().__init__(
            f'rowtime bound of "{relation}" partition {partition} cannot go back: '
            f"it is {held}, {offered} was offered"
        )
        self.relation = relation
        self.partition = partition
        self.held = held
        self.offered = offered
