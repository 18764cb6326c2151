"""Predicates of two periods: CONTAINS, OVERLAPS, EQUALS, PRECEDES, SUCCEEDS, LEADS, LAGS.

See docs/sql/temporal-predicates.md.

Each takes the two times of the left period, then those of the right one. A period is half-open:
``PERIOD (x, y)`` has the times t with x <= t < y. The earlier of the two times is the start. Two equal times
are a point: a period of one millisecond, or of one day for DATE.

``STRICTLY p`` is ``p`` of periods that neither begin nor end together and do not touch;
``IMMEDIATELY p`` is ``p`` of the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from rowtide.expr.evaluation import ColumnKernel, RowKernel
from rowtide.expr.functions.function import CallSignature, ScalarFunction, TypeMismatch, strict
from rowtide.expr.functions.numbers import exact
from rowtide.expr.functions.type_rules import common_type
from rowtide.rows.arrays import Mask
from rowtide.rows.types import BOOLEAN, DATE, TIME, TIMESTAMP, Type

_Relation = Callable[[Any, Any, Any, Any], Any]
"""Compares start and end of the left period with start and end of the right one; of values or of columns."""

_BASE: Mapping[str, _Relation] = {
    "CONTAINS": lambda s1, e1, s2, e2: (s1 <= s2) & (e2 <= e1),
    "OVERLAPS": lambda s1, e1, s2, e2: (s1 < e2) & (s2 < e1),
    "EQUALS": lambda s1, e1, s2, e2: (s1 == s2) & (e1 == e2),
    "PRECEDES": lambda s1, e1, s2, e2: e1 <= s2,
    "SUCCEEDS": lambda s1, e1, s2, e2: e2 <= s1,
    "LEADS": lambda s1, e1, s2, e2: (s1 < s2) & (s2 < e1) & (e1 <= e2),
    "LAGS": lambda s1, e1, s2, e2: (s2 <= s1) & (s1 < e2) & (e2 < e1),
}


def _strictly(relation: _Relation) -> _Relation:
    def strictly(s1: Any, e1: Any, s2: Any, e2: Any) -> Any:
        return relation(s1, e1, s2, e2) & (s1 != s2) & (e1 != e2) & (e1 != s2) & (s1 != e2)

    return strictly


def _immediately(relation: _Relation) -> _Relation:
    def immediately(s1: Any, e1: Any, s2: Any, e2: Any) -> Any:
        return relation(s1, e1, s2, e2) & ((s1 == s2) | (e1 == e2) | (e1 == s2) | (s1 == e2))

    return immediately


RELATIONS: Mapping[str, _Relation] = {
    **_BASE,
    **{f"STRICTLY {name}": _strictly(relation) for name, relation in _BASE.items() if name != "EQUALS"},
    **{
        f"IMMEDIATELY {name}": _immediately(_BASE[name]) for name in ("PRECEDES", "SUCCEEDS", "LEADS", "LAGS")
    },
}
"""Every predicate by its words."""


def function_name(predicate: str) -> str:
    """Return the name of the function that computes a predicate."""
    return f"PERIOD {predicate}"


def _periods(predicate: str) -> ScalarFunction:
    relation = RELATIONS[predicate]

    def resolve(args: Sequence[Type]) -> Type:
        if len(args) != 4 or any(arg not in (TIMESTAMP, DATE, TIME) for arg in args):
            raise _no_periods(predicate, args)
        try:
            common_type(args)
        except TypeMismatch as error:
            raise _no_periods(predicate, args) from error
        return BOOLEAN

    def operands(args: Sequence[Type], result: Type) -> Sequence[Type]:
        del result
        return [common_type(args)] * len(args)

    def row(start1: int, end1: int, start2: int, end2: int) -> bool:
        edges = []
        for start, end in ((start1, end1), (start2, end2)):
            edges += [min(start, end), max(start, end) + (start == end)]
        return bool(relation(*edges))

    def columns(*times: Any) -> tuple[Any, Mask | None]:
        edges = []
        whole = [exact.whole(each) for each in times]
        for start, end in (whole[:2], whole[2:]):
            edges += [np.minimum(start, end), np.maximum(start, end) + (start == end)]
        return relation(*edges), None

    def kernel(signature: CallSignature) -> ColumnKernel:
        del signature
        return columns

    def of_row(signature: CallSignature) -> RowKernel:
        del signature
        return row

    return strict(function_name(predicate), resolve, of_row, kernel, operands)


def _no_periods(predicate: str, args: Sequence[Type]) -> TypeMismatch:
    given = ", ".join(map(str, args))
    return TypeMismatch(
        f"{predicate} does not compare periods of ({given})",
        hint="A period has two values of type DATE, TIME or TIMESTAMP: PERIOD (start, end).",
    )


PERIODS: Sequence[ScalarFunction] = tuple(_periods(predicate) for predicate in RELATIONS)
