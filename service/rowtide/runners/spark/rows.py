"""The rows of a run: where the rows that each segment has given lie, and how later segments read them.

The driver knows their number and their last rowtime, by slot. The rows stay with Spark.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from rowtide.flow.program import Port, Program
from rowtide.flow.segments import Segment
from rowtide.operators.merge.merge import END
from rowtide.operators.merge.ranks import Ranks
from rowtide.operators.net_changes import net_changes
from rowtide.plan.nodes import Source
from rowtide.rows.tray import Tray
from rowtide.runners.spark.outputs import OutputTasks, output_schema
from rowtide.runners.spark.shuffle.exchange import Exchange
from rowtide.runners.spark.shuffle.given import Layout, TaskBlocks
from rowtide.runners.spark.shuffle.held import StageBlocks, StageGiven
from rowtide.runners.spark.shuffle.runs import (
    SEQ_BITS,
    MergeLimit,
    Numbered,
    Piece,
    Split,
    bits_behind,
    ranked,
)
from rowtide.runners.spark.slots import slots_of_waiting, wanted_slots
from rowtide.runners.spark.start import Start, rows_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BEFORE = -1
"""In place of a segment: what was there before the first one ran."""


class SegmentRows:
    """The rows of a program's segments.

    Args:
      program, segments: the program, and its segments.
      exchange: where the rows lie.
      kept: steps whose rows are an output as they are.
      folded: the keys of other outputs.
      start: the state that the run begins from.
    """

    def __init__(
        self,
        program: Program,
        segments: Sequence[Segment],
        exchange: Exchange,
        kept: Collection[int],
        folded: Mapping[str, Split],
        start: Start,
    ) -> None:
        self._program = program
        self._segments = segments
        self._exchange = exchange
        self._slots = wanted_slots(program, segments, kept, folded)
        self._home = {at: number for number, each in enumerate(segments) for at in each.steps}
        self._slot_home = {
            slot: self._home[at] for at, splits in self._slots.items() for slot in splits.values()
        }
        self._given: dict[int, list[StageGiven]] = {}
        """What the tasks of each segment gave, then the driver for it."""
        self._rows: dict[int, int] = {}
        self._last: dict[int, int] = {}
        """The number and the greatest rowtime of the rows of each slot."""
        self._passed: dict[tuple[int, Split], list[Piece]] = {}
        """What merges let through whose rows are read from their feeders."""
        self._bits: dict[int, int] = {}
        """The number of bits of ``$seq`` after each stage."""
        waiting = {*start.waiting, *start.kept_waiting}
        self._waiting = slots_of_waiting(program, segments, kept, self._slots, waiting)
        for slots in self._waiting.values():
            self._slot_home |= dict.fromkeys(slots.values(), BEFORE)
        for port in start.waiting:
            self._put_waiting(port, start)

    def _put_waiting(self, port: Port, start: Start) -> None:
        """Put the rows that waited at a port of a merge into blocks."""
        row_type = self._program.steps[port[0]].node.row_type
        blocks = TaskBlocks(self.layout_of_waiting([port]), {0: row_type})
        for rows in rows_of(start.waiting[port], row_type):
            blocks.rows(0, rows)
        self.take(BEFORE, self._exchange.put(blocks.close(None), self.turn(BEFORE)))

    def layout_of_waiting(self, ports: Iterable[Port]) -> Layout:
        """Return where the rows go that waited at ports of merges: those of the first are of step 0, and so on."""
        slots = [[(slot, by) for by, slot in self._waiting[port].items()] for port in ports]
        return Layout(self._exchange.parts, dict(enumerate(slots)), has_seq=True)

    def take(self, number: int, given: StageGiven) -> None:
        """Note what tasks of a segment gave."""
        self._given.setdefault(number, []).append(given)
        for done in given.done.values():
            for slot, rows in done.rows.items():
                self._rows[slot] = self._rows.get(slot, 0) + rows
                self._last[slot] = max(self._last.get(slot, done.last[slot]), done.last[slot])

    def turn(self, number: int) -> int:
        """Return how often something was given for a segment."""
        return len(self._given.get(number, ()))

    def forget(self, number: int) -> None:
        """Drop what a segment gave."""
        steps = self._segments[number].steps
        for key in [key for key in self._passed if key[0] in steps]:
            del self._passed[key]
        for slot in (slot for at in steps for slot in self._slots.get(at, {}).values()):
            self._rows.pop(slot, None)
            self._last.pop(slot, None)
        self._exchange.drop(self._given.pop(number, ()))

    def given(self, at: int) -> Sequence[StageGiven]:
        """Return what the segment of a step has given."""
        return self._given[self._home[at]]

    def splits(self, at: int) -> Collection[Split]:
        """Return the ways in which rows of a step are split, without an order."""
        return self._slots.get(at, {}).keys()

    def pieces(self, at: int, split: Split) -> list[Piece]:
        """Return the rows of a step, split in a way that is wanted."""
        if (at, split) in self._passed:
            return self._passed[at, split]
        slot = self._slots[at][split]
        if slot not in self._rows:
            return []
        number = self._home[at]
        bits, has_seq = self._bits.get(number, SEQ_BITS), self.layout(number).has_seq
        return [Piece(slot, self._rows[slot], self._last[slot], has_seq, bits, bits=bits)]

    def at_port(self, port: Port, feeder: int, split: Split) -> list[Piece]:
        """Return the rows of a port of a merge: those that waited there before, and those of its feeder."""
        return [*self._before(port, split), *self.pieces(feeder, split)]

    def whole_at_port(self, port: Port, feeder: int) -> list[Piece]:
        """Return the rows of a port of a merge in the split with the fewest blocks: each has the same rows."""
        found: list[Piece] = []
        if before := self._waiting.get(port):
            found += self._before(port, min(before, key=len))
        if splits := self.splits(feeder):
            found += self.pieces(feeder, min(splits, key=len))
        return found

    def _before(self, port: Port, split: Split) -> list[Piece]:
        slot = self._waiting.get(port, {}).get(split)
        return [] if slot is None else [Piece(slot, self._rows[slot], self._last[slot])]

    def passing(
        self,
        entry: int,
        feeders: Mapping[int, int],
        limits: Mapping[int, MergeLimit],
        splits: Sequence[Split],
    ) -> list[Piece]:
        """Return the rows that a merge lets through, from all of its ports."""
        origins = [origin for at in feeders.values() for origin in self._program.steps[at].origins]
        meets_itself = len(set(origins)) < len(origins)
        return ranked(
            [
                piece.behind(limits[port], meets_itself=meets_itself)
                for port, at in feeders.items()
                for piece in self.at_port((entry, port), at, splits[port])
            ]
        )

    def waiting(
        self, entry: int, feeders: Mapping[int, int], limits: Mapping[int, MergeLimit]
    ) -> dict[int, list[Piece]]:
        """Return the rows that a merge holds back, by port."""
        found: dict[int, list[Piece]] = {}
        for port, at in feeders.items():
            if limits[port].place >= END:
                continue
            waiting = [piece.waiting(limits[port]) for piece in self.whole_at_port((entry, port), at)]
            if held := [piece for piece in waiting if piece is not None]:
                found[port] = held
        return found

    def pass_on(self, at: int, split: Split, pieces: list[Piece]) -> None:
        """Let the rows that a merge passes be read from its feeders."""
        self._passed[at, split] = pieces

    def note_bits(self, number: int, pieces: Sequence[Piece]) -> None:
        """Note that a segment reads these rows."""
        self._bits[number] = bits_behind(pieces, is_one_to_one=self._segments[number].is_one_to_one)

    def layout(self, number: int) -> Layout:
        """Return where the rows of a segment go."""
        segment = self._segments[number]
        is_source = isinstance(self._program.steps[segment.entries[0]].node, Source)
        return Layout(
            self._exchange.parts,
            {
                at: [(slot, split) for split, slot in self._slots.get(at, {}).items()]
                for at in segment.feeders
            },
            # T-sorts and most row-wise steps never make two rows of one.
            has_seq=not is_source or segment.multiplies,
        )

    def output(self, at: int) -> DataFrame:
        """Return the rows of a step: its fields by name, the time columns, ``$seq``."""
        from pyspark.sql.pandas.types import from_arrow_schema

        row_type = self._program.steps[at].node.row_type
        schema = from_arrow_schema(output_schema(row_type))
        if not (pieces := self.pieces(at, ())):
            return self._exchange.empty(schema)
        return self._exchange.blocks(self.holding(pieces)).mapInArrow(
            OutputTasks(row_type, pieces[0]), schema
        )

    def collected(self, at: int, ranks: Ranks) -> Tray:
        """Bring the rows of a step to the driver, in the order of the live flow."""
        node = self._program.steps[at].node
        row_type = node.row_type
        parts = [
            rows
            for piece in self.pieces(at, ())
            for given in self.given(at)
            for batch in given.batches(piece.slot)
            if (rows := piece.rows(row_type, batch)) is not None
        ]
        if not parts:
            return Tray.empty(row_type)
        found = Numbered.concat(parts).in_time(ranks).tray
        # Changes of one place may be from several tasks.
        return net_changes(found) or Tray.empty(row_type) if node.shows_opcodes() else found

    def blocks(
        self, pieces: Iterable[Piece], *, since: int | None = None, states: Sequence[bytes] = ()
    ) -> StageBlocks:
        """Return the blocks of these pieces, each once, as the input of a stage."""
        return StageBlocks(self.holding(pieces), since, states)

    def holding(self, pieces: Iterable[Piece]) -> list[tuple[StageGiven, frozenset[int]]]:
        """Return what has the blocks of these pieces, and their slots there."""
        slots: dict[int, set[int]] = {}
        for piece in pieces:
            slots.setdefault(self._slot_home[piece.slot], set()).add(piece.slot)
        return [(each, frozenset(slots[number])) for number in sorted(slots) for each in self._given[number]]
