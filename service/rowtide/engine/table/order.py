"""Orders in which an index keeps its rows or groups: sorted by key, or as they came."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Any, Generic, TypeVar

from sortedcontainers import SortedDict, SortedKeyList

Item = TypeVar("Item", bound=Hashable)


class SortedStore(Generic[Item]):
    """Items by key in key order; offers what an index needs of a dict, in logarithmic time."""

    __slots__ = ("_items",)

    def __init__(self) -> None:
        self._items: Any = SortedKeyList(key=_first)

    def get(self, key: Any) -> Item | None:
        """Give the item under ``key``, or None."""
        found: tuple[Any, Item] | None = next(self._items.irange_key(key, key), None)
        return None if found is None else found[1]

    def __setitem__(self, key: Any, item: Item) -> None:
        self._items.add((key, item))

    def __delitem__(self, key: Any) -> None:
        del self._items[self._items.bisect_key_left(key)]

    def __len__(self) -> int:
        return len(self._items)

    def values(self) -> Iterator[Item]:
        """Give the items in key order."""
        return (item for _, item in self._items)

    def after(self, key: Any) -> Item | None:
        """Give the item with the next greater key, or None."""
        place = self._items.bisect_key_right(key)
        return self._items[place][1] if place < len(self._items) else None

    def last(self) -> Item | None:
        """Give the item with the greatest key, or None."""
        return self._items[-1][1] if self._items else None


class SortedDictStore(SortedStore[Item]):
    """The same for keys that can be hashed: finding an item does not search."""

    __slots__ = ()

    def __init__(self) -> None:
        self._items = SortedDict()

    def get(self, key: Any) -> Item | None:
        """Give the item under ``key``, or None."""
        found: Item | None = self._items.get(key)
        return found

    def __setitem__(self, key: Any, item: Item) -> None:
        self._items[key] = item

    def __delitem__(self, key: Any) -> None:
        del self._items[key]

    def values(self) -> Iterator[Item]:
        """Give the items in key order."""
        return iter(self._items.values())

    def after(self, key: Any) -> Item | None:
        """Give the item with the next greater key, or None."""
        place = self._items.bisect_right(key)
        return self._items.peekitem(place)[1] if place < len(self._items) else None

    def last(self) -> Item | None:
        """Give the item with the greatest key, or None."""
        return self._items.peekitem()[1] if self._items else None


def _first(pair: tuple[Any, Any]) -> Any:
    return pair[0]


class Links(Generic[Item]):
    """What follows what, for an index that otherwise only knows how to go from the beginning.

    Made when someone first asks and kept up from then on: asking is rare, changes are many.
    """

    __slots__ = ("_after", "_before", "_last")

    def __init__(self, items: Iterable[Item]) -> None:
        self._after: dict[Item, Item | None] = {}
        self._before: dict[Item, Item | None] = {}
        self._last: Item | None = None
        for item in items:
            self.append(item)

    def append(self, item: Item) -> None:
        """Put ``item`` at the end."""
        if self._last is not None:
            self._after[self._last] = item
        self._before[item] = self._last
        self._after[item] = None
        self._last = item

    def remove(self, item: Item) -> None:
        """Take ``item`` out."""
        before, after = self._before.pop(item), self._after.pop(item)
        if before is not None:
            self._after[before] = after
        if after is not None:
            self._before[after] = before
        else:
            self._last = before

    def after(self, item: Item) -> Item | None:
        """Give the item after ``item``, or None."""
        return self._after[item]

    def before(self, item: Item) -> Item | None:
        """Give the item before ``item``, or None."""
        return self._before[item]


class Reversed:
    """Turns the order of a value around."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __lt__(self, other: Reversed) -> bool:
        return bool(other.value < self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reversed) and bool(self.value == other.value)

    def __hash__(self) -> int:
        return hash(self.value)


def _rank(value: Any) -> tuple[int, Any]:
    # A NaN is unequal to itself; tuples compare it by identity, and there is only one of it.
    return (0, None) if value is None else (1 if value == value else 2, value)  # noqa: PLR0124


def ascending_key(positions: Sequence[int]) -> Callable[[Any], Any]:
    """Give the sort key of some fields: NULL first, then the values, NaN after all numbers."""
    if len(positions) == 1:
        only = positions[0]
        return lambda row: _rank(row[only])
    pick = itemgetter(*positions)
    return lambda row: tuple(map(_rank, pick(row)))


def mixed_key(positions: Sequence[tuple[int, bool]]) -> Callable[[Any], Any]:
    """Give the sort key of (field, is descending) pairs; descending, NULL comes last."""
    return lambda row: tuple(
        [
            Reversed(_rank(row[position])) if is_descending else _rank(row[position])
            for position, is_descending in positions
        ]
    )
