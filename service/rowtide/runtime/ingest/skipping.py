"""Skips one message that stops the pipeline at every start, as the last resort.

The skip is a decision: it is committed under its own epoch, so that no
running process commits the message, and every start, recovery and replay
obeys it. A skipped message is not decoded. It is an error row (SKIPPED) with
its bytes, so law 4 holds. Only messages that are not committed yet can be
skipped: no output is retracted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rowtide.checkpoint.ledger import SKIP, Decision, Ledger, Record, is_resubmission
from rowtide.errors import StatementError
from rowtide.runtime.ingest.intake import check_identity
from rowtide_connectors.api import TopicSource

Skipped = Mapping[str, Mapping[int, frozenset[int]]]
"""The offsets to skip, by foreign stream and partition."""


def skipped_of(decisions: Iterable[Decision]) -> Skipped:
    """Return the offsets that committed decisions skip."""
    found: dict[str, dict[int, frozenset[int]]] = {}
    for each in decisions:
        if each.kind == SKIP:
            partitions = found.setdefault(each.relation, {})
            partitions[each.partition] = partitions.get(each.partition, frozenset()) | {each.next_offset}
    return found


def skip(
    pipeline: str,
    ledger: Ledger,
    sources: Mapping[str, TopicSource],
    relation: str,
    partition: int,
    offset: int,
    holder: str,
) -> int:
    """Commit the skip of the message at ``offset``; return the epoch that was taken for it.

    Raises:
      StatementError: the message does not exist or is already committed; nothing has changed.
      UnavailableError: the database or the broker is down.
    """
    where = f'"{relation}" partition {partition}'
    if ledger.read() is None:
        raise _nothing_committed(pipeline)
    source = sources.get(relation)
    if source is None:
        raise StatementError(
            f'no pump of pipeline "{pipeline}" reads a foreign stream "{relation}"',
            hint="`rowtide positions` shows the streams, partitions and positions.",
        )
    ranges = source.ranges()
    if partition in ranges and offset >= ranges[partition].end:
        raise StatementError(
            f"offset {offset} of {where} is not in the log: it ends at {ranges[partition].end}",
            hint="Only a message that is there can be skipped.",
        )

    def decide(record: Record) -> list[Decision]:
        held = [each for each in record.partition_positions if not is_resubmission(each.place)]
        if not held:
            raise _nothing_committed(pipeline)
        found = next((each for each in held if each.place == (relation, partition)), None)
        if found is None:
            raise StatementError(
                f'pipeline "{pipeline}" has no committed position of {where}',
                hint="`rowtide positions` shows the streams, partitions and positions.",
            )
        check_identity(source, found.topic_id)
        if offset < found.next_offset:
            raise StatementError(
                f"offset {offset} of {where} is committed: the position is {found.next_offset}",
                hint="Only a message from the position on can be skipped.",
            )
        return [Decision(SKIP, relation, partition, offset, None)]

    return ledger.decide(holder, decide).epoch


def _nothing_committed(pipeline: str) -> StatementError:
    return StatementError(
        f'pipeline "{pipeline}" has committed nothing yet, so its position is unknown',
        hint="Start it with `rowtide run`.",
    )
