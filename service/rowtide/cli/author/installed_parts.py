"""The installed connectors and formats, of Rowtide and of other packages, as ``rowtide connectors list`` shows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from rowtide.codec.api import Format
from rowtide.codec.registry import find_format, format_names, formats_of_packages, shadowed_formats
from rowtide.errors import StatementError
from rowtide_connectors.api import Connector
from rowtide_connectors.errors import OptionError
from rowtide_connectors.installed import Addition
from rowtide_connectors.registry import (
    connector_names,
    connectors_of_packages,
    find_connector,
    shadowed_connectors,
)


@dataclass(frozen=True, slots=True)
class InstalledPart:
    """A connector or a format. ``package`` is None for those of Rowtide."""

    name: str
    offers: Sequence[str]
    description: str
    package: str | None

    @property
    def described(self) -> str:
        """The description, with the package if it is another one."""
        return self.description if self.package is None else f"{self.description} ({self.package})"


@dataclass(frozen=True, slots=True)
class Installed:
    """What can be used, and a sentence about each entry point that cannot."""

    connectors: Sequence[InstalledPart]
    formats: Sequence[InstalledPart]
    problems: Sequence[str]

    def as_json(self) -> dict[str, object]:
        """Return it as plain values."""
        return asdict(self)


def installed() -> Installed:
    """Load every installed connector and format."""
    problems = [*shadowed_connectors(), *shadowed_formats()]
    connectors, formats = [], []
    packages = connectors_of_packages()
    for name in connector_names():
        try:
            connector = find_connector(name)
        except OptionError as error:
            problems.append(_sentence(error))
            continue
        connectors.append(
            InstalledPart(name, offers(connector), connector.description, package_of(packages, name))
        )
    packages = formats_of_packages()
    for name in format_names():
        try:
            found = find_format(name)
        except StatementError as error:
            problems.append(_sentence(error))
            continue
        assert found is not None
        formats.append(
            InstalledPart(name, offers_of_format(found), found.description, package_of(packages, name))
        )
    return Installed(connectors, formats, problems)


def package_of(packages: Mapping[str, Addition], name: str) -> str | None:
    """Return the package that has added a name, with its version; None if it is Rowtide's."""
    added = packages.get(name.lower())
    return None if added is None else added.package


def offers(connector: Connector) -> list[str]:
    """Return the capabilities of a connector, in the words of ``describe``."""
    return [
        name
        for name, offered in (
            ("source", connector.source),
            ("tables", connector.polled),
            ("sink", connector.sink),
            ("message sink", connector.message_sink),
        )
        if offered is not None
    ]


def offers_of_format(found: Format) -> list[str]:
    """Return what messages of a format can be used for."""
    return [
        "read",
        *(["tables"] if found.fills_tables else []),
        *(["written"] if found.encoder is not None else []),
    ]


def _sentence(error: OptionError | StatementError) -> str:
    return error.message if error.hint is None else f"{error.message}. {error.hint}"
