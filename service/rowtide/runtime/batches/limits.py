"""What live processing on Spark does not do: refused at the start, or said when it comes."""

from __future__ import annotations

from collections.abc import Iterable

import structlog

from rowtide.checkpoint.ledger import Ledger, PartitionId, Record, is_resubmission
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


def refuse_resubmitted(pipeline: str, places: Iterable[PartitionId]) -> None:
    """Refuse positions with resubmitted error rows, which Spark's tasks cannot lead past readers.

    Raises:
      StatementError: there are some.
    """
    if any(map(is_resubmission, places)):
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


class WaitingInputs:
    """Says of resubmissions and statements that they wait for a service of one process."""

    def __init__(self, io: PipelineIO) -> None:
        self._io = io
        self._said: set[tuple[str, int]] = set()
        self._ask_again = 0.0

    def say(self) -> None:
        """Log those that were not there at the last call; asks the database from time to time."""
        context = self._io.context
        if context.clock.monotonic() < self._ask_again:
            return
        self._ask_again = context.clock.monotonic() + LOOK_UP_S
        for each in self._io.database.call(context.ledger.resubmissions):
            if self._is_new("errors_wait", each.number):
                _log.warning(
                    "errors_wait",
                    number=each.number,
                    stream=each.stream,
                    relation=each.relation,
                    hint="Resubmitted rows enter when the pipeline runs in one process, without --runner spark.",
                )
        for sent in self._io.database.call(context.ledger.statements().queued):
            if self._is_new("statements_wait", sent.statement_id):
                _log.warning(
                    "statements_wait",
                    statement=sent.statement_id,
                    hint="Statements are executed when the pipeline runs in one process, without --runner spark.",
                )

    def _is_new(self, event: str, number: int) -> bool:
        is_new = (event, number) not in self._said
        self._said.add((event, number))
        return is_new
