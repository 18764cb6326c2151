"""Requests of other threads to a running pipeline: why it is silent, a snapshot, rows, a live query."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from rowtide.errors import StatementError, TransientError, UnknownRelationError
from rowtide.flow.flow import Flow
from rowtide.runtime.inspect.facts import Facts, gathered
from rowtide.runtime.inspect.sending import StatementAnswer, outcome_of
from rowtide.runtime.live.backpressure import Backpressure
from rowtide.runtime.pipeline_io import PipelineIO
from rowtide.runtime.progress.held_back import HoldingPartition
from rowtide.runtime.query.contents import (
    LatestRows,
    SnapshotTaken,
    TableContents,
    latest_rows,
    table_contents,
)
from rowtide.runtime.query.query_work import Question
from rowtide.runtime.resubmitting.resubmit import IN_ONE_PROCESS
from rowtide.runtime.state.committed_tables import CommittedTables
from rowtide.runtime.state.following import Follower, refuse_heavy
from rowtide.runtime.state.pipeline_state import PipelineState
from rowtide.runtime.state.questions import PATIENCE_S, Questions
from rowtide.runtime.topics import TopicNames

if TYPE_CHECKING:
    from rowtide.runtime.inspect.why_not import SilenceExplanation


class Requests:
    """The requests to one pipeline. Any thread makes them, and the thread that runs the pipeline answers.

    ``passes_rows`` False: the rows do not pass through this process, so no query can follow them, and no error rows can
    be read again.
    """

    def __init__(self, io: PipelineIO, *, passes_rows: bool = True) -> None:
        self._passes_rows = passes_rows
        self.questions = Questions()
        self._io = io
        self._backpressure: Backpressure | None = None
        self._snapshot: Callable[[], SnapshotTaken] | None = None

    def serve(
        self, state: PipelineState, backpressure: Backpressure, snapshot: Callable[[], SnapshotTaken]
    ) -> None:
        """Answer requests from now on, about ``work``. ``snapshot`` commits with a snapshot."""
        self._backpressure = backpressure
        self._snapshot = snapshot
        # A commit waits for the database. Everything has been drained, so the caller need not wait, too.
        self._io.while_waiting = lambda: self.questions.answer(state)

    def rest(self) -> None:
        """Answer no longer what only a process can answer that leads."""
        self._backpressure = None
        self._snapshot = None
        self._io.while_waiting = lambda: None

    def why_not(self, relation: str) -> SilenceExplanation:
        """Return why ``relation`` (its catalog name) is silent.

        Raises:
          UnknownRelationError: the pipeline has no such relation.
          TransientError: the main loop did not finish a turn in time.
        """
        from rowtide.runtime.inspect.why_not import answer, not_running

        context, board = self._io.context, self._io.board
        self._refuse_unknown(relation)
        nodes, shown = dict(context.plan.relations), board.status()
        pressure = self._backpressure
        if pressure is None or shown.phase in ("starting", "recovering", "following", "stopping"):
            return not_running(context.name, relation, shown.phase, shown.waits_for)
        return self.questions.ask(
            lambda work: answer(
                context.name,
                relation,
                work.flow.why_not(relation, nodes.get(relation)),
                self._facts(work, pressure),
            )
        )

    def held_back(self, state: PipelineState) -> tuple[HoldingPartition, ...]:
        """Return what holds rows back in the running pipeline. Called by its main thread."""
        from rowtide.runtime.inspect.holding_back import held_back

        pressure = self._backpressure
        if pressure is None:
            return ()
        graph = self._io.progress.layout_of(state).graph
        return held_back(state.flow.enquiry(), graph, self._facts(state, pressure))

    def _facts(self, state: PipelineState, pressure: Backpressure) -> Facts:
        context, io = self._io.context, self._io
        facts = gathered(
            state,
            context.plan,
            TopicNames(context.sources),
            io.board,
            pressure.paused,
            io.partitions,
            io.poll_intervals_ms(),
        )
        return replace(facts, now_ms=context.clock.now_ms())

    def snapshot(self) -> SnapshotTaken:
        """Commit now, with a snapshot.

        Raises:
          TransientError: the pipeline does not run yet, or did not finish a turn in time.
        """
        take = self._snapshot
        if take is None:
            context = self._io.context
            raise TransientError(
                f'pipeline "{context.name}" is {self._io.board.status().phase}',
                hint="Try again when it runs.",
            )
        return self.questions.ask(lambda _work: take())

    def execute(self, text: str, wait: bool) -> StatementAnswer:
        """Send a statement to the pipeline, and return its outcome; without ``wait`` it is queued.

        A follower queues it for the process that leads.

        Raises:
          StatementError: it is refused before it is sent.
          TransientError: the database is down.
        """
        context = self._io.context
        if context.statements is None:
            raise StatementError(
                "a pipeline on Spark executes no statements",
                hint="Run the pipeline in one process, without --runner spark, and send the statement again.",
            )
        context.statements(text)
        log = context.ledger.statements()
        statement = log.send(text)
        self._io.statement_sent.set()
        return StatementAnswer(outcome_of(log, statement, context.clock, PATIENCE_S if wait else 0.0))

    def refuse_resubmission(self) -> None:
        """Refuse to resubmit error rows if this process does not read them.

        Raises:
          StatementError: the pipeline runs on Spark.
        """
        if not self._passes_rows:
            raise StatementError(
                "a pipeline on Spark reads no error rows again, and Spark does not continue one that has read some",
                hint=IN_ONE_PROCESS,
            )

    def follow(self, question: Question) -> Follower:
        """Start a query that follows the running pipeline, or reads its present contents once.

        Raises:
          StatementError: the query has too many steps, it cannot start at the present state, or the pipeline runs
            on Spark.
          TransientError: the pipeline does not run, or the main loop did not finish a turn in time.
        """
        refuse_heavy(question)
        committed = CommittedTables.of(self._io.context.plan, question.node)
        if question.is_committed:
            return Follower(question, Flow({}, {}), {}, committed)
        if not self._passes_rows:
            raise StatementError(
                "a pipeline on Spark answers no queries of its streams: their rows do not pass through the service",
                hint="Query the foreign tables that it writes.",
            )
        return self.questions.ask(
            lambda work: work.followers.add(question, work.flow, list(work.positions), committed)
        )

    def latest_rows(self, relation: str, limit: int) -> LatestRows:
        """Return at most ``limit`` of the last rows that ``relation`` (its catalog name) has given in this process.

        Raises:
          UnknownRelationError: the pipeline has no such relation.
          StatementError: the relation does not run, or the pipeline runs on Spark.
          TransientError: the main loop did not finish a turn in time.
        """
        self._refuse_unknown(relation)
        if not self._passes_rows:
            raise StatementError(
                "a pipeline on Spark keeps no rows here: they do not pass through the service",
                hint="Query the foreign tables that it writes.",
            )

        def answer(state: PipelineState) -> LatestRows:
            if state.latest is None or relation not in state.latest:
                raise self._not_running(relation)
            return latest_rows(state.latest, relation, limit)

        return self.questions.ask(answer)

    def contents(self, relation: str, limit: int, after: int = 0) -> TableContents:
        """Return at most ``limit`` of the current rows of an engine table, those after the first ``after``.

        Raises:
          UnknownRelationError: the table does not exist.
          TransientError: the main loop did not finish a turn in time.
        """
        return self.questions.ask(lambda work: table_contents(work.flow, relation, limit, after))

    def _refuse_unknown(self, relation: str) -> None:
        context = self._io.context
        known = (*(name for name, _ in context.plan.relations), *(each.name for each in context.plan.targets))
        if relation not in known:
            raise UnknownRelationError(
                f'relation "{relation}" does not exist in pipeline "{context.name}"',
                hint="Write the name as in the catalog: upper case unless quoted.",
            )

    def _not_running(self, relation: str) -> StatementError:
        queries = (each.query for each in self._io.context.plan.definitions if each.name == relation)
        query = next(queries, None)
        return StatementError(
            f'"{relation}" has given no rows: no started pump of the pipeline reads or writes it',
            hint="Start a pump." if query is None else f"Query it, which computes its rows: {query}",
        )
