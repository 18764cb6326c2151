"""Faults of the flow as rows of the error stream, with raw bytes, topic, partition and offset.

A fault names the row it came from by origin and counter. If that is still the
row of a message, the message is among those read since the last commit, or is
fetched by its offset from the source.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import cast

import msgspec
import numpy as np

from rowtide.checkpoint.ledger import ErrorRow, PartitionId, StoredError, is_resubmission
from rowtide.operators.contract import Fault
from rowtide.operators.faults import in_input_order
from rowtide.rows.rowop import Row
from rowtide.rowtime.bound import EARLIEST
from rowtide_connectors.api import Fetched, Messages
from rowtide_connectors.several import place_of


class RecentMessages:
    """The messages read since the last commit, to find raw bytes in; owned by one thread."""

    def __init__(self) -> None:
        self._held: dict[PartitionId, list[Messages]] = {}

    def add(self, relation: str, messages: Messages) -> None:
        """Keep messages until ``forget``."""
        self._held.setdefault((relation, messages.partition), []).append(messages)

    def find(self, partition: PartitionId, offset: int) -> Messages | None:
        """Return the messages that contain ``offset``."""
        for messages in self._held.get(partition, ()):
            if len(messages.offsets) and messages.offsets[0] <= offset <= messages.offsets[-1]:
                return messages
        return None

    def forget(self) -> None:
        """Drop all messages: they are committed, and can be fetched again if rows of them are still held."""
        self._held.clear()


def error_rows(
    faults: Sequence[Fault],
    *,
    source_of: Callable[[int], PartitionId | None],
    topics: Mapping[str, str],
    recent: RecentMessages,
    fetch: Callable[[PartitionId, Sequence[int]], Mapping[int, Fetched]],
    resubmitted: Callable[[PartitionId], Sequence[StoredError]] = lambda _place: (),
    named: Callable[[PartitionId, int], str | None] = lambda _place, _offset: None,
) -> list[ErrorRow]:
    """Make the error rows of one commit, in the order of their input rows within each partition.

    Args:
      faults: every fault since the last commit.
      source_of: returns the partition of an origin.
      topics: the topic of each foreign stream.
      recent: the messages since the last commit.
      fetch: returns messages by offset. Called once for each partition with older messages.
      resubmitted: returns the rows of a resubmission. A row that fails again is reported with its own
        message.
      named: returns what an offset is called where it is not clear from its number: a file and its line.
    """
    ordered = in_input_order(faults)
    places = [_message_place(source_of(fault.origin), topics) for fault in ordered]
    older: dict[PartitionId, set[int]] = {}
    for fault, place in zip(ordered, places, strict=True):
        if place is None or is_resubmission(place):
            continue
        if recent.find(place, fault.counter) is None:
            older.setdefault(place, set()).add(fault.counter)
    fetched = {place: fetch(place, sorted(offsets)) for place, offsets in older.items()}
    rows = []
    for fault, place in zip(ordered, places, strict=True):
        row = ErrorRow(
            kind=fault.kind,
            relation=fault.relation,
            reason=f"{fault.reason}: {fault.message}" if fault.message else str(fault.reason),
            topic=None,
            partition=None,
            offset=None,
            # Rows of INSERT statements in the pipeline's text have no rowtime.
            rowtime=None if fault.rowtime == EARLIEST else fault.rowtime,
            bound=fault.bound,
            raw=None,
            row=None if fault.row is None else as_json(fault.row, fault.names),
        )
        if place is None:
            rows.append(row)
        elif is_resubmission(place):
            first = resubmitted(place)[fault.counter].row
            rows.append(
                replace(
                    row,
                    topic=first.topic,
                    partition=first.partition,
                    offset=first.offset,
                    raw=first.raw,
                    stream=first.stream,
                    message_time=first.message_time,
                    key=first.key,
                    headers=first.headers,
                )
            )
        else:
            message = _message(place, fault.counter, recent, fetched)
            topic, partition = place_of(topics[place[0]], place[1])
            name = named(place, fault.counter)
            rows.append(
                replace(
                    row,
                    reason=row.reason if name is None else f"{row.reason} ({name})",
                    topic=topic,
                    partition=partition,
                    offset=fault.counter,
                    raw=None if message is None else message.value,
                    stream=place[0],
                    message_time=None if message is None else message.timestamp,
                    key=None if message is None else message.key,
                    headers=None if message is None else headers_as_json(message.headers),
                )
            )
    return rows


def error_values(stored: StoredError) -> Row:
    """Return a committed error row in the form of SYS.ERRORS (``sql.catalog.system.ERROR_ROWS``)."""
    row = stored.row
    return (
        stored.error_id,
        row.kind,
        row.relation,
        row.reason,
        row.bound,
        row.rowtime,
        row.raw,
        row.row,
        row.stream,
        row.topic,
        row.partition,
        row.offset,
        row.message_time,
        stored.resubmitted,
        stored.committed_at_ms,
    )


def as_json(row: Row, names: Sequence[str] | None) -> str:
    """Return a row in row form as JSON: an object by field, or an array if the names are not known.

    Numbers without a JSON form are text, binary is base64, times are ms.
    """
    return msgspec.json.encode(row if names is None else dict(zip(names, row, strict=True))).decode()


def _message_place(partition: PartitionId | None, topics: Mapping[str, str]) -> PartitionId | None:
    """Return the place of a row that came from a message: its relation has a topic."""
    return partition if partition is not None and partition[0] in topics else None


def _message(
    partition: PartitionId,
    offset: int,
    recent: RecentMessages,
    fetched: Mapping[PartitionId, Mapping[int, Fetched]],
) -> Fetched | None:
    messages = recent.find(partition, offset)
    if messages is None:
        return fetched.get(partition, {}).get(offset)
    index = int(np.searchsorted(messages.offsets, offset))
    headers = None if messages.headers is None else messages.headers[index]
    return Fetched(int(messages.timestamps[index]), messages.values[index], messages.keys[index], headers)


def headers_as_json(headers: Sequence[tuple[str, bytes | None]] | None) -> str | None:
    """Return headers in the form of the error stream."""
    if not headers:
        return None
    return msgspec.json.encode(list(headers)).decode()


def headers_of_json(text: str | None) -> list[tuple[str, bytes]] | None:
    """Parse the output of ``headers_as_json``."""
    if text is None:
        return None
    return cast("list[tuple[str, bytes]]", msgspec.json.decode(text, type=list[tuple[str, bytes | None]]))
