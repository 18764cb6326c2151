"""Constant expressions that fail: where each row evaluates one, each row would be rejected."""

from __future__ import annotations

from rowtide.errors import Reason, RejectedRowError, SourceSpan, StatementError
from rowtide.expr.constant import fold
from rowtide.expr.rowwise import compile_row
from rowtide.expr.tree import Call, Expr, Literal, PythonCall, ResultCall

_HINTS = {
    Reason.CAST: "TRY_CAST(x AS type) is NULL instead.",
    Reason.DIVISION_BY_ZERO: "x / NULLIF(y, 0) is NULL instead.",
}


def refuse_failing(expr: Expr, span: SourceSpan) -> None:
    """Refuse a constant expression that fails. Functions in Python may fail on this machine only.

    Raises:
      StatementError: it fails.
    """
    if not isinstance(expr, Call) or not _is_constant(expr):
        return
    found = fold(expr)
    if isinstance(found, Literal):
        return
    try:
        compile_row(found)((), 0)
    except RejectedRowError as error:
        hint = _HINTS.get(error.reason, "Write another constant.")
        raise StatementError(f"each row would be rejected: {error.message}", span=span, hint=hint) from error


def _is_constant(expr: Expr) -> bool:
    if isinstance(expr, PythonCall | ResultCall) or not isinstance(expr, Call):
        return isinstance(expr, Literal)
    return all(map(_is_constant, expr.args))
