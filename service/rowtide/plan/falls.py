"""Expressions of ROWTIME that grow with it, but fall where clocks go back, or where days have no later month.

See docs/sql/semantics.md#promotion.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rowtide.expr.tree import Call, Expr, Literal, RowtimeRef
from rowtide.rows.types import Kind
from rowtide.rowtime.period import DAY_MS
from rowtide.rowtime.zones import clock_changes

LONGEST_FALL_MS = 4 * DAY_MS
"""No value comes again later: 29 to 31 January become one of February, and clocks go back a day at most."""


@dataclass(frozen=True, slots=True)
class Falls:
    """Where an expression of ROWTIME + ``shift_ms`` falls: when clocks of ``zone`` go back, or (None) at midnights."""

    shift_ms: int
    zone: str | None

    def moments(self, after: int) -> Iterable[int]:
        """Return the ROWTIMEs (ms) later than ``after`` at which a value of that time may come again."""
        low = after + self.shift_ms
        high = low + LONGEST_FALL_MS
        if self.zone is None:
            found = list(range(low - low % DAY_MS + DAY_MS, high + 1, DAY_MS))
        else:
            changes = clock_changes(self.zone, low + 1, high)
            found = [change.at for change in changes if change.after < change.before]
        return [each - self.shift_ms for each in found]


def falls_of(rowtime: Expr) -> Falls | None:
    """Return where an expression that reads only ROWTIME falls; None: not known, or nowhere."""
    match rowtime:
        case Call(function="FROM_UTC_TIMESTAMP", args=(of, Literal(value=str(zone)))):
            shift = _shift_of(of)
            return None if shift is None else Falls(shift, zone)
        case (
            Call(function="+" | "-", args=(of, Literal(value=int(), type=added)))
            | Call(function="+", args=(Literal(value=int(), type=added), of))
        ):
            if added.kind is Kind.INTERVAL_DAY:
                return falls_of(of)
            shift = _shift_of(of)
            return None if shift is None else Falls(shift, None)
        case _:
            return None


def _shift_of(expr: Expr) -> int | None:
    """Return how many ms later than ROWTIME an expression is, if that is a constant."""
    match expr:
        case RowtimeRef():
            return 0
        case (
            Call(function="+" | "-" as sign, args=(of, Literal(value=int(by), type=added)))
            | Call(function="+" as sign, args=(Literal(value=int(by), type=added), of))
        ) if added.kind is Kind.INTERVAL_DAY:
            shift = _shift_of(of)
            return None if shift is None else shift + (by if sign == "+" else -by)
        case _:
            return None
