"""Checks the options of a plan against its connectors, without any connection."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

from rowtide.codec.message import MessageEncoder
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
from rowtide.runtime.outbox_options import OWN_OPTIONS, WrittenOptionError, outbox_options, sink_options
from rowtide.runtime.polling.options import (
    OWN_POLLED_OPTIONS,
    PollOptionError,
    poll_times,
    poller_of,
    table_options,
)
from rowtide.runtime.state.output import target_table
from rowtide.runtime.state.owned_tables import SHARED, is_shared
from rowtide.runtime.state.topic_sinks import check_columns
from rowtide.sql.catalog.notices import IDLE_TIMEOUT
from rowtide.sql.grammar.literals import interval_text_ms
from rowtide.sql.grammar.statement_grammar import parse
from rowtide.sql.grammar.statements import CreateAs, CreateIfMissing, CreateRelation, CreateServer
from rowtide_connectors.api import Option
from rowtide_connectors.errors import MissingOptionError, OptionError
from rowtide_connectors.options import suggestion
from rowtide_connectors.registry import (
    find_connector,
    find_message_sink,
    find_polled,
    find_sink,
    find_source,
)


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
    used |= {target.server for target in plan.targets}
    for server in plan.servers:
        try:
            missing += _checked(places, server.name, find_connector, server.wrapper, dict(server.options))
        except StatementError as error:
            if server.name in used:
                raise
            missing.append(Notice(server.name, f"{error.message}; this server is not used"))
    for stream in plan.foreign_streams:
        if _is_polled(plan, stream):
            missing += _check_polled(places, stream, wrappers[stream.server])
            continue
        _check_own(places, stream)
        missing += _checked(
            places, stream.name, find_source, wrappers[stream.server], connector_options(stream)
        )
    for stream in plan.written_streams:
        _check_written(places, stream)
        missing += _checked(
            places, stream.name, find_message_sink, wrappers[stream.server], sink_options(stream)
        )
        _check_columns(places, stream, wrappers[stream.server])
    for table in plan.foreign_tables:
        try:
            is_shared(table)
        except OptionError as error:
            raise places.error(table.name, SHARED, error.message, error.hint) from error
        given = dict(target_table(table).options)
        missing += _checked(places, table.name, find_sink, wrappers[table.server], given)
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
        return StatementError(message, span=place, file=self._file, text=self._text, hint=hint)

    def _found(self) -> dict[tuple[str | None, ...], SourceSpan]:
        """Parse the text again. Only errors need this."""
        found: dict[tuple[str | None, ...], SourceSpan] = {}
        for each in parse(self._text):
            statement = each.statement if isinstance(each, CreateIfMissing) else each
            if isinstance(statement, CreateServer | CreateRelation | CreateAs):
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
    own: Sequence[str] = (),
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
        further: Collection[str] = own
        if find is find_source:
            further = OWN_STREAM_OPTIONS
        elif find is find_message_sink:
            further = OWN_OPTIONS
        if further and error.option is not None and error.option not in declared:
            hint = suggestion(error.option, [*declared, *further])
            if find is find_source and error.option in OWN_OPTIONS - OWN_STREAM_OPTIONS:
                hint = "It is for a foreign stream that a pump writes to."
            if find is find_message_sink and error.option in OWN_STREAM_OPTIONS - OWN_OPTIONS:
                hint = "It is for a foreign stream that is read, and pumps write to this one."
        raise places.error(name, error.option, error.message, hint) from error
    return []


def _is_polled(plan: Plan, stream: ForeignStream) -> bool:
    """Return whether a table of a database fills the stream's table."""
    try:
        return poller_of(plan, stream) is not None
    except OptionError:
        # The connector does not exist, which the check of the options reports.
        return False


def _check_polled(places: _Places, stream: ForeignStream, wrapper: str) -> list[Notice]:
    """Parse the options of a table that is filled by a table of a database, and those of its columns."""
    try:
        poll_times(stream)
    except PollOptionError as error:
        raise places.error(stream.name, error.option, error.message, None) from error
    given = table_options(stream)
    for option in ("format", IDLE_TIMEOUT):
        if option in given:
            hint = "Remove it: columns are read by their names." if option == "format" else _POLLED_HINT
            raise places.error(
                stream.name, option, f'option "{option}" does not belong to a table of a database', hint
            )
    for column, options in stream.column_options:
        for option, _ in options:
            if option != "time_unit":
                message = f'option "{option}" does not belong to a column of a table of a database'
                hint = "Read a view of the database that has the column in this form."
                raise places.error(stream.name, option, message, hint, column=column)
    _check_own(places, stream)

    def find(name: str) -> _Declaring:
        found = find_polled(name)
        assert found is not None
        return found

    return _checked(places, stream.name, find, wrapper, given, own=[each.name for each in OWN_POLLED_OPTIONS])


_POLLED_HINT = "Remove it: every poll moves the rowtime bound of the table, also one that finds no change."


def _check_written(places: _Places, stream: ForeignStream) -> None:
    """Parse Rowtide's own options of a foreign stream that pumps write to."""
    try:
        MessageEncoder(stream)
        outbox_options(stream)
    except FormatOptionError as error:
        raise places.error(
            stream.name, error.option, error.message, error.hint, column=error.column
        ) from error
    except WrittenOptionError as error:
        raise places.error(stream.name, error.option, error.message, error.hint) from error
    except StatementError as error:
        raise places.error(stream.name, "format", error.message, error.hint) from error


def _check_columns(places: _Places, stream: ForeignStream, wrapper: str) -> None:
    """Check the options of a foreign stream that pumps write to against its columns."""
    try:
        check_columns(stream, find_message_sink(wrapper))
    except MissingOptionError:
        return
    except OptionError as error:
        raise places.error(stream.name, error.option, error.message, error.hint) from error


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
