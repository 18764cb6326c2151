"""The types whose values cannot be keys: JSON, which has no comparison; and sort keys: arrays, which have no order."""

from __future__ import annotations

from rowtide.errors import SourceSpan, StatementError
from rowtide.rows.types import JSON, Kind, Type

_HINT = "Take a value of it, x ->> 'name', or its text, CAST(x AS VARCHAR)."


_NO_ORDER = "a[1] is an element of an array a, CARDINALITY(a) the number of its elements."


def check_order(of: Type, what: str, span: SourceSpan) -> None:
    """Check that values of a type have an order; ``what`` names the clause that orders them.

    Raises:
      StatementError: they are JSON or arrays.
    """
    check_key(of, what, span)
    if of.kind is Kind.ARRAY:
        raise StatementError(f"{what} cannot be {of}: arrays have no order", span=span, hint=_NO_ORDER)


def check_key(of: Type, what: str, span: SourceSpan) -> None:
    """Check that values of a type can be compared; ``what`` names the clause that compares them.

    Raises:
      StatementError: they are JSON, of which different texts can mean the same.
    """
    if of == JSON:
        raise StatementError(f"{what} cannot be JSON, which has no comparison", span=span, hint=_HINT)
