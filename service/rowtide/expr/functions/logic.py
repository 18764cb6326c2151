"""Three-valued logic, CASE and COALESCE: the functions that look at their arguments themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rowtide.expr.functions.declaration import Function, mismatch
from rowtide.expr.functions.typing import common_type
from rowtide.rows.types import BOOLEAN, Type


def _of_booleans(name: str, least: int, most: int | None = None) -> Callable[[tuple[Type, ...]], Type]:
    def resolve(types: tuple[Type, ...]) -> Type:
        if len(types) < least or (most is not None and len(types) > most) or set(types) != {BOOLEAN}:
            raise mismatch(name, types, "Its arguments are conditions.")
        return BOOLEAN

    return resolve


def _case_type(types: tuple[Type, ...]) -> Type:
    conditions = types[:-1:2]
    if len(types) < 3 or len(types) % 2 == 0 or set(conditions) != {BOOLEAN}:
        raise mismatch("CASE", types)
    return common_type((*types[1:-1:2], types[-1]))


def _one(types: tuple[Type, ...]) -> Type:
    if len(types) != 1:
        raise mismatch("IS NULL", types)
    return BOOLEAN


def _lazily(args: Sequence[Any], types: tuple[Type, ...], of: Type) -> object:
    raise NotImplementedError("a lazy function is evaluated by expr.rowwise and expr.columnar")


FUNCTIONS = (
    Function("AND", _of_booleans("AND", 2), _lazily, lazy=True),
    Function("OR", _of_booleans("OR", 2), _lazily, lazy=True),
    Function(
        "NOT",
        _of_booleans("NOT", 1, 1),
        lambda args, types, of: not args[0],
        lambda args, of: (~args[0].values, None),
    ),
    Function("IS NULL", _one, _lazily, lazy=True),
    Function("CASE", _case_type, _lazily, lazy=True),
    Function("COALESCE", common_type, _lazily, lazy=True),
)
