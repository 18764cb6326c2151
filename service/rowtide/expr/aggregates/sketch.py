"""Approximate aggregates: APPROX_COUNT_DISTINCT and APPROX_PERCENTILE.

A sketch is a small state that values can enter and leave in any order: the same values give the same sketch,
bit by bit, however they came (laws 1 and 6). Nothing is sampled.

* Different values are estimated by HyperLogLog: the greatest number of leading zeros of their hashes, in each of
  4,096 parts (P. Flajolet et al., 2007; the estimate is that of O. Ertl, 2017, without tables of corrections).
  The relative standard error is 1.6 %.
* A percentile is found among buckets, which are the exponent and the first 7 bits of the mantissa of a DOUBLE:
  each is at most 1/128 wide, relative to its values. No logarithm is computed, so every machine has the same ones.
"""

from __future__ import annotations

import hashlib
import math
import struct
from bisect import insort
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from rowtide.expr.aggregates.aggregate import Aggregate, Calling, Sketch, of_sketch
from rowtide.expr.aggregates.variance import double_of_numbers
from rowtide.rows.types import BIGINT, Type

PLACE_BITS = 12
PLACES = 1 << PLACE_BITS
RANKS = 64 - PLACE_BITS + 1
"""The greatest rank: one more than the zeros that the rest of a hash can have."""
_ALPHA = 0.5 / math.log(2.0)
_MANTISSA_BITS = 7
_CUT_BITS = 52 - _MANTISSA_BITS
_INFINITE = 0x7FF << 52
"""The bits of infinity."""
_NAN = struct.pack(">d", math.nan)


class DistinctSketch:
    """HyperLogLog. If values go, each part counts the values of each of its ranks.

    ``growing``: values only come, so the greatest rank of each part is enough. A value can then only be taken
    back if it came last.
    """

    def __init__(self, *, growing: bool) -> None:
        self._growing = growing
        self._greatest: dict[int, int] = {}
        self._counts: dict[tuple[int, int], int] = {}
        self._before: tuple[int, int | None] = (0, None)

    def add(self, value: Any) -> None:
        place, rank = place_and_rank(value)
        held = self._greatest.get(place)
        if self._growing:
            self._before = (place, held)
        else:
            self._counts[place, rank] = self._counts.get((place, rank), 0) + 1
        if held is None or rank > held:
            self._greatest[place] = rank

    def remove(self, value: Any) -> None:
        place, rank = place_and_rank(value)
        if self._growing:
            self._set(place, self._before[1])
            return
        left = self._counts.pop((place, rank)) - 1
        if left:
            self._counts[place, rank] = left
        elif self._greatest[place] == rank:
            lower = (each for each in range(rank - 1, 0, -1) if (place, each) in self._counts)
            self._set(place, next(lower, None))

    def _set(self, place: int, rank: int | None) -> None:
        if rank is None:
            del self._greatest[place]
        else:
            self._greatest[place] = rank

    def result(self) -> object:
        ranks = [0] * (RANKS + 1)
        for rank in self._greatest.values():
            ranks[rank] += 1
        ranks[0] = PLACES - len(self._greatest)
        return int(estimate(ranks) + 0.5)

    def save(self) -> list[Any]:
        if self._growing:
            return [[place, rank] for place, rank in sorted(self._greatest.items())]
        return [[place, rank, count] for (place, rank), count in sorted(self._counts.items())]

    def load(self, saved: list[Any]) -> None:
        self._greatest, self._counts = {}, {}
        for place, rank, *count in saved:
            self._greatest[place] = max(rank, self._greatest.get(place, 0))
            if count:
                self._counts[place, rank] = count[0]


class PercentileSketch:
    """The number of values in each bucket."""

    def __init__(self, fraction: Fraction) -> None:
        self._fraction = fraction
        self._counts: dict[int, int] = {}
        self._buckets: list[int] = []
        self._total = 0

    def add(self, value: Any) -> None:
        bucket = bucket_of(value)
        if bucket not in self._counts:
            insort(self._buckets, bucket)
        self._counts[bucket] = self._counts.get(bucket, 0) + 1
        self._total += 1

    def remove(self, value: Any) -> None:
        bucket = bucket_of(value)
        self._counts[bucket] -= 1
        if not self._counts[bucket]:
            del self._counts[bucket]
            self._buckets.remove(bucket)
        self._total -= 1

    def result(self) -> object:
        if not self._total:
            return None
        wanted = max(1, math.ceil(self._fraction * self._total))
        for bucket in self._buckets:
            wanted -= self._counts[bucket]
            if wanted <= 0:
                return value_in(bucket)
        raise AssertionError("the counts of the buckets are the total")

    def save(self) -> list[Any]:
        return [[bucket, self._counts[bucket]] for bucket in self._buckets]

    def load(self, saved: list[Any]) -> None:
        self._counts = dict(saved)
        self._buckets = [bucket for bucket, _ in saved]
        self._total = sum(self._counts.values())


def place_and_rank(value: Any) -> tuple[int, int]:
    """Return the part of a value's hash that it falls into, and one more than the zeros that begin the rest."""
    hashed = int.from_bytes(hashlib.blake2b(_written(value), digest_size=8).digest())
    rest = hashed & ((1 << (64 - PLACE_BITS)) - 1)
    return hashed >> (64 - PLACE_BITS), RANKS - rest.bit_length()


def _written(value: Any) -> bytes:
    """Return the bytes of a value: the same for values that DISTINCT takes as one."""
    match value:
        case bytes():
            return value
        case str():
            return value.encode()
        case float():
            # A zero has no sign, and all NaN are one value.
            return _NAN if math.isnan(value) else struct.pack(">d", value + 0.0)
        case _:
            return str(value).encode()


def estimate(ranks: Sequence[int]) -> float:
    """Return the number of different values; ``ranks`` has the number of parts by their greatest rank.

    O. Ertl, "New cardinality estimation algorithms for HyperLogLog sketches", algorithm 6.
    """
    found = PLACES * _tau(1 - ranks[RANKS] / PLACES)
    for rank in range(RANKS - 1, 0, -1):
        found = 0.5 * (found + ranks[rank])
    found += PLACES * _sigma(ranks[0] / PLACES)
    return _ALPHA * PLACES * PLACES / found


def _sigma(share: float) -> float:
    if share == 1.0:
        return math.inf
    weight, found, before = 1.0, share, -1.0
    while found != before:
        share *= share
        before = found
        found += share * weight
        weight += weight
    return found


def _tau(share: float) -> float:
    if share in (0.0, 1.0):
        return 0.0
    weight, found, before = 1.0, 1 - share, -1.0
    while found != before:
        share = math.sqrt(share)
        before = found
        weight *= 0.5
        found -= (1 - share) ** 2 * weight
    return found / 3


def bucket_of(value: Any) -> int:
    """Return the bucket of a finite number; buckets are numbered in ascending order."""
    number = float(value)
    (bits,) = struct.unpack(">q", struct.pack(">d", abs(number)))
    bucket: int = bits >> _CUT_BITS
    return bucket if number >= 0 else -1 - bucket


def value_in(bucket: int) -> float:
    """Return the number of a bucket that has the fewest decimal digits, the one nearest to zero if several do."""
    if bucket < 0:
        return -value_in(-1 - bucket) + 0.0
    low, high = _edge(bucket), _edge(bucket + 1)
    # Fractions are exact, whatever the context of decimals is.
    unit = Fraction(10) ** (len(str(int(high))) if high >= 1 else -len(str(int(1 / high))) + 1)
    while (found := math.ceil(low / unit) * unit) >= high:
        unit /= 10
    return float(found)


def _edge(bucket: int) -> Fraction:
    """Return the least number of a bucket that is not negative."""
    bits = bucket << _CUT_BITS
    if bits >= _INFINITE:
        return Fraction(2) ** 1024
    return Fraction(struct.unpack(">d", struct.pack(">q", bits))[0])


def _distinct(call: Calling, growing: bool) -> Sketch:
    del call
    return DistinctSketch(growing=growing)


def _percentile(call: Calling, growing: bool) -> Sketch:
    del growing
    return PercentileSketch(call.fraction or Fraction(0))


def _bigint(argument: Type | None) -> Type | None:
    return None if argument is None else BIGINT


SKETCHES = (
    Aggregate(
        "APPROX_COUNT_DISTINCT",
        "BIGINT: about the number of different values; the standard error is 1.6 %",
        _bigint,
        distinct_matters=False,
        never_null=True,
        few_of_rows=True,
        few_of_changes=True,
        of_values=of_sketch(_distinct),
        sketch=_distinct,
    ),
    Aggregate(
        "APPROX_PERCENTILE",
        "DOUBLE: a number with few digits that differs from PERCENTILE_DISC by less than 1/128 of it",
        double_of_numbers,
        written=("APPROX_PERCENTILE(x, 0.9)", "APPROX_QUANTILE(x, 0.9)"),
        spellings=("APPROX_PERCENTILE", "APPROX_QUANTILE"),
        takes_fraction=True,
        few_of_rows=True,
        few_of_changes=True,
        finite=True,
        of_values=of_sketch(_percentile),
        sketch=_percentile,
    ),
)
