"""Decode XML messages: elements and attributes to columns (docs/sql/streams.md#xml).

A column without a path is the child element or the attribute of the root element that has its name, whatever the case
of ASCII letters. An element that a column is read from and that is there twice rejects the message (TYPE), unless the
path says which one: a column is one value, and none of the others may vanish unseen. A message is walked once, along
the places of all columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from xml.etree.ElementTree import Element

from rowtide.codec.contract import Decoded
from rowtide.codec.format_options import PATH
from rowtide.codec.json.readings import folded
from rowtide.codec.options import Declared
from rowtide.codec.rowwise import decode_each
from rowtide.codec.xml.parsing import parsed, split, text_of_element
from rowtide.codec.xml.places import XmlName, XmlStep, namespaces_of, path_of, root_of
from rowtide.codec.xml.values import text_reader
from rowtide.errors import Reason, RejectedRowError
from rowtide.rows.rowop import Row

NIL = "{http://www.w3.org/2001/XMLSchema-instance}nil"
_MOST_TAGS = 1024
"""Tags in a cache, which messages choose."""
Found = list[str | Element | None]
"""The value of each column: the text of an attribute, or an element; None: absent."""


@dataclass(slots=True)
class XmlPlace:
    """An element of messages, and the columns that are read from it and from what is inside."""

    columns: list[int] = field(default_factory=list)
    attributes: list[tuple[str, int]] = field(default_factory=list)
    children: dict[XmlStep, XmlPlace] = field(default_factory=dict)
    known: dict[str, tuple[tuple[XmlStep, XmlPlace], ...]] = field(default_factory=dict)
    """The children with the name of a tag, by tag; a cache."""

    def below(self, step: XmlStep) -> XmlPlace:
        """Return the place of a child element; add it if it is new."""
        return self.children.setdefault(step, XmlPlace())

    def collect(self, element: Element, found: Found) -> None:
        """Add the values that are read from an element.

        Raises:
          RejectedRowError: TYPE, an element that is read is there twice.
        """
        for at in self.columns:
            found[at] = element
        for key, at in self.attributes:
            found[at] = element.attrib.get(key)
        if not self.children:
            return
        counts = dict.fromkeys(self.children, 0)
        for inner in element:
            named = self.known.get(inner.tag)
            for step, place in self._named(inner.tag) if named is None else named:
                counts[step] += 1
                if step.number is None and counts[step] > 1:
                    raise _repeated(step.name.written, element.tag)
                if step.number in (None, counts[step]):
                    place.collect(inner, found)

    def _named(self, tag: str) -> tuple[tuple[XmlStep, XmlPlace], ...]:
        if len(self.known) >= _MOST_TAGS:
            self.known.clear()
        found = tuple((step, place) for step, place in self.children.items() if step.name.is_tag(tag))
        self.known[tag] = found
        return found


class XmlDecoder:
    """Decodes the messages of one foreign stream; see ``codec.contract``.

    Raises:
      StatementError: a column's type cannot be read, or an option is wrong.
    """

    def __init__(self, declared: Declared) -> None:
        self._row_type = declared.row_type
        spaces = namespaces_of(declared)
        self._root = root_of(declared, spaces)
        self._readers = [text_reader(declared, field) for field in declared.row_type]
        self._takes_blanks = [each.type.is_text or each.type.is_binary for each in declared.row_type]
        self._by_name: dict[str, int] = {}
        self._place = XmlPlace()
        self._shown: list[str] = []
        for at, each in enumerate(declared.row_type):
            path = path_of(declared, each.name, spaces)
            if path is None:
                self._by_name[folded(each.name)] = at
                self._shown.append(f'field "{each.name}"')
                continue
            self._shown.append(f'field "{each.name}" ({declared.of(each.name)[PATH].strip()})')
            place = self._place
            for step in path.steps:
                place = place.below(step)
            if path.attribute is None:
                place.columns.append(at)
            else:
                place.attributes.append((path.attribute.attribute, at))

    def decode(self, values: Sequence[bytes | None]) -> Decoded:
        """Decode messages; see ``codec.contract.Decoder``."""
        return decode_each(values, self._row_type, self._row)

    def _row(self, value: bytes) -> Row:
        root = parsed(value)
        if self._root is not None and not self._root.is_tag(root.tag):
            raise RejectedRowError(
                Reason.DECODE, f"the root element is {_shown_tag(root.tag)}, not {_shown_name(self._root)}"
            )
        found: Found = [None] * len(self._row_type)
        if self._by_name:
            self._collect_by_name(root, found)
        self._place.collect(root, found)
        return tuple(self._value(at, given) for at, given in enumerate(found))

    def _collect_by_name(self, root: Element, found: Found) -> None:
        for key, text in root.attrib.items():
            at = None if key[0] == "{" else self._by_name.get(folded(key))
            if at is not None:
                if found[at] is not None:
                    raise _repeated(f"@{key}", root.tag, indexed=False)
                found[at] = text
        for inner in root:
            at = self._by_name.get(_folded_local(inner.tag))
            if at is not None:
                if found[at] is not None:
                    raise _repeated(split(inner.tag)[1], root.tag, indexed=isinstance(found[at], Element))
                found[at] = inner

    def _value(self, at: int, given: str | Element | None) -> object:
        column = self._row_type[at]
        is_absent = given is None
        try:
            text = self._text(at, given) if isinstance(given, Element) else given
            if text is not None and (self._takes_blanks[at] or text.strip()):
                return self._readers[at](text)
        except RejectedRowError as error:
            raise RejectedRowError(error.reason, f"{self._shown[at]}: {error.message}") from error
        if column.nullable:
            return None
        raise RejectedRowError(
            Reason.MISSING_FIELD, f"{self._shown[at]} is {'absent' if is_absent else 'empty'}"
        )

    def _text(self, at: int, element: Element) -> str | None:
        """Return the text of an element; None for one that says that it is nil."""
        if element.attrib and element.attrib.get(NIL) in ("true", "1"):
            return None
        if not len(element):
            return element.text or ""
        if self._row_type[at].type.is_text:
            return text_of_element(element)
        kind = self._row_type[at].type
        raise RejectedRowError(Reason.TYPE, f"an element with elements in it is not a valid {kind}")


@lru_cache(maxsize=_MOST_TAGS)
def _folded_local(tag: str) -> str:
    return folded(split(tag)[1])


def _repeated(name: str, tag: str, *, indexed: bool = True) -> RejectedRowError:
    said = f"; a path with {name[:100]}[1] takes the first one" if indexed else ", perhaps as an element, too"
    inside = split(tag)[1][:100]
    return RejectedRowError(
        Reason.TYPE, f'element "{inside}" has "{name[:100]}" more than once, and a column is one value{said}'
    )


def _shown_tag(tag: str) -> str:
    space, local = split(tag)
    return f'"{local[:100]}"' + (f" of namespace {space[:100]}" if space else "")


def _shown_name(name: XmlName) -> str:
    return f'"{name.local}"' + (f" of namespace {name.space}" if name.space is not None else "")
