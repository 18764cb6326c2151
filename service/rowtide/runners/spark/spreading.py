"""How the rows that a stage reads are spread over tasks.

Tasks may process some keys each although later operators read their rows together, with one exception.

An operator that makes rows (of groups, of pairs) numbers them, and rows of one rowtime are in the order of
these numbers. Tasks with some keys each number only their own rows: rows of one key keep their order, and
rows of different keys may change places. This does not affect operators that count the rows, add them up or
keep them by that key; it would affect a LAG over all of them. So a segment is split only if no later
operator depends on that order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rowtide.flow.program import Program
from rowtide.flow.segments import Segment
from rowtide.plan.nodes import BoundPolicy, Promote, Sort
from rowtide.plan.nodes.node import Agreed, OrderMattersError, require
from rowtide.runners.spark.shuffle.exchange import Spread
from rowtide.runners.spark.shuffle.runs import Piece, Split, is_full, row_count


@dataclass(frozen=True, slots=True)
class Spreading:
    """The rules of one run.

    ``folded`` are the keys of outputs, ``parts`` is the number of tasks of a stage that is split. Up to ``few`` rows
    go to one task, whatever their keys.
    """

    program: Program
    folded: Mapping[str, Split]
    parts: int
    few: int

    def are_few(self, pieces: Sequence[Piece]) -> bool:
        """Return whether starting more tasks takes longer than processing the rows in one."""
        return row_count(pieces) <= self.few

    def of(self, segment: Segment, pieces: Sequence[Piece], split: Split) -> Spread:
        """Return how the input of a segment is spread, of which ``split`` has the key."""
        if must_count(segment, pieces) or self.are_few(pieces):
            return Spread.ONE
        if segment.is_row_wise:
            return Spread.ANY
        return self.by_key(pieces, split) if may_be_split(self.program, segment, self.folded) else Spread.ONE

    def of_parts(self, segment: Segment, pieces: Sequence[Piece], split: Split) -> Spread:
        """Return how the state of a segment is spread that is kept in parts, and so its input."""
        if must_count(segment, pieces) or not split or self.parts == 1:
            return Spread.ONE
        return Spread.PART if may_be_split(self.program, segment, self.folded) else Spread.ONE

    def by_key(self, pieces: Sequence[Piece], split: Split) -> Spread:
        """Return how rows are spread that have this key, if any."""
        is_split = split and self.parts > 1 and not self.are_few(pieces)
        return Spread.PART if is_split else Spread.ONE


def must_count(segment: Segment, pieces: Sequence[Piece]) -> bool:
    """Return whether one task must process a segment and count its rows: see ``runs.is_full``."""
    return is_full(pieces) and not segment.is_one_to_one


def may_be_split(program: Program, segment: Segment, folded: Mapping[str, Sequence[int]]) -> bool:
    """Return whether nothing after a segment depends on the order of rows of one rowtime and different keys.

    ``folded`` are the outputs that are kept by a key, each with its fields; the others are kept unchanged.
    """
    numbering = [at for at in segment.steps if _numbers_rows(program, at)]
    names: dict[int, list[str]] = {}
    for name, at in program.outputs.items():
        names.setdefault(at, []).append(name)
    try:
        for at in numbering:
            _follow(program, at, program.steps[at].node.parts_of_own_rows(), False, names, folded)
    except OrderMattersError:
        return False
    return True


def _numbers_rows(program: Program, at: int) -> bool:
    step = program.steps[at]
    return step.origins == (step.place.origin,) and step.node.partition_key() is not None


def _follow(
    program: Program,
    at: int,
    agreed: Agreed,
    is_moved: bool,
    names: Mapping[int, Sequence[str]],
    folded: Mapping[str, Sequence[int]],
) -> None:
    """Check all readers of a step's rows. ``is_moved``: their rowtimes may have changed places.

    Raises:
      OrderMattersError: a reader depends on the order.
    """
    for name in names.get(at, ()):
        key = folded.get(name)
        if key:
            require(agreed, key)
    for position, port in program.steps[at].targets:
        node = program.steps[position].node
        if isinstance(node, Sort) and is_moved:
            # It judges lateness, and orders ties, by arrival.
            raise OrderMattersError
        moved = is_moved or (isinstance(node, Promote) and node.bounds is not BoundPolicy.MAP)
        through = node.order_through(agreed, port)
        if not node.looks_up(port):
            _follow(program, position, through, moved, names, folded)
