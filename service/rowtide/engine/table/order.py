"""Orders in which an index keeps its rows or groups: sorted by key, or in the order of insertion."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Any, Generic, TypeVar

from sortedcontainers import SortedKeyList, SortedList

Item = TypeVar("Item", bound=Hashable)

_NO_KEY = object()
_NAN = math.nan
"""The one NaN that rows hold (``engine.values``)."""


class SortedStore(Generic[Item]):
    """Items by key in key order, with the methods of a dict that an index needs, in logarithmic time."""

    __slots__ = ("_items",)

    def __init__(self) -> None:
        self._items: Any = SortedKeyList(key=_first)

    def get(self, key: Any) -> Item | None:
        """Return the item under ``key``, or None."""
        found: tuple[Any, Item] | None = next(self._items.irange_key(key, key), None)
        return None if found is None else found[1]

    def __setitem__(self, key: Any, item: Item) -> None:
        self._items.add((key, item))

    def __delitem__(self, key: Any) -> None:
        del self._items[self._items.bisect_key_left(key)]

    def __len__(self) -> int:
        return len(self._items)

    def values(self) -> Iterator[Item]:
        """Return the items in key order."""
        return (item for _, item in self._items)

    def after(self, key: Any) -> Item | None:
        """Return the item with the next greater key, or None."""
        place = self._items.bisect_key_right(key)
        return self._items[place][1] if place < len(self._items) else None

    def last(self) -> Item | None:
        """Return the item with the greatest key, or None."""
        return self._items[-1][1] if self._items else None

    def backwards(self) -> Iterator[Item]:
        """Return the items in descending key order."""
        return (item for _, item in reversed(self._items))


class SortedDictStore(SortedStore[Item]):
    """A ``SortedStore`` for keys that can be hashed: finding an item needs no search.

    A deleted key stays among the sorted keys until the order is read or the next key is deleted: usually
    it is inserted again at once, for the row that displaced the old one.
    """

    __slots__ = ("_by_key", "_gone")

    def __init__(self) -> None:
        self._items = SortedList()
        self._by_key: dict[Any, Item] = {}
        self._gone: Any = _NO_KEY

    def get(self, key: Any) -> Item | None:
        """Return the item under ``key``, or None."""
        return self._by_key.get(key)

    def __setitem__(self, key: Any, item: Item) -> None:
        if key not in self._by_key:
            if key == self._gone:
                self._gone = _NO_KEY
            else:
                self._items.add(key)
        self._by_key[key] = item

    def __delitem__(self, key: Any) -> None:
        del self._by_key[key]
        self._sort()
        self._gone = key

    def _sort(self) -> None:
        if self._gone is not _NO_KEY:
            self._items.remove(self._gone)
            self._gone = _NO_KEY

    def __len__(self) -> int:
        return len(self._by_key)

    def values(self) -> Iterator[Item]:
        """Return the items in key order."""
        self._sort()
        return map(self._by_key.__getitem__, self._items)

    def after(self, key: Any) -> Item | None:
        """Return the item with the next greater key, or None."""
        self._sort()
        place = self._items.bisect_right(key)
        return self._by_key[self._items[place]] if place < len(self._items) else None

    def last(self) -> Item | None:
        """Return the item with the greatest key, or None."""
        self._sort()
        return self._by_key[self._items[-1]] if self._items else None

    def backwards(self) -> Iterator[Item]:
        """Return the items in descending key order."""
        self._sort()
        return map(self._by_key.__getitem__, reversed(self._items))


def _first(pair: tuple[Any, Any]) -> Any:
    return pair[0]


class Links(Generic[Item]):
    """The successors of items, for an index that otherwise can only iterate from the beginning.

    Made at the first request and kept up to date from then on: requests are rare, changes are frequent.
    """

    __slots__ = ("_after", "_before", "_last", "first")

    def __init__(self, items: Iterable[Item]) -> None:
        self._after: dict[Item, Item | None] = {}
        self._before: dict[Item, Item | None] = {}
        self._last: Item | None = None
        self.first: Item | None = None
        for item in items:
            self.append(item)

    def __iter__(self) -> Iterator[Item]:
        item = self.first
        while item is not None:
            yield item
            item = self._after[item]

    def append(self, item: Item) -> None:
        """Add ``item`` at the end."""
        if self._last is None:
            self.first = item
        else:
            self._after[self._last] = item
        self._before[item] = self._last
        self._after[item] = None
        self._last = item

    def remove(self, item: Item) -> None:
        """Remove ``item``."""
        before, after = self._before.pop(item), self._after.pop(item)
        if before is None:
            self.first = after
        else:
            self._after[before] = after
        if after is not None:
            self._before[after] = before
        else:
            self._last = before

    def after(self, item: Item) -> Item | None:
        """Return the item after ``item``, or None."""
        return self._after[item]

    def before(self, item: Item) -> Item | None:
        """Return the item before ``item``, or None."""
        return self._before[item]


FRONTS_LOST = 32
"""How often the first item is removed before its index is linked: links slow down every later change."""


class FromTheFront(Generic[Item]):
    """Counts how often the first item of a dict is removed, and links the items when this is frequent.

    A dict finds its first item by skipping all items that were removed before it since it last grew, so
    removing items from its front one after another becomes slower and slower.
    """

    __slots__ = ("_front", "_lost", "links")

    def __init__(self) -> None:
        self.links: Links[Item] | None = None
        self._front: Item | None = None
        self._lost = 0

    def begin(self, items: Any) -> Iterable[Item]:
        """Return the items of a hashed or sorted store in their order."""
        if self.links is not None:
            return self.links
        if items.__class__ is dict:
            front = next(iter(items.values()), None)
            if front is not self._front:
                self._front = front
                self._lost += 1
                if self._lost > FRONTS_LOST:
                    self.links = Links(items.values())
                    return self.links
        values: Iterable[Item] = items.values()
        return values


class End:
    """A sort key before or after all others, whatever their type."""

    __slots__ = ("_is_least",)

    def __init__(self, *, is_least: bool) -> None:
        self._is_least = is_least

    def __lt__(self, other: object) -> bool:
        return self._is_least and other is not self

    def __gt__(self, other: object) -> bool:
        return not self._is_least and other is not self


LEAST, GREATEST = End(is_least=True), End(is_least=False)


class Reversed:
    """Reverses the order of a value that cannot be negated."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __lt__(self, other: object) -> bool:
        return bool(other.value < self.value) if isinstance(other, Reversed) else NotImplemented

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reversed) and bool(self.value == other.value)

    def __hash__(self) -> int:
        return hash(self.value)


def ascending_key(positions: Sequence[int]) -> Callable[[Any], Any]:
    """Return the function from a row to the sort key of some fields: NULL first, NaN after all numbers.

    Keys are the values themselves, which compare fastest; only NULL and NaN are replaced.
    """
    if len(positions) == 1:
        only = positions[0]
        return lambda row: _ascending(row[only])
    pick = itemgetter(*positions)

    def key(row: Any) -> Any:
        values = pick(row)
        return tuple(map(_ascending, values)) if None in values or _NAN in values else values

    return key


def mixed_key(positions: Sequence[tuple[int, Callable[[Any], Any]]]) -> Callable[[Any], Any]:
    """Return the function from a row to the sort key of fields with their own orders; see ``order_of``."""
    return lambda row: tuple([order(row[position]) for position, order in positions])


def order_of(*, is_descending: bool, is_text: bool) -> Callable[[Any], Any]:
    """Return the function from a value to its sort key; in descending order NULL is last and NaN first."""
    if not is_descending:
        return _ascending
    return _descending_text if is_text else _descending


def _ascending(value: Any) -> Any:
    return LEAST if value is None else GREATEST if value is _NAN else value


def _descending(value: Any) -> Any:
    return GREATEST if value is None else LEAST if value is _NAN else -value


def _descending_text(value: Any) -> Any:
    return GREATEST if value is None else Reversed(value)
