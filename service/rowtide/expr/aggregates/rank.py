"""Ranks: the number of a row in its order."""

from __future__ import annotations

from rowtide.expr.aggregates.aggregate import Aggregate, CallingOver, Compiled, Family, FrameShape
from rowtide.rows.types import BIGINT, DOUBLE, Type


def _bigint(argument: Type | None) -> Type | None:
    del argument
    return BIGINT


def _double(argument: Type | None) -> Type | None:
    del argument
    return DOUBLE


def _over(call: CallingOver, frame: FrameShape) -> bool:
    return call.function == "ROW_NUMBER" or frame.running


_RANKS = {
    "ROW_NUMBER": "the number of the row",
    "RANK": "one more than the number of rows that sort before it",
    "DENSE_RANK": "the number of different ranks up to it",
}
_SHARES = {
    "NTILE": ("NTILE(n)", "the number of the part, of n, that has the row", _bigint),
    "PERCENT_RANK": (
        "PERCENT_RANK()",
        "the share of the other rows that come before it and its equals",
        _double,
    ),
    "CUME_DIST": ("CUME_DIST()", "the share of all rows up to the last of its equals", _double),
}

RANKS = (
    *(
        Aggregate(
            name,
            summary,
            _bigint,
            Family.RANK,
            written=(f"{name}()",),
            in_groups=False,
            distinct_matters=False,
            order_matters=True,
            never_null=True,
            compiled=Compiled(window=_over),
        )
        for name, summary in _RANKS.items()
    ),
    *(
        Aggregate(name, summary, of, Family.SHARE, (written,), None, in_groups=False, never_null=True)
        for name, (written, summary, of) in _SHARES.items()
    ),
)
