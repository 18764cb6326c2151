"""Errors with which a function rejects a row, and how their messages show values."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from rowtide.errors import Reason, RejectedRowError
from rowtide.rows.types import Type

SHOWN_ELEMENTS = 5
"""Longer arrays are cut, likewise."""
SHOWN_CHARACTERS = 40
"""Longer text is cut in messages, so that an error row does not repeat the row."""


def shown(value: object) -> str:
    """Return a value in row form as a message shows it."""
    match value:
        case str():
            cut = len(value) > SHOWN_CHARACTERS
            return f'"{value[:SHOWN_CHARACTERS]}{"..." if cut else ""}"'
        case bytes():
            cut = len(value) > SHOWN_CHARACTERS // 2
            return f"X'{value[: SHOWN_CHARACTERS // 2].hex()}{'...' if cut else ''}'"
        case bool():
            return "TRUE" if value else "FALSE"
        case Decimal():
            return f"{value:f}"
        case tuple():
            parts = ["NULL" if each is None else shown(each) for each in value[:SHOWN_ELEMENTS]]
            return f"[{', '.join(parts)}{', ...' if len(value) > SHOWN_ELEMENTS else ''}]"
        case _:
            return repr(value)


def spelled(name: str, args: Sequence[object]) -> str:
    """Return a use of a function as a message shows it."""
    if len(args) == 2 and not name[0].isalpha():
        return f"{shown(args[0])} {name} {shown(args[1])}"
    if name == "NEGATE":
        return f"-({shown(args[0])})"
    return f"{name}({', '.join(map(shown, args))})"


def overflow(name: str, args: Sequence[object], kind: Type) -> RejectedRowError:
    """Make the error that the result of a function is out of range for its type."""
    return RejectedRowError(Reason.OVERFLOW, f"{spelled(name, args)} is out of range for {kind}")


def division_by_zero(name: str, args: Sequence[object]) -> RejectedRowError:
    """Make the error that a function divides by zero."""
    return RejectedRowError(Reason.DIVISION_BY_ZERO, f"division by zero in {spelled(name, args)}")


def undefined(name: str, args: Sequence[object], why: str) -> RejectedRowError:
    """Make the error that a function has no value for its arguments."""
    return RejectedRowError(Reason.FUNCTION, f"{spelled(name, args)} is not defined: {why}")
