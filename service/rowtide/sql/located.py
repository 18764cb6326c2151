"""Errors of statements name their text and file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rowtide.errors import SourceSpan, StatementError


@contextmanager
def located(text: str, file: str | None) -> Iterator[None]:
    """Add text and file to errors in this block, and a place if they have none."""
    try:
        yield
    except StatementError as error:
        if error.text is None:
            error.text, error.file = text, file
        if error.place is None:
            error.place = SourceSpan(1, 1)
        raise
    except RecursionError as error:
        raise StatementError(
            "the statements are nested too deeply", span=SourceSpan(1, 1), file=file, text=text
        ) from error
