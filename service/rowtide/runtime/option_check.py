"""Checks the options of a plan against its connectors, without any connection."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from rowtide.codec.options import FormatOptionError
from rowtide.codec.registry import decoder_of
from rowtide.errors import SourceSpan, StatementError
from rowtide.plan.plan import ForeignStream, Notice, Plan
from rowtide.runtime.configured import (
    APPEND_TIME_OPTION,
    OWN_STREAM_OPTIONS,
    connector_options,
    takes_append_times,
)
from rowtide.sql.catalog.notices import IDLE_TIMEOUT
from rowtide.sql.grammar.literals import interval_text_ms
from rowtide.sql.grammar.statement_grammar import parse
from rowtide.sql.grammar.statements import CreateRelation, CreateServer
from rowtide_connectors.api import Option
from rowtide_connectors.errors import MissingOptionError, OptionError
from rowtide_connectors.options import suggestion
from rowtide_connectors.registry import find_connector, find_sink, find_source


def check_options(plan: Plan, text: str, *, file: str) -> tuple[Notice, ...]:
    """Parse every option of servers, foreign streams and foreign tables, as a run does.

    Args:
      plan: the plan with its effective options (``configured``).
      text: the pipeline's statements, for the places of errors.
      file: their file's name, for the same.

    Returns:
      The missing options, which are not an error because a configuration may set them, and the
      problems of servers that no relation uses.

    Raises:
      StatementError: a wrapper, a format or an option does not exist, a value is not of its kind, or a
        connector has no source for a stream or no sink for a table.
    """
    places = _Places(text, file)
    wrappers = {server.name: server.wrapper for server in plan.servers}
    missing: list[Notice] = []
    used = {stream.server for stream in plan.foreign_streams}
    used |= {table.server for table in plan.foreign_tables}
    for server in plan.servers:
        try:
            missing += _checked(places, server.name, find_connector, server.wrapper, dict(server.options))
        except StatementError as error:
            if server.name in used:
                raise
            missing.append(Notice(server.name, f"{error.message}; this server is not used"))
    for stream in plan.foreign_streams:
        _check_own(places, stream)
        missing += _checked(
            places, stream.name, find_source, wrappers[stream.server], connector_options(stream)
        )
    for table in plan.foreign_tables:
        missing += _checked(places, table.name, find_sink, wrappers[table.server], dict(table.options))
    return tuple(missing)


class _Places:
    """The places of objects and options in a text. Those of the configuration have none."""

    def __init__(self, text: str, file: str) -> None:
        self._text = text
        self._file = file

    def error(
        self, name: str, option: str | None, message: str, hint: str | None, *, column: str | None = None
    ) -> StatementError:
        """Return the error about an option of an object or of its ``column``, or about the object itself."""
        last = name.rpartition(".")[2]
        place = self._found().get((last, option) if column is None else (last, column, option))
        if place is None:
            return StatementError(f'{message}; the configuration sets it for "{name}"', hint=hint)
        return StatementError(message, place=place, file=self._file, text=self._text, hint=hint)

    def _found(self) -> dict[tuple[str | None, ...], SourceSpan]:
        """Parse the text again. Only errors need this."""
        found: dict[tuple[str | None, ...], SourceSpan] = {}
        for statement in parse(self._text):
            if isinstance(statement, CreateServer | CreateRelation):
                name = statement.name.parts[-1].text
                found[name, None] = statement.name.place
                found |= {(name, item.name): item.place for item in statement.options}
            if isinstance(statement, CreateRelation):
                found |= {
                    (name, column.name.text, item.name): item.place
                    for column in statement.columns
                    for item in column.options
                }
        return found


class _Declaring(Protocol):
    """An object that declares options: a connector, its source or its sink."""

    options: Sequence[Option]

    def check_options(self, given: Mapping[str, str], /) -> None: ...


def _checked(
    places: _Places,
    name: str,
    find: Callable[[str], _Declaring],
    wrapper: str,
    given: Mapping[str, str],
) -> list[Notice]:
    """Read the options of an object against those that ``find`` finds for its wrapper."""
    declared: list[str] = []
    try:
        declaring = find(wrapper)
        declared = [option.name for option in declaring.options]
        declaring.check_options(given)
    except MissingOptionError as error:
        return [Notice(name, f"{error.message}, in SQL and in the configuration: the pipeline cannot run")]
    except OptionError as error:
        hint = error.hint
        if find is find_source and error.option is not None and error.option not in declared:
            hint = suggestion(error.option, [*declared, *OWN_STREAM_OPTIONS])
        raise places.error(name, error.option, error.message, hint) from error
    return []


def _check_own(places: _Places, stream: ForeignStream) -> None:
    """Parse Rowtide's own options of a foreign stream."""
    try:
        decoder_of(stream)
    except FormatOptionError as error:
        raise places.error(
            stream.name, error.option, error.message, error.hint, column=error.column
        ) from error
    except StatementError as error:
        raise places.error(stream.name, "format", error.message, error.hint) from error
    timeout = dict(stream.options).get(IDLE_TIMEOUT)
    if timeout is not None:
        try:
            interval_text_ms(timeout)
        except ValueError as error:
            message = f'option "{IDLE_TIMEOUT}" of foreign stream "{stream.name}": {error}'
            raise places.error(stream.name, IDLE_TIMEOUT, message, None) from error
    try:
        takes_append_times(stream)
    except StatementError as error:
        raise places.error(stream.name, APPEND_TIME_OPTION, error.message, error.hint) from error
