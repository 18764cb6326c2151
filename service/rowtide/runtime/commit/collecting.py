"""What becomes of state in parts that no stored snapshot names: it is removed after a commit that has stored one.

So a service also removes what a backfill has left, once it has snapshots of its own.
"""

from __future__ import annotations

import structlog

from rowtide.checkpoint.parts.store import collect
from rowtide.checkpoint.snapshot import DamagedSnapshotError
from rowtide.errors import StatementError
from rowtide.runtime.retry import Retry
from rowtide.runtime.state.context import PipelineContext
from rowtide_connectors.errors import ConnectorError

_log = structlog.get_logger("rowtide")


class UnnamedParts:
    """The blobs in the store of a pipeline that no stored snapshot names, for the process with this epoch.

    Args:
      context: the store, and the snapshots.
      epoch: that of the process.
      retry: repeats what fails because the database is down.
    """

    def __init__(self, context: PipelineContext, epoch: int, retry: Retry) -> None:
        self._store = context.parts
        self._pipeline = context.name
        self._ledger = context.ledger
        self._epoch = epoch
        self._retry = retry

    def remove(self) -> None:
        """Remove them, if the settings name a store. What cannot be removed now is removed after a later commit."""
        if self._store is None:
            return
        try:
            folder = self._retry.call(self._ledger.parts_folder)
            found = self._store.names(folder)
            # Read after the list: what is named meanwhile was not on it.
            named = self._retry.call(self._ledger.named_blobs) if found else ()
            removed = collect(self._store, folder, self._epoch, named, found)
        except (ConnectorError, DamagedSnapshotError, StatementError) as error:
            _log.warning("parts_not_removed", pipeline=self._pipeline, reason=str(error))
        else:
            _log.debug("parts_removed", pipeline=self._pipeline, removed=removed, kept=len(found) - removed)
