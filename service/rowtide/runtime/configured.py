"""A plan with the options that the configuration gives in place of those in SQL."""

from __future__ import annotations

from dataclasses import replace

from rowtide.config import Settings
from rowtide.plan.plan import ForeignStream, Plan

OWN_STREAM_OPTIONS = frozenset({"format", "max_ahead", "idle_timeout"})
"""Options of a foreign stream that are Rowtide's own; all others are the connector's."""


def connector_options(stream: ForeignStream) -> dict[str, str]:
    """Give the options of a foreign stream that its connector is to read."""
    return {name: value for name, value in stream.options if name not in OWN_STREAM_OPTIONS}


def configured(plan: Plan, settings: Settings) -> Plan:
    """Give ``plan`` with the options of its servers, streams and tables as they count.

    Secrets are in it as they are: it is to be run, not to be shown.

    Raises:
      StatementError: the configuration names something that the pipeline does not have.
    """
    settings.check_names("servers", [server.name for server in plan.servers])
    settings.check_names("streams", [stream.name for stream in plan.foreign_streams])
    settings.check_names("tables", [table.name for table in plan.foreign_tables])

    def options(kind: str, name: str, given: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
        return tuple(settings.options(kind, name, dict(given)).items())

    servers = [replace(each, options=options("servers", each.name, each.options)) for each in plan.servers]
    streams = [
        replace(each, options=options("streams", each.name, each.options)) for each in plan.foreign_streams
    ]
    tables = [
        replace(each, options=options("tables", each.name, each.options)) for each in plan.foreign_tables
    ]
    return replace(plan, servers=tuple(servers), foreign_streams=tuple(streams), foreign_tables=tuple(tables))
