"""Sends a statement to a running pipeline, and waits for its outcome."""

from __future__ import annotations

from dataclasses import dataclass

from rowtide.checkpoint.statement_log import SentText, StatementLog, StatementOutcome
from rowtide.clock import Clock
from rowtide.errors import FaultError
from rowtide.rowtime.text import time_text

LOOKS_EVERY_S = 0.05
"""Interval of looks at the outcome."""


@dataclass(frozen=True, slots=True)
class StatementAnswer:
    """A statement that was sent, with its outcome as of now."""

    sent: SentText

    def to_json(self) -> dict[str, object]:
        """Return it as plain values; times are text, UTC."""
        sent = self.sent
        return {
            "statement": sent.statement_id,
            "outcome": sent.outcome.value.lower(),
            "text": sent.text,
            "rows": sent.rows,
            "did": None if sent.did is None else sent.did.split("\n"),
            "rowtime": None if sent.rowtime is None else time_text(sent.rowtime),
            "from_the_beginning": sent.outcome is StatementOutcome.APPLIED and sent.rowtime is None,
            "error": sent.error,
            "sent_at": time_text(sent.sent_at_ms),
            "settled_at": None if sent.settled_at_ms is None else time_text(sent.settled_at_ms),
        }


def outcome_of(log: StatementLog, statement_id: int, clock: Clock, patience_s: float) -> SentText:
    """Return a statement with its outcome, or still queued after ``patience_s``."""
    until = clock.monotonic() + patience_s
    while True:
        found = log.find(statement_id)
        if found is None:
            raise FaultError(f"statement {statement_id} was dropped from the checkpoint")
        if found.outcome is not StatementOutcome.QUEUED or clock.monotonic() >= until:
            return found
        clock.sleep(LOOKS_EVERY_S)
