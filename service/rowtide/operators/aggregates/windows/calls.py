"""The base of all calls of a window, for ``operators.over.frames``: values by slot, and arrays.

A call has its values by slot and its results by partition; ``follow`` takes
the steps of the frames. If a call's kernel cannot take some rows, ``fits``
returns False before any change.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rowtide.operators.storage.growing import grown
from rowtide.rows.arrays import Int64s, Mask

Values = NDArray[Any]

ADDED = 3
"""A step that adds a row that is not held (``kernels.frames``)."""


@dataclass(frozen=True, slots=True)
class Moved:
    """Frames that moved: those of the rows from ``start`` to ``stop`` of a tray, by partition.

    ``until`` is the number of ``steps`` after each row; ``first`` and ``last`` are the slots at the ends
    of its frame, -1 if that is empty. ``held``: rows are held in slots, not only added.
    """

    groups: Int64s
    start: int
    stop: int
    steps: Int64s
    until: Int64s
    first: Int64s
    last: Int64s
    held: bool = True

    @classmethod
    def one_each(cls, groups: Int64s, steps: Int64s) -> Moved:
        """Return frames of rows that are not held, which move by one step for each row."""
        until = np.arange(1, len(groups) + 1, dtype=np.int64)
        return cls(groups, 0, len(groups), steps, until, groups, groups, held=False)

    @classmethod
    def added(cls, groups: Int64s) -> Moved:
        """Return frames without a start, which rows enter."""
        return cls.one_each(groups, np.full(len(groups), ADDED, dtype=np.int64))

    @property
    def path(self) -> tuple[Int64s, int, int, Int64s, Int64s]:
        """The first arguments of every kernel that follows the steps."""
        return self.groups, self.start, self.stop, self.steps, self.until

    @property
    def count(self) -> int:
        """The number of steps."""
        return int(self.until[self.stop - 1]) if self.stop > self.start else 0


class DistinctFilter(Protocol):
    """Leaves out repeated values: ``aggregates.windows.distinct``."""

    def filtered(self, moved: Moved, values: Values, use: Mask) -> Mask:
        """Return the used steps that change the set of values."""

    def keep(self, kept: Int64s) -> None:
        """Drop all partitions except these."""


class Following(Protocol):
    """A function of values that enter and leave, for all partitions or groups."""

    def fits(self, values: Values, use: Mask, most: int) -> bool:
        """Return whether the kernel can take these values, if a frame has at most ``most`` of all rows."""

    def reserve(self, groups: int) -> None:
        """Make room for partitions. New elements are those of an empty one."""

    def begin(self, values: Values, use: Mask) -> None:
        """Take the values of a tray, and make room for its results."""

    def follow(self, moved: Moved) -> None:
        """Add and remove rows, and store the results."""

    def result(self) -> tuple[Values, Mask | None]:
        """Return the results of the tray and the mask of known ones, None: all."""

    def keep(self, kept: Int64s) -> None:
        """Drop all partitions except these."""

    def save(self, groups: Int64s) -> Iterable[list[Any]]:
        """Return the state of a frame without a start, as ``window_functions`` save it."""

    def load(self, saved: Sequence[list[Any]]) -> bool:
        """Restore the result of ``save``; False: it does not fit."""


class WindowKernelCall(Following, Protocol):
    """One call of a window, for all partitions; ``once``: it takes each value once."""

    once: DistinctFilter | None

    def begin_held(self, rows: int) -> None:
        """Make room for the results of this number of rows, whose values are in slots."""

    def hold(self, slots: int) -> None:
        """Make room for rows in slots."""

    def put(self, values: Values, use: Mask, slots: Int64s) -> None:
        """Write values to slots."""

    def stored(self, slots: Int64s) -> tuple[Values, Mask]:
        """Return the values in slots, and which are used."""


class Held:
    """Values by slot, and arrays by partition: the base of calls; see ``WindowKernelCall``."""

    def __init__(self, dtype: Any, **states: tuple[Any, int]) -> None:
        self._values: Values = np.zeros(0, dtype=dtype)
        self._use: Mask = np.zeros(0, dtype=np.bool_)
        # Until a row without a value arrives, every slot is used and needs no check.
        self._looks = False
        self._given: tuple[Values, Mask] = self._values, self._use
        self.once: DistinctFilter | None = None
        self._exchanged: tuple[Moved, Values] | None = None
        self._states = states
        for name, (kind, width) in states.items():
            setattr(self, name, np.zeros((0, width) if width else 0, dtype=kind))

    def fits(self, values: Values, use: Mask, most: int) -> bool:
        return True

    def reserve(self, groups: int) -> None:
        for name in self._states:
            setattr(self, name, grown(getattr(self, name), groups))

    def begin(self, values: Values, use: Mask) -> None:
        self._given = values, use
        self._looks = self._looks or not use.all()

    def begin_held(self, rows: int) -> None:
        self.begin(np.zeros(rows, dtype=self._values.dtype), np.ones(rows, dtype=np.bool_))

    def keep(self, kept: Int64s) -> None:
        if self.once is not None:
            self.once.keep(kept)
        for name in self._states:
            setattr(self, name, getattr(self, name)[kept])

    def hold(self, slots: int) -> None:
        self._values = grown(self._values, slots)
        self._hold_use(slots)

    def _hold_use(self, slots: int) -> None:
        self._use = grown(self._use, slots, fill=True)

    def put(self, values: Values, use: Mask, slots: Int64s) -> None:
        self._values[slots], self._use[slots] = values, use
        self._looks = self._looks or not use.all()

    def stored(self, slots: Int64s) -> tuple[Values, Mask]:
        return self._values[slots], self._use[slots]

    def save(self, groups: Int64s) -> Iterable[list[Any]]:
        raise NotImplementedError

    def load(self, saved: Sequence[list[Any]]) -> bool:
        raise NotImplementedError

    def _values_of(self, moved: Moved) -> Values:
        """Return the value of each step. They are exchanged with those in slots, so this works only once."""
        if self._exchanged is None or self._exchanged[0] is not moved:
            self._exchanged = moved, _of_steps(moved, self._given[0], self._values)
        return self._exchanged[1]

    def _use_of(self, moved: Moved) -> Mask:
        """Return for each step whether its value is used."""
        use = np.ones(moved.count, dtype=np.bool_)
        if self._looks:
            use = _of_steps(moved, self._given[1], self._use)
        return use if self.once is None else self.once.filtered(moved, self._values_of(moved), use)


class Known(Held):
    """A call with one value for each row, if it is known."""

    def begin(self, values: Values, use: Mask) -> None:
        super().begin(values, use)
        self._found = np.zeros(len(use), dtype=self._values.dtype)
        self._known = np.zeros(len(use), dtype=np.bool_)

    def result(self) -> tuple[Values, Mask | None]:
        return self._found, self._known


def _of_steps(moved: Moved, given: Values, held: Values) -> Values:
    from rowtide.operators.aggregates.kernels.frames import exchange

    if not moved.held:
        return given
    found = np.empty(moved.count, dtype=held.dtype)
    exchange(moved.steps, len(found), moved.start, given, held, found)
    return found
