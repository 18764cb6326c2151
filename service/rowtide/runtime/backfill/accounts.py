"""The accounts of slices (law 4): what has become of each message and row, committed beside them.

Operators count in their state, which a slice continues. Messages and the rows of tables are counted here, from the
totals of the commit before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rowtide.checkpoint.ledger import KeptAccount
from rowtide.flow.counts import Counts
from rowtide.operators.contract import Account
from rowtide.runners.spark.frames import SparkRun
from rowtide.runtime.state.pipeline_state import (
    OPERATORS_PART,
    SOURCE_PART,
    TABLE_PART,
    IntakeAccount,
    kept_account,
)


class SliceAccounts:
    """The accounts after a slice.

    Args:
      before: all of the commit before it.
      run: its run, which has read everything.
      counts: those of the steps after it, without the rows that wait in merges.
    """

    def __init__(self, before: Sequence[KeptAccount], run: SparkRun, counts: Counts) -> None:
        self._before = {(each.part, each.relation): each for each in before}
        self._run = run
        self._counts = counts

    def after(self, refused: Mapping[str, int]) -> list[KeptAccount]:
        """Return all of them. ``refused`` has, by table, the rows that the database has refused in the commit."""
        now = [*self._intakes(), *self._operators(), *self._tables(refused)]
        return list((self._before | {(each.part, each.relation): each for each in now}).values())

    def changed(self, after: Sequence[KeptAccount]) -> list[KeptAccount]:
        """Return those that are not as before."""
        return [each for each in after if self._before.get((each.part, each.relation)) != each]

    def _intakes(self) -> list[KeptAccount]:
        found = []
        for relation, entered in self._run.entered.items():
            before = self._before.get((SOURCE_PART, relation))
            account = IntakeAccount() if before is None else IntakeAccount.of(before)
            account.messages += entered.messages
            account.rows += entered.rows
            account.bounds += entered.bounds
            account.rejected += entered.rejected
            account.check(relation)
            found.append(account.kept(relation))
        return found

    def _operators(self) -> list[KeptAccount]:
        waiting = self._run.waiting.counts()
        found = []
        for relation, counts in self._counts.sums.items():
            held = waiting.get(relation, 0)
            counted = counts._replace(rows_in=counts.rows_in + held, held=counts.held + held)
            found.append(kept_account(OPERATORS_PART, relation, counted))
        return found

    def _tables(self, refused: Mapping[str, int]) -> list[KeptAccount]:
        found = []
        for name, fold in self._run.folds.items():
            rejected = fold.rejected + refused.get(name, 0)
            account = Account(rows_in=fold.rows, done=fold.rows - rejected, rejected=rejected)
            if (before := self._before.get((TABLE_PART, name))) is not None:
                account.add(Account(rows_in=before.rows_in, done=before.done, rejected=before.rejected))
            found.append(kept_account(TABLE_PART, name, account.counts()))
        return found
