"""Subscribers: queries that follow a running pipeline.

Each has its own flow, which starts from the state of the pipeline's flow and
receives the same input. Its errors and its state do not affect the pipeline,
and nothing of it is committed. It ends if its reader does not keep up, or if
the partitions of the pipeline change.
"""

from __future__ import annotations

import queue
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rowtide.checkpoint.ledger import PartitionId
from rowtide.errors import BoundRegressionError, StatementError
from rowtide.flow.flow import Flow
from rowtide.operators.contract import Fault
from rowtide.plan.nodes import KeyedTable, Node, Source, TableSource, nodes_below
from rowtide.rows.rowop import TimedRow
from rowtide.rows.tray import Tray
from rowtide.rowtime.bound import Bound

RESULT = "RESULT"
"""The one output of a query's flow."""
CONTENTS = "these were all rows"
"""The reason why a query ended that reads once what is there."""
WAITING_TRAYS = 1_000
"""Maximum number of trays that wait for the reader: it has seconds to take them."""
QUERIES_AT_MOST = 8
"""Maximum number of queries. Each costs the pipeline about as much as a pump."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The reason why a query ended."""

    why: str


SubscriptionEvent = list[TimedRow] | Fault | Ended


class Follower:
    """One query. The owner of the pipeline's flow feeds it, and one thread reads it."""

    def __init__(self, node: Node, flow: Flow, partitions: Mapping[str, Sequence[int]]) -> None:
        _refuse_unread(node, flow)
        self.row_type = node.row_type
        self.is_open = True
        self._given: queue.Queue[SubscriptionEvent] = queue.Queue(WAITING_TRAYS)
        self._flow = Flow({RESULT: node}, partitions)
        self._flow.accompany(flow)
        if isinstance(node, KeyedTable):
            # The flow sends the contents of a table to its other readers.
            self._give(list(flow.table(node.relation).rows()))

    def insert(self, place: PartitionId, tray: Tray) -> None:
        """Add rows of a partition."""
        if self._flow.reads(place[0]):
            self._flow.insert(*place, tray)

    def bound(self, place: PartitionId, bound: Bound, reader: str | None = None) -> None:
        """Add the bound of a partition, unless it is for one reader of the pipeline."""
        if reader is not None or not self._flow.reads(place[0]):
            return
        try:
            self._flow.bound(*place, bound)
        except BoundRegressionError as error:
            self.end(error.message)

    def follow(self, place: PartitionId, bound: Bound) -> None:
        """Let an idle partition take a bound."""
        if self._flow.reads(place[0]):
            self._flow.follow(*place, bound)

    def drain(self) -> None:
        """Process the input. The output waits for the reader."""
        emitted = self._flow.drain()
        for tray in emitted.outputs[RESULT]:
            self._give(list(tray.rows()))
        for fault in emitted.faults:
            self._give(fault)

    def end(self, why: str) -> None:
        """Accept no more input, and report the reason to the reader."""
        self.is_open = False
        if self._given.full():
            self._given.get_nowait()
        self._given.put_nowait(Ended(why))

    def take(self, patience_s: float) -> Iterator[SubscriptionEvent]:
        """Yield the output; wait up to ``patience_s`` for the first tray."""
        try:
            yield self._given.get(timeout=patience_s)
            while True:
                yield self._given.get_nowait()
        except queue.Empty:
            return

    def _give(self, given: SubscriptionEvent) -> None:
        try:
            self._given.put_nowait(given)
        except queue.Full:
            self.end("its rows were not taken in time")


def _refuse_unread(node: Node, flow: Flow) -> None:
    """Refuse a query on a stream that the pipeline does not read.

    Raises:
      StatementError: naming the stream.
    """
    for each in nodes_below(node):
        if not isinstance(each, Source | TableSource):
            continue
        if not flow.reads(each.relation):
            if isinstance(each, TableSource) and each.loaded_once:
                # Its rows are in the query's text.
                continue
            raise StatementError(
                f'no pump of the pipeline reads "{each.relation}", so the service does not read its rows',
                hint="Leave out --service to read its topic for this query alone.",
            )
        carried = flow.source_type(each.relation).names
        missing = [name for name in each.row_type.names if name not in carried]
        if missing or each.row_type.names != carried:
            told = ", ".join(missing) or "the same columns"
            raise StatementError(
                f'the pipeline does not read {told} of "{each.relation}"',
                hint="It reads only the pseudo-columns that its own statements name.",
            )


class Followers:
    """The queries of one pipeline. Owned by the thread that owns its flow."""

    def __init__(self) -> None:
        self._held: list[Follower] = []

    def add(self, node: Node, flow: Flow, places: Sequence[PartitionId], *, once: bool = False) -> Follower:
        """Start a query at the current positions. Everything must have been drained.

        With ``once`` it reads what is there, and ends.

        Raises:
          StatementError: too many queries run, or it cannot begin here.
        """
        self._held = [each for each in self._held if each.is_open]
        if len(self._held) >= QUERIES_AT_MOST:
            raise StatementError(
                f"{QUERIES_AT_MOST} queries are subscribed already",
                hint="End one of them, or write the rows to a table with a pump.",
            )
        partitions: dict[str, list[int]] = {}
        for relation, partition in sorted(places):
            partitions.setdefault(relation, []).append(partition)
        follower = Follower(node, flow, partitions)
        follower.drain()
        if once:
            follower.end(CONTENTS)
        else:
            self._held.append(follower)
        return follower

    def insert(self, place: PartitionId, tray: Tray) -> None:
        """Add rows to all queries."""
        for each in self._open():
            each.insert(place, tray)

    def bound(self, place: PartitionId, bound: Bound, reader: str | None = None) -> None:
        """Add a bound to all queries."""
        for each in self._open():
            each.bound(place, bound, reader)

    def follow(self, place: PartitionId, bound: Bound) -> None:
        """Let an idle partition take a bound in all queries."""
        for each in self._open():
            each.follow(place, bound)

    def drain(self) -> None:
        """Let all queries process their input."""
        for each in self._open():
            try:
                each.drain()
            except Exception as error:  # noqa: BLE001 - a failing query must not stop the pipeline
                each.end(f"the query failed: {error}")

    def end(self, why: str) -> None:
        """End all queries."""
        for each in self._open():
            each.end(why)

    def _open(self) -> list[Follower]:
        return [each for each in self._held if each.is_open] if self._held else []
