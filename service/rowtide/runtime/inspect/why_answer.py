"""Questions about an output row, and their answers (``runtime.inspect.why``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from rowtide_connectors.several import place_of


@dataclass(frozen=True, slots=True)
class RowQuestion:
    """The row in question: values by field, and its rowtime (ms) if known."""

    values: Mapping[int, object]
    rowtime: int | None = None


@dataclass(frozen=True, slots=True)
class Input:
    """One message that a row was made of. ``topic`` is None for a row of the pipeline's own INSERT."""

    relation: str
    topic: str | None
    partition: int
    offset: int
    rowtime: int | None
    row: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class MadeOf:
    """The inputs of a row at an operator: their number, and some of them in ``inputs``.

    ``offsets`` are the first and last of their messages, by partition, if they are rows of messages.
    """

    relation: str
    operator: str
    rowtime: int | None
    row: Mapping[str, object]
    rows: int
    offsets: tuple[Mapping[str, object], ...] = ()
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Release:
    """A bound that the row waited for: of a partition, in the time of ``clock``; and its origin.

    ``by`` is ROW, BOUND (a bound record), the kind of a decision, or None if it is not known. It took
    effect at ``offset``.
    """

    relation: str
    topic: str | None
    partition: int
    clock: str
    needs: int
    by: str | None
    offset: int | None


@dataclass(frozen=True, slots=True)
class RowExplanation:
    """The explanation of a row. ``path`` are the operators from the row back to its messages.

    ``since`` is set if the log no longer reaches back to the first offsets of the pipeline: rows before
    these positions are in the state and cannot be distinguished.
    """

    pipeline: str
    relation: str
    row: Mapping[str, object]
    rowtime: int | None
    matching: int
    path: tuple[str, ...]
    made_of: tuple[MadeOf, ...]
    inputs: tuple[Input, ...]
    releases: tuple[Release, ...]
    decisions: tuple[Mapping[str, object], ...]
    messages_read: int
    notes: tuple[str, ...] = ()
    since: tuple[Mapping[str, object], ...] = ()

    def to_json(self) -> dict[str, object]:
        """Return it as plain values; partitions have their numbers in their topics."""
        found = asdict(self)
        parts = [*found["inputs"], *found["releases"], *found["decisions"], *found["since"]]
        for each in (*parts, *(offsets for made in found["made_of"] for offsets in made["offsets"])):
            each["partition"] = place_of(each.get("topic") or "", each["partition"])[1]
        return found
