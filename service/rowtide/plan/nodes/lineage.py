"""Lineage: the rows to search for at the inputs of the operator that made a row (law 7).

Rows carry no lineage. A row that an operator only passes on keeps its place in consistent time (origin and
counter). The values of a row that an operator has made identify its inputs: the window and key of a group,
the two halves of a pair.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rowtide.rows.rowop import Opcode, Row, TimedRow
from rowtide.rowtime.bound import EARLIEST, LATEST
from rowtide.rowtime.period import Hop, HopByMonths, Period, Session, value_of

Identity = tuple[int, int]
"""Origin and counter of a row."""
Matches = Callable[[TimedRow], bool]


@dataclass(frozen=True, slots=True)
class SourceRows:
    """A search at ``port``, for rowtimes from ``begin`` to ``end`` (ms, both included).

    ``first``: only the first match; ``last``: only this number of the last matches. ``until``:
    nothing after the rows of this identity, except ``after`` further matches.
    """

    port: int
    matches: Matches
    begin: int = EARLIEST
    end: int = LATEST
    first: bool = False
    last: int | None = None
    until: Identity | None = None
    after: int = 0


def identity(row: TimedRow) -> Identity:
    """Return origin and counter of a row."""
    return row.origin, row.counter


def same_row(row: TimedRow, also: Matches = lambda _row: True, port: int = 0) -> SourceRows:
    """Search for the row with the place of ``row`` in consistent time."""
    place = identity(row)
    return SourceRows(port, lambda each: identity(each) == place and also(each))


def last_insert(row: TimedRow, matches: Matches, *, inclusive: bool = False) -> SourceRows:
    """Search for the last matching INSERT before ``row`` or, ``inclusive``, up to its place."""
    place = identity(row)
    return SourceRows(
        0,
        lambda each: (
            each.opcode != Opcode.DELETE and (inclusive or identity(each) != place) and matches(each)
        ),
        end=row.rowtime,
        last=1,
        until=place,
    )


def in_window(
    row: TimedRow,
    window: Period | Hop | HopByMonths | Session | None,
    keys: Sequence[int],
    *,
    end: int,
    until: Identity | None = None,
) -> SourceRows:
    """Search for the rows of a group whose row begins with its window, if any, and its keys."""
    first = 0 if window is None else 1
    wanted = row.row[first : first + len(keys)]
    name = EARLIEST if window is None else time_of(row.row[0])

    def matches(each: TimedRow) -> bool:
        match window:
            case Period():
                inside = value_of(window, each.rowtime) == name
            case Hop() | HopByMonths():
                inside = name in window.starts(each.rowtime)
            case _:
                inside = each.rowtime >= name
        return inside and picked(each.row, keys) == wanted

    return SourceRows(0, matches, end=end, until=until)


def picked(values: Row, fields: Sequence[int]) -> Row:
    """Return some of a row's values."""
    return tuple(values[at] for at in fields)


def is_there(half: Row) -> bool:
    """Return whether one side of a joined row has a row: any of its values is not NULL."""
    return any(value is not None for value in half)


def time_of(value: object) -> int:
    """Return a TIMESTAMP value, in ms."""
    assert isinstance(value, int)
    return value
