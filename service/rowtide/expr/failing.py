"""Analysis of which expressions may reject a row."""

from __future__ import annotations

from rowtide.expr.coercion import coerced
from rowtide.expr.functions import find
from rowtide.expr.functions.times.periods import RELATIONS, function_name
from rowtide.expr.tree import BodyCall, Call, Expr, PythonCall, ResultCall
from rowtide.rows.types import Kind, Type

NEVER_FAIL = frozenset(
    {
        *("=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"),
        *(f"IS {what}" for test in ("NULL", "TRUE", "FALSE") for what in (test, f"NOT {test}")),
        *("AND", "OR", "NOT", "CASE", "COALESCE", "NULLIF", "GREATEST", "LEAST", "TRY_CAST"),
        *(
            "CHAR_LENGTH",
            "CHARACTER_LENGTH",
            "LENGTH",
            "OCTET_LENGTH",
            "POSITION",
            "STARTS_WITH",
            "ENDS_WITH",
        ),
        *("$ARGUMENTS", "$GIVEN", "&", "|", "#", "~", "BIT_COUNT", "BTRIM", "CONCAT_WS"),
        *("UPPER", "LOWER", "UCASE", "LCASE", "INITCAP", "REVERSE", "POSITION", "STARTS_WITH", "ENDS_WITH"),
        *map(function_name, RELATIONS),
        *("TRIM", "TRIM_LEADING", "TRIM_TRAILING", "LTRIM", "RTRIM"),
    }
)
"""Functions that fail only where an argument does."""
_DIGITS = {Kind.TINYINT: 3, Kind.SMALLINT: 5, Kind.INTEGER: 10, Kind.BIGINT: 19}


def can_fail(expr: Expr) -> bool:
    """Return whether an expression may reject a row; FALSE is certain, TRUE is not."""
    if not isinstance(expr, Call):
        return False
    if isinstance(expr, PythonCall | ResultCall):
        return True
    if isinstance(expr, BodyCall):
        return any(map(can_fail, (*expr.args, expr.body)))
    function = find(expr.function)
    args = coerced(function, expr)
    if any(map(can_fail, args)):
        return True
    if expr.function == "CAST":
        return not _holds(expr.type, args[0].type)
    return expr.function not in NEVER_FAIL


def _holds(wide: Type, narrow: Type) -> bool:
    """Return whether CAST takes every value of ``narrow``."""
    if wide == narrow:
        return True
    if wide.kind is Kind.VARCHAR and narrow.is_string:
        return wide.precision is None or (
            narrow.precision is not None and 0 <= narrow.precision <= wide.precision
        )
    if wide.kind is Kind.DOUBLE:
        return narrow.is_numeric
    if wide.is_integer:
        return narrow.is_integer and _DIGITS[narrow.kind] <= _DIGITS[wide.kind]
    if wide.kind is Kind.DECIMAL:
        return narrow.is_exact and _whole_digits(narrow) <= _whole_digits(wide) and narrow.scale <= wide.scale
    return wide.is_timestamp and (narrow.is_timestamp or narrow.kind is Kind.DATE)


def _whole_digits(exact: Type) -> int:
    """Return how many digits an exact number has before the point, at most."""
    if exact.kind is Kind.DECIMAL:
        return (exact.precision or 0) - exact.scale
    return _DIGITS[exact.kind]
