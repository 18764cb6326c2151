"""Variances and standard deviations."""

from __future__ import annotations

from rowtide.expr.aggregates.aggregate import (
    Aggregate,
    Compiled,
    is_fixed_with_repeats,
    is_plain,
    is_plain_over,
)
from rowtide.rows.types import DOUBLE, Type

SPREADS = {
    "VAR_POP": (False, False),
    "VAR_SAMP": (True, False),
    "STDDEV_POP": (False, True),
    "STDDEV_SAMP": (True, True),
}
"""For each name: whether it is of a sample, and whether it is the square root."""
_OTHER_NAMES = {"VAR_SAMP": "VARIANCE", "STDDEV_SAMP": "STDDEV"}


def double_of_numbers(argument: Type | None) -> Type | None:
    """Return DOUBLE for every numeric type."""
    return DOUBLE if argument is not None and argument.is_numeric else None


VARIANCES = tuple(
    Aggregate(
        name,
        "DOUBLE; VARIANCE is VAR_SAMP and STDDEV is STDDEV_SAMP",
        double_of_numbers,
        spellings=(name, _OTHER_NAMES[name]) if name in _OTHER_NAMES else None,
        written=(name, _OTHER_NAMES[name]) if name in _OTHER_NAMES else (name,),
        few_of_changes=True,
        can_fail=True,
        finite=True,
        compiled=Compiled(is_plain, retracting=is_fixed_with_repeats, window=is_plain_over),
    )
    for name in SPREADS
)
