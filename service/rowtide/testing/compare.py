"""Comparing output rows with the rows that a scenario expects.

Each expected row is converted once, by the types of the relation's columns. A
cell that is not a value of its column's type equals nothing, so it is a
difference. Columns that a named row leaves out are not compared.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from rowtide.rows.rowop import Opcode, Row
from rowtide.rows.types import Kind, RowType, Type


class _Any(Enum):
    ANY = "any"


ANY: Final = _Any.ANY
"""Marks a part that is not compared."""


LOOKAHEAD = 40
"""How many missing or surplus rows the display can skip; the time grows with the square of this."""


@dataclass(frozen=True, slots=True)
class Misfit:
    """An expected cell that is not a value of its column's type: it equals no output value."""

    text: str


@dataclass(frozen=True, slots=True)
class ActualRow:
    """One output row. ``rowtime`` (ms) is None for rows of a table and for errors without one."""

    rowtime: int | None
    row: Row
    opcode: Opcode = Opcode.INSERT


@dataclass(frozen=True, slots=True)
class ExpectedRow:
    """One row that is expected; each part may be ``ANY``."""

    rowtime: int | _Any | Misfit | None
    values: tuple[object, ...]
    opcode: Opcode | _Any = Opcode.INSERT

    @property
    def compares(self) -> tuple[bool, ...]:
        """The parts that are compared: expected rows that compare the same parts can be counted together."""
        return (self.opcode is not ANY, self.rowtime is not ANY, *(value is not ANY for value in self.values))


@dataclass(frozen=True, slots=True)
class Matched:
    """Pairs of an expected and an output row, in the order in which they are shown.

    A pair with None on one side is a missing or a surplus row. ``differing`` has the positions of the
    pairs that do not match.
    """

    pairs: tuple[tuple[ExpectedRow | None, ActualRow | None], ...]
    differing: tuple[int, ...] = field(default=())

    @property
    def is_equal(self) -> bool:
        """Return whether everything matched."""
        return not self.differing


class RowComparison:
    """Compares rows of one relation.

    Args:
      row_type: the relation's.
      tolerance: the allowed difference of two floats, relative to the larger one; None: they must be equal.
      prefixes: columns where an expected value may be only the part before the colon (REASON).
    """

    def __init__(
        self, row_type: RowType, tolerance: float | None = None, prefixes: frozenset[str] = frozenset()
    ) -> None:
        self._types = [column.type for column in row_type]
        self._prefixed = [column.name in prefixes for column in row_type]
        self._tolerance = tolerance

    def in_order(self, wanted: Sequence[ExpectedRow], given: Sequence[ActualRow]) -> Matched:
        """Match rows one to one, in their order."""
        pairs: list[tuple[ExpectedRow | None, ActualRow | None]] = []
        differing: list[int] = []
        index, at = 0, 0
        while index < len(wanted) or at < len(given):
            if index < len(wanted) and at < len(given) and self._same(wanted[index], given[at]):
                pairs.append((wanted[index], given[at]))
                index, at = index + 1, at + 1
                continue
            skip, pass_over = self._to_next_match(wanted[index:], given[at:])
            for step in range(max(skip, pass_over)):
                differing.append(len(pairs))
                pairs.append(
                    (
                        wanted[index + step] if step < skip else None,
                        given[at + step] if step < pass_over else None,
                    )
                )
            index, at = index + skip, at + pass_over
        return Matched(tuple(pairs), tuple(differing))

    def _to_next_match(self, wanted: Sequence[ExpectedRow], given: Sequence[ActualRow]) -> tuple[int, int]:
        """Return the number of rows to skip on each side so that both match again: for display."""
        for distance in range(1, LOOKAHEAD):
            for skip in range(max(0, distance - len(given) + 1), min(distance, len(wanted) - 1) + 1):
                if self._same(wanted[skip], given[distance - skip]):
                    return skip, distance - skip
        return len(wanted), len(given)

    def as_multiset(self, wanted: Sequence[ExpectedRow], given: Sequence[ActualRow]) -> Matched:
        """Match as many rows as possible one to one, in any order."""
        found = self._counted(wanted, given) if self._is_countable(wanted) else self._assigned(wanted, given)
        taken = set(found.values())
        pairs: list[tuple[ExpectedRow | None, ActualRow | None]] = [
            (want, given[found[index]] if index in found else None) for index, want in enumerate(wanted)
        ]
        pairs += [(None, got) for index, got in enumerate(given) if index not in taken]
        differing = [index for index, (want, got) in enumerate(pairs) if want is None or got is None]
        return Matched(tuple(pairs), tuple(differing))

    def in_time(self, wanted: Sequence[ExpectedRow], given: Sequence[ActualRow]) -> Matched:
        """Match rows one to one in the order of their ROWTIMEs; rows with equal ROWTIME match in any order."""
        matched = self.as_multiset(wanted, given)
        if not matched.is_equal:
            return self.in_order(wanted, given)
        times = [got.rowtime for _, got in matched.pairs if got is not None]
        return matched if times == [got.rowtime for got in given] else self.in_order(wanted, given)

    def _is_countable(self, wanted: Sequence[ExpectedRow]) -> bool:
        if self._tolerance is not None and any((kind.element or kind).is_float for kind in self._types):
            return False
        return not any(self._prefixed) and len({want.compares for want in wanted}) <= 1

    def _counted(self, wanted: Sequence[ExpectedRow], given: Sequence[ActualRow]) -> dict[int, int]:
        if not wanted:
            return {}
        compares = wanted[0].compares
        places: dict[tuple[object, ...], list[int]] = {}
        for index, got in enumerate(given):
            places.setdefault(self._key(compares, got.opcode, got.rowtime, got.row), []).append(index)
        used: Counter[tuple[object, ...]] = Counter()
        found = {}
        for index, want in enumerate(wanted):
            key = self._key(compares, want.opcode, want.rowtime, want.values)
            if used[key] < len(places.get(key, ())):
                found[index] = places[key][used[key]]
                used[key] += 1
        return found

    def _key(
        self, compares: Sequence[bool], opcode: object, rowtime: object, values: Sequence[object]
    ) -> tuple[object, ...]:
        plain = (_plain(value, kind) for value, kind in zip(values, self._types, strict=True))
        parts = (opcode, rowtime, *plain)
        return tuple(part for part, compared in zip(parts, compares, strict=True) if compared)

    def _assigned(self, wanted: Sequence[ExpectedRow], given: Sequence[ActualRow]) -> dict[int, int]:
        """Find a maximum matching: an expected row that leaves out columns may match several output rows."""
        fits = [[at for at, got in enumerate(given) if self._same(want, got)] for want in wanted]
        holder: dict[int, int] = {}
        for index in range(len(wanted)):
            _augment(index, fits, holder)
        return {index: at for at, index in holder.items()}

    def _same(self, want: ExpectedRow, got: ActualRow) -> bool:
        if want.opcode is not ANY and want.opcode is not got.opcode:
            return False
        if want.rowtime is not ANY and want.rowtime != got.rowtime:
            return False
        return all(
            self._equal(value, actual, kind, prefixed)
            for value, actual, kind, prefixed in zip(
                want.values, got.row, self._types, self._prefixed, strict=True
            )
        )

    def _equal(self, value: object, actual: object, kind: Type, prefixed: bool) -> bool:
        if value is ANY:
            return True
        if value is None or actual is None:
            return value is actual
        if isinstance(value, tuple) and isinstance(actual, tuple) and kind.element is not None:
            of = kind.element
            return len(value) == len(actual) and all(
                self._equal(one, other, of, prefixed) for one, other in zip(value, actual, strict=True)
            )
        if self._tolerance is not None and isinstance(value, float) and isinstance(actual, float):
            return _plain(value, kind) == _plain(actual, kind) or math.isclose(
                value, actual, rel_tol=self._tolerance
            )
        if prefixed and isinstance(value, str) and isinstance(actual, str):
            return value == actual or actual.partition(":")[0] == value
        return _plain(value, kind) == _plain(actual, kind)


def _plain(value: object, kind: Type) -> object:
    """Return a key of a value: two keys are equal if and only if the values are the same in SQL."""
    if kind.kind is Kind.CHAR and isinstance(value, str):
        return value.rstrip(" ")
    if isinstance(value, tuple) and kind.element is not None:
        return tuple(_plain(each, kind.element) for each in value)
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    return value


def _augment(start: int, fits: Sequence[Sequence[int]], holder: dict[int, int]) -> None:
    """Match row ``start`` if possible; rows that are matched already can move to other matches."""
    came_from: dict[int, int] = {}
    queue = [start]
    for index in queue:
        for at in fits[index]:
            if at in came_from:
                continue
            came_from[at] = index
            if at in holder:
                queue.append(holder[at])
                continue
            place_of = {row: place for place, row in holder.items()}
            place: int | None = at
            while place is not None:
                row = came_from[place]
                holder[place] = row
                place = place_of.get(row)
            return
