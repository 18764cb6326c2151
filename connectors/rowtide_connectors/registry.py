"""Which connectors are installed: entry points of the group ``rowtide.connectors``.

A checkout that is run without being installed has no entry points; the
connectors of this package are then found all the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import cast

from rowtide_connectors.api import Connector
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
      OptionError: there is none, or it cannot be loaded.
    """
    installed = _entry_points()
    folded = name.lower()
    if folded not in installed:
        raise OptionError(f'connector "{folded}" does not exist', hint=suggestion(folded, installed.keys()))
    try:
        return cast(Connector, installed[folded].load())
    except (ImportError, AttributeError) as error:
        raise OptionError(f'connector "{folded}" cannot be loaded: {error}') from error


def _entry_points() -> Mapping[str, EntryPoint]:
    found = {
        name: EntryPoint(name=name, group=GROUP, value=f"rowtide_connectors.{name}:CONNECTOR")
        for name in BUILT_IN
    }
    found.update({point.name.lower(): point for point in entry_points(group=GROUP)})
    return found
