"""The state of a frame for each of its calls: values enter at its end and leave at its start.

A value that has left has no effect: integers, decimals and floats are summed
exactly (a double is a multiple of 2**-1074), so a sum depends only on the
content of the frame, not on earlier content, cuts or restarts, and a float
result is the double nearest to the exact one. NULL enters as None.

Frames without a start never lose a value: ``save`` and ``load`` carry the
state of their functions; others are filled again from the rows of the frame.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any, Protocol

from rowtide.errors import Reason, RejectedRowError
from rowtide.expr.aggregates.variance import SPREADS
from rowtide.operators.aggregates.arithmetic.rounding import round_half_away
from rowtide.rows.column import scaled, unscaled
from rowtide.rows.types import MAX_DECIMAL_PRECISION, Kind, Type

NOTHING = object()
"""The result of a shift to a row that does not exist."""
FLOAT_BITS = 1074
"""Every double is a multiple of 2**-1074."""
MAX_BIGINT = 2**63
MAX_DECIMAL = 10**MAX_DECIMAL_PRECISION


class WindowFunction(Protocol):
    """The state of one call over one frame."""

    def add(self, value: Any) -> None:
        """Add the value of a row that enters after all others."""

    def drop(self, value: Any) -> None:
        """Remove the value of the first row."""

    def result(self) -> object:
        """Return the result over the current values, in row form.

        Raises:
          RejectedRowError: it does not fit its type.
        """

    def save(self) -> list[Any]:
        """Return the state of a frame without a start, as JSON values."""

    def load(self, saved: list[Any]) -> None:
        """Restore the result of ``save``."""


def is_nan(value: object) -> bool:
    """Return whether a value is NaN."""
    return isinstance(value, float) and math.isnan(value)


def is_better(value: Any, held: Any, *, greatest: bool) -> bool:
    """Return whether ``value`` replaces ``held`` in MIN or MAX: NaN replaces nothing."""
    better = value > held if greatest else value < held
    return bool(better) or (is_nan(held) and not is_nan(value))


def to_whole(of: Type) -> Callable[[Any], int]:
    """Return the function that makes a value of type ``of`` a whole number of the type's least units."""
    if of.is_float:
        return _float_units
    if of.kind is Kind.DECIMAL:
        scale = of.scale
        return lambda value: unscaled(value, scale)
    return int


def _float_units(value: float) -> int:
    numerator, denominator = value.as_integer_ratio()
    return numerator << (FLOAT_BITS - denominator.bit_length() + 1)


def overflow() -> RejectedRowError:
    """Return the error of a result that its type cannot hold."""
    return RejectedRowError(Reason.OVERFLOW, "an aggregate is out of range for its type")


def check_finite(value: float | None) -> None:
    """Check a value of an aggregate that sums floats.

    Raises:
      RejectedRowError: it is infinite or NaN.
    """
    if value is not None and value - value != 0.0:
        raise RejectedRowError(Reason.OVERFLOW, "an aggregate does not take infinity and NaN")


class CountFunction:
    """COUNT: the rows inside with a value."""

    def __init__(self) -> None:
        self._count = 0

    def add(self, value: Any) -> None:
        if value is not None:
            self._count += 1

    def drop(self, value: Any) -> None:
        if value is not None:
            self._count -= 1

    def result(self) -> object:
        return self._count

    def save(self) -> list[Any]:
        return [self._count]

    def load(self, saved: list[Any]) -> None:
        (self._count,) = saved


class SumFunction:
    """SUM and AVG of numbers and intervals, exact until the result is made."""

    def __init__(self, of: Type, result: Type, *, average: bool) -> None:
        self._whole = to_whole(of)
        self._average = average
        # Computed once from the types, because results are made row by row.
        self._is_float = of.is_float
        self._is_int64 = result.kind is Kind.BIGINT or result.is_interval
        self._scale = result.scale
        self._units = 10 ** (result.scale - of.scale) if average and not of.is_float else 1
        self._count = 0
        self._total = 0

    def surely_fits(self) -> bool:
        """Return whether a result exists, if that is known without computing it."""
        if self._is_float:
            return False
        limit = MAX_BIGINT if self._is_int64 else MAX_DECIMAL
        return abs(self._total) * self._units < limit

    def add(self, value: Any) -> None:
        if value is not None:
            self._total += self._whole(value)
            self._count += 1

    def drop(self, value: Any) -> None:
        if value is not None:
            self._total -= self._whole(value)
            self._count -= 1

    def result(self) -> object:
        count, total = self._count, self._total
        if not count:
            return None
        if self._is_float:
            try:
                return total / ((count if self._average else 1) << FLOAT_BITS)
            except OverflowError:
                raise overflow() from None
        if self._average:
            total = round_half_away(total * self._units, count)
        if self._is_int64:
            if not -MAX_BIGINT <= total < MAX_BIGINT:
                raise overflow()
            return total
        if abs(total) >= MAX_DECIMAL:
            raise overflow()
        return scaled(total, self._scale)

    def save(self) -> list[Any]:
        return [self._count, self._total]

    def load(self, saved: list[Any]) -> None:
        self._count, self._total = saved


class VarianceFunction:
    """Variance and standard deviation: the double nearest to the exact variance, and its root."""

    def __init__(self, of: Type, function: str) -> None:
        self._whole = to_whole(of)
        self._unit = 2**FLOAT_BITS if of.is_float else 10**of.scale
        self._sample, self._root = SPREADS[function]
        self._count = 0
        self._total = 0
        self._squares = 0

    def add(self, value: Any) -> None:
        if value is not None:
            whole = self._whole(value)
            self._count += 1
            self._total += whole
            self._squares += whole * whole

    def drop(self, value: Any) -> None:
        if value is not None:
            whole = self._whole(value)
            self._count -= 1
            self._total -= whole
            self._squares -= whole * whole

    def result(self) -> object:
        # The sample's are NULL for a single value.
        count = self._count
        weight = count - 1 if self._sample else count
        if weight <= 0:
            return None
        exact = count * self._squares - self._total * self._total
        try:
            variance = exact / (count * weight * self._unit * self._unit)
        except OverflowError:
            raise overflow() from None
        return math.sqrt(variance) if self._root else variance

    def save(self) -> list[Any]:
        return [self._count, self._total, self._squares]

    def load(self, saved: list[Any]) -> None:
        self._count, self._total, self._squares = saved


class ExtremeFunction:
    """MIN and MAX of a moving frame: only values that may still become the best are kept.

    Of equal ones (zeros have signs) the first is the result, as without a frame.
    """

    def __init__(self, *, greatest: bool) -> None:
        self._greatest = greatest
        self._added = 0
        self._dropped = 0
        self._best: deque[tuple[int, Any]] = deque()

    def add(self, value: Any) -> None:
        if value is not None:
            best = self._best
            while best and is_better(value, best[-1][1], greatest=self._greatest):
                best.pop()
            best.append((self._added, value))
        self._added += 1

    def drop(self, value: Any) -> None:
        if self._best and self._best[0][0] == self._dropped:
            self._best.popleft()
        self._dropped += 1

    def result(self) -> object:
        return self._best[0][1] if self._best else None

    def save(self) -> list[Any]:
        """Frames that move are filled again."""
        return []

    def load(self, saved: list[Any]) -> None:
        """Frames that move are filled again."""


class _Endless:
    """A function whose moving frames are filled again, while others keep ``_held``."""

    def __init__(self, of: Type) -> None:
        self._of = of
        self._held: deque[Any] = deque()

    def save(self) -> list[Any]:
        return [to_json(value) for value in self._held]

    def load(self, saved: list[Any]) -> None:
        self._held.extend(from_json(self._of, value) for value in saved)


class EndlessExtreme(_Endless):
    """MIN and MAX of all rows so far."""

    def __init__(self, of: Type, *, greatest: bool) -> None:
        super().__init__(of)
        self._greatest = greatest

    def add(self, value: Any) -> None:
        if value is None:
            return
        held = self._held
        if not held:
            held.append(value)
        elif is_better(value, held[0], greatest=self._greatest):
            held[0] = value

    def drop(self, value: Any) -> None:
        """Do nothing: values never leave."""

    def result(self) -> object:
        return self._held[0] if self._held else None


class NthFunction(_Endless):
    """The value ``number`` places from the start of the frame."""

    def __init__(self, of: Type, number: int, missing: object, *, ignore_nulls: bool, endless: bool) -> None:
        super().__init__(of)
        self._number = number
        self._missing = missing
        self._ignore = ignore_nulls
        self._most = number if endless else None

    def add(self, value: Any) -> None:
        if (value is not None or not self._ignore) and len(self._held) != self._most:
            self._held.append(value)

    def drop(self, value: Any) -> None:
        if value is not None or not self._ignore:
            self._held.popleft()

    def result(self) -> object:
        return self._held[self._number - 1] if len(self._held) >= self._number else self._missing


class NthFromEnd(_Endless):
    """The value ``number`` places from the end of the frame."""

    def __init__(self, of: Type, number: int, missing: object, *, ignore_nulls: bool, endless: bool) -> None:
        super().__init__(of)
        self._number = number
        self._missing = missing
        self._ignore = ignore_nulls
        self._most = number if endless else None

    def add(self, value: Any) -> None:
        if value is not None or not self._ignore:
            if len(self._held) == self._most:
                self._held.popleft()
            self._held.append(value)

    def drop(self, value: Any) -> None:
        if value is not None or not self._ignore:
            self._held.popleft()

    def result(self) -> object:
        return self._held[-self._number] if len(self._held) >= self._number else self._missing


class RankFunction:
    """RANK and DENSE_RANK by what the window is ordered by, which is the value."""

    def __init__(self, *, dense: bool) -> None:
        self._dense = dense
        self._rows = 0
        self._rank = 0
        self._last: int | None = None

    def add(self, value: Any) -> None:
        self._rows += 1
        if value != self._last:
            self._rank = self._rank + 1 if self._dense else self._rows
            self._last = value

    def drop(self, value: Any) -> None:
        """Do nothing: values never leave."""

    def result(self) -> object:
        return self._rank

    def save(self) -> list[Any]:
        return [self._rows, self._rank, self._last]

    def load(self, saved: list[Any]) -> None:
        self._rows, self._rank, self._last = saved


class DistinctFunction:
    """Feeds another function with each value once."""

    def __init__(self, inner: WindowFunction, of: Type) -> None:
        self._inner = inner
        self._of = of
        self._counts: Counter[Any] = Counter()

    def add(self, value: Any) -> None:
        if value is not None:
            value = one_nan(value)
            self._counts[value] += 1
            if self._counts[value] == 1:
                self._inner.add(value)

    def drop(self, value: Any) -> None:
        if value is not None:
            value = one_nan(value)
            self._counts[value] -= 1
            if not self._counts[value]:
                del self._counts[value]
                self._inner.drop(value)

    def result(self) -> object:
        return self._inner.result()

    def save(self) -> list[Any]:
        """Values are sorted so that equal states are equal."""
        return [[to_json(value), self._counts[value]] for value in in_order(self._counts)]

    def load(self, saved: list[Any]) -> None:
        for value, count in saved:
            held = from_json(self._of, value)
            self._counts[held] = count
            self._inner.add(held)


def in_order(values: Iterable[Any]) -> list[Any]:
    """Return values in the order of ``value_order``."""
    return sorted(values, key=value_order)


def value_order(value: Any) -> tuple[Any, ...]:
    """Return what values of one type are sorted by: NULL last, NaN before it, arrays by their elements."""
    if value is None:
        return (2,)
    if isinstance(value, tuple):
        return (0, tuple(map(value_order, value)))
    return (1,) if is_nan(value) else (0, value)


def one_nan(value: Any) -> Any:
    """Return the value, every NaN as ``math.nan``, so that NaNs are one value to a dictionary."""
    return math.nan if is_nan(value) else value


def to_json(value: object) -> object:
    """Return a value in row form as a JSON value."""
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, tuple):
        return [to_json(each) for each in value]
    return value.hex() if isinstance(value, bytes | float) else value


def from_json(of: Type, value: Any) -> object:
    """Return the value of type ``of`` from a JSON value of ``to_json``."""
    if value is None:
        return None
    if of.element is not None:
        return tuple(from_json(of.element, each) for each in value)
    if of.kind is Kind.DECIMAL:
        return Decimal(value)
    if of.is_binary:
        return bytes.fromhex(value)
    return one_nan(float.fromhex(value)) if of.is_float else value
