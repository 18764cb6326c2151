"""The installed connectors: entry points of the group ``rowtide.connectors``.

A checkout that is run without being installed has no entry points; the
connectors of this package are then found nevertheless.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import cast

from rowtide_connectors.api import (
    Connector,
    Guarantee,
    MessageSinkConnector,
    PolledConnector,
    SinkConnector,
    SourceConnector,
)
from rowtide_connectors.errors import OptionError
from rowtide_connectors.options import suggestion

GROUP = "rowtide.connectors"

BUILT_IN = ("kafka", "memory", "rdbms")
"""The connectors of this package; pyproject.toml declares the same as entry points."""


def connector_names() -> tuple[str, ...]:
    """Return the names of all connectors that are installed, sorted."""
    return tuple(sorted(_entry_points()))


def find_connector(name: str) -> Connector:
    """Return the connector of wrapper ``name``, in any case.

    Raises:
      OptionError: it does not exist, or it cannot be loaded.
    """
    installed = _entry_points()
    folded = name.lower()
    if folded not in installed:
        raise OptionError(f'connector "{folded}" does not exist', hint=suggestion(folded, installed.keys()))
    try:
        return cast(Connector, installed[folded].load())
    except (ImportError, AttributeError) as error:
        raise OptionError(f'connector "{folded}" cannot be loaded: {error}') from error


def find_source(name: str) -> SourceConnector:
    """Return the source of the connector of wrapper ``name``.

    Raises:
      OptionError: as ``find_connector``; also where it has no source.
    """
    connector = find_connector(name)
    if connector.source is None:
        tables = "CREATE TABLE .. (.. PRIMARY KEY ..) SERVER reads a table of it. "
        raise OptionError(
            f'connector "{connector.name}" cannot be read from: it has no source',
            hint=("" if connector.polled is None else tables)
            + f"Connectors with a source: {_those(lambda each: each.source is not None)}.",
        )
    return connector.source


def find_polled(name: str) -> PolledConnector | None:
    """Return the tables of the connector of wrapper ``name`` that can be polled; None: it reads topics.

    Raises:
      OptionError: as ``find_connector``.
    """
    connector = find_connector(name)
    return connector.polled if connector.source is None else None


def find_sink(name: str) -> SinkConnector:
    """Return the sink of the connector of wrapper ``name``, which writes in the transaction of the commit.

    Raises:
      OptionError: as ``find_connector``; also where it has no sink, or one with another guarantee.
    """
    connector = find_connector(name)
    sink = connector.sink
    if sink is not None and sink.guarantee is Guarantee.IN_COMMIT:
        return sink
    why = "it has no sink" if sink is None else "its sink is not part of the transaction of a commit"
    raise OptionError(
        f'connector "{connector.name}" cannot be written to: {why}',
        hint=f"Connectors with a sink: {_those(_commits)}.",
    )


def find_message_sink(name: str) -> MessageSinkConnector:
    """Return the message sink of the connector of wrapper ``name``, for foreign streams that pumps write to.

    Raises:
      OptionError: as ``find_connector``; also where it has none.
    """
    connector = find_connector(name)
    if connector.message_sink is not None:
        return connector.message_sink
    raise OptionError(
        f'connector "{connector.name}" cannot write messages: pumps cannot write to its foreign streams',
        hint=f"Connectors that can: {_those(lambda each: each.message_sink is not None)}.",
    )


def _commits(connector: Connector) -> bool:
    return connector.sink is not None and connector.sink.guarantee is Guarantee.IN_COMMIT


def _those(offers: Callable[[Connector], bool]) -> str:
    """Return the names of the connectors that offer this; one that cannot be loaded offers nothing."""
    names = []
    for name in connector_names():
        try:
            connector = find_connector(name)
        except OptionError:
            continue
        if offers(connector):
            names.append(connector.name)
    return ", ".join(names)


def _entry_points() -> Mapping[str, EntryPoint]:
    found = {
        name: EntryPoint(name=name, group=GROUP, value=f"rowtide_connectors.{name}:CONNECTOR")
        for name in BUILT_IN
    }
    found.update({point.name.lower(): point for point in entry_points(group=GROUP)})
    return found
