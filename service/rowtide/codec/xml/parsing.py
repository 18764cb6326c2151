"""XML documents to trees, within limits, and elements to XML text.

A document with a document type declaration is refused where the declaration begins: there are no entities but those
that XML defines, so none can expand or name a file. Nothing is ever fetched. The number of tags and attributes is
limited before a tree is made, because a tree takes about fifty times the memory of its text.
"""

from __future__ import annotations

from typing import NoReturn
from xml.etree.ElementTree import Element, ParseError, TreeBuilder, XMLParser
from xml.sax.saxutils import escape, quoteattr

from rowtide.errors import Reason, RejectedRowError

MOST_TAGS = 200_000
"""Tags and attributes of a message: a tree of at most about 50 MB."""
DEEPEST = 100
"""Elements within elements, of one that a column stores as text."""

_ATTRIBUTE = {"\r": "&#13;", "\n": "&#10;", "\t": "&#9;"}
"""Characters of an attribute that a parser would read as blanks."""
_XML_NAMESPACE = "http://www.w3.org/XML/1998/namespace"


class _Builder(TreeBuilder):
    """Builds the tree of a document without a document type declaration."""

    def doctype(self, name: str, pubid: str | None, system: str | None) -> NoReturn:
        """Refuse the declaration, before anything in it is read."""
        raise RejectedRowError(
            Reason.DECODE, "the message has a document type declaration (<!DOCTYPE), which is not read"
        )


def parsed(message: bytes) -> Element:
    """Return the root element of a message. Comments and processing instructions are left out.

    Raises:
      RejectedRowError: DECODE, it is not a well-formed document, has a document type declaration, or is too large.
    """
    if message.count(b"<") + message.count(b"=") > MOST_TAGS:
        raise RejectedRowError(Reason.DECODE, f"the message has more than {MOST_TAGS:,} tags and attributes")
    parser = XMLParser(target=_Builder())
    try:
        parser.feed(message)
        root: Element = parser.close()
    except ParseError as error:
        raise RejectedRowError(Reason.DECODE, f"the message is not XML: {error}") from error
    except (ValueError, LookupError) as error:
        # The declared encoding does not exist, or has several bytes for a character.
        raise RejectedRowError(Reason.DECODE, f"the message is not XML: {str(error)[:200]}") from error
    return root


def split(tag: str) -> tuple[str, str]:
    """Return the namespace, empty if there is none, and the local name of a tag or attribute."""
    space, found, local = tag.rpartition("}")
    return (space[1:], local) if found else ("", tag)


def text_of_element(element: Element) -> str:
    """Return an element as a document of its own; namespaces are declared where they change.

    Raises:
      RejectedRowError: TYPE, it is nested too deeply.
    """
    parts: list[str] = []
    _write(parts, element, "", 0)
    return "".join(parts)


def _write(parts: list[str], element: Element, outer: str, depth: int) -> None:
    if depth == DEEPEST:
        raise RejectedRowError(Reason.TYPE, f"elements are nested more than {DEEPEST} deep")
    space, name = split(element.tag)
    head = f"<{name}" if space == outer else f"<{name} xmlns={quoteattr(space)}"
    declared: dict[str, str] = {}
    for full, value in element.attrib.items():
        inside, attribute = split(full)
        if inside == _XML_NAMESPACE:
            attribute = f"xml:{attribute}"
        elif inside:
            prefix = declared.setdefault(inside, f"a{len(declared) + 1}")
            attribute = f"{prefix}:{attribute}"
        head += f" {attribute}={quoteattr(value, _ATTRIBUTE)}"
    for uri, prefix in declared.items():
        head += f" xmlns:{prefix}={quoteattr(uri)}"
    if not len(element) and not element.text:
        parts.append(head + "/>")
        return
    parts.append(f"{head}>{written_text(element.text or '')}")
    for inner in element:
        _write(parts, inner, space, depth + 1)
        parts.append(written_text(inner.tail or ""))
    parts.append(f"</{name}>")


def written_text(text: str) -> str:
    """Return text between tags. A parser would read a carriage return as a line end."""
    return escape(text, {"\r": "&#13;"})


def written_attribute(text: str) -> str:
    """Return the value of an attribute, in quotes."""
    return quoteattr(text, _ATTRIBUTE)
