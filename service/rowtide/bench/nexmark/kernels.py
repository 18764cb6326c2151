"""The events of Nexmark, drawn as by ``java.util.Random``; each event has its own generator.

Events are numbered: of every 50 the first is a person, the next three are auctions, the others bids.
Writing text, a kernel fills ``content`` and the ``offsets`` of Arrow's layout.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from rowtide.rows.arrays import Bytes, Int32s, Int64s

MULTIPLIER, ADDEND = np.uint64(0x5DEECE66D), np.uint64(0xB)
MASK = np.uint64((1 << 48) - 1)
SPACE, SMALL_A = 32, 97
PERIOD, FIRST_AUCTION = 50, 1
AUCTIONS = 3
FIRST_ID, FIRST_CATEGORY, CATEGORIES = 1000, 10, 5
ACTIVE_PEOPLE, IN_FLIGHT, AHEAD = 1000, 100, 10
HOT = 100
"""Hot sellers, bidders and auctions are the last whose number is a multiple of this."""
HORIZON = 1666
"""An auction is open about as long as this many events take."""
NAME_SIZES = (7, 5)
CARD_GROUPS = 4
ITEM_SIZE, DESCRIPTION_SIZE = 20, 100
EXTRA_LEAST, EXTRA_SPREAD = 54, 28


@njit(cache=True, nogil=True)
def _seeded(seed: int) -> np.uint64:
    return (np.uint64(seed) ^ MULTIPLIER) & MASK


@njit(cache=True, nogil=True)
def _stepped(state: np.uint64) -> np.uint64:
    return (state * MULTIPLIER + ADDEND) & MASK


@njit(cache=True, nogil=True)
def _below(state: np.uint64, limit: int) -> tuple[np.uint64, int]:
    """Draw a whole number from 0 on, below ``limit``."""
    state = _stepped(state)
    drawn = int(state >> np.uint64(17))
    if limit & (limit - 1) == 0:
        return state, (limit * drawn) >> 31
    value = drawn % limit
    while drawn - value + (limit - 1) >= 1 << 31:
        state = _stepped(state)
        drawn = int(state >> np.uint64(17))
        value = drawn % limit
    return state, value


@njit(cache=True, nogil=True)
def _price(state: np.uint64) -> tuple[np.uint64, int]:
    state = _stepped(state)
    high = int(state >> np.uint64(22))
    state = _stepped(state)
    share = ((high << 27) + int(state >> np.uint64(21))) / (1 << 53)
    return state, int(np.floor(10.0 ** (share * 6) * 100 + 0.5))


@njit(cache=True, nogil=True)
def _text(state: np.uint64, size: int, content: Bytes, start: int) -> tuple[np.uint64, int]:
    """Write a text of words, without spaces at its ends; return its end."""
    state, length = _below(state, size - 3)
    end = first = start
    for _ in range(3 + length):
        state, kind = _below(state, 13)
        if kind == 0:
            letter = SPACE
        else:
            state, letter = _below(state, 26)
            letter += SMALL_A
        if letter != SPACE or end > first:
            content[end] = letter
            end += 1
    while end > first and content[end - 1] == SPACE:
        end -= 1
    return state, end


@njit(cache=True, nogil=True)
def _person_near(state: np.uint64, last: int) -> tuple[np.uint64, int]:
    people = last + 1
    active = min(people, ACTIVE_PEOPLE)
    state, drawn = _below(state, active + AHEAD)
    return state, people - active + drawn


@njit(cache=True, nogil=True)
def persons(numbers: Int64s, choices: Int64s, cards: Int64s, offsets: Int32s, content: Bytes) -> None:
    """Draw persons.

    For each: the numbers of first name, last name, city and state, four groups of card digits, and
    the two parts of the address, one after the other in ``content``.
    """
    end = 0
    offsets[0] = 0
    for row in range(len(numbers)):
        state = _seeded(numbers[row])
        state, choices[row, 0] = _below(state, 11)
        state, choices[row, 1] = _below(state, 9)
        for part in range(2):
            state, end = _text(state, NAME_SIZES[part], content, end)
            offsets[2 * row + part + 1] = end
        for group in range(CARD_GROUPS):
            state, cards[row, group] = _below(state, 10_000)
        state, choices[row, 2] = _below(state, 10)
        state, choices[row, 3] = _below(state, 6)


@njit(cache=True, nogil=True)
def auctions(numbers: Int64s, micros: int, columns: Int64s, offsets: Int32s, content: Bytes) -> None:
    """Draw auctions, events being ``micros`` apart.

    For each: id, first bid, reserve, expiry (ms from the base), seller and category, and item and
    description, one after the other in ``content``.
    """
    end = 0
    offsets[0] = 0
    for row in range(len(numbers)):
        number = numbers[row]
        last_person = number // PERIOD
        state = _seeded(number)
        state, cold = _below(state, 4)
        if cold > 0:
            seller = last_person // HOT * HOT
        else:
            state, seller = _person_near(state, last_person)
        state, category = _below(state, CATEGORIES)
        state, first_bid = _price(state)
        time = number * micros // 1000
        length = (number + HORIZON) * micros // 1000 - time
        state, open_for = _below(state, max(2 * length, 1))
        state, end = _text(state, ITEM_SIZE, content, end)
        offsets[2 * row + 1] = end
        state, end = _text(state, DESCRIPTION_SIZE, content, end)
        offsets[2 * row + 2] = end
        state, more = _price(state)
        columns[0, row] = FIRST_ID + AUCTIONS * last_person + number % PERIOD - FIRST_AUCTION
        columns[1, row] = first_bid
        columns[2, row] = first_bid + more
        columns[3, row] = time + 1 + open_for
        columns[4, row] = FIRST_ID + seller
        columns[5, row] = FIRST_CATEGORY + category


@njit(cache=True, nogil=True)
def bids(numbers: Int64s, columns: Int64s, channels: Int32s, offsets: Int32s, content: Bytes) -> None:
    """Draw bids.

    For each: auction, bidder and price, the number of its channel (the first four are the hot ones),
    and its padding in ``content``.
    """
    end = 0
    offsets[0] = 0
    for row in range(len(numbers)):
        number = numbers[row]
        last_person = number // PERIOD
        last_auction = AUCTIONS * last_person + AUCTIONS - 1
        state = _seeded(number)
        state, hot = _below(state, 2)
        if hot > 0:
            auction = last_auction // HOT * HOT
        else:
            first = max(last_auction - IN_FLIGHT, 0)
            state, drawn = _below(state, last_auction - first + 1 + AHEAD)
            auction = first + drawn
        state, hot = _below(state, 4)
        if hot > 0:
            bidder = last_person // HOT * HOT + 1
        else:
            state, bidder = _person_near(state, last_person)
        state, price = _price(state)
        state, hot = _below(state, 2)
        if hot > 0:
            state, channel = _below(state, 4)
        else:
            state, channel = _below(state, 10_000)
            channel += 4
        state, more = _below(state, EXTRA_SPREAD)
        for _ in range(EXTRA_LEAST + more):
            state, letter = _below(state, 26)
            content[end] = SMALL_A + letter
            end += 1
        offsets[row + 1] = end
        columns[0, row] = FIRST_ID + auction
        columns[1, row] = FIRST_ID + bidder
        columns[2, row] = price
        channels[row] = channel
