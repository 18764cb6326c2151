"""What each operator means, one row at a time, in plain Python.

Written from the decisions and the docstrings, not from the operators: lists,
dicts, fractions and ``datetime``, no columns, no codes, everything worked out
again for each row. Slow and short is right here.

A model takes rows and bounds one by one (``row``, ``bound``) and keeps all that
has come out so far in ``out`` and ``faults``.
"""

from __future__ import annotations

from contract.operators.meanings import bits
from rowtide.errors import Reason
from rowtide.operators.contract import Account
from rowtide.rows.rowop import TimedRow
from rowtide.rowtime.bound import UNMARKED, Bound

FaultSeen = tuple[str, Reason, int | None, int, int, object, int | None]
"""A fault without its words: relation, reason, rowtime, origin, counter, row (as bits), bound."""


class Model:
    """What all models share: what has come out, and the numbers of law 4."""

    def __init__(self) -> None:
        self.out: list[TimedRow] = []
        self.faults: list[FaultSeen] = []
        self.account = Account()

    def row(self, port: int, timed: TimedRow) -> None:
        """Take one row at a port."""
        raise NotImplementedError

    def bound(self, port: int, bound: Bound) -> None:
        """Take a bound at a port."""
        raise NotImplementedError

    def promised(self) -> int:
        """Return the rowtime of the bound that follows what has come out."""
        raise NotImplementedError

    def promise(self) -> Bound:
        """Return the bound that follows what has come out, with its mark where there is one."""
        return Bound(self.promised())

    def held(self) -> int:
        """Count the rows for which output may still come."""
        return 0

    def give(self, timed: TimedRow) -> None:
        """Let a row out."""
        self.account.rows_out += 1
        self.out.append(timed)

    def tell(self, relation: str, reason: Reason, timed: TimedRow, bound: int | None = None) -> None:
        """Report of a row that was late or rejected."""
        if reason is Reason.LATE:
            self.account.late += 1
        else:
            self.account.rejected += 1
        self.faults.append(
            (relation, reason, timed.rowtime, timed.origin, timed.counter, bits(timed.row), bound)
        )


def later(old: Bound, new: Bound) -> Bound:
    """Return the promise that holds after ``old`` and then ``new``; one without a mark takes none away.

    The bound of a step may say less than its rows did: then theirs holds.
    """
    if new.rowtime != old.rowtime or new.origin == old.origin:
        return max(old, new)
    return old if new.origin == UNMARKED else new
