"""Places in XML messages: paths such as ``customer/name``, ``items/item[2]/@sku`` and ``.``, and namespaces.

See docs/sql/streams.md#xml. A path is relative to the root element of the message: names of child elements, and
perhaps the name of an attribute at the end. It is the part of XPath that names one place.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from rowtide.codec.encode.record import name_of_columns
from rowtide.codec.format_options import NAMESPACES, PATH, ROOT_ELEMENT
from rowtide.codec.options import Declared
from rowtide.codec.xml.parsing import split

_NAME = r"[^\W\d][\w.\-]*"
_STEP = re.compile(rf"(?:(?P<prefix>{_NAME}):)?(?P<local>{_NAME})(?:\[(?P<number>[1-9]\d{{0,5}})\])?")
_ATTRIBUTE = re.compile(rf"@(?:(?P<prefix>{_NAME}):)?(?P<local>{_NAME})")
_PLAIN = re.compile(_NAME)
_HINT = "Write a path such as customer/name, items/item[1]/@sku, or . for the text of the root element."
_MOST_STEPS = 32


@dataclass(frozen=True, slots=True)
class XmlName:
    """The name of an element or attribute; ``space`` is its namespace, None: an element in any, an attribute in none.

    ``written`` is the name with its prefix.
    """

    local: str
    space: str | None = None
    written: str = ""

    def is_tag(self, tag: str) -> bool:
        """Return whether an element with this tag has the name."""
        space, local = split(tag)
        return local == self.local and self.space in (None, space)

    @property
    def attribute(self) -> str:
        """The key of an attribute with this name."""
        return self.local if self.space is None else f"{{{self.space}}}{self.local}"


@dataclass(frozen=True, slots=True)
class XmlStep:
    """A child element; ``number`` None: the only one, else which one of its name, from 1."""

    name: XmlName
    number: int | None = None


@dataclass(frozen=True, slots=True)
class XmlPath:
    """A place in a message: elements inside each other, and perhaps an attribute of the last one."""

    steps: tuple[XmlStep, ...]
    attribute: XmlName | None = None


def namespaces_of(declared: Declared) -> Mapping[str, str]:
    """Return the namespaces that a stream declares, by prefix.

    Raises:
      FormatOptionError: they are not written as prefix=URI.
    """
    found: dict[str, str] = {}
    for each in declared.options.get(NAMESPACES, "").split():
        prefix, sign, uri = each.partition("=")
        if not sign or not uri or not _PLAIN.fullmatch(prefix) or prefix.lower().startswith("xml"):
            raise declared.error(
                NAMESPACES,
                f'"{each}" is not a prefix with its namespace',
                hint="Write prefix=URI, several separated by blanks, such as o=http://shop.example/orders.",
            )
        if prefix in found:
            raise declared.error(NAMESPACES, f'prefix "{prefix}" is there twice')
        found[prefix] = uri
    return found


def root_of(declared: Declared, spaces: Mapping[str, str]) -> XmlName | None:
    """Return the declared name of the root element; None: any.

    Raises:
      FormatOptionError: it is not a name.
    """
    text = declared.options.get(ROOT_ELEMENT)
    if text is None:
        return None
    match = _STEP.fullmatch(text)
    if match is None or match["number"] is not None:
        raise declared.error(ROOT_ELEMENT, f'"{text}" is not the name of an element')
    return _name(declared, ROOT_ELEMENT, None, spaces, match)


def root_to_write(declared: Declared, spaces: Mapping[str, str]) -> XmlName:
    """Return the name of the root element of written messages: the declared one, or that of the stream."""
    found = root_of(declared, spaces)
    if found is not None:
        return found
    name = name_of_columns(declared)
    return XmlName(name, written=name)


def path_of(declared: Declared, column: str, spaces: Mapping[str, str]) -> XmlPath | None:
    """Return the path that a column declares, or None.

    Raises:
      FormatOptionError: it is not a path.
    """
    text = declared.of(column).get(PATH)
    if text is None:
        return None
    given = text.strip().split("/")
    if given == ["."]:
        return XmlPath(())
    attribute = None
    at_sign = _ATTRIBUTE.fullmatch(given[-1])
    if at_sign is not None:
        attribute = _name(declared, PATH, column, spaces, at_sign)
        given.pop()
    steps = []
    for each in given:
        match = _STEP.fullmatch(each)
        if match is None:
            problem = f'"{text}" is not a path into an XML message: "{each}" is not a step'
            raise declared.error(PATH, problem, column=column, hint=_HINT)
        number = None if match["number"] is None else int(match["number"])
        steps.append(XmlStep(_name(declared, PATH, column, spaces, match), number))
    if len(steps) > _MOST_STEPS:
        raise declared.error(PATH, f"it has more than {_MOST_STEPS} steps", column=column)
    return XmlPath(tuple(steps), attribute)


def is_name(text: str) -> bool:
    """Return whether an element may have this name."""
    return _PLAIN.fullmatch(text) is not None


def _name(
    declared: Declared, option: str, column: str | None, spaces: Mapping[str, str], match: re.Match[str]
) -> XmlName:
    prefix, local = match["prefix"], match["local"]
    if prefix is None:
        return XmlName(local, written=local)
    if prefix not in spaces:
        raise declared.error(
            option,
            f'prefix "{prefix}" is not declared',
            column=column,
            hint=f"Add {NAMESPACES} '{prefix}=URI' to the OPTIONS of the stream, or leave the prefix out: a name "
            "without one is in any namespace.",
        )
    return XmlName(local, spaces[prefix], f"{prefix}:{local}")
