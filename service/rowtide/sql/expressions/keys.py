"""The types whose values cannot be compared, and cannot be keys: JSON."""

from __future__ import annotations

from rowtide.errors import SourceSpan, StatementError
from rowtide.rows.types import JSON, Type

_HINT = "Take a value of it, x ->> 'name', or its text, CAST(x AS VARCHAR)."


def check_key(of: Type, what: str, place: SourceSpan) -> None:
    """Check that values of a type can be compared; ``what`` names the clause that compares them.

    Raises:
      StatementError: they are JSON, of which different texts can mean the same.
    """
    if of == JSON:
        raise StatementError(f"{what} cannot be JSON, which has no comparison", place=place, hint=_HINT)
