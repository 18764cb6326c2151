"""Aggregates that put values together: LISTAGG, ARRAY_AGG, JSON_ARRAYAGG and JSON_OBJECTAGG.

The planner makes an array of one element, or a JSON array or object of one member, of each value: the aggregate puts
them together. So a NULL is a value like others where it is to be one.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

from rowtide.expr.aggregates.aggregate import Aggregate, Calling, Compiled
from rowtide.rows.types import VARCHAR, Kind, Type


def _text(argument: Type | None) -> Type | None:
    return VARCHAR if argument is not None and argument.is_text else None


def _of_text(call: Calling) -> bool:
    return call.argument is not None and call.argument.type.is_text


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
        "ARRAY: the values, NULLs too, in the order of the rows, or of `ORDER BY x`",
        _of_array,
        written=("ARRAY_AGG(x)", "ARRAY_AGG(x ORDER BY x)"),
        over_windows=False,
        order_matters=True,
        of_values=_elements,
    ),
    Aggregate(
        "JSON_ARRAYAGG",
        "JSON: an array of the values in the order of the rows, NULLs only with `NULL ON NULL`",
        _of_json,
        over_windows=False,
        order_matters=True,
        of_values=_members,
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
