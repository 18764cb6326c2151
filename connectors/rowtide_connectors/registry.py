"""The installed connectors: those of this package, and entry points of the group ``rowtide.connectors``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
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
from rowtide_connectors.installed import Addition, additions, shadowed
from rowtide_connectors.options import suggestion

GROUP = "rowtide.connectors"

BUILT_IN = ("files", "http", "kafka", "memory", "rdbms")
"""The connectors of this package; pyproject.toml declares the same as entry points."""

_OWN = {name: f"rowtide_connectors.{name}:CONNECTOR" for name in BUILT_IN}
_NEEDED = tuple(name for name in (*Connector.__annotations__, "check_options", "check"))
"""The attributes of a connector."""


def connector_names() -> tuple[str, ...]:
    """Return the names of all connectors that are installed, sorted; some may not load."""
    return tuple(sorted({*BUILT_IN, *connectors_of_packages()}))


def connectors_of_packages() -> Mapping[str, Addition]:
    """Return the connectors of other packages by name."""
    return additions(GROUP, "connector", _OWN)


def shadowed_connectors() -> Sequence[str]:
    """Return a sentence about each connector of another package that has the name of one of Rowtide."""
    return shadowed(GROUP, _OWN)


def find_connector(name: str) -> Connector:
    """Return the connector of wrapper ``name``, in any case.

    Raises:
      OptionError: it does not exist, or it cannot be loaded.
    """
    folded = name.lower()
    if folded in BUILT_IN:
        module, _, attribute = _OWN[folded].partition(":")
        return cast(Connector, getattr(import_module(module), attribute))
    added = connectors_of_packages().get(folded)
    if added is None:
        raise OptionError(f'connector "{folded}" does not exist', hint=suggestion(folded, connector_names()))
    return cast(Connector, added.load(_NEEDED))


def loadable_connectors() -> Iterator[Connector]:
    """Yield the installed connectors that can be loaded, by name."""
    for name in connector_names():
        try:
            found = find_connector(name)
        except OptionError:
            continue
        yield found


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
    return ", ".join(connector.name for connector in loadable_connectors() if offers(connector))
