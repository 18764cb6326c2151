"""The input of Nexmark as columns: persons, auctions and bids of a range of event numbers.

The generator is that of Flink and Beam, with channel, address and padding of bids drawn in a fixed way, so
that answers can be compared: the same rows on every machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rowtide.rows.arrays import Int64s

FIRST_NAMES = ("Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter")
LAST_NAMES = ("Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris")
CITIES = (
    "Phoenix",
    "Los Angeles",
    "San Francisco",
    "Boise",
    "Portland",
    "Bend",
    "Redmond",
    "Seattle",
    "Kent",
    "Cheyenne",
)
STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
HOT_CHANNELS = ("Google", "Facebook", "Baidu", "Apple")
COLD_CHANNELS = 10_000
HOT_SEED, COLD_SEED = 2_000_000, 3_000_000
"""Seeds of the addresses of hot and of cold channels."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of one stream: columns in the order of its fields, and rowtimes (ms from the base)."""

    columns: tuple[Any, ...]
    rowtime: Int64s


@dataclass(frozen=True, slots=True)
class Part:
    """The events of a range of numbers."""

    person: Rows
    auction: Rows
    bid: Rows


def parts(count: int, micros: int, size: int, disorder: int = 1) -> Iterator[Part]:
    """Yield the first ``count`` events, ``micros`` apart, about ``size`` at a time.

    With a ``disorder`` of g they are shuffled in groups of g; g and 953 must be coprime.
    """
    for start in range(0, count, size):
        arrival = np.arange(start, min(start + size, count), dtype=np.int64)
        numbers = arrival // disorder * disorder + arrival * 953 % disorder
        kind = numbers % 50
        yield Part(
            _persons(numbers[kind < 1], micros),
            _auctions(numbers[(kind >= 1) & (kind < 4)], micros),
            _bids(numbers[kind >= 4], micros),
        )


def _persons(numbers: Int64s, micros: int) -> Rows:
    from rowtide.bench.nexmark import kernels

    count = len(numbers)
    choices = np.empty((count, 4), dtype=np.int64)
    cards = np.empty((count, kernels.CARD_GROUPS), dtype=np.int64)
    offsets, content = _room(2 * count, sum(kernels.NAME_SIZES) * count)
    kernels.persons(numbers, choices, cards, offsets, content)
    texts = _texts(offsets, content).to_pylist()
    addresses = [f"{name}@{host}.com" for name, host in zip(texts[::2], texts[1::2], strict=True)]
    names = [f"{FIRST_NAMES[first]} {LAST_NAMES[last]}" for first, last, _, _ in choices.tolist()]
    time = numbers * micros // 1000
    columns = (
        kernels.FIRST_ID + numbers // kernels.PERIOD,
        pa.array(names, pa.string()),
        pa.array(addresses, pa.string()),
        pa.array([" ".join(f"{group:04d}" for group in card) for card in cards.tolist()], pa.string()),
        pa.array(CITIES).take(pa.array(choices[:, 2])),
        pa.array(STATES).take(pa.array(choices[:, 3])),
        time,
    )
    return Rows(columns, time)


def _auctions(numbers: Int64s, micros: int) -> Rows:
    from rowtide.bench.nexmark import kernels

    count = len(numbers)
    drawn = np.empty((6, count), dtype=np.int64)
    offsets, content = _room(2 * count, (kernels.ITEM_SIZE + kernels.DESCRIPTION_SIZE) * count)
    kernels.auctions(numbers, micros, drawn, offsets, content)
    texts = _texts(offsets, content)
    every_second = np.arange(0, 2 * count, 2, dtype=np.int64)
    time = numbers * micros // 1000
    number, first_bid, reserve, expires, seller, category = drawn
    columns = (
        number,
        texts.take(pa.array(every_second)),
        texts.take(pa.array(every_second + 1)),
        first_bid,
        reserve,
        time,
        expires,
        seller,
        category,
    )
    return Rows(columns, time)


def _bids(numbers: Int64s, micros: int) -> Rows:
    from rowtide.bench.nexmark import kernels

    count = len(numbers)
    drawn = np.empty((3, count), dtype=np.int64)
    channel = np.empty(count, dtype=np.int32)
    offsets, content = _room(count, (kernels.EXTRA_LEAST + kernels.EXTRA_SPREAD) * count)
    kernels.bids(numbers, drawn, channel, offsets, content)
    names, addresses = _channels()
    which = pa.array(channel)
    time = numbers * micros // 1000
    columns = (*drawn, names.take(which), addresses.take(which), time, _texts(offsets, content))
    return Rows(columns, time)


def _room(texts: int, size: int) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    return np.empty(texts + 1, dtype=np.int32), np.empty(size, dtype=np.uint8)


def _texts(offsets: NDArray[np.int32], content: NDArray[np.uint8]) -> pa.Array:
    used = content[: offsets[-1]].copy()
    return pa.Array.from_buffers(
        pa.string(), len(offsets) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(used)]
    )


@cache
def _channels() -> tuple[pa.Array, pa.Array]:
    """Return names and addresses of all channels, the hot ones first."""
    names = [*HOT_CHANNELS, *(f"channel-{number}" for number in range(COLD_CHANNELS))]
    addresses = [_address(JavaRandom(HOT_SEED + number)) for number in range(len(HOT_CHANNELS))]
    for number in range(COLD_CHANNELS):
        random = JavaRandom(COLD_SEED + number)
        address = _address(random)
        if random.below(10) > 0:
            address += f"&channel_id={abs(_reversed(number))}"
        addresses.append(address)
    return pa.array(names), pa.array(addresses)


def _address(random: JavaRandom) -> str:
    words = "/".join(random.text(5, "_") for _ in range(3))
    return f"https://www.nexmark.com/{words}/item.htm?query=1"


def _reversed(number: int) -> int:
    """Return the signed number of the 32 bits of ``number`` in reverse."""
    bits = int(f"{number:032b}"[::-1], 2)
    return bits - (1 << 32) if bits >> 31 else bits


class JavaRandom:
    """``java.util.Random``, one draw at a time: the reference of the kernels."""

    def __init__(self, seed: int) -> None:
        self._state = (seed ^ 0x5DEECE66D) & ((1 << 48) - 1)

    def bits(self, count: int) -> int:
        """Draw some bits, as a number that is not negative."""
        self._state = (self._state * 0x5DEECE66D + 0xB) & ((1 << 48) - 1)
        return self._state >> (48 - count)

    def below(self, limit: int) -> int:
        """Draw a whole number from 0 on, below ``limit``."""
        if limit & (limit - 1) == 0:
            return (limit * self.bits(31)) >> 31
        while True:
            drawn = self.bits(31)
            if drawn - drawn % limit + (limit - 1) < 1 << 31:
                return drawn % limit

    def share(self) -> float:
        """Draw a number from 0 on, below 1."""
        return ((self.bits(26) << 27) + self.bits(27)) / (1 << 53)

    def text(self, size: int, special: str) -> str:
        """Draw a text; one character of 13 is the special one."""
        length = 3 + self.below(size - 3)
        letters = [special if self.below(13) == 0 else chr(ord("a") + self.below(26)) for _ in range(length)]
        return "".join(letters).strip(" ")
