"""Every scalar function and operator, declared once: its types, its columns, its rows.

The planner asks ``resolve`` for types and builds ``tree.Call`` nodes with the
names of ``FUNCTIONS``; arguments of other types than the function computes with
need no CAST in the tree, the evaluators add it.
"""

from __future__ import annotations

from rowtide.expr.functions.casts.cast import cast_allowed
from rowtide.expr.functions.function import ScalarFunction, TypeMismatch
from rowtide.expr.functions.registry import (
    FUNCTIONS,
    MAY_BE_NULL,
    UnknownFunction,
    callable_names,
    find,
    resolve,
    suggestion,
)
from rowtide.expr.functions.type_rules import common_type

__all__ = [
    "FUNCTIONS",
    "MAY_BE_NULL",
    "ScalarFunction",
    "TypeMismatch",
    "UnknownFunction",
    "callable_names",
    "cast_allowed",
    "common_type",
    "find",
    "resolve",
    "suggestion",
]
