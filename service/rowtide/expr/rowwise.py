"""Expressions over one row: what an expression means, and the slow path of everything."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rowtide.expr.functions import FUNCTIONS
from rowtide.expr.tree import Call, Expr, FieldRef, Literal, RowtimeRef
from rowtide.rows.rowop import Row

RowFunction = Callable[[Row, int], Any]
"""From the fields and the rowtime (ms) of a row to a value in row form; raises RejectedRowError."""


def compile_row(expr: Expr) -> RowFunction:
    """Make the function that computes an expression for one row."""
    match expr:
        case Literal(value=value):
            return lambda row, rowtime: value
        case FieldRef(index=index):
            return lambda row, rowtime: row[index]
        case RowtimeRef():
            return lambda row, rowtime: rowtime
        case Call():
            return _compile_call(expr)


def _compile_call(call: Call) -> RowFunction:
    args = [compile_row(arg) for arg in call.args]
    match call.function:
        case "AND":
            return _junction(args, absorbing=False)
        case "OR":
            return _junction(args, absorbing=True)
        case "IS NULL":
            return lambda row, rowtime: args[0](row, rowtime) is None
        case "COALESCE":
            return _coalesce(args)
        case "CASE":
            return _case(args)
    function, types, of = FUNCTIONS[call.function].row, tuple(arg.type for arg in call.args), call.type

    def compute(row: Row, rowtime: int) -> Any:
        values = [arg(row, rowtime) for arg in args]
        return None if None in values else function(values, types, of)

    return compute


def _junction(args: list[RowFunction], *, absorbing: bool) -> RowFunction:
    def compute(row: Row, rowtime: int) -> Any:
        known = True
        for arg in args:
            value = arg(row, rowtime)
            if value is absorbing:
                return absorbing
            known = known and value is not None
        return (not absorbing) if known else None

    return compute


def _coalesce(args: list[RowFunction]) -> RowFunction:
    def compute(row: Row, rowtime: int) -> Any:
        for arg in args:
            value = arg(row, rowtime)
            if value is not None:
                return value
        return None

    return compute


def _case(args: list[RowFunction]) -> RowFunction:
    branches = list(zip(args[:-1:2], args[1:-1:2], strict=True))
    otherwise = args[-1]

    def compute(row: Row, rowtime: int) -> Any:
        for condition, value in branches:
            if condition(row, rowtime):
                return value(row, rowtime)
        return otherwise(row, rowtime)

    return compute
