"""Which rows of a commit the database refuses, found in transactions that are never committed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from rowtide.operators.contract import Account, Fault
from rowtide.runtime.state.output import Writes
from rowtide_connectors.api import Database, TargetTable, Transaction
from rowtide_connectors.errors import UnavailableError


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
      UnavailableError: the database is down, or a table of it would refuse any row.
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
    suspected: list[tuple[str, TargetTable, set[str]]] = []
    for at, each in enumerate(writes):
        refused = each.refused(transaction)
        if refused.rows:
            faults = {index: each.fault(index, why) for index, why in sorted(refused.rows.items())}
            found[at] = Refused(each.name, each.account, faults)
        if refused.of_table:
            suspected.append((each.name, each.target, refused.of_table))
    # Only now, so that the tables have the rows of the commit that they take.
    for name, target, reasons in suspected:
        _check_table(transaction, name, target, reasons)
    return found


def _check_table(transaction: Transaction, name: str, target: TargetTable, reasons: set[str]) -> None:
    """Check that rows are at fault, and not foreign table ``name``: for none of the reasons it would refuse any row.

    Raises:
      UnavailableError: it would.
    """
    common = reasons & transaction.reasons_of_table(target)
    if common:
        raise UnavailableError(
            f"any row is refused alike: {min(common)}",
            hint=f'The database table of "{name}", or a trigger of it, has a mistake. Mend it: the rows wait until '
            "then.",
        )


def _still_refused(
    transaction: Transaction, writes: Iterable[Writes], found: Mapping[int, Refused]
) -> dict[int, Refused]:
    """Write refused rows again, after all others; return those that are refused again."""
    left: dict[int, Refused] = {}
    for at, each in enumerate(writes):
        if at in found:
            indices = list(found[at].faults)
            if rows := each.only(indices).refused(transaction).rows:
                faults = {indices[row]: found[at].faults[indices[row]] for row in sorted(rows)}
                left[at] = replace(found[at], faults=faults)
    return left


def _count(found: Mapping[int, Refused]) -> int:
    return sum(len(each.faults) for each in found.values())
