"""The newest snapshot, read once for a start that looks at it before and after it takes the epoch."""

from __future__ import annotations

from collections.abc import Sequence

from rowtide.checkpoint.ledger import KeptSnapshot, Ledger, SnapshotEntry


class NewestSnapshot:
    """Gives the newest snapshot; a snapshot may be large, so it is read again only if there is another.

    Which snapshots are stored is asked every time: until the epoch is taken another process may store
    one, and a person may drop them at any time.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._stored: Sequence[SnapshotEntry] | None = None
        self._read: KeptSnapshot | None = None

    def look(self) -> KeptSnapshot | None:
        """Return the newest snapshot that this version can read, and keep it for ``take``.

        Raises:
          UnavailableError and others: as the ledger; the next call asks again.
        """
        # Asked before it is read: one that is stored in between shows as a change at the next look.
        stored = self._ledger.snapshots()
        if self._stored is None or list(stored) != list(self._stored):
            self._stored = None
            self._read = self._ledger.newest_snapshot()
            self._stored = stored
        return self._read

    def take(self) -> KeptSnapshot | None:
        """Return the same, and keep nothing."""
        found = self.look()
        self._stored = self._read = None
        return found
