"""The newest snapshot, read once for a start that needs it before and after it takes the epoch."""

from __future__ import annotations

from collections.abc import Sequence

from rowtide.checkpoint.ledger import KeptSnapshot, Ledger, SnapshotEntry


class NewestSnapshot:
    """Returns the newest snapshot. A snapshot may be large, so it is read again only if there is a newer one.

    The list of stored snapshots is read every time: until the epoch is taken another process may
    store one, and a person may drop them at any time.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._stored: Sequence[SnapshotEntry] | None = None
        self._read: KeptSnapshot | None = None

    def look(self) -> KeptSnapshot | None:
        """Return the newest snapshot that this version can read, and keep it for ``take``.

        Raises:
          UnavailableError and others: as the ledger. The next call reads again.
        """
        # Read before the snapshot: one that is stored in between shows as a change in the next call.
        stored = self._ledger.snapshots()
        if self._stored is None or list(stored) != list(self._stored):
            self._stored = None
            self._read = self._ledger.newest_snapshot()
            self._stored = stored
        return self._read

    def take(self) -> KeptSnapshot | None:
        """Return the newest snapshot, and keep nothing."""
        found = self.look()
        self._stored = self._read = None
        return found
