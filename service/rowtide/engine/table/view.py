"""Reading tables: rows in the order of any index, and groups of rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from rowtide.engine.errors import ModelError, TableError
from rowtide.engine.row_type import Row
from rowtide.engine.table.handle import RowHandle
from rowtide.engine.table.tree import Group, Groups, Index, Node, indexes_below
from rowtide.engine.values import Value

if TYPE_CHECKING:
    from rowtide.engine.table.table import Table


class TableIndex:
    """One index of one table: finds rows and groups, and reads rows in its order.

    Iterating over it yields rows; changing the table during an iteration raises TableError.
    """

    __slots__ = ("_node", "_table")

    def __init__(self, table: Table, node: Node) -> None:
        self._table = table
        self._node = node

    @property
    def path(self) -> tuple[str, ...]:
        """The names from the top of the index tree to this index."""
        return self._node.path

    @property
    def is_leaf(self) -> bool:
        """Whether no indexes are nested in this one."""
        return self._node.is_leaf

    def find(self, sought: Row | RowHandle) -> RowHandle | None:
        """Return the row with the key of ``sought``, or the first row of its group if this is not a leaf.

        A FIFO index searches the whole group for an equal row. None if no row matches.

        Raises:
          ModelError: if ``sought`` is of another type.
          TableError: if a key function or a comparison raised, or the handle is of another table.
        """
        if isinstance(sought, RowHandle):
            self._table.check_own(sought)
            if sought.in_table and self._node.is_leaf:
                return sought
            sought = sought.row
        row = sought if sought.__class__ is self._table._row_class else self._table._adopt(sought)
        try:
            index = self._node.locate(self._table._top, row)
            return None if index is None else index.find(row)
        except Exception as error:
            # A key function or a comparison of the model raised.
            shown = self._table.row_type.format(row)
            raise TableError(self._table.name, f"an index cannot find the row {shown}: {error}") from error

    def find_by(self, **fields: Value) -> RowHandle | None:
        """Return the result of ``find`` for a row with these values; other fields are NULL."""
        return self.find(self._table.sought(**fields))

    def first(self) -> RowHandle | None:
        """Return the first row of the table in the order of this index, or None."""
        return next(self._all(), None)

    def next(self, handle: RowHandle) -> RowHandle | None:
        """Return the row after ``handle``, in the same or the next group.

        None at the end, or if ``handle`` is not in the table.
        """
        self._table.check_own(handle)
        if not handle.in_table:
            return None
        node, top = self._node.first_leaf, self._table._top
        index = node.locate(top, handle.row)
        following = None if index is None or isinstance(index, Groups) else index.next(handle)
        below: list[Node] = []
        while following is None and node.parent is not None:
            below.insert(0, node)
            node = node.parent
            groups = node.locate(top, handle.row)
            assert isinstance(groups, Groups)
            group: Group | None = groups.groups.get(node.key_of(handle.row))
            while group is not None and following is None:
                group = groups.group_after(group)
                following = None if group is None else _first_in(group, below)
        return following

    def __iter__(self) -> Iterator[Row]:
        return (handle.row for handle in self.handles())

    def handles(self) -> Iterator[RowHandle]:
        """Return the handles of all rows in the order of this index."""
        return self._table.guarded(self._all())

    def _all(self) -> Iterator[RowHandle]:
        for index in _instances(self._node, self._table._top):
            yield from index

    def group(self, sought: Row | RowHandle) -> RowGroup:
        """Return the group that ``sought`` belongs to, which may be empty.

        Raises:
          ModelError: if this index is a leaf, or ``sought`` is of another type.
        """
        if self._node.is_leaf:
            path = ".".join(self.path)
            raise ModelError(f'table "{self._table.name}": index "{path}" is a leaf, it has no groups')
        if isinstance(sought, RowHandle):
            self._table.check_own(sought)
            sought = sought.row
        return RowGroup(self._table, self._node, self._table._adopt(sought))

    def group_by(self, **fields: Value) -> RowGroup:
        """Return the group with these key values, which may be empty; other fields are NULL."""
        return self.group(self._table.sought(**fields))

    def groups(self) -> Iterator[RowGroup]:
        """Return all groups of this index in its order; changing the table meanwhile raises TableError."""
        firsts = (
            first
            for index in _instances(self._node, self._table._top)
            if isinstance(index, Groups)
            for group in index.in_order()
            if (first := group.indexes[0].first()) is not None
        )
        return (self.group(first) for first in self._table.guarded(firsts))


class RowGroup:
    """The rows with the same keys in an index and in those above it.

    It reads the table at each call, so it always shows the current rows.
    """

    __slots__ = ("_node", "_row", "_table")

    def __init__(self, table: Table, node: Node, row: Row) -> None:
        self._table = table
        self._node = node
        self._row = row

    def _find(self) -> Group | None:
        try:
            above = self._node.locate(self._table._top, self._row)
            return above.groups.get(self._node.key_of(self._row)) if isinstance(above, Groups) else None
        except Exception as error:
            shown = self._table.row_type.format(self._row)
            raise TableError(
                self._table.name, f"an index cannot find the group of {shown}: {error}"
            ) from error

    def _index(self, path: tuple[str, ...]) -> Iterable[RowHandle]:
        group, node = self._find(), self._node
        if group is None:
            return ()
        if not path:
            return group.indexes[0]
        place = next((place for place, child in enumerate(node.children) if child.name == path[0]), None)
        if place is None:
            above = ".".join(node.path)
            raise ModelError(
                f'table "{self._table.name}": index "{path[0]}" is not nested in index "{above}"'
            )
        if len(path) == 1:
            return group.indexes[place]
        inner = group.indexes[place]
        wanted = self._table.type.node(*node.path, *path)
        return (handle for found in indexes_below(inner, wanted) for handle in found)

    def handles(self, *path: str) -> Iterator[RowHandle]:
        """Return the handles of the rows in the order of the nested index at ``path`` (default: first)."""
        return self._table.guarded(self._index(path))

    def rows(self, *path: str) -> Iterator[Row]:
        """Return the rows in the order of the nested index at ``path`` (default: first)."""
        return (handle.row for handle in self.handles(*path))

    def __iter__(self) -> Iterator[Row]:
        return self.rows()

    def __len__(self) -> int:
        group = self._find()
        return 0 if group is None else len(group)

    def first(self) -> RowHandle | None:
        """Return the first row of the group, or None."""
        group = self._find()
        return None if group is None else group.indexes[0].first()

    def last(self) -> RowHandle | None:
        """Return the last row of the group, or None."""
        group = self._find()
        return None if group is None else group.indexes[0].last()

    def next(self, handle: RowHandle) -> RowHandle | None:
        """Return the row after ``handle`` within the group, or None."""
        if not handle.in_table or not self._has(handle):
            return None
        following = TableIndex(self._table, self._node).next(handle)
        return following if following is not None and self._has(following) else None

    def _has(self, handle: RowHandle) -> bool:
        self._table.check_own(handle)
        return RowGroup(self._table, self._node, handle.row)._find() is self._find()

    def following(self) -> RowGroup | None:
        """Return the next group in the order of the index, in the same or the next outer group, or None."""
        last = self.last()
        after = None if last is None else TableIndex(self._table, self._node).next(last)
        return None if after is None else RowGroup(self._table, self._node, after.row)


def _instances(node: Node, top: Group) -> Iterator[Index]:
    """Return all indexes of a node: one, or one for each group of the index above."""
    if node.parent is None:
        yield top.indexes[node.position]
        return
    for above in _instances(node.parent, top):
        if isinstance(above, Groups):
            for group in above.in_order():
                yield group.indexes[node.position]


def _first_in(group: Group, below: list[Node]) -> RowHandle | None:
    """Return the first row of a group in the order of the leaf at the end of ``below``."""
    index = group.indexes[below[0].position]
    if not isinstance(index, Groups):
        return index.first()
    firsts = (_first_in(inner, below[1:]) for inner in index.in_order())
    return next((first for first in firsts if first is not None), None)


def stale_iteration(table: str) -> TableError:
    """Return the error for a table that was changed during an iteration."""
    return TableError(
        table, "changed while it was being iterated over; iterate over a list of the rows instead"
    )
