"""A snapshot with state in parts, for one process: the parts of a step are read and merged when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from rowtide.checkpoint.ledger import KeptSnapshot, SnapshotEntry
from rowtide.checkpoint.parts.files import FileParts
from rowtide.checkpoint.parts.kept import KeptPart, all_of, parts_in
from rowtide.checkpoint.parts.store import IN_DATABASE, PartStore
from rowtide.checkpoint.snapshot import PARTS
from rowtide.errors import ReplacedSnapshotError, StatementError, UnusablePartError
from rowtide.operators.contract import State
from rowtide_connectors.api import Database


def store_at(where: str, database: Database) -> PartStore:
    """Return the store at a place that a snapshot of ``database`` names."""
    if where != IN_DATABASE:
        return FileParts(where)
    from rowtide.checkpoint.parts.in_database import DatabaseParts

    return DatabaseParts(database)


@dataclass(frozen=True, slots=True)
class Needed:
    """The memory that the state in parts of a snapshot needs in one process, in bytes.

    ``all`` is that of all of it, and ``largest`` that of the step with the most, which is there twice while its parts
    are merged.
    """

    all: int
    largest: int
    step: str

    @property
    def most(self) -> int:
        """The most that is needed at once."""
        return self.all + self.largest


class GatheredState(Mapping[str, State]):
    """The state of a snapshot, step by step, with the state of each as one operator has it.

    What it returns is not kept, so a caller that takes the steps one after the other holds one twice at most.

    Args:
      kept: the state in the snapshot.
      database: that of the checkpoint.
      is_stored: returns whether the snapshot is still stored. Newer ones take its place at any time, and the blobs
        that only it names are removed then.
      available: returns the memory that this process can still take (bytes); None: it is not known.
    """

    def __init__(
        self,
        kept: Mapping[str, State],
        database: Database,
        is_stored: Callable[[], bool],
        available: Callable[[], int | None] | None = None,
    ) -> None:
        self.kept = kept
        self._database = database
        self._is_stored = is_stored
        self._available = available or available_bytes
        self._fits = False

    def __getitem__(self, step: str) -> State:
        """Return the state of a step.

        Raises:
          StatementError: the state in parts is larger than the memory, or a part is missing or damaged.
          TransientError: a store cannot be reached, or newer snapshots have taken the place of this one.
        """
        state = self.kept[step]
        parts = parts_in(state)
        if not parts:
            return state
        self._check_fits()
        try:
            return all_of(state, store_at(parts[0].where, self._database))
        except UnusablePartError as error:
            if self._is_stored():
                raise
            raise ReplacedSnapshotError(
                "newer snapshots have taken the place of the one that was being read",
                hint="Try again: the newest one is read then.",
            ) from error

    def __contains__(self, step: object) -> bool:
        return step in self.kept

    def __iter__(self) -> Iterator[str]:
        return iter(self.kept)

    def __len__(self) -> int:
        return len(self.kept)

    def parts(self) -> dict[str, list[KeptPart]]:
        """Return the parts of the steps that have some."""
        return {step: parts for step, state in self.kept.items() if (parts := parts_in(state))}

    def needed(self) -> Needed:
        """Return the memory that its parts need. There are some."""
        sizes = {step: sum(each.memory for each in parts) for step, parts in self.parts().items()}
        step = max(sizes, key=sizes.__getitem__)
        return Needed(sum(sizes.values()), sizes[step], step)

    def _check_fits(self) -> None:
        """Refuse a state that does not fit, before any part is read."""
        if self._fits:
            return
        available, needed = self._available(), self.needed()
        if available is not None and needed.most > available:
            raise StatementError(
                f"the state of the pipeline does not fit the memory of one process: it is {_shown(needed.all)}, of "
                f'which "{needed.step}" is {_shown(needed.largest)} and needs that twice while it is read; '
                f"{_shown(available)} are free",
                hint="Add memory for the process, or let Spark continue: rowtide backfill --from watermark.",
            )
        self._fits = True


def gathered(
    found: KeptSnapshot | None, database: Database, stored: Callable[[], Iterable[SnapshotEntry]]
) -> KeptSnapshot | None:
    """Return a snapshot that was read from ``database``, with its state in parts gathered when it is asked for.

    ``stored`` lists the stored snapshots.
    """
    if found is None or not any(PARTS in state for state in found.state.values()):
        return found

    commits = found.commits

    def is_stored() -> bool:
        return any(each.commits == commits for each in stored())

    return replace(found, state=GatheredState(found.state, database, is_stored))


def is_in_parts(state: Mapping[str, State]) -> bool:
    """Return whether the state of a snapshot that was read is in parts."""
    return isinstance(state, GatheredState)


def refuse_other_store(state: Mapping[str, State], store: PartStore) -> None:
    """Refuse a state with parts in another store than the one in which tasks keep them from now on.

    Raises:
      StatementError: naming both.
    """
    places = {part.where for held in kept_of(state).values() for part in parts_in(held)} - {store.where}
    if places:
        raise StatementError(
            f'the state is in parts at "{min(places)}", and checkpoint.parts is "{store.where}"',
            hint=f'Set checkpoint.parts to "{min(places)}", or remove it: then the driver collects the state.',
        )


def kept_of(state: Mapping[str, State]) -> Mapping[str, State]:
    """Return the state as the snapshot has it: of a step in parts, their names."""
    return state.kept if isinstance(state, GatheredState) else state


def available_bytes() -> int | None:
    """Return the memory that is free for this process (bytes), or None where that is not known.

    Within a container that is what its limit leaves.
    """
    found = []
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        found += [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")]
    except OSError:
        return None
    group = Path("/sys/fs/cgroup")
    try:
        limit, used = (
            (group / name).read_text(encoding="ascii") for name in ("memory.max", "memory.current")
        )
        found += [] if limit.strip() == "max" else [max(int(limit) - int(used), 0)]
    except OSError:
        # Not in a container, or of the first version of control groups.
        pass
    return min(found, default=None)


def _shown(size: int) -> str:
    return f"{size / 1_000_000_000:,.1f} GB" if size >= 1_000_000_000 else f"{size / 1_000_000:,.1f} MB"
