"""Which rows of a commit the database refuses, found in transactions that are never committed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from rowtide.operators.contract import Account, Fault
from rowtide.runtime.state.output import RefusedAlike, Writes
from rowtide_connectors.api import Database, Transaction


@dataclass(frozen=True, slots=True)
class Refused:
    """The refused rows of one table's writes: their faults by the row's index."""

    table: str
    account: Account
    faults: Mapping[int, Fault]


def refused_rows(database: Database, writes: Callable[[], Iterable[Writes]]) -> dict[int, Refused]:
    """Return the rows that the database refuses, by the number of the writes; none if it refuses them only together.

    Rows that break a constraint that is checked at the commit are looked for after all others: one that
    another row of the commit satisfies later is taken.

    Raises:
      UnavailableError: the database is down, or refuses every row of a table alike.
    """
    with database.sift() as transaction:
        found = _sifted(transaction, writes())
    if found:
        return found
    with database.sift(at_once=True) as transaction:
        found = _sifted(transaction, writes())
        while found:
            left = _still_refused(transaction, writes(), found)
            if _count(left) == _count(found):
                break
            found = left
    return found


def _sifted(transaction: Transaction, writes: Iterable[Writes]) -> dict[int, Refused]:
    found: dict[int, Refused] = {}
    alike: dict[str, RefusedAlike] = {}
    for at, each in enumerate(writes):
        if rows := each.refused(transaction, alike.setdefault(each.name, RefusedAlike())):
            faults = {index: each.fault(index, why) for index, why in sorted(rows.items())}
            found[at] = Refused(each.name, each.account, faults)
    for name, refused in alike.items():
        refused.check(name)
    return found


def _still_refused(
    transaction: Transaction, writes: Iterable[Writes], found: Mapping[int, Refused]
) -> dict[int, Refused]:
    """Write refused rows again, after all others; return those that are refused again."""
    left: dict[int, Refused] = {}
    for at, each in enumerate(writes):
        if at in found:
            indices = list(found[at].faults)
            if rows := each.only(indices).refused(transaction):
                faults = {indices[row]: found[at].faults[indices[row]] for row in sorted(rows)}
                left[at] = replace(found[at], faults=faults)
    return left


def _count(found: Mapping[int, Refused]) -> int:
    return sum(len(each.faults) for each in found.values())
