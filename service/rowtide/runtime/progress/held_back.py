"""What holds rows back, as other threads see it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HeldBack:
    """A partition that keeps ``rows`` back, which wait in the relations that it ``holds``.

    ``has`` and ``needs`` are rowtime bounds in ms; None: no bound, or more rows are needed. ``path`` are the steps of
    ``graph`` from the partition to where the first of the rows wait, and ``relations`` those that the path passes.
    """

    cause: str
    relation: str
    topic: str | None
    partition: int | None
    has: int | None
    needs: int | None
    why: str
    released: str
    change: str
    rows: int
    holds: tuple[str, ...]
    path: tuple[int, ...]
    relations: tuple[str, ...]
