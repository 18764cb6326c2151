"""Table types: a row type and the tree of indexes over its rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rowtide.engine.errors import ModelError
from rowtide.engine.row_type import RowType
from rowtide.engine.table.index_type import IndexType
from rowtide.engine.table.tree import Node

RESERVED = frozenset({"in", "pre", "out"})
"""Names of labels of every table, which its aggregators cannot have."""


class TableType:
    """A row type and a tree of indexes; immutable.

    The order of the indexes matters: the table finds and deletes rows by the first leaf index, and the
    indexes decide in this order which rows an insert displaces.

    Raises:
      ModelError: if there is no index, an index does not fit the row type, or the name of an aggregator
        is used twice or is that of a label of the table.
    """

    def __init__(self, row_type: RowType, **indexes: IndexType) -> None:
        self._set(row_type, indexes)

    def _set(self, row_type: RowType, indexes: dict[str, IndexType]) -> None:
        self.row_type = row_type
        self.indexes = indexes
        if not indexes:
            raise ModelError("a table type needs at least one index")
        lines = _errors(row_type, indexes)
        if lines:
            shown = ["the row type is:", *str(row_type).split("\n")]
            raise ModelError("\n".join(["index error:", *lines, *(f"    {line}" for line in shown)]))
        self.nodes = [
            Node(name, index, row_type, None, place) for place, (name, index) in enumerate(indexes.items())
        ]
        self._check_aggregators()

    @classmethod
    def of(cls, row_type: RowType, indexes: Iterable[tuple[str, IndexType]]) -> TableType:
        """Make a table type of (name, index type) pairs; for names that cannot be keyword arguments."""
        made = cls.__new__(cls)
        made._set(row_type, dict(indexes))
        return made

    def _check_aggregators(self) -> None:
        names = [node.index_type.aggregator.name for node in self.walk() if node.index_type.aggregator]
        for name in names:
            if name in RESERVED:
                raise ModelError(f'aggregator name "{name}" is reserved for a label of the table')
            if names.count(name) > 1:
                raise ModelError(f'aggregator "{name}" is declared twice')

    def walk(self) -> Iterator[Node]:
        """Return all nodes of the index tree, each before the nodes nested in it."""
        pending = list(reversed(self.nodes))
        while pending:
            node = pending.pop()
            yield node
            pending.extend(reversed(node.children))

    @property
    def first_leaf(self) -> Node:
        """The leaf index by which a table finds rows by default."""
        return self.nodes[0].first_leaf

    def node(self, *path: str) -> Node:
        """Return the node at a path of index names.

        Raises:
          ModelError: if it does not exist, or the path is empty.
        """
        level, found = self.nodes, None
        for name in path:
            found = next((node for node in level if node.name == name), None)
            if found is None:
                there = ", ".join(node.name for node in level) or "none"
                raise ModelError(f'index "{".".join(path)}" does not exist', hint=f"The indexes are {there}.")
            level = found.children
        if found is None:
            raise ModelError("an index path needs at least one name")
        return found

    def key_of_path(self, *path: str) -> tuple[str, ...]:
        """Return the key fields of all indexes on a path, outermost first.

        Raises:
          ModelError: if an index on the path has no key fields, or a field occurs twice.
        """
        fields: list[str] = []
        for length in range(1, len(path) + 1):
            node = self.node(*path[:length])
            if not node.index_type.key_fields:
                raise ModelError(f'index "{".".join(node.path)}" has no key fields')
            fields.extend(node.index_type.key_fields)
        self.node(*path)
        for field in fields:
            if fields.count(field) > 1:
                raise ModelError(f'field "{field}" occurs twice in the key of index "{".".join(path)}"')
        return tuple(fields)

    def unique_key(self) -> tuple[str, ...]:
        """Return the key fields of the first leaf that holds one row for each key; empty if there is none."""
        for node in self.walk():
            path = [self.node(*node.path[:length]) for length in range(1, len(node.path) + 1)]
            if not node.children and all(each.index_type.key_fields for each in path):
                return tuple(dict.fromkeys(field for each in path for field in each.index_type.key_fields))
        return ()

    def first_of_kind(self, kind: type[IndexType]) -> Node | None:
        """Return the first top-level index of a kind (``Hashed``, ``Fifo``, ...), or None."""
        return next((node for node in self.nodes if isinstance(node.index_type, kind)), None)

    def equals(self, other: TableType) -> bool:
        """Return whether the row types, the indexes and the names of the indexes are equal."""
        return (
            self.row_type == other.row_type
            and list(self.indexes) == list(other.indexes)
            and all(index.equals(other.indexes[name]) for name, index in self.indexes.items())
        )

    def matches(self, other: TableType) -> bool:
        """Return whether the row types and the indexes match; names may differ."""
        mine, theirs = list(self.indexes.values()), list(other.indexes.values())
        return (
            self.row_type.matches(other.row_type)
            and len(mine) == len(theirs)
            and all(index.matches(against) for index, against in zip(mine, theirs, strict=True))
        )

    def __str__(self) -> str:
        indexes = "\n".join(index.render(name, "  ") for name, index in self.indexes.items())
        return f"table (\n  {self.row_type.render('  ')}\n) {{\n{indexes}\n}}"


def _errors(row_type: RowType, indexes: dict[str, IndexType], indent: str = "  ") -> list[str]:
    """Return everything that is wrong in an index tree, under the number and name of each index."""
    lines = []
    for number, (name, index) in enumerate(indexes.items(), start=1):
        own = [f"{indent}  {error}" for error in index.errors(row_type)]
        inner = _errors(row_type, index.nested, indent + "  ")
        if own or inner:
            lines += [f"{indent}nested index {number} '{name}':", *own, *inner]
    return lines
