"""What joins mean; see ``model``."""

from __future__ import annotations

import math

from contract.operators.meanings import Rejected, bits, evaluate
from contract.operators.model import Model, later
from rowtide.operators.contract import OperatorSite
from rowtide.plan.nodes import AsOfJoin, AsOfJoinOn, JoinKind, JoinTime, WindowJoin
from rowtide.rows.rowop import Opcode, Row, TimedRow
from rowtide.rowtime.bound import EARLIEST, LATEST, NO_BOUND, Bound


class JoinModel(Model):
    """A stream row at T leaves when the table's bound is past T, and sees the changes up to T."""

    def __init__(self, node: AsOfJoin, _site: OperatorSite) -> None:
        super().__init__()
        self.node = node
        self.changes: list[TimedRow] = []
        self.waiting: list[TimedRow] = []
        self.bounds = [NO_BOUND, NO_BOUND]

    def row(self, port: int, timed: TimedRow) -> None:
        self.account.rows_in += 1
        (self.changes if port == 0 else self.waiting).append(timed)
        # Rows come in order, so a row promises as much as a bound just before it.
        self.bound(port, Bound(timed.rowtime, timed.origin, timed.counter - 1))

    def bound(self, port: int, bound: Bound) -> None:
        self.bounds[port] = later(self.bounds[port], bound)
        self.let_go()

    def let_go(self) -> None:
        while self.waiting and self.waiting[0].rowtime < self.bounds[0].rowtime:
            timed = self.waiting.pop(0)
            matches = self.matches(timed)
            for match in matches:
                self.give(timed._replace(row=timed.row + match))
            if not matches and self.node.kind is JoinKind.LEFT:
                self.give(timed._replace(row=timed.row + (None,) * len(self.node.table.row_type)))
        self.account.done = self.account.rows_in - self.held()

    def matches(self, timed: TimedRow) -> list[Row]:
        key = [timed.row[index] for index in self.node.stream_key]
        image: list[Row] = []
        for change in self.changes:
            if change.rowtime <= timed.rowtime:
                if change.opcode == Opcode.INSERT:
                    image.append(change.row)
                elif change.opcode == Opcode.DELETE and change.row in image:
                    image.remove(change.row)
        matches = [
            row for row in image if None not in key and [row[index] for index in self.node.table_key] == key
        ]
        return [row for row in matches if self.agrees(timed, timed.row + row)]

    def agrees(self, timed: TimedRow, joined: Row) -> bool:
        """Return whether a pair fulfils the condition, and note one for which that has no value."""
        if not isinstance(self.node, AsOfJoinOn):
            return True
        try:
            return evaluate(self.node.condition, joined, timed.rowtime) is True
        except Rejected as error:
            self.faults.append(
                (
                    self.node.relation,
                    error.reason,
                    timed.rowtime,
                    timed.origin,
                    timed.counter,
                    bits(joined),
                    None,
                )
            )
            return False

    def promised(self) -> int:
        return self.promise().rowtime

    def promise(self) -> Bound:
        if not self.waiting:
            return self.bounds[1]
        first = self.waiting[0]
        return Bound(first.rowtime, first.origin, first.counter - 1)

    def held(self) -> int:
        # A change is over once every row that may still come is at its rowtime or after it.
        return len(self.waiting) + sum(1 for change in self.changes if change.rowtime > self.promised())


Pair = tuple[int, float, float]
"""The place of an output of a windowed join: its rowtime, the numbers of the left and the right row."""
NONE, FUTURE = -1, math.inf
"""The number of a missing row, before all; of a row that has not come yet, after all."""


class WindowJoinModel(Model):
    """Every pair and every lonely row, worked out again; one leaves when nothing can come before it."""

    def __init__(self, node: WindowJoin, site: OperatorSite) -> None:
        super().__init__()
        self.node = node
        self.origin = site.origin
        self.lefts: list[TimedRow] = []
        self.rights: list[TimedRow] = []
        self.bounds = [EARLIEST, EARLIEST]
        self.refused: set[tuple[int, int]] = set()
        self.left_already: set[Pair] = set()

    def row(self, port: int, timed: TimedRow) -> None:
        self.account.rows_in += 1
        (self.lefts if port == 0 else self.rights).append(timed)
        if port == 0:
            met = [(len(self.lefts) - 1, right) for right in range(len(self.rights))]
        else:
            met = [(left, len(self.rights) - 1) for left in range(len(self.lefts))]
        for left, right in met:
            self.judge(left, right)
        # Rows come in order, so a row promises its rowtime.
        self.bound(port, Bound(timed.rowtime))

    def judge(self, left: int, right: int) -> None:
        """Note a pair for which the condition has no value."""
        if self.meet(left, right) and self.node.condition is not None:
            first, row = self.lefts[left], self.lefts[left].row + self.rights[right].row
            try:
                evaluate(self.node.condition, row, self.time(left, right))
            except Rejected as error:
                self.refused.add((left, right))
                self.faults.append(
                    (
                        self.node.relation,
                        error.reason,
                        first.rowtime,
                        first.origin,
                        first.counter,
                        bits(row),
                        None,
                    )
                )

    def bound(self, port: int, bound: Bound) -> None:
        self.bounds[port] = max(self.bounds[port], bound.rowtime)
        found = self.found()
        for place in sorted(found):
            if place not in self.left_already and all(place < other for other in self.may_come()):
                self.left_already.add(place)
                self.give(TimedRow(place[0], self.origin, self.account.rows_out, Opcode.INSERT, found[place]))
        self.account.done = self.account.rows_in - self.held()

    def meet(self, left: int, right: int) -> bool:
        """Return whether the keys and the rowtimes of two rows fit."""
        one, other = self.lefts[left], self.rights[right]
        key = [one.row[index] for index in self.node.left_key]
        fits = key == [other.row[index] for index in self.node.right_key] and None not in key
        return fits and self.node.low_ms <= other.rowtime - one.rowtime <= self.node.high_ms

    def matches(self, left: int, right: int) -> bool:
        """Return whether two rows make a pair."""
        if not self.meet(left, right) or (left, right) in self.refused:
            return False
        row = self.lefts[left].row + self.rights[right].row
        condition = self.node.condition
        return condition is None or evaluate(condition, row, self.time(left, right)) is True

    def time(self, left: int, right: int) -> int:
        return self.time_of(self.lefts[left].rowtime, self.rights[right].rowtime)

    def time_of(self, left: int, right: int) -> int:
        return {JoinTime.LEFT: left, JoinTime.RIGHT: right, JoinTime.LATER: max(left, right)}[self.node.time]

    def pairs(self) -> set[tuple[int, int]]:
        return {
            (left, right)
            for left in range(len(self.lefts))
            for right in range(len(self.rights))
            if self.matches(left, right)
        }

    def left_is_open(self, left: int) -> bool:
        return self.bounds[1] <= self.lefts[left].rowtime + self.node.high_ms

    def right_is_open(self, right: int) -> bool:
        return self.bounds[0] <= self.rights[right].rowtime - self.node.low_ms

    def left_alone(self, left: int) -> Pair:
        return (self.lefts[left].rowtime + self.node.left_delay_ms, left, NONE)

    def right_alone(self, right: int) -> Pair:
        return (self.rights[right].rowtime + self.node.right_delay_ms, NONE, right)

    def lonely(self) -> tuple[list[int], list[int]]:
        """Return the rows of each side that are in no pair so far."""
        pairs = self.pairs()
        return (
            [left for left in range(len(self.lefts)) if all(left != pair[0] for pair in pairs)],
            [right for right in range(len(self.rights)) if all(right != pair[1] for pair in pairs)],
        )

    def found(self) -> dict[Pair, Row]:
        """Return all outputs that are certain, by place."""
        lefts, rights = self.lonely()
        found: dict[Pair, Row] = {
            (self.time(*pair), *pair): self.lefts[pair[0]].row + self.rights[pair[1]].row
            for pair in self.pairs()
        }
        if self.node.kind.keeps_left:
            nulls = (None,) * len(self.node.right.row_type)
            found |= {
                self.left_alone(left): self.lefts[left].row + nulls
                for left in lefts
                if not self.left_is_open(left)
            }
        if self.node.kind.keeps_right:
            nulls = (None,) * len(self.node.left.row_type)
            found |= {
                self.right_alone(right): nulls + self.rights[right].row
                for right in rights
                if not self.right_is_open(right)
            }
        return found

    def may_come(self) -> list[Pair]:
        """Return places of outputs that are not certain yet, the least of each sort."""
        low, high = self.node.low_ms, self.node.high_ms
        first_left, first_right = self.bounds
        lefts, rights = self.lonely()
        places: list[Pair] = []
        for left, one in enumerate(self.lefts):
            if self.left_is_open(left):
                partner = max(first_right, one.rowtime + low)
                places.append((self.time_of(one.rowtime, partner), left, FUTURE))
                if left in lefts and self.node.kind.keeps_left:
                    places.append(self.left_alone(left))
        for right, other in enumerate(self.rights):
            if self.right_is_open(right):
                partner = max(first_left, other.rowtime - high)
                places.append((self.time_of(partner, other.rowtime), FUTURE, right))
                if right in rights and self.node.kind.keeps_right:
                    places.append(self.right_alone(right))
        if LATEST not in self.bounds:
            # Two rows that are both still to come: each as early as the other lets it be.
            both = max(first_left, first_right - high), max(first_right, first_left + low)
            places.append((self.time_of(*both), FUTURE, FUTURE))
        if self.node.kind.keeps_left:
            places.append((moved(first_left, self.node.left_delay_ms), FUTURE, NONE))
        if self.node.kind.keeps_right:
            places.append((moved(first_right, self.node.right_delay_ms), NONE, FUTURE))
        return places or [(LATEST, FUTURE, FUTURE)]

    def promised(self) -> int:
        return min(LATEST, max(EARLIEST, min(place[0] for place in self.may_come())))

    def held(self) -> int:
        """Count the rows that are open or part of a certain output that waits."""
        waiting = [place for place in self.found() if place not in self.left_already]
        lefts = {place[1] for place in waiting} | {
            left for left in range(len(self.lefts)) if self.left_is_open(left)
        }
        rights = {place[2] for place in waiting} | {
            right for right in range(len(self.rights)) if self.right_is_open(right)
        }
        return len(lefts - {NONE}) + len(rights - {NONE})


def moved(rowtime: int, by: int) -> int:
    """Return a later rowtime; the ends of time stay where they are."""
    return rowtime if rowtime in (EARLIEST, LATEST) else rowtime + by
