"""Aggregates of two numbers: CORR, COVAR_POP, COVAR_SAMP and the REGR_ functions of the SQL standard.

Numbers count as DOUBLE, sums of them are exact and each result is rounded once, so it does not depend on the
order, and a pair that has gone leaves no trace.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from rowtide.expr.aggregates.aggregate import Aggregate, Calling
from rowtide.expr.functions.pairs import NUMBER_PAIR, numbers_of
from rowtide.rows.types import DOUBLE, Type


@dataclass(slots=True)
class PairSums:
    """Sums over pairs (y, x) that come and go, all exact."""

    count: int = 0
    y: Fraction = Fraction(0)
    x: Fraction = Fraction(0)
    yy: Fraction = Fraction(0)
    xx: Fraction = Fraction(0)
    xy: Fraction = Fraction(0)

    def change(self, pair: bytes, sign: int) -> None:
        """Add a pair, or with ``sign`` -1 take it away."""
        y, x = map(Fraction, numbers_of(pair))
        self.count += sign
        self.y += sign * y
        self.x += sign * x
        self.yy += sign * y * y
        self.xx += sign * x * x
        self.xy += sign * x * y


@dataclass(frozen=True, slots=True)
class _Spread:
    """Inputs of the functions: means, and sums of the products of the distances to them."""

    count: int
    mean_y: Fraction
    mean_x: Fraction
    yy: Fraction
    xx: Fraction
    xy: Fraction


def _spread(sums: PairSums) -> _Spread:
    count, y, x = sums.count, sums.y / sums.count, sums.x / sums.count
    return _Spread(count, y, x, sums.yy - y * sums.y, sums.xx - x * sums.x, sums.xy - x * sums.y)


def _correlation(sums: _Spread) -> Fraction | None:
    if not sums.xx or not sums.yy:
        return None
    # Not of the quotient: its square root is as near to 1 as the quotient is.
    share = Fraction(math.sqrt(sums.xy * sums.xy / (sums.xx * sums.yy)))
    return -share if sums.xy < 0 else share


def _determination(sums: _Spread) -> Fraction | None:
    if not sums.xx:
        return None
    return sums.xy * sums.xy / (sums.xx * sums.yy) if sums.yy else Fraction(1)


_FORMULAS: dict[str, tuple[str, Callable[[_Spread], Fraction | None]]] = {
    "COVAR_POP": ("the covariance of the population or of a sample", lambda sums: sums.xy / sums.count),
    "COVAR_SAMP": (
        "the covariance of the population or of a sample",
        lambda sums: sums.xy / (sums.count - 1) if sums.count > 1 else None,
    ),
    "CORR": ("the correlation", _correlation),
    "REGR_SLOPE": (
        "slope and intercept of the line nearest to the points (x, y)",
        lambda sums: sums.xy / sums.xx if sums.xx else None,
    ),
    "REGR_INTERCEPT": (
        "slope and intercept of the line nearest to the points (x, y)",
        lambda sums: sums.mean_y - sums.mean_x * sums.xy / sums.xx if sums.xx else None,
    ),
    "REGR_R2": ("the square of the correlation", _determination),
    "REGR_AVGX": ("the means", lambda sums: sums.mean_x),
    "REGR_AVGY": ("the means", lambda sums: sums.mean_y),
    "REGR_SXX": ("sums of the products of the distances to the means", lambda sums: sums.xx),
    "REGR_SYY": ("sums of the products of the distances to the means", lambda sums: sums.yy),
    "REGR_SXY": ("sums of the products of the distances to the means", lambda sums: sums.xy),
}


def _double_of_pairs(argument: Type | None) -> Type | None:
    return DOUBLE if argument == NUMBER_PAIR else None


def regression(name: str, sums: PairSums) -> float | None:
    """Return the result of a function; NULL of no pairs, and where no DOUBLE holds it."""
    exact = _FORMULAS[name][1](_spread(sums)) if sums.count else None
    try:
        return None if exact is None else float(exact)
    except OverflowError:
        return None


def _of_pairs(call: Calling, values: Sequence[Any]) -> object:
    sums = PairSums()
    for pair in values:
        sums.change(pair, 1)
    return regression(call.function, sums)


REGRESSIONS = tuple(
    Aggregate(
        name,
        f"DOUBLE, of rows in which both are not NULL: {summary}",
        _double_of_pairs,
        written=(f"{name}(y, x)",),
        pair_of="$NUMBERS",
        few_of_rows=True,
        few_of_changes=True,
        of_values=_of_pairs,
    )
    for name, (summary, _) in _FORMULAS.items()
)
