"""The shape of JSON messages for a decoder: a tree of the members that columns are read from.

msgspec decodes a message into structs of this shape. Some shapes have no structs: two columns of one
place, a column of an object and another of its member, and names that msgspec does not support. Their
messages are read one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from rowtide.expr.json_path import JsonSteps


@dataclass(slots=True)
class Shape:
    """The part of one value that is read: the value itself for ``column``, members, or an element."""

    column: int | None = None
    members: dict[str, Shape] = field(default_factory=dict)
    elements: dict[int, Shape] = field(default_factory=dict)

    def add(self, steps: JsonSteps, column: int) -> bool:
        """Add a column at a path; return whether structs can still have the shape."""
        if not steps:
            free = self.column is None and not self.members and not self.elements
            self.column = column
            return free
        step, *rest = steps
        if isinstance(step, str):
            below = self.members.setdefault(step, Shape())
        else:
            below = self.elements.setdefault(step, Shape())
        fits = self.column is None and not (self.members and self.elements) and len(self.elements) <= 1
        return below.add(tuple(rest), column) and fits

    def wire(self, types: Sequence[Any]) -> Any:
        """Return the type that msgspec decodes; ``types`` are those of the columns.

        Raises:
          ValueError: msgspec does not support the name of a member.
        """
        if self.column is not None:
            return types[self.column]
        for element in self.elements.values():
            return list[_or_null(element.wire(types))]  # type: ignore[misc]
        members = list(self.members.items())
        return msgspec.defstruct(
            "Message",
            [
                (f"f{at}", _or_null(below.wire(types)) | UnsetType, UNSET)
                for at, (_, below) in enumerate(members)
            ],
            rename={f"f{at}": name for at, (name, _) in enumerate(members)},
            gc=False,
        )

    def gather(self, messages: list[Any], found: list[list[Any]]) -> None:
        """Write the values of each column in decoded messages to ``found``."""
        for at, member in enumerate(self.members.values()):
            name = f"f{at}"
            member._gather([getattr(message, name) for message in messages], found)

    def _gather(self, values: list[Any], found: list[list[Any]]) -> None:
        """Write the values of each column in nested values to ``found``; some are null or absent."""
        if self.column is not None:
            found[self.column] = values
        for at, element in self.elements.items():
            element._gather([_element(value, at) for value in values], found)
        for at, member in enumerate(self.members.values()):
            name = f"f{at}"
            member._gather(
                [value if value is None or value is UNSET else getattr(value, name) for value in values],
                found,
            )


def _or_null(wire: Any) -> Any:
    """Return the type with null. msgspec leaves a value undecoded only if the type has no alternative."""
    return wire if wire is msgspec.Raw else wire | None


def _element(value: Any, at: int) -> Any:
    if value is None or value is UNSET:
        return value
    return value[at] if at < len(value) else UNSET


def struct_decoder(paths: Sequence[JsonSteps], types: Sequence[Any]) -> tuple[Shape, Any] | None:
    """Return the shape of columns at ``paths`` and its decoding function; None if there are no structs."""
    shape = Shape()
    fits = [shape.add(steps, column) for column, steps in enumerate(paths)]
    if not all(fits) or not shape.members:
        return None
    try:
        return shape, msgspec.json.Decoder(shape.wire(types)).decode
    except ValueError:
        return None
