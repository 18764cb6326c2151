"""What other packages add to Rowtide: the entry points of a group, by name.

A package that cannot be imported is an error where its connector or format is used, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points

from rowtide_connectors.errors import OptionError


@dataclass(frozen=True, slots=True)
class Addition:
    """What a package adds. ``kind`` is "connector" or "format"; ``points`` has one entry point, or more in conflict."""

    kind: str
    name: str
    points: Sequence[EntryPoint]

    @property
    def package(self) -> str:
        """The package with its version, such as ``rowtide-lines 0.1.0``; several in conflict are all named."""
        return ", ".join(_package(point) for point in self.points)

    def load(self, needed: Sequence[str]) -> object:
        """Import the entry point and return its object, which has the attributes ``needed``.

        Raises:
          OptionError: several packages add this name, the import fails, or an attribute is missing.
        """
        what = f'{self.kind} "{self.name}"'
        if len(self.points) > 1:
            raise OptionError(f"{what} is in several packages: {self.package}", hint="Uninstall all but one.")
        (point,) = self.points
        try:
            found: object = point.load()
        except Exception as error:
            # Whatever the code of another package does when it is imported.
            name, text = type(error).__name__, " ".join(str(error).split())
            raise OptionError(
                f"{what} of package {self.package} cannot be loaded: {name}: {text}",
                hint=f"Install what {point.value} needs, or another version of the package.",
            ) from error
        missing = [each for each in needed if not hasattr(found, each)]
        if missing:
            raise OptionError(
                f"{what} of package {self.package} cannot be used: {point.value} has no {', '.join(missing)}",
                hint=f"Name an object in the entry point that is a {self.kind}, such as package.module:NAME.",
            )
        return found


def additions(group: str, kind: str, own: Mapping[str, str]) -> Mapping[str, Addition]:
    """Return what packages add to a group of entry points, by folded name.

    ``own`` has the entry points of Rowtide by name. Their names cannot be added: such an entry point is left
    out, unless it is Rowtide's.
    """
    found: dict[str, list[EntryPoint]] = {}
    for point in entry_points(group=group):
        found.setdefault(point.name.lower(), []).append(point)
    return {name: Addition(kind, name, points) for name, points in found.items() if name not in own}


def shadowed(group: str, own: Mapping[str, str]) -> Sequence[str]:
    """Return a sentence about each entry point that is left out because Rowtide has one of its name."""
    return [
        f'"{point.name}" of package {_package(point)} is not used: Rowtide has one of this name'
        for point in entry_points(group=group)
        if point.name.lower() in own and point.value != own[point.name.lower()]
    ]


def _package(point: EntryPoint) -> str:
    dist = point.dist
    return f"of {point.value}" if dist is None else f"{dist.name} {dist.version}"
