"""A plan in which options of the configuration replace those in SQL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from rowtide.codec.api import Format
from rowtide.codec.options import FormatOption
from rowtide.codec.registry import DEFAULT_FORMAT, FORMATS, every_option, find_format, format_of
from rowtide.config.settings import Settings
from rowtide.errors import StatementError
from rowtide.plan.nodes import Node, Promote, Source, rewrite
from rowtide.plan.plan import ForeignStream, Plan
from rowtide.sql.catalog.notices import IDLE_TIMEOUT
from rowtide.sql.catalog.servers import DEFAULT_MAX_AHEAD, MAX_AHEAD
from rowtide.sql.grammar.literals import interval_text_ms
from rowtide_connectors.api import Option

APPEND_TIME_OPTION = "append_time"
"""The option of a foreign stream that allows bounds from its broker's clock: ON or OFF."""
FORMAT_OPTION = "format"
STREAM_OPTIONS = (
    Option(
        FORMAT_OPTION,
        str,
        f"format of the messages: {', '.join(sorted(FORMATS))}",
        "stream",
        default=DEFAULT_FORMAT,
    ),
    Option(
        MAX_AHEAD,
        str,
        "how far a promoted rowtime may be ahead of the message timestamp; a row further ahead is rejected",
        "stream",
        default=DEFAULT_MAX_AHEAD,
    ),
    Option(
        IDLE_TIMEOUT,
        str,
        "time after which a silent partition that is read to its end follows the others, such as 30 SECOND; "
        "without it, the others wait for it",
        "stream",
        changeable=True,
    ),
    Option(
        APPEND_TIME_OPTION,
        str,
        "ON or OFF: whether a quiet partition follows the broker's clock, if the broker stamps messages",
        "stream",
        default="ON",
        changeable=True,
    ),
)
"""Rowtide's own options of every foreign stream, with any connector."""


def options_of_format(found: Format) -> tuple[Option, ...]:
    """Return the options of a format as those of a foreign stream and its columns."""
    return tuple(_as_option(option, option.meaning) for option in found.options)


def _of_formats() -> tuple[Option, ...]:
    """Return the options of Rowtide's formats, each once, with the names of the formats that take it."""
    formats: dict[FormatOption, list[str]] = {}
    for format_name, option in every_option():
        formats.setdefault(option, []).append(format_name)
    return tuple(
        _as_option(option, f"{', '.join(names)}: {option.meaning}") for option, names in formats.items()
    )


def _as_option(option: FormatOption, meaning: str) -> Option:
    applies_to = "column" if option.of_column else "stream"
    return Option(option.name, str, meaning, applies_to, default=option.default, secret=option.secret)


FORMAT_OPTIONS = _of_formats()
"""Options of foreign streams and of their columns that belong to formats."""
OWN_STREAM_OPTIONS = frozenset(
    option.name for option in (*STREAM_OPTIONS, *FORMAT_OPTIONS) if option.applies_to == "stream"
)
"""Their names; all other options are the connector's."""


def connector_options(stream: ForeignStream) -> dict[str, str]:
    """Return the options of a foreign stream that are for its connector.

    Raises:
      StatementError: its format is of a package that cannot be loaded.
    """
    own = OWN_STREAM_OPTIONS | stream_options_of_format(stream)
    return {name: value for name, value in stream.options if name not in own}


def stream_options_of_format(stream: ForeignStream) -> set[str]:
    """Return the names of the options that the format of a stream takes, besides those of its columns.

    Raises:
      StatementError: the format is of a package that cannot be loaded.
    """
    found = find_format(format_of(stream))
    return set() if found is None else {option.name for option in found.options if not option.of_column}


def takes_append_times(stream: ForeignStream) -> bool:
    """Return whether bounds of a foreign stream may come from its broker's clock.

    Raises:
      StatementError: its option is neither ON nor OFF.
    """
    text = dict(stream.options).get(APPEND_TIME_OPTION, "ON")
    if text.upper() not in ("ON", "OFF"):
        raise StatementError(
            f'option "{APPEND_TIME_OPTION}" of foreign stream "{stream.name}": "{text}" is neither ON nor OFF'
        )
    return text.upper() == "ON"


def configured(plan: Plan, settings: Settings) -> Plan:
    """Return ``plan`` with the effective options of its servers, streams and tables.

    The result contains plain secrets: run it, do not show it.

    Raises:
      StatementError: the configuration names something that the pipeline does not have.
    """
    settings.check_names("servers", [server.name for server in plan.servers])
    settings.check_names(
        "streams", [stream.name for stream in (*plan.foreign_streams, *plan.written_streams)]
    )
    settings.check_names("tables", [table.name for table in plan.foreign_tables])

    def options(kind: str, name: str, given: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
        return tuple(settings.options(kind, name, dict(given)).items())

    servers = [replace(each, options=options("servers", each.name, each.options)) for each in plan.servers]
    streams, written = (
        tuple(replace(each, options=options("streams", each.name, each.options)) for each in given)
        for given in (plan.foreign_streams, plan.written_streams)
    )
    tables = [
        replace(each, options=options("tables", each.name, each.options)) for each in plan.foreign_tables
    ]
    changed = replace(
        plan,
        servers=tuple(servers),
        foreign_streams=streams,
        written_streams=written,
        foreign_tables=tuple(tables),
    )
    return _ahead_as_configured(
        changed, {stream.name: dict(stream.options) for stream in plan.foreign_streams}
    )


def _ahead_as_configured(plan: Plan, written: Mapping[str, Mapping[str, str]]) -> Plan:
    """Return ``plan`` with promotions that use the effective ``max_ahead`` of their streams.

    ``written`` are the streams' options in SQL, with which it was planned.

    Raises:
      StatementError: the option is not a length of time.
    """
    allowed = {}
    for stream in plan.foreign_streams:
        text = dict(stream.options).get(MAX_AHEAD)
        if text is None or text == written[stream.name].get(MAX_AHEAD):
            continue
        try:
            allowed[stream.name] = interval_text_ms(text)
        except ValueError as error:
            raise StatementError(
                f'option "{MAX_AHEAD}" of foreign stream "{stream.name}": {error}'
            ) from error
    if not allowed:
        return plan

    def rule(node: Node) -> Node:
        if not isinstance(node, Promote) or node.max_ahead_ms is None:
            return node
        read: Node = node
        while len(read.inputs) == 1:
            (read,) = read.inputs
        if not isinstance(read, Source) or read.relation not in allowed:
            return node
        return replace(node, max_ahead_ms=allowed[read.relation])

    return replace(
        plan,
        relations=tuple((name, rewrite(node, rule)) for name, node in plan.relations),
        pumps=tuple(replace(pump, node=rewrite(pump.node, rule)) for pump in plan.pumps),
    )
