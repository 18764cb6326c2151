"""What a scenario is played on: the live engine, Spark, or a pipeline against a real broker.

Relations are named as in SQL. A method that raises ``StatementError`` has
refused the step and changed nothing.

``testing.live`` is the runner in memory. Another one can take from the kit what
is the same everywhere: ``versions`` (what to compute), ``entrance`` and
``source_log`` (what a source would have delivered), ``outputs`` and
``error_rows`` (what came out).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from rowtide.rows.rowop import Row
from rowtide.testing.batching import Batching
from rowtide.testing.compare import ActualRow
from rowtide.testing.rows import InputRow, RelationShape
from rowtide.testing.scenario import Scenario


class NotPlayedError(Exception):
    """A runner does not play this scenario; the message says why, as the end of a sentence."""


class ScenarioRunner(Protocol):
    """One running pipeline with virtual time, for one scenario."""

    orders_ties: bool
    """Whether rows of one ROWTIME come in the order of the live engine; else in any order."""

    def fold(self, name: str) -> str:
        """Return the catalog name of one part of a name (a column)."""

    def shape(self, relation: str) -> RelationShape:
        """Return what the rows of a relation look like.

        Raises:
          StatementError: if there is no such relation.
        """

    def insert(self, relation: str, partition: int, rows: Sequence[InputRow]) -> None:
        """Let rows in and work them off completely."""

    def insert_raw(
        self, relation: str, partition: int, messages: Sequence[bytes | None], at: int | None
    ) -> None:
        """Let messages of a foreign stream in, ``at`` being their timestamp (ms; None: wall time)."""

    def bound(self, relation: str, partition: int | None, rowtime: int) -> None:
        """Set an explicit rowtime bound of one partition, or of all."""

    def sql(self, text: str) -> None:
        """Run further statements."""

    def advance_wallclock(self, millis: int) -> None:
        """Move virtual wall time on."""

    def commit(self) -> None:
        """Commit."""

    def crash(self) -> None:
        """Lose everything not committed, recover, and let the sources deliver that again."""

    def restart(self) -> None:
        """Commit, stop, and recover."""

    def output(self, relation: str) -> list[ActualRow]:
        """Commit, and give everything that came out of a relation since the last call for it.

        ``SYS.ERRORS`` is a relation too.
        """

    def contents(self, relation: str) -> list[Row]:
        """Return the present content of a table or view, in any order."""

    def close(self) -> None:
        """Release what the runner holds; it is not used again."""


@runtime_checkable
class SaysWhyNot(Protocol):
    """A runner that can say why no more rows come out of a relation."""

    def why_not(self, relation: str) -> Sequence[str]:
        """Return the causes in words, the weightiest first; what was inserted has been processed."""


class RunnerFactory(Protocol):
    """Makes the runner of one scenario."""

    def __call__(self, scenario: Scenario, batching: Batching) -> ScenarioRunner:
        """Plan the scenario's pipeline and start it.

        Raises:
          StatementError: if the pipeline is refused.
          NotPlayedError: scenarios of this kind are not for this runner.
        """
