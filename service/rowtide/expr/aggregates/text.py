"""Aggregates that put values together: LISTAGG, ARRAY_AGG, JSON_ARRAYAGG and JSON_OBJECTAGG.

The planner makes an array of one element, or a JSON array or object of one member, of each value: the aggregate puts
them together. So a NULL is a value like others where it is to be one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

from rowtide.expr.aggregates.aggregate import Aggregate, Calling, Compiled
from rowtide.expr.functions.ordered import ORDERED
from rowtide.expr.functions.pairs import held_of, key_of
from rowtide.rows.types import JSON, VARCHAR, Kind, Type


def _text(argument: Type | None) -> Type | None:
    return VARCHAR if argument is not None and argument.is_text else None


def _of_text(call: Calling) -> bool:
    return call.argument is not None and call.argument.type.is_text


def _of_pairs(result: Type) -> Callable[[Type | None], Type | None]:
    return lambda argument: result if argument is not None and argument.is_binary else None


def _in_order(pairs: Sequence[bytes]) -> list[str]:
    """Return the texts of pairs of $ORDERED by their keys; those of equal keys in the order of the rows."""
    return [(held_of(pair) or b"").decode() for pair in sorted(pairs, key=key_of)]


def _joined(call: Calling, values: Sequence[Any]) -> object:
    del call
    return "".join(values)


LISTS = (
    Aggregate(
        "LISTAGG",
        "VARCHAR: the values in the order of the rows, or of `ORDER BY y`, with constant text between them",
        _text,
        written=("LISTAGG(x, ', ' [ORDER BY y])", "STRING_AGG(x, ', ' [ORDER BY y])"),
        spellings=("LISTAGG", "STRING_AGG"),
        order_matters=True,
        compiled=Compiled(group=_of_text),
        of_values=_joined,
    ),
    # The name of LISTAGG with WITHIN GROUP in a plan.
    Aggregate(
        "SORTED_LISTAGG",
        "",
        _text,
        spellings=(),
        compiled=Compiled(group=_of_text),
        of_values=_joined,
        ascending=True,
    ),
    # That of LISTAGG, and of ARRAY_AGG, with any other ORDER BY: over pairs of $ORDERED.
    Aggregate(
        "ORDERED_LISTAGG",
        "",
        _of_pairs(VARCHAR),
        spellings=(),
        order_matters=True,
        of_values=lambda call, values: _joined(call, _in_order(values)),
        pair_of=ORDERED,
    ),
)


def _of_array(argument: Type | None) -> Type | None:
    return argument if argument is not None and argument.kind is Kind.ARRAY else None


def _of_json(argument: Type | None) -> Type | None:
    return argument if argument is not None and argument.kind is Kind.JSON else None


def _elements(call: Calling, values: Sequence[Any]) -> object:
    del call
    return tuple(chain.from_iterable(values))


def _members(call: Calling, values: Sequence[Any]) -> object:
    del call
    first = values[0]
    return first[0] + ",".join(each[1:-1] for each in values if len(each) > len("[]")) + first[-1]


COLLECTIONS = (
    Aggregate(
        "ARRAY_AGG",
        "ARRAY: the values, NULLs too, in the order of the rows, or of `ORDER BY y`",
        _of_array,
        written=("ARRAY_AGG(x)", "ARRAY_AGG(x ORDER BY y)"),
        over_windows=False,
        order_matters=True,
        of_values=_elements,
    ),
    Aggregate(
        "JSON_ARRAYAGG",
        "JSON: an array of the values in the order of the rows, or of `ORDER BY y`, NULLs only with `NULL ON NULL`",
        _of_json,
        written=("JSON_ARRAYAGG(x)", "JSON_ARRAYAGG(x ORDER BY y)"),
        over_windows=False,
        order_matters=True,
        of_values=_members,
    ),
    # The name of JSON_ARRAYAGG with ORDER BY in a plan: over pairs of $ORDERED.
    Aggregate(
        "ORDERED_JSON",
        "",
        _of_pairs(JSON),
        spellings=(),
        over_windows=False,
        order_matters=True,
        of_values=lambda call, values: _members(call, _in_order(values)),
        pair_of=ORDERED,
    ),
    Aggregate(
        "JSON_OBJECTAGG",
        "JSON: an object with a member for each row, in the order of the rows; without members of NULL with"
        " `ABSENT ON NULL`",
        _of_json,
        written=("JSON_OBJECTAGG(k VALUE x)",),
        over_windows=False,
        order_matters=True,
        of_values=_members,
    ),
)
