"""Rows between stages: blocks in order of their first rowtime, woven together by the task that reads them.

A task writes the rows of each of its steps as blocks (``blocks``), once for each key that a later stage splits them
by, with separate blocks for each part of the keys. Spark brings the blocks of a part to its task, sorted. When a
block begins at some rowtime, no later block has rows before it: so the task processes all rows before it, and holds
only blocks that overlap.

Rows with the same cause share its place in time. ``$seq`` is their order,
whichever tasks made them: see ``numbered``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from operator import attrgetter

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rowtide.errors import FaultError
from rowtide.flow.circuit import Arrival
from rowtide.operators.merge.merge import END, Place
from rowtide.operators.merge.ranks import Ranks
from rowtide.rows.arrays import Int64s
from rowtide.rows.column import Column, arrow_type, owned
from rowtide.rows.tray import COUNTER, OPCODE, ORIGIN, ROWTIME, Tray, same_place
from rowtide.rows.types import RowType
from rowtide.rowtime.bound import LATEST, Bound
from rowtide.runners.spark.shuffle.blocks import Block, unpacked

SEQ = "$seq"
"""The order of the rows with one cause. It does not order other rows."""
SEQ_BITS = 16
"""Bits of ``$seq`` for the rows of one cause in one stage. The bits above are the row of the stage before."""
MOST_BITS, PORTS_BITS = 52, 10
"""Maximum bits of ``$seq`` after a stage, and those that ports of merges add to them."""
COUNTED_BITS = MOST_BITS - SEQ_BITS
"""Bits of ``$seq`` if one task has counted all rows: see ``is_full``."""
TIMES = ((ROWTIME, pa.int64()), (ORIGIN, pa.int32()), (COUNTER, pa.int64()), (OPCODE, pa.int8()))
BLOCK_ROWS = 16_384
"""Rows of one block, and of one input tray of a stage. Trays of about this size are fastest."""
WOVEN_BY_ONE_LOOK = 16
"""Maximum number of runs that are merged by their heads. More runs are sorted."""

Split = tuple[int, ...]
"""The fields by which rows are split; none: all rows are in part 0."""


@dataclass(frozen=True, slots=True)
class Numbered:
    """Rows with ``$seq``."""

    tray: Tray
    seq: Int64s

    def __len__(self) -> int:
        return len(self.seq)

    @classmethod
    def concat(cls, parts: Sequence[Numbered]) -> Numbered:
        """Concatenate rows; at least one part."""
        if len(parts) == 1:
            return parts[0]
        return cls(Tray.concat([each.tray for each in parts]), np.concatenate([each.seq for each in parts]))

    def slice(self, start: int, stop: int) -> Numbered:
        """Return the rows from ``start`` (inclusive) to ``stop`` (exclusive)."""
        if start == 0 and stop == len(self):
            return self
        return Numbered(self.tray.slice(start, stop), self.seq[start:stop])

    def take(self, indices: Int64s) -> Numbered:
        """Return the rows at ``indices``, in that order."""
        return Numbered(self.tray.take(indices), self.seq[indices])

    def in_time(self, ranks: Ranks) -> Numbered:
        """Return the rows in consistent time."""
        tray = self.tray
        return self.take(np.lexsort((self.seq, tray.counter, ranks.of(tray.origin), tray.rowtime)))


@dataclass(frozen=True, slots=True)
class Causes:
    """Places in time, and ``$seq``, of one input of a stage."""

    origin: NDArray[np.int32]
    counter: Int64s
    seq: Int64s

    def of(self, tray: Tray) -> Int64s:
        """Return ``$seq`` of the first row at the place of each of these; 0 without such a row."""
        found = np.zeros(len(tray), dtype=np.int64)
        for origin in np.unique(tray.origin):
            mine = np.flatnonzero(self.origin == origin)
            if len(mine):
                order = mine[np.argsort(self.counter[mine], kind="stable")]
                wanted = np.flatnonzero(tray.origin == origin)
                at = np.searchsorted(self.counter[order], tray.counter[wanted])
                at = order[np.minimum(at, len(order) - 1)]
                found[wanted] = np.where(self.counter[at] == tray.counter[wanted], self.seq[at], 0)
        return found


def numbered(tray: Tray, causes: Causes | None, *, is_one_to_one: bool = False) -> Numbered:
    """Return rows of a stage with their numbers: by the row that caused each, then in order of arrival.

    So tasks with different rows of one place agree on the order of their output rows. A stage that
    ``is_one_to_one`` makes at most one row of each, which can have its number.
    """
    count = len(tray)
    begins = np.ones(count, dtype=np.bool_)
    begins[1:] = ~same_place(tray.rowtime, tray.origin, tray.counter)
    rows = np.arange(count, dtype=np.int64)
    seq = rows - np.maximum.accumulate(np.where(begins, rows, 0))
    if causes is None:
        return Numbered(tray, seq)
    return Numbered(tray, (causes.of(tray) << (0 if is_one_to_one else SEQ_BITS)) + seq)


def row_count(pieces: Iterable[Piece]) -> int:
    """Return the number of rows in the slots of pieces."""
    return sum(each.count for each in pieces)


def is_full(pieces: Iterable[Piece]) -> bool:
    """Return whether ``$seq`` of a stage's input leaves no bits for its output.

    Then one task processes the stage and counts its rows, in the order of the live flow.
    """
    return max((piece.bits for piece in pieces), default=0) + SEQ_BITS > MOST_BITS


def bits_behind(pieces: Sequence[Piece], *, is_one_to_one: bool) -> int:
    """Return the number of bits of ``$seq`` after a stage that reads these; see ``numbered``."""
    before = max((piece.bits for piece in pieces), default=0)
    if is_one_to_one:
        return max(before, SEQ_BITS)
    return COUNTED_BITS if is_full(pieces) else before + SEQ_BITS


@dataclass(frozen=True, slots=True)
class MergeLimit:
    """The rows of one port that a merge passes: those before ``place``; see ``MergeOperator.limits``."""

    place: Place
    port: int
    ranks: Mapping[int, int]

    def passes(self, tray: Tray) -> NDArray[np.bool_]:
        """Return which rows come before the place."""
        rowtime, rank, counter = self.place
        passing = tray.rowtime < rowtime
        for at in np.flatnonzero(tray.rowtime == rowtime).tolist():
            passing[at] = (self.ranks[int(tray.origin[at])], int(tray.counter[at])) < (rank, counter)
        return passing


@dataclass(frozen=True, slots=True)
class Piece:
    """The rows of a slot as input of a stage: those that every merge on the way passes.

    ``count`` is their number in the slot, ``last`` their greatest rowtime. ``beyond`` instead takes the rows that
    wait there: see ``waiting``. ``ports`` are its ports at the merges on the way where copies of a row may meet, the
    last merge first. ``first`` is added to ``$seq``, which has ``own_bits`` in the blocks and ``bits`` then: see
    ``ranked``. ``has_seq``: the blocks have ``$seq``, else it is 0.
    """

    slot: int
    count: int = 0
    last: int = LATEST
    has_seq: bool = True
    own_bits: int = SEQ_BITS
    limits: tuple[MergeLimit, ...] = ()
    ports: tuple[int, ...] = ()
    first: int = 0
    bits: int = SEQ_BITS
    beyond: MergeLimit | None = None

    def behind(self, merge: MergeLimit, *, meets_itself: bool) -> Piece:
        """Return the rows that also pass another merge. ``meets_itself``: a row may come by several ports."""
        limits = self.limits if merge.place >= END else (*self.limits, merge)
        return replace(self, limits=limits, ports=(merge.port, *self.ports) if meets_itself else self.ports)

    def waiting(self, merge: MergeLimit) -> Piece | None:
        """Return the rows that reach another merge but do not pass it; None: there are none."""
        return replace(self, beyond=merge) if self.last >= merge.place[0] else None

    def rows(self, row_type: RowType, batch: pa.RecordBatch) -> Numbered | None:
        """Return the rows of a block that are read; None: there are none."""
        seq = np.asarray(batch.column(SEQ)) if self.has_seq else np.zeros(batch.num_rows, np.int64)
        rows = Numbered(tray_of(batch, row_type), seq + self.first if self.first else seq)
        passing = np.ones(len(rows), dtype=np.bool_)
        for limit in self.limits:
            passing &= limit.passes(rows.tray)
        if self.beyond is not None:
            passing &= ~self.beyond.passes(rows.tray)
        if passing.all():
            return rows
        return rows.take(np.flatnonzero(passing)) if passing.any() else None


def ranked(pieces: Sequence[Piece]) -> list[Piece]:
    """Return the pieces that come out of a merge with ``first`` by their ports.

    Copies of a row are in the order of the ports of the last merge, then of the ports of the merge before it
    (docs/sql/semantics.md#merge-order).

    Raises:
      FaultError: there are more paths than bits for them.
    """
    ranks = {ports: rank for rank, ports in enumerate(sorted({piece.ports for piece in pieces}))}
    below = max((piece.own_bits for piece in pieces), default=0)
    added = max(len(ranks) - 1, 0).bit_length()
    if added > PORTS_BITS:
        raise FaultError(f"a row comes to a merge in {len(ranks)} ways, {2**PORTS_BITS} are possible")
    bits = below + added
    return [replace(piece, first=ranks[piece.ports] << below, bits=bits) for piece in pieces]


def rows_schema(row_type: RowType, *, has_seq: bool) -> pa.Schema:
    """Return the schema of a block of rows; fields are named by their number."""
    fields = [pa.field(name, kind) for name, kind in TIMES]
    fields += [pa.field(f"f{index}", arrow_type(each.type)) for index, each in enumerate(row_type)]
    return pa.schema([*fields, pa.field(SEQ, pa.int64())] if has_seq else fields)


def rows_batch(schema: pa.Schema, tray: Tray, seq: Int64s | None) -> pa.RecordBatch:
    """Return a tray as a batch of ``rows_schema``, or of one with other field names."""
    arrays = [pa.array(each) for each in (tray.rowtime, tray.origin, tray.counter, tray.opcode)]
    arrays += [column.to_arrow() for column in tray.columns]
    if seq is not None:
        arrays.append(pa.array(seq))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def tray_of(batch: pa.RecordBatch, row_type: RowType) -> Tray:
    """Read the rows of a batch of ``rows_schema``."""
    times = (owned(np.asarray(batch.column(index))) for index in range(len(TIMES)))
    columns = tuple(
        Column.from_arrow(each.type, batch.column(len(TIMES) + index)) for index, each in enumerate(row_type)
    )
    return Tray(row_type, columns, *times)


@dataclass(frozen=True, slots=True)
class StageInput:
    """One input of a stage: each port's rows. ``causes`` is None if no two rows share a place."""

    arrivals: Sequence[Arrival]
    causes: Causes | None = None


@dataclass(frozen=True, slots=True)
class TaskInputs:
    """The input of a stage's tasks: what each port reads. ``origins`` are in their rank there."""

    ports: Mapping[int, Sequence[Piece]]
    row_types: Sequence[RowType]
    origins: tuple[int, ...]
    rows_at_once: int = field(default=BLOCK_ROWS)

    def in_order(self, blocks: Iterable[Block], final: Mapping[int, Bound]) -> Iterator[StageInput]:
        """Yield the rows of all ports in consistent time.

        ``blocks`` are in order of their first rowtime. Every port has reached each cut, but at most its ``final``
        bound.
        """
        ranks = Ranks(self.origins)
        readers: dict[int, list[tuple[int, int, Piece]]] = {}
        for port in sorted(self.ports):
            for turn, piece in enumerate(self.ports[port]):
                readers.setdefault(piece.slot, []).append((port, turn, piece))
        held: list[_Held] = []
        fresh = 0
        for block in blocks:
            if fresh >= self.rows_at_once:
                held, taken = _taken(held, block.first - 1)
                yield from self._cuts(taken, ranks, final)
                fresh = 0
            batch = unpacked(block.cell)
            for port, turn, piece in readers[block.slot]:
                rows = piece.rows(self.row_types[port], batch)
                if rows is not None:
                    held.append(_Held((port, turn, block.run, block.number), rows))
                    fresh += len(rows)
        _, taken = _taken(held, LATEST)
        yield from self._cuts(taken, ranks, final)

    def _cuts(
        self, taken: Sequence[tuple[int, Numbered]], ranks: Ranks, final: Mapping[int, Bound]
    ) -> Iterator[StageInput]:
        for by_port, reached, causes in _woven(taken, ranks, self.rows_at_once):
            arrivals = [
                (port, by_port.get(port), Bound(min(reached, final[port].rowtime)))
                for port in range(len(self.row_types))
            ]
            yield StageInput(arrivals, causes)


@dataclass(frozen=True, slots=True)
class _Held:
    """Rows of a block that are not processed yet, and their turn: port, piece, run and number."""

    turn: tuple[int, int, int, int]
    rows: Numbered


def _taken(held: Sequence[_Held], limit: int) -> tuple[list[_Held], list[tuple[int, Numbered]]]:
    """Separate the rows after a rowtime, and the others, in their turn."""
    kept: list[_Held] = []
    taken: list[tuple[int, Numbered]] = []
    for each in sorted(held, key=attrgetter("turn")):
        count = int(np.searchsorted(each.rows.tray.rowtime, limit, side="right"))
        if count:
            taken.append((each.turn[0], each.rows.slice(0, count)))
        if count < len(each.rows):
            kept.append(_Held(each.turn, each.rows.slice(count, len(each.rows))))
    return kept, taken


def _woven(
    taken: Sequence[tuple[int, Numbered]], ranks: Ranks, at_once: int
) -> Iterator[tuple[dict[int, Tray], int, Causes | None]]:
    """Yield whole rowtimes of several runs in order: each port's rows, cut by cut, and their last rowtime."""
    if not taken:
        return
    by_port: dict[int, list[Tray]] = {}
    for port, rows in taken:
        by_port.setdefault(port, []).append(rows.tray)
    ports = {port: Tray.concat(trays) for port, trays in by_port.items()}
    starts = dict(zip(ports, accumulate((len(tray) for tray in ports.values()), initial=0), strict=False))
    rowtime = np.concatenate([tray.rowtime for tray in ports.values()])
    origin = np.concatenate([tray.origin for tray in ports.values()])
    counter = np.concatenate([tray.counter for tray in ports.values()])
    seq = np.concatenate([rows.seq for _, rows in taken])
    is_numbered = bool(seq.any())
    order = np.arange(len(rowtime))
    rank = ranks.of(origin)
    # A block has the order of its task's own origins, which two ports of a merge may bring otherwise.
    is_in_order = len(taken) == 1 and (len(ranks.order) < 2 or _is_sorted(rowtime, rank, counter))
    if not is_in_order:
        if is_numbered:
            order = np.lexsort((seq, counter, rank, rowtime))
        else:
            order = _order(rowtime, rank, counter, [len(rows) for _, rows in taken])
    edges = {*range(0, len(order), at_once), len(order)}
    if is_numbered:
        edges = _between_places(edges, rowtime[order], origin[order], counter[order])
        edges.update(_gaps(rowtime[order], origin[order], counter[order], seq[order]).tolist())
    for start, stop in pairwise(sorted(edges)):
        mine = order[start:stop]
        cut = {}
        for port, tray in ports.items():
            at = starts[port]
            if is_in_order:
                cut[port] = tray.slice(start, stop)
                continue
            own = mine if len(ports) == 1 else mine[(mine >= at) & (mine < at + len(tray))]
            if len(own):
                cut[port] = tray.take(own - at)
        causes = Causes(origin[mine], counter[mine], seq[mine]) if is_numbered else None
        yield cut, int(rowtime[mine[-1]]), causes


def _between_places(
    edges: Iterable[int], rowtime: Int64s, origin: NDArray[np.int32], counter: Int64s
) -> set[int]:
    """Return the edges, each moved to the end of the place that it divides."""
    ends = np.append(np.flatnonzero(~same_place(rowtime, origin, counter)) + 1, len(rowtime))
    return {0, *ends[np.searchsorted(ends, [edge for edge in edges if edge])].tolist()}


def _gaps(rowtime: Int64s, origin: NDArray[np.int32], counter: Int64s, seq: Int64s) -> Int64s:
    """Return the indexes of rows of one place that have rows of other tasks between them.

    Their output must not be emitted at once: it goes before and after the output of the other rows.
    """
    return np.flatnonzero(same_place(rowtime, origin, counter) & (seq[1:] > seq[:-1] + 1)) + 1


def _order(rowtime: Int64s, rank: Int64s, counter: Int64s, lengths: Sequence[int]) -> Int64s:
    """Return the order of the rows of concatenated runs. Equal places keep the order of the runs."""
    starts = [0, *accumulate(lengths)]
    if len(lengths) > WOVEN_BY_ONE_LOOK or not all(
        _is_sorted(rowtime[start:stop], rank[start:stop], counter[start:stop])
        for start, stop in pairwise(starts)
    ):
        return np.lexsort((counter, rank, rowtime))
    from rowtide.operators.merge.kernels.merging import merge_order

    order = np.empty(len(rowtime), dtype=np.int64)
    merge_order(owned(rowtime), rank, owned(counter), np.array(starts, dtype=np.int64), order)
    return order


def _is_sorted(rowtime: Int64s, rank: Int64s, counter: Int64s) -> bool:
    """Return whether the rows of equal rowtimes, which are adjacent, are in order."""
    is_tie = rowtime[1:] == rowtime[:-1]
    if not is_tie.any():
        return True
    backwards = (rank[1:] < rank[:-1]) | ((rank[1:] == rank[:-1]) & (counter[1:] < counter[:-1]))
    return not bool((is_tie & backwards).any())
