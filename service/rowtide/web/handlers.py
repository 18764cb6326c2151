"""What the pages ask the running pipeline, as functions; a page whose function is missing does not exist."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rowtide.checkpoint.error_stream import ErrorFilter
from rowtide.checkpoint.ledger import SnapshotEntry, StoredDecision, StoredError
from rowtide.runtime.progress.board import ProgressBoard
from rowtide.runtime.query.contents import LatestRows, TableContents
from rowtide.runtime.resubmitting.resubmit import ResubmittedRows
from rowtide.runtime.state.following import StartedQuery
from rowtide.web.status import JsonAnswer

if TYPE_CHECKING:
    from rowtide.web.api.events import EventFeed

QueryRunner = Callable[[str, bool], StartedQuery]
"""Plans a query and starts it; the flag requests the current contents of tables once."""
StatementRunner = Callable[[str, bool], JsonAnswer]
"""Sends statements; the flag says whether to wait for their outcome."""


@dataclass(frozen=True, slots=True)
class Handlers:
    """The functions. Each may wait for the pipeline or its database, so it runs in a separate thread.

    ``progress`` and ``events`` never wait.
    """

    why_not: Callable[[str], JsonAnswer] | None = None
    """Explains why a relation (its catalog name) has no new rows."""
    why: Callable[[str, str], JsonAnswer] | None = None
    snapshot: Callable[[], JsonAnswer] | None = None
    contents: Callable[[str, int, int], TableContents] | None = None
    """Returns rows of an engine table: the greatest number of them, and how many come before."""
    latest_rows: Callable[[str, int], LatestRows] | None = None
    """Returns the last rows of a relation, and the greatest number of them."""
    query: QueryRunner | None = None
    execute: StatementRunner | None = None
    errors: Callable[[ErrorFilter, int | None], Sequence[StoredError]] | None = None
    resubmit: Callable[[ErrorFilter, bool, int], ResubmittedRows] | None = None
    """Resubmits error rows; the flag requests a dry run, the number is the most rows to look at."""
    snapshots: Callable[[], Sequence[SnapshotEntry]] | None = None
    decisions: Callable[[int, int | None], Sequence[StoredDecision]] | None = None
    """Returns the last decisions: the greatest number of them, and the number before which they are; None: all."""
    progress: ProgressBoard | None = None
    events: EventFeed | None = None
    allow_export: bool = True
    """Whether rows are also given as files for other programs."""


NO_HANDLERS = Handlers()
