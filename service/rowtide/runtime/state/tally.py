"""The summary of a run, for its final output, its log and the status page.

It counts commits of this process: messages whose positions it committed, rows
that it wrote, and error rows. A recovery counts nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rowtide.checkpoint.ledger import ErrorRow
from rowtide.runtime.state.pipeline_state import CommitBatch, PipelineState


@dataclass(frozen=True, slots=True)
class RunSummary:
    """Rows by table and by relation; ``held`` wait for output, ``created`` are tables that were missing."""

    read: int = 0
    held: int = 0
    written: Mapping[str, int] = field(default_factory=dict)
    late: Mapping[str, int] = field(default_factory=dict)
    rejected: Mapping[str, int] = field(default_factory=dict)
    created: Sequence[str] = ()

    def fields(self) -> dict[str, object]:
        """Return it as plain values, for logs and JSON."""
        return {
            "read": self.read,
            "written": dict(self.written),
            "held": self.held,
            "late": dict(self.late),
            "rejected": dict(self.rejected),
            "created_tables": list(self.created),
        }

    def lines(self, file: str) -> list[str]:
        """Return it as text: the counts, and the commands for details. ``file`` is the pipeline's."""
        parts = [f"read {_counted(self.read, 'message')}"]
        parts += [f"wrote {_counted(rows, 'row')} to {table}" for table, rows in self.written.items()]
        parts.append(f"held {_counted(self.held, 'row')}")
        parts += [f"{_counted(rows, 'row')} of {relation} late" for relation, rows in self.late.items()]
        parts += [
            f"{_counted(rows, 'row')} of {relation} rejected" for relation, rows in self.rejected.items()
        ]
        lines = []
        if self.created:
            lines.append(f"created {', '.join(self.created)}")
        lines.append("; ".join(parts))
        if self.late or self.rejected:
            lines.append(f"`rowtide errors list {file}` shows the late and rejected rows.")
        if self.held:
            table = next((table for table, rows in self.written.items() if not rows), "TABLE")
            lines.append(
                "Held rows wait for later rowtimes: while the pipeline runs, "
                f"`rowtide explain {file} --why-not {table}` says for which."
            )
        return lines


class Tally:
    """Counts the commits of one run. Owned by its main thread. ``work`` is the recovered state of the run."""

    def __init__(self, state: PipelineState, created: Sequence[str]) -> None:
        self._done = {name: output.account.done for name, output in state.outputs.items()}
        self._created = created
        self._read = 0
        self._errors: Counter[tuple[str, str]] = Counter()

    def committed(self, batch: CommitBatch, errors: Sequence[ErrorRow]) -> None:
        """Count a commit."""
        self._read += batch.messages
        self._errors.update((row.kind, row.relation) for row in errors)

    def summary(self, state: PipelineState, held: int) -> RunSummary:
        """Return the counts up to the last commit. ``held`` are the rows that its flow held then."""
        return RunSummary(
            self._read,
            held,
            {name: output.account.done - self._done[name] for name, output in sorted(state.outputs.items())},
            self._of("LATE"),
            self._of("REJECTED"),
            self._created,
        )

    def _of(self, wanted: str) -> dict[str, int]:
        return {relation: rows for (kind, relation), rows in sorted(self._errors.items()) if kind == wanted}


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
