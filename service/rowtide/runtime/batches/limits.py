"""What live processing on Spark does not do: refused at the start, or said when it comes."""

from __future__ import annotations

import structlog

from rowtide.checkpoint.ledger import Ledger, Record
from rowtide.errors import StatementError
from rowtide.plan.plan import Plan
from rowtide.runtime.ingest.intake import LOOK_UP_S
from rowtide.runtime.pipeline_io import PipelineIO

_log = structlog.get_logger("rowtide")

_ONE_PROCESS = "Run the pipeline in one process, without --runner spark."


def refuse_plan(plan: Plan) -> None:
    """Refuse a plan that reads something other than Kafka, or writes to topics.

    Raises:
      StatementError: naming the streams.
    """
    wrappers = {server.name: server.wrapper for server in plan.servers}
    for stream in plan.foreign_streams:
        if (wrapper := wrappers[stream.server].upper()) != "KAFKA":
            raise StatementError(
                f'on Spark a pipeline reads Kafka only, and "{stream.name}" is read through {wrapper}',
                hint=_ONE_PROCESS,
            )
    if plan.written_streams:
        named = ", ".join(f'"{stream.name}"' for stream in plan.written_streams)
        raise StatementError(
            f"on Spark a pipeline writes to tables only, and pumps write to foreign streams: {named}",
            hint=_ONE_PROCESS,
        )


def refuse_resubmitted(pipeline: str, ledger: Ledger) -> None:
    """Refuse resubmitted error rows, read or not: Spark's tasks cannot lead them past readers.

    Raises:
      StatementError: there are some.
    """
    if ledger.resubmissions():
        raise StatementError(
            f'pipeline "{pipeline}" has resubmitted error rows: Spark cannot continue it', hint=_ONE_PROCESS
        )


def refuse_statements(pipeline: str, ledger: Ledger, record: Record) -> None:
    """Refuse tables that statements have changed, as a backfill does.

    Raises:
      StatementError: there are some.
    """
    if ledger.statements().applied(0, record.commits):
        raise StatementError(
            f'statements have changed tables of pipeline "{pipeline}": Spark cannot continue it',
            hint=_ONE_PROCESS,
        )


class WaitingStatements:
    """Says of statements that they wait for a service of one process."""

    def __init__(self, io: PipelineIO) -> None:
        self._io = io
        self._said: set[int] = set()
        self._ask_again = 0.0

    def say(self) -> None:
        """Log those that were not there at the last call; asks the database from time to time."""
        context = self._io.context
        if context.clock.monotonic() < self._ask_again:
            return
        self._ask_again = context.clock.monotonic() + LOOK_UP_S
        for sent in self._io.database.call(context.ledger.statements().queued):
            if sent.statement_id not in self._said:
                self._said.add(sent.statement_id)
                _log.warning(
                    "statements_wait",
                    statement=sent.statement_id,
                    hint="Statements are executed when the pipeline runs in one process, without --runner spark.",
                )
