"""Faults of the flow as rows of the error stream, with raw bytes, topic, partition and offset.

A fault names the row it came from by origin and counter. Where that is still a
message's row, the message is found again: among those read since the last
commit, else by fetching its offset from the source.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec
import numpy as np

from rowtide.checkpoint.ledger import ErrorRow, Place
from rowtide.flow.flow import in_input_order
from rowtide.operators.contract import Fault
from rowtide.rows.rowop import Row
from rowtide_connectors.api import Messages


class RecentMessages:
    """The messages read since the last commit, to find raw bytes in; owned by one thread."""

    def __init__(self) -> None:
        self._held: dict[Place, list[Messages]] = {}

    def add(self, relation: str, messages: Messages) -> None:
        """Keep messages until ``forget``."""
        self._held.setdefault((relation, messages.partition), []).append(messages)

    def find(self, place: Place, offset: int) -> Messages | None:
        """Give the messages among which ``offset`` is."""
        for messages in self._held.get(place, ()):
            if len(messages.offsets) and messages.offsets[0] <= offset <= messages.offsets[-1]:
                return messages
        return None

    def forget(self) -> None:
        """Keep none: they are committed, and what is held of them can be fetched again."""
        self._held.clear()


def error_rows(
    faults: Sequence[Fault],
    *,
    source_of: Callable[[int], Place | None],
    topics: Mapping[str, str],
    recent: RecentMessages,
    fetch: Callable[[Place, Sequence[int]], Mapping[int, bytes | None]],
) -> list[ErrorRow]:
    """Make the error rows of one commit, in the order of their input rows within each partition.

    Args:
      faults: all faults since the last commit.
      source_of: gives the partition of an origin.
      topics: gives the topic of each foreign stream.
      recent: the messages since the last commit.
      fetch: gives raw values by offset; called once a partition that has older ones.
    """
    ordered = in_input_order(faults)
    places = [_message_place(source_of(fault.origin), topics) for fault in ordered]
    older: dict[Place, set[int]] = {}
    for fault, place in zip(ordered, places, strict=True):
        if place is not None and recent.find(place, fault.counter) is None:
            older.setdefault(place, set()).add(fault.counter)
    fetched = {place: fetch(place, sorted(offsets)) for place, offsets in older.items()}
    rows = []
    for fault, place in zip(ordered, places, strict=True):
        rows.append(
            ErrorRow(
                kind=fault.kind,
                relation=fault.relation,
                reason=f"{fault.reason}: {fault.message}" if fault.message else str(fault.reason),
                topic=None if place is None else topics[place[0]],
                partition=None if place is None else place[1],
                offset=None if place is None else fault.counter,
                rowtime=fault.rowtime,
                bound=fault.bound,
                raw=None if place is None else _raw(place, fault.counter, recent, fetched),
                row=None if fault.row is None else _as_json(fault.row),
            )
        )
    return rows


def _as_json(row: Row) -> str:
    """Give a row in row form as a JSON array; what JSON has no form for as text, binary in base64."""
    return msgspec.json.encode(row).decode()


def _message_place(place: Place | None, topics: Mapping[str, str]) -> Place | None:
    """Give the place of a row that came from a message: its relation has a topic."""
    return place if place is not None and place[0] in topics else None


def _raw(
    place: Place, offset: int, recent: RecentMessages, fetched: Mapping[Place, Mapping[int, bytes | None]]
) -> bytes | None:
    messages = recent.find(place, offset)
    if messages is None:
        return fetched.get(place, {}).get(offset)
    index = int(np.searchsorted(messages.offsets, offset))
    return messages.values[index]
