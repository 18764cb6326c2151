"""The counts of rows of all steps at one moment, and what they say of each relation.

A relation may take several steps, and each counts the rows of the one before it. So a sum over the steps counts a row
several times: the rows in of a relation are those of its first steps, its rows out those of its last.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

from rowtide.flow.program import Program
from rowtide.operators.contract import Operator, RowCounts


class Counts:
    """The counts of all steps that have an operator, by position. Immutable.

    Raises:
      FaultError: a row of a step is not accounted for (law 4).
    """

    def __init__(self, program: Program, operators: Iterable[tuple[int, Operator]]) -> None:
        self._program = program
        self.by_step: dict[int, RowCounts] = {}
        for at, operator in operators:
            held = operator.held()
            operator.account.check(program.steps[at].node.relation, held)
            self.by_step[at] = operator.account.counts(held)

    @cached_property
    def held(self) -> int:
        """Return the number of rows that all steps hold."""
        return sum(each.held for each in self.by_step.values())

    @cached_property
    def sums(self) -> dict[str, RowCounts]:
        """Return the sums over the steps of each relation."""
        return {relation: self._sum(steps.all) for relation, steps in self._program.relations.items()}

    @cached_property
    def by_relation(self) -> dict[str, RowCounts]:
        """Return the counts of each relation: rows in and done of its first steps, rows out of its last.

        Filtered, late, rejected and held rows are those of all its steps.
        """
        found = dict(self.sums)
        for relation, steps in self._program.relations.items():
            if steps.first != steps.last:
                first, last = self._sum(steps.first), self._sum(steps.last)
                _, _, filtered, late, rejected, _, held = found[relation]
                found[relation] = RowCounts(
                    first.rows_in, first.done, filtered, late, rejected, last.rows_out, held
                )
        return found

    def _sum(self, steps: Sequence[int]) -> RowCounts:
        if len(steps) == 1:
            return self.by_step[steps[0]]
        return RowCounts(*map(sum, zip(*(self.by_step[at] for at in steps), strict=True)))
