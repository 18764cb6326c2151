"""Rows to XML messages: one document a row (docs/sql/streams.md#xml).

NULL is left out: its attribute, or its element, and an element around it in which nothing else is. Elements are in the
order in which columns first name them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from rowtide.codec.encode.json import main_spelling
from rowtide.codec.format_options import PATH
from rowtide.codec.options import Declared
from rowtide.codec.xml.parsing import written_attribute, written_text
from rowtide.codec.xml.places import XmlName, XmlPath, XmlStep, is_name, namespaces_of, path_of, root_to_write
from rowtide.codec.xml.values import text_writer
from rowtide.rows.types import Field, RowType

_NIL = ' xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:nil="true"'
Texts = Sequence[str | None]


@dataclass(slots=True)
class _Element:
    """An element of messages: its attributes with their columns, the column of its text, and what is inside."""

    name: str
    attributes: dict[str, int] = field(default_factory=dict)
    column: int | None = None
    children: dict[str, _Element] = field(default_factory=dict)

    def written(self, texts: Texts, head: str = "") -> str:
        """Return the element of a row; empty if all columns in it are NULL, unless it has a ``head``."""
        for name, at in self.attributes.items():
            text = texts[at]
            if text is not None:
                head += f" {name}={written_attribute(text)}"
        inside = "".join(each.written(texts) for each in self.children.values())
        text = None if self.column is None else texts[self.column]
        if text is None and not inside and not head:
            return ""
        if text is None and self.column is not None:
            # The element is there for an attribute. Without this it would be read as the empty text.
            head += _NIL
        inside += written_text(text or "")
        return f"<{self.name}{head}>{inside}</{self.name}>" if inside else f"<{self.name}{head}/>"


class XmlEncoder:
    """Encodes rows of ``row_type``; see ``codec.encode.contract``.

    Raises:
      StatementError: a column's type cannot be written, two columns have one place, or an option is wrong.
    """

    def __init__(self, declared: Declared, row_type: RowType) -> None:
        spaces = namespaces_of(declared)
        self._writers: list[Callable[[object], str]] = [text_writer(declared, each) for each in row_type]
        self._root = _Element(root_to_write(declared, spaces).written)
        self._head = "".join(f" xmlns:{prefix}={written_attribute(uri)}" for prefix, uri in spaces.items())
        for at, each in enumerate(row_type):
            self._add(declared, at, each, _place_of(declared, each, path_of(declared, each.name, spaces)))

    def encode(self, row: Sequence[object]) -> bytes:
        """Return the value of a row's message; see ``codec.encode.contract.Encoder``."""
        texts = [
            None if value is None else write(value) for value, write in zip(row, self._writers, strict=True)
        ]
        return (self._root.written(texts, self._head) or f"<{self._root.name}/>").encode()

    def _add(self, declared: Declared, at: int, column: Field, path: XmlPath) -> None:
        element = self._root
        for step in path.steps:
            if element.column is not None:
                raise _taken(declared, column)
            element = element.children.setdefault(step.name.written, _Element(step.name.written))
        if path.attribute is not None:
            name = path.attribute.written
            if element.attributes.setdefault(name, at) != at:
                raise _taken(declared, column)
            return
        if element.column is not None or element.children:
            raise _taken(declared, column)
        element.column = at


def _taken(declared: Declared, column: Field) -> Exception:
    return declared.error(
        PATH,
        "another column is at this place of the message, or inside it",
        column=column.name,
        hint="Write each column to a place of its own.",
    )


def _place_of(declared: Declared, column: Field, path: XmlPath | None) -> XmlPath:
    """Return where a column is written.

    Raises:
      FormatOptionError: its path has a number, or its name is not one of XML.
    """
    if path is None:
        name = main_spelling(column.name)
        if not is_name(name):
            raise declared.error(
                PATH,
                f'"{name}" is not the name of an XML element',
                column=column.name,
                hint="Write the path of its element, such as path 'first_name'.",
            )
        return XmlPath((XmlStep(XmlName(name, written=name)),))
    if any(step.number is not None for step in path.steps):
        raise declared.error(
            PATH,
            "an element with a number cannot be written",
            column=column.name,
            hint="Name elements and attributes only, such as customer/@id.",
        )
    return path
