"""The index tree of a table: nodes of the table type, and the indexes and groups of one table.

A node is a place in the tree of index types. The top of the tree is one group
of all rows; a group has one index for each node below it; an index that is not
a leaf has groups in turn. A group is created for its first row and removed with
its last one. A group with aggregators is removed later, when it collapses: until
then readers skip it if it is empty.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

from rowtide.engine.row_type import Row, RowType
from rowtide.engine.table.handle import RowHandle
from rowtide.engine.table.index_type import Fifo, IndexType, KeyOf, Ordered
from rowtide.engine.table.order import FromTheFront, Links, SortedDictStore, SortedStore

COMPACT_ABOVE = 32
"""The number of removed rows that a FIFO index keeps before it cleans up; small indexes never reach it."""


class Node:
    """One place in the index tree of a table type."""

    __slots__ = (
        "children",
        "index_type",
        "is_leaf",
        "keeps_empty_groups",
        "key_of",
        "name",
        "parent",
        "position",
    )

    def __init__(
        self, name: str, index_type: IndexType, row_type: RowType, parent: Node | None, position: int
    ) -> None:
        self.name = name
        self.index_type = index_type
        self.parent = parent
        self.position = position
        self.key_of: KeyOf = _no_key if isinstance(index_type, Fifo) else index_type.key_of(row_type)
        self.children = [
            Node(under, nested, row_type, self, place)
            for place, (under, nested) in enumerate(index_type.nested.items())
        ]
        self.is_leaf = not self.children
        self.keeps_empty_groups: bool = any(
            child.index_type.aggregator is not None or child.keeps_empty_groups for child in self.children
        )

    @property
    def path(self) -> tuple[str, ...]:
        """The names from the top of the tree to this node."""
        return (self.name,) if self.parent is None else (*self.parent.path, self.name)

    @property
    def first_leaf(self) -> Node:
        """The leaf that is reached by always taking the first nested index."""
        return self if self.is_leaf else self.children[0].first_leaf

    def make(self) -> Index:
        """Make an empty index of this node's kind."""
        if isinstance(self.index_type, Fifo):
            return FifoLeaf(self, self.index_type)
        return KeyedLeaf(self) if self.is_leaf else Groups(self)

    def make_store(self) -> Any:
        """Make an empty mapping from keys to rows or groups, in the order of the index."""
        if isinstance(self.index_type, Ordered):
            return SortedDictStore[Any]()
        return SortedStore[Any]() if self.index_type.is_sorted else {}

    def check_keys(self, row: Row) -> None:
        """Call all key functions below, so that one that fails does so before the row is inserted."""
        for child in self.children:
            child.key_of(row)
            child.check_keys(row)

    def locate(self, top: Group, row: Row) -> Index | None:
        """Return the index of this node that ``row`` belongs to, or None if its group does not exist."""
        if self.parent is None:
            return top.indexes[self.position]
        above = self.parent.locate(top, row)
        group = above.groups.get(self.parent.key_of(row)) if isinstance(above, Groups) else None
        return None if group is None else group.indexes[self.position]


def _no_key(row: Row) -> Any:
    return row


class Group:
    """Rows with the same keys in all indexes above: an index for each nested node, and aggregator states."""

    __slots__ = ("indexes", "key", "nodes", "states")

    def __init__(self, nodes: list[Node], key: Any = None) -> None:
        self.nodes = nodes
        self.key = key
        self.indexes: list[Index] = [node.make() for node in nodes]
        self.states: list[Any] = [
            None if (aggregator := node.index_type.aggregator) is None else aggregator.initial_state()
            for node in nodes
        ]

    def __len__(self) -> int:
        return len(self.indexes[0])

    def leaf(self) -> Leaf:
        """Return the first index of the group, which must be a leaf."""
        index = self.indexes[0]
        if isinstance(index, Groups):
            raise TypeError("the first index of this group is not a leaf")
        return index


class KeyedLeaf(FromTheFront[RowHandle]):
    """One row for each key, hashed or sorted."""

    __slots__ = ("key_of", "node", "rows")

    def __init__(self, node: Node) -> None:
        super().__init__()
        self.node = node
        self.key_of = node.key_of
        self.rows: Any = node.make_store()

    def displace(self, handle: RowHandle, doomed: list[RowHandle]) -> None:
        """Add the row with the key of ``handle``, if any, to the displaced rows."""
        old = self.rows.get(self.key_of(handle.row))
        if old is not None and old not in doomed:
            doomed.append(old)

    def add(self, handle: RowHandle) -> None:
        """Insert a row whose key is free."""
        self.rows[self.key_of(handle.row)] = handle
        if self.links is not None:
            self.links.append(handle)

    def remove(self, handle: RowHandle) -> None:
        """Remove a row."""
        del self.rows[self.key_of(handle.row)]
        if self.links is not None:
            self.links.remove(handle)

    def forget(self, handle: RowHandle) -> None:
        """Do nothing: this index keeps no removed rows."""

    def find(self, row: Row) -> RowHandle | None:
        """Return the row with the same key, or None."""
        found: RowHandle | None = self.rows.get(self.key_of(row))
        return found

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[RowHandle]:
        return iter(self.begin(self.rows))

    def first(self) -> RowHandle | None:
        """Return the first row, or None."""
        return next(iter(self.begin(self.rows)), None)

    def last(self) -> RowHandle | None:
        """Return the last row, or None."""
        if isinstance(self.rows, SortedStore):
            return self.rows.last()
        return next(reversed(self.rows.values()), None)

    def next(self, handle: RowHandle) -> RowHandle | None:
        """Return the row after one in this index, or None."""
        if isinstance(self.rows, SortedStore):
            return self.rows.after(self.key_of(handle.row))
        if self.links is None:
            self.links = Links(self.rows.values())
        return self.links.after(handle)


class FifoLeaf:
    """Rows in the order of insertion.

    A row that is removed from the middle stays in the queue, where it is skipped, until many have been
    removed: the number of its handle is negative. The rows at both ends of the queue are in the table.
    """

    __slots__ = ("jumping", "limit", "links", "node", "queue", "reverse", "size")

    def __init__(self, node: Node, index_type: Fifo) -> None:
        self.node = node
        self.limit = index_type.limit
        self.jumping = index_type.jumping
        self.reverse = index_type.reverse
        self.queue: deque[RowHandle] = deque()
        self.size = 0
        self.links: Links[RowHandle] | None = None

    def displace(self, handle: RowHandle, doomed: list[RowHandle]) -> None:
        """Add the oldest row (all rows, if jumping) to the displaced ones, unless they make enough room."""
        if not self.limit or self.size < self.limit:
            return
        if not doomed and not self.jumping:
            doomed.append(self.queue[0])
            return
        room = self.limit - self.size + sum(self._holds(old) for old in doomed)
        if room <= 0:
            oldest = (old for old in self.queue if old.number > 0 and old not in doomed)
            if self.jumping:
                doomed.extend(list(oldest))
            else:
                doomed.append(next(oldest))

    def _holds(self, handle: RowHandle) -> bool:
        return self.node.locate(handle.table._top, handle.row) is self

    def add(self, handle: RowHandle) -> None:
        """Insert a row at the end."""
        self.queue.append(handle)
        self.size += 1
        if self.links is not None:
            self.links.append(handle)

    def remove(self, handle: RowHandle) -> None:
        """Remove a row, whose number is negative already."""
        queue = self.queue
        self.size -= 1
        if queue[0] is handle:
            queue.popleft()
            while queue and queue[0].number < 0:
                queue.popleft()
        elif queue[-1] is handle:
            queue.pop()
            while queue[-1].number < 0:
                queue.pop()
        elif len(queue) > 2 * self.size + COMPACT_ABOVE:
            self.queue = deque(held for held in queue if held.number > 0)
        if self.links is not None:
            self.links.remove(handle)

    def forget(self, handle: RowHandle) -> None:
        """Drop a removed row that is about to be inserted again."""
        self.queue = deque(held for held in self.queue if held is not handle)

    def find(self, row: Row) -> RowHandle | None:
        """Return the oldest row that is equal to ``row``, by reading all rows, or None."""
        return next((handle for handle in self.queue if handle.number > 0 and handle.row == row), None)

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[RowHandle]:
        queue = reversed(self.queue) if self.reverse else iter(self.queue)
        if len(self.queue) == self.size:
            return queue
        return (handle for handle in queue if handle.number > 0)

    def first(self) -> RowHandle | None:
        """Return the first row, or None."""
        if not self.queue:
            return None
        return self.queue[-1] if self.reverse else self.queue[0]

    def last(self) -> RowHandle | None:
        """Return the last row, or None."""
        if not self.queue:
            return None
        return self.queue[0] if self.reverse else self.queue[-1]

    def next(self, handle: RowHandle) -> RowHandle | None:
        """Return the row after one in this index, or None."""
        if self.links is None:
            self.links = Links(held for held in self.queue if held.number > 0)
        return self.links.before(handle) if self.reverse else self.links.after(handle)


class Groups(FromTheFront[Group]):
    """Groups by key, hashed or sorted."""

    __slots__ = ("groups", "key_of", "node", "size")

    def __init__(self, node: Node) -> None:
        super().__init__()
        self.node = node
        self.key_of = node.key_of
        self.groups: Any = node.make_store()
        self.size = 0

    def displace(self, handle: RowHandle, doomed: list[RowHandle]) -> None:
        """Let the indexes of the row's group, in order, add the rows that it displaces."""
        group = self.groups.get(self.key_of(handle.row))
        if group is not None:
            for index in group.indexes:
                index.displace(handle, doomed)
        else:
            self.node.check_keys(handle.row)

    def add(self, handle: RowHandle) -> None:
        """Insert a row into its group."""
        key = self.key_of(handle.row)
        group = self.groups.get(key)
        if group is None:
            group = self.open(key)
        for index in group.indexes:
            index.add(handle)
        self.size += 1

    def open(self, key: Any) -> Group:
        """Make the group of a key."""
        group = self.groups[key] = Group(self.node.children, key)
        if self.links is not None:
            self.links.append(group)
        return group

    def remove(self, handle: RowHandle) -> None:
        """Remove a row from its group."""
        key = self.key_of(handle.row)
        group = self.groups.get(key)
        for index in group.indexes:
            index.remove(handle)
        self.size -= 1
        if not self.node.keeps_empty_groups and not group.indexes[0]:
            self.close(key, group)

    def close(self, key: Any, group: Group) -> None:
        """Remove an empty group."""
        del self.groups[key]
        if self.links is not None:
            self.links.remove(group)

    def forget(self, handle: RowHandle) -> None:
        """Drop a removed row that is about to be inserted again into its group."""
        group = self.groups.get(self.key_of(handle.row))
        if group is not None:
            for index in group.indexes:
                index.forget(handle)

    def find(self, row: Row) -> RowHandle | None:
        """Return the first row of the group that ``row`` belongs to."""
        group = self.groups.get(self.key_of(row))
        return None if group is None else group.indexes[0].first()

    def __len__(self) -> int:
        return self.size

    def in_order(self) -> Iterable[Group]:
        """Return all groups in order."""
        return self.begin(self.groups)

    def __iter__(self) -> Iterator[RowHandle]:
        for group in self.in_order():
            yield from group.indexes[0]

    def first(self) -> RowHandle | None:
        """Return the first row of the first group that has any, or None."""
        return next(iter(self), None)

    def last(self) -> RowHandle | None:
        """Return the last row of the last group that has any, or None."""
        groups = self.groups
        backwards = groups.backwards() if isinstance(groups, SortedStore) else reversed(groups.values())
        lasts = (group.indexes[0].last() for group in backwards)
        return next((handle for handle in lasts if handle is not None), None)

    def group_after(self, group: Group) -> Group | None:
        """Return the group after one in this index, or None."""
        if isinstance(self.groups, SortedStore):
            return self.groups.after(group.key)
        if self.links is None:
            self.links = Links(self.groups.values())
        return self.links.after(group)


Leaf = KeyedLeaf | FifoLeaf
Index = KeyedLeaf | FifoLeaf | Groups


def indexes_below(index: Index, node: Node) -> Iterator[Index]:
    """Return all indexes of ``node`` inside an index above it."""
    if index.node is node:
        yield index
    elif isinstance(index, Groups):
        for group in index.in_order():
            for inner in group.indexes:
                if node.path[: len(inner.node.path)] == inner.node.path:
                    yield from indexes_below(inner, node)
