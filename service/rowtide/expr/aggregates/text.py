"""LISTAGG: concatenation of texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rowtide.expr.aggregates.aggregate import Aggregate, Calling
from rowtide.rows.types import VARCHAR, Type


def _text(argument: Type | None) -> Type | None:
    return VARCHAR if argument is not None and argument.is_text else None


def _joined(call: Calling, values: Sequence[Any]) -> object:
    del call
    return "".join(values)


LISTS = (
    Aggregate(
        "LISTAGG",
        "VARCHAR: the values in the order of the rows, or of `WITHIN GROUP (ORDER BY x)`, with constant text"
        " between them",
        _text,
        written=("LISTAGG(x, ', ')", "STRING_AGG(x, ', ')"),
        spellings=("LISTAGG", "STRING_AGG"),
        over_windows=False,
        order_matters=True,
        of_values=_joined,
    ),
    # The name of LISTAGG with WITHIN GROUP in a plan.
    Aggregate(
        "SORTED_LISTAGG", "", _text, spellings=(), over_windows=False, of_values=_joined, ascending=True
    ),
)
