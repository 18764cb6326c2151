"""Runners of scenarios: the live engine, Spark, or a pipeline against a real broker.

Relations are named as in SQL. A method that raises ``StatementError`` refuses
the step and changes nothing.

``testing.live`` is the runner in memory. Other runners can use the shared parts of
the kit: ``versions`` (the nodes to compute), ``entrance`` and ``source_log`` (the
input as a source delivers it), ``outputs`` and ``error_rows`` (the output).
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
    """The runner does not support this scenario; the message is the reason, as the end of a sentence."""


class ScenarioRunner(Protocol):
    """One running pipeline with virtual time, for one scenario."""

    orders_ties: bool
    """Whether rows with equal ROWTIME come in the order of the live engine; if not, in any order."""

    def fold(self, name: str) -> str:
        """Return the catalog name of one part of a name (a column)."""

    def shape(self, relation: str) -> RelationShape:
        """Return the shape of a relation's rows.

        Raises:
          StatementError: if the relation does not exist.
        """

    def insert(self, relation: str, partition: int, rows: Sequence[InputRow]) -> None:
        """Insert rows and process them completely."""

    def insert_raw(
        self, relation: str, partition: int, messages: Sequence[bytes | None], at: int | None
    ) -> None:
        """Insert messages of a foreign stream with timestamp ``at`` (ms; None: wall time)."""

    def bound(self, relation: str, partition: int | None, rowtime: int) -> None:
        """Set an explicit rowtime bound of one partition, or of all."""

    def sql(self, text: str) -> None:
        """Run further statements."""

    def send(self, text: str) -> None:
        """Execute statements that are sent to the running pipeline."""

    def advance_wallclock(self, millis: int) -> None:
        """Advance the virtual wall time."""

    def commit(self) -> None:
        """Commit."""

    def crash(self) -> None:
        """Lose everything that is not committed, and recover; the sources deliver it again."""

    def restart(self) -> None:
        """Commit, stop, and recover."""

    def output(self, relation: str) -> list[ActualRow]:
        """Commit, and return the output rows of a relation since the last call for it.

        ``SYS.ERRORS`` is a relation too.
        """

    def contents(self, relation: str) -> list[Row]:
        """Return the present content of a table or view, in any order."""

    def close(self) -> None:
        """Release the runner's resources; it is not used again."""


@runtime_checkable
class SaysWhyNot(Protocol):
    """A runner that can explain why no more rows come out of a relation."""

    def why_not(self, relation: str) -> Sequence[str]:
        """Return the causes in words, the most important first; all inserted rows are processed."""


class RunnerFactory(Protocol):
    """Makes the runner of one scenario."""

    def __call__(self, scenario: Scenario, batching: Batching) -> ScenarioRunner:
        """Plan the scenario's pipeline and start it.

        Raises:
          StatementError: if the pipeline is refused.
          NotPlayedError: the runner does not support scenarios of this kind.
        """
