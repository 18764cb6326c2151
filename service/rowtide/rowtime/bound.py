"""Rowtime bounds: promises that no earlier row of a relation follows.

A bound promises that no later row of its link is earlier than ``rowtime``. A bound with
a mark (``origin``, ``counter``) promises more: of the rows at exactly ``rowtime``,
those up to the mark have passed, too. Marks let copies of one row that meet again (a
diamond) leave a merge without waiting for the next millisecond
(docs/sql/semantics.md#merge-order). A strict bound at t is the bound t + 1.
"""

from __future__ import annotations

from typing import NamedTuple

EARLIEST = -(2**63)
LATEST = 2**63 - 1
UNMARKED = -1


class Bound(NamedTuple):
    """A promise of one link. The order of two marks is that of the link's origins."""

    rowtime: int
    origin: int = UNMARKED
    counter: int = UNMARKED

    def raised(self, other: Bound) -> Bound:
        """Return the bound of a link that has promised this and then ``other``.

        A link's promises never go back. So of two marks at one rowtime the second is greater,
        whatever the numbers of their origins. A bound without a mark does not remove a mark.
        """
        if other.rowtime != self.rowtime:
            return other if other.rowtime > self.rowtime else self
        if other.origin == self.origin:
            return other if other.counter > self.counter else self
        return self if other.origin == UNMARKED else other

    def shifted(self, rowtime: int) -> Bound:
        """Return the same promise of a link whose rows have been moved to ``rowtime``; marks stay."""
        return Bound(rowtime, self.origin, self.counter)


NO_BOUND = Bound(EARLIEST)
"""The bound of a relation before its first row or explicit bound: it promises nothing."""
