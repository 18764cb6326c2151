"""Constant folding: subtrees without a field or ROWTIME are computed once.

A subtree that fails is unchanged: it is an error only if a row evaluates it.
"""

from __future__ import annotations

from dataclasses import replace

from rowtide.errors import RejectedRowError
from rowtide.expr.rowwise import compile_row
from rowtide.expr.tree import Call, Expr, Literal


def fold(expr: Expr) -> Expr:
    """Return an expression of the same type and the same answers, values and errors, for every row.

    It folds constant subtrees, and drops arguments that AND, OR, CASE and COALESCE never evaluate.
    """
    if not isinstance(expr, Call):
        return expr
    folded = tuple(fold(arg) for arg in expr.args)
    call = Call(expr.function, folded, expr.type) if type(expr) is Call else replace(expr, args=folded)
    pruned = _pruned(call)
    if not isinstance(pruned, Call) or not all(isinstance(arg, Literal) for arg in pruned.args):
        return pruned
    try:
        value = compile_row(pruned)((), 0)
    except RejectedRowError:
        return pruned
    return Literal(value, pruned.type)


def _pruned(call: Call) -> Expr:
    """Drop the arguments that no row evaluates."""
    match call.function:
        case "AND" | "OR":
            return _junction(call, decisive=call.function == "OR")
        case "CASE":
            return _case(call)
        case "COALESCE":
            return _coalesce(call)
        case _:
            return call


def _junction(call: Call, *, decisive: bool) -> Expr:
    kept: list[Expr] = []
    for arg in call.args:
        if isinstance(arg, Literal) and arg.value is (not decisive):
            continue
        kept.append(arg)
        if isinstance(arg, Literal) and arg.value is decisive:
            break
    if not kept:
        return Literal(not decisive, call.type)
    return kept[0] if len(kept) == 1 else Call(call.function, tuple(kept), call.type)


def _case(call: Call) -> Expr:
    kept: list[Expr] = []
    otherwise = call.args[-1]
    for condition, value in zip(call.args[:-1:2], call.args[1::2], strict=True):
        if not isinstance(condition, Literal):
            kept += [condition, value]
        elif condition.value is True:
            otherwise = value
            break
    if kept:
        return Call(call.function, (*kept, otherwise), call.type)
    return _as(otherwise, call)


def _coalesce(call: Call) -> Expr:
    kept: list[Expr] = []
    for arg in call.args:
        if isinstance(arg, Literal) and arg.value is None:
            continue
        kept.append(arg)
        if isinstance(arg, Literal):
            break
    if not kept:
        return Literal(None, call.type)
    if len(kept) == 1:
        return _as(kept[0], call)
    return Call(call.function, tuple(kept), call.type)


def _as(expr: Expr, call: Call) -> Expr:
    """Return ``expr`` with the type of the call that it replaces."""
    return expr if expr.type == call.type else fold(Call("CAST", (expr,), call.type))
