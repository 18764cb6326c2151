"""What messages say of users' code that fails: the exception, the line, the values."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from rowtide.expr.functions.rejections import shown

_SHOWN_TEXT = 200
"""Longer texts of exceptions are cut: an error row is not a second copy of the row."""
_PLAIN = (bool, int, float, str, bytes, Decimal)
"""Types whose values messages show: their text is the same in every process."""


def file_of(function: Any) -> str | None:
    """Return the file of a function in Python."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return None if code is None else code.co_filename


def given(args: Sequence[object]) -> str:
    """Return the arguments of a call."""
    return ", ".join("NULL" if arg is None else shown(arg) for arg in args)


def raised(error: BaseException, own_frames: int, file: str | None) -> str:
    """Return what a function in ``file`` raised, and where; the first ``own_frames`` are those of the caller."""
    text = _text_of(error)
    line = _line_of(error, own_frames, file)
    said = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return f"raised {said}{'' if line is None else f' ({line})'}"


def shown_with_type(value: object) -> str:
    """Return a plain value with its type, and only the type of any other value."""
    kind = type(value)
    try:
        return f"{shown(value)} ({kind.__name__})" if kind in _PLAIN else f"a value of type {kind.__name__}"
    except ValueError:
        # Python refuses to write out an int of thousands of digits.
        return f"a value of type {kind.__name__}"


def _text_of(error: BaseException) -> str:
    try:
        text = " ".join(str(error).split())
    except Exception:  # noqa: BLE001 - an exception of a user can fail to say what it is
        return ""
    return text if len(text) <= _SHOWN_TEXT else f"{text[:_SHOWN_TEXT]}..."


def _line_of(error: BaseException, own_frames: int, file: str | None) -> str | None:
    """Return the last line of ``file`` that an exception passed through; of any file if it did not."""
    found: tuple[str, int] | None = None
    step = error.__traceback__
    for _ in range(own_frames):
        step = step and step.tb_next
    while step is not None:
        place = (step.tb_frame.f_code.co_filename, step.tb_lineno)
        if found is None or place[0] == file or found[0] != file:
            found = place
        step = step.tb_next
    return None if found is None else f"{found[0].rpartition('/')[2]}, line {found[1]}"
