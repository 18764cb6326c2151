"""Executes the statements that are sent to a running pipeline (docs/decisions/0022).

They are executed between two turns, over the present rows of the tables. What they change becomes part of the
flow at once, with a rowtime after everything that has met the tables, and the next commit logs it. A statement
that fails changes nothing, and the commit records its error.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from rowtide.checkpoint.statement_log import SentText, Settled, StatementChange
from rowtide.errors import StatementError
from rowtide.flow.table_changes import changes_of, not_kept
from rowtide.rows.rowop import Row
from rowtide.rowtime.bound import EARLIEST
from rowtide.runtime.pipeline_io import PipelineIO
from rowtide.runtime.state.pipeline_state import PipelineState
from rowtide.sql.sent_statements import SentStatements

LOOK_UP_S = 0.5
"""Interval of look-ups for new statements. Those that this process accepts itself do not wait for it."""

_log = structlog.get_logger("rowtide")


class StatementDesk:
    """Executes queued statements on ``work``. Called by its thread.

    Args:
      io: the queue, and what notices new statements.
      work: the pipeline.
      resolve: resolves the names of a text; None: this process executes none.
    """

    def __init__(
        self, io: PipelineIO, state: PipelineState, resolve: Callable[[str], SentStatements] | None
    ) -> None:
        self._io = io
        self._work = state
        self._resolve = resolve
        self._look_again = 0.0

    def work_off(self) -> None:
        """Execute the statements that were sent since the last call."""
        clock = self._io.context.clock
        is_noticed = self._io.statement_sent.is_set()
        if self._resolve is None or (clock.monotonic() < self._look_again and not is_noticed):
            return
        if self._work.is_awaited:
            # Those that were executed are in the queue until the next commit.
            return
        self._look_again = clock.monotonic() + LOOK_UP_S
        self._io.statement_sent.clear()
        queued = self._io.database.call(self._io.context.ledger.statements().queued)
        if queued:
            # Rows of the pipeline's own INSERT statements may not have been processed yet.
            self._work.drain()
        for each in queued:
            settled = self._settled(each, self._resolve)
            self._work.settle(settled)
            logged = settled.logged
            # Neither its text nor its error: they may have values of rows.
            _log.info(
                "statement_refused" if logged is None else "statement_applied",
                statement=each.statement_id,
                rows=settled.rows,
                rowtime_ms=None if logged is None or logged.rowtime == EARLIEST else logged.rowtime,
            )

    def _settled(self, sent: SentText, resolve: Callable[[str], SentStatements]) -> Settled:
        flow = self._work.flow

        def rows(table: str) -> list[Row]:
            try:
                return [timed.row for timed in flow.table(table).rows()]
            except KeyError as error:
                raise not_kept(table) from error

        try:
            statements = resolve(sent.text)
            rowtime = flow.earliest_change(statements.targets)
            done = statements.execute(rows)
        except StatementError as error:
            return Settled(sent.statement_id, error=error.render())
        except Exception as error:  # noqa: BLE001 - the sender gets it, and the log has its traceback
            # The next process would fail in the same way, and so on: the statement ends, not the pipeline.
            _log.exception("statement_failed", statement=sent.statement_id)
            return Settled(sent.statement_id, error=f"error: the statement failed: {error!r}")
        changes = {
            table: changes_of(change.row_type, change.deleted, change.inserted).to_arrow()
            for table, change in done.changes.items()
            if change.deleted or change.inserted
        }
        logged = StatementChange(flow.last_statement.number + 1, rowtime, changes)
        return Settled(sent.statement_id, logged, sum(done.counts), "\n".join(done.did))
