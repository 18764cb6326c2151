"""YAML whose scalars stay the text that is in the file.

``yaml.safe_load`` converts ``10:00:00`` to 36000 and ``0.10`` to a float, but a
scenario needs the characters and their places. This module therefore reads
PyYAML's node graph: it resolves no scalars, and only a plain ``null`` (or ``~``,
or an empty value) is NULL.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import yaml

from rowtide.errors import SourceSpan, StatementError

NULLS = frozenset({"null", "Null", "NULL", "~", ""})
"""The plain scalars that YAML reads as null."""

Loader: type[yaml.BaseLoader] = getattr(yaml, "CBaseLoader", yaml.BaseLoader)


class YamlText:
    """One YAML file as text and nodes; creates the errors that name its lines."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.text = path.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise StatementError(f'file "{path}" cannot be read: {reason}', file=str(path)) from error

    def root(self) -> yaml.Node:
        """Return the root node.

        Raises:
          StatementError: if the text is not YAML, or is empty.
        """
        try:
            node: yaml.Node | None = yaml.compose(self.text, Loader=Loader)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            place = None if mark is None else SourceSpan(mark.line + 1, mark.column + 1)
            message = " ".join(part for part in (error.problem, error.context) if part)
            raise self._error(message or "invalid YAML", place) from error
        except yaml.YAMLError as error:
            raise self._error(" ".join(str(error).split()), None) from error
        if node is None:
            raise self._error("the file is empty", None)
        return node

    def _error(self, message: str, span: SourceSpan | None, hint: str | None = None) -> StatementError:
        return StatementError(message, span=span, file=str(self.path), text=self.text, hint=hint)

    def error(self, node: yaml.Node, message: str, hint: str | None = None) -> StatementError:
        """Return an error with the place of ``node``."""
        start, end = node.start_mark, node.end_mark
        length = end.column - start.column if end.line == start.line else 1
        return self._error(message, SourceSpan(start.line + 1, start.column + 1, max(1, length)), hint)

    def fields(self, node: yaml.Node, what: str) -> dict[str, yaml.Node]:
        """Return a mapping's nodes by key.

        Raises:
          StatementError: if it is not a mapping, or has a key twice.
        """
        if not isinstance(node, yaml.MappingNode):
            raise self.error(node, f"{what} must be a mapping")
        fields: dict[str, yaml.Node] = {}
        for key, value in node.value:
            name = self.scalar(key, "a key")
            if name in fields:
                raise self.error(key, f'key "{name}" appears twice')
            fields[name] = value
        return fields

    def items(self, node: yaml.Node, what: str) -> Iterator[yaml.Node]:
        """Return a sequence's nodes.

        Raises:
          StatementError: if it is not a sequence.
        """
        if not isinstance(node, yaml.SequenceNode):
            raise self.error(node, f"{what} must be a list")
        return iter(node.value)

    def scalar(self, node: yaml.Node, what: str) -> str:
        """Return a scalar's text.

        Raises:
          StatementError: if it is not a scalar.
        """
        if not isinstance(node, yaml.ScalarNode):
            raise self.error(node, f"{what} must be one value", "Text that looks like YAML needs quotes.")
        text: str = node.value
        return text

    def cell(self, node: yaml.Node, what: str) -> str | None:
        """Return a scalar's text, or None for a plain null.

        Raises:
          StatementError: if it is not a scalar.
        """
        text = self.scalar(node, what)
        plain = not getattr(node, "style", None)
        return None if plain and text in NULLS else text

    def column(self, node: yaml.Node, what: str) -> str | tuple[str | None, ...] | None:
        """Return a cell, or a list of them: the value of a column of arrays.

        Raises:
          StatementError: if it is neither a scalar nor a list of scalars.
        """
        if isinstance(node, yaml.SequenceNode):
            return tuple(self.cell(each, f"an element of {what}") for each in node.value)
        return self.cell(node, what)


def line_of(node: yaml.Node) -> int:
    """Return the 1-based line where a node begins."""
    line: int = node.start_mark.line
    return line + 1
