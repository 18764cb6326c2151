"""Caches the results for parts of a statement.

A query is inspected before it is planned, and one sub-query can become several joins: without a cache, n
nested sub-queries take exponential time. Parts are distinguished by identity, because equal texts can
be in different contexts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from rowtide.errors import StatementError

T = TypeVar("T")


class MemoById(Generic[T]):
    """Returns the earlier result for the same objects, or raises the earlier error."""

    def __init__(self) -> None:
        """Create an empty cache."""
        self._made: dict[tuple[int, ...], tuple[tuple[object, ...], T | StatementError]] = {}

    def __call__(self, *of: object, make: Callable[[], T]) -> T:
        """Return the result of ``make`` for these objects, which the cache keeps alive.

        Raises:
          StatementError: ``make`` raises it, now or in an earlier call.
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
