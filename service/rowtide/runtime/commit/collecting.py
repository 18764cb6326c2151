"""What becomes of state in parts that no stored snapshot names: it is removed after a commit that has stored one.

So a service also removes what a backfill has left, once it has snapshots of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import structlog

from rowtide.checkpoint.parts.store import PartStore, unnamed
from rowtide.checkpoint.snapshot import DamagedSnapshotError
from rowtide.errors import StatementError
from rowtide.runtime.retry import Retry
from rowtide.runtime.state.context import PipelineContext
from rowtide_connectors.errors import ConnectorError

NAMES_AT_ONCE = 200
"""Blobs that are removed at once: the process shows no sign of life meanwhile. If a store takes 50 ms for one, and 16
are removed at a time, these take less than a second."""
_log = structlog.get_logger("rowtide")


class UnnamedParts:
    """The blobs in the store of a pipeline that no stored snapshot names, for the process with this epoch.

    Args:
      context: the store, and the snapshots.
      epoch: that of the process.
      retry: repeats what fails because the database is down.
      beat: of a process whose tasks write parts: called between removals. None: it writes none, as a service. Then
        each call removes only some, because rows wait for it, and when all are gone none lists the store again.
    """

    def __init__(
        self, context: PipelineContext, epoch: int, retry: Retry, beat: Callable[[], None] | None
    ) -> None:
        self._store = context.parts
        self._pipeline = context.name
        self._ledger = context.ledger
        self._epoch = epoch
        self._retry = retry
        self._beat = beat
        self._folder: str | None = None

    def remove(self) -> None:
        """Remove them, if the settings name a store. What cannot be removed now is removed after a later commit."""
        if self._store is None:
            return
        try:
            found, gone = self._listed(self._store)
            for start in range(0, len(gone), NAMES_AT_ONCE):
                self._store.drop(gone[start : start + NAMES_AT_ONCE])
                if self._beat is None:
                    break
                self._beat()
        except (ConnectorError, DamagedSnapshotError, StatementError) as error:
            _log.warning("parts_not_removed", pipeline=self._pipeline, reason=str(error))
            return
        _log.debug("parts_removed", pipeline=self._pipeline, unnamed=len(gone), kept=len(found) - len(gone))
        if self._beat is None and len(found) == len(gone) <= NAMES_AT_ONCE:
            # Nothing is there any more, and nothing comes.
            self._store = None

    def _listed(self, store: PartStore) -> tuple[Sequence[str], list[str]]:
        """Return the blobs that are there, and those of them that are to be removed."""
        if self._folder is None:
            self._folder = self._retry.call(self._ledger.parts_folder)
        found = store.names(self._folder)
        if not found:
            return found, []
        # Read after the list: what is named meanwhile was not on it.
        named = self._retry.call(self._ledger.named_blobs)
        return found, unnamed(self._folder, self._epoch, named, found)
