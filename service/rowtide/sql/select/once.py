"""What is made of parts of a statement, each once, however many ask for it.

A query is looked at before it is planned, and one sub-query may become several joins: without memory a
nesting of n of them would be planned in powers of n. Parts are distinguished by their identity, as two equal
texts may stand in different places.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from rowtide.errors import StatementError

T = TypeVar("T")


class MemoById(Generic[T]):
    """Gives what has been made of the same objects before, or the error that it ended with."""

    def __init__(self) -> None:
        """Remember nothing yet."""
        self._made: dict[tuple[int, ...], tuple[tuple[object, ...], T | StatementError]] = {}

    def __call__(self, *of: object, make: Callable[[], T]) -> T:
        """Return what ``make`` gave for these objects, which are kept alive here.

        Raises:
          StatementError: ``make`` raises it, or did so before.
        """
        key = tuple(map(id, of))
        if key not in self._made:
            try:
                made: T | StatementError = make()
            except StatementError as error:
                made = error
            self._made[key] = of, made
        result = self._made[key][1]
        if isinstance(result, StatementError):
            raise result
        return result
