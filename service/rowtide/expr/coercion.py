"""Implicit casts: ``price > 50.0`` compares two DOUBLEs."""

from __future__ import annotations

from collections.abc import Sequence

from rowtide.expr.functions.function import ScalarFunction
from rowtide.expr.tree import Call, Expr
from rowtide.rows.types import Type


def coerced(function: ScalarFunction, call: Call) -> tuple[Expr, ...]:
    """Return the arguments of ``call``, cast to the types that ``function`` computes with."""
    if function.name in ("CAST", "TRY_CAST"):
        return call.args
    given = [arg.type for arg in call.args]
    wanted: Sequence[Type] = function.operands(given, call.type)
    return tuple(
        arg if _same_form(arg.type, kind) else Call("CAST", (arg,), kind)
        for arg, kind in zip(call.args, wanted, strict=True)
    )


def _same_form(given: Type, wanted: Type) -> bool:
    """Return whether a value of one type is a value of the other as is."""
    if given == wanted:
        return True
    both_text = given.is_text and wanted.is_text
    both_binary = given.is_binary and wanted.is_binary
    return both_text or both_binary
