"""Questions about an output row, and their answers (``runtime.inspect.why``), as the API has them, too."""

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
class InputAnswer:
    """A message that the row was made of. ``topic`` is null for a row of the pipeline's own INSERT."""

    relation: str
    topic: str | None
    partition: int
    offset: int
    rowtime: int | None
    row: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class MadeOfAnswer:
    """The number of the inputs of a row at an operator; ``offsets`` are the first and last, by partition."""

    relation: str
    operator: str
    rowtime: int | None
    row: Mapping[str, object]
    rows: int
    offsets: tuple[Mapping[str, object], ...]
    """Empty if the inputs are not rows of messages."""
    note: str | None


@dataclass(frozen=True, slots=True)
class ReleaseAnswer:
    """A bound of a partition that the row waited for, and its origin ``by``, at ``offset``."""

    relation: str
    topic: str | None
    partition: int
    clock: str
    """The relation in whose time the bound is."""
    needs: int
    by: str | None
    """ROW, BOUND (a bound record), the kind of a decision, or None if it is not known."""
    offset: int | None


@dataclass(frozen=True, slots=True)
class ExplanationAnswer:
    """Where a row comes from; times are in milliseconds. ``path`` leads from the row back to its messages.

    ``since`` is set if the log no longer reaches back to the first offsets of the pipeline.
    """

    pipeline: str
    relation: str
    row: Mapping[str, object]
    rowtime: int | None
    matching: int
    path: tuple[str, ...]
    made_of: tuple[MadeOfAnswer, ...]
    inputs: tuple[InputAnswer, ...]
    releases: tuple[ReleaseAnswer, ...]
    decisions: tuple[Mapping[str, object], ...]
    messages_read: int
    notes: tuple[str, ...]
    since: tuple[Mapping[str, object], ...]
    """Rows before these positions are in the state and cannot be distinguished."""

    def to_json(self) -> dict[str, object]:
        """Return it as plain values; partitions have their numbers in their topics."""
        found = asdict(self)
        parts = [*found["inputs"], *found["releases"], *found["decisions"], *found["since"]]
        for each in (*parts, *(offsets for made in found["made_of"] for offsets in made["offsets"])):
            each["partition"] = place_of(each.get("topic") or "", each["partition"])[1]
        return found
