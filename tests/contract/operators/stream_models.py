"""What the operators mean that keep, order and table rows; see ``model``."""

from __future__ import annotations

from typing import Any

from contract.operators.meanings import LAST_TIMESTAMP, Rejected, evaluate
from contract.operators.model import Model, later
from rowtide.errors import Reason
from rowtide.operators.contract import OperatorSite
from rowtide.plan.nodes import BoundPolicy, KeyedTable, Merge, Sort, UniqueTable
from rowtide.rows.rowop import Opcode, Row, TimedRow
from rowtide.rowtime.bound import EARLIEST, LATEST, NO_BOUND, UNMARKED, Bound


class RowWiseModel(Model):
    """What remembers nothing: each row by itself, and every bound passed on.

    A row that fails is an error row when it comes in; when it is deleted, it is only dropped.
    """

    def __init__(self, node: Any, _site: OperatorSite) -> None:
        super().__init__()
        self.node = node
        self.reached = EARLIEST
        self.passed = NO_BOUND

    def row(self, port: int, timed: TimedRow) -> None:
        self.account.rows_in += 1
        try:
            found = self.of(timed)
        except Rejected as error:
            self.fail(error.reason, timed)
            return
        if found is None:
            self.account.filtered += 1
            return
        self.account.done += 1
        self.give(found)

    def fail(self, reason: Reason, timed: TimedRow) -> None:
        """Tell of a row that fails, unless it is deleted."""
        if timed.opcode == Opcode.DELETE:
            self.account.filtered += 1
        else:
            self.tell(self.node.relation, reason, timed)

    def of(self, timed: TimedRow) -> TimedRow | None:
        """Return what becomes of a row; None: it is filtered."""
        raise NotImplementedError

    def bound(self, port: int, bound: Bound) -> None:
        self.reached = max(self.reached, bound.rowtime)
        self.passed = later(self.passed, bound)

    def promised(self) -> int:
        return self.reached

    def promise(self) -> Bound:
        return self.passed


class FilterModel(RowWiseModel):
    """Keeps what is TRUE."""

    def of(self, timed: TimedRow) -> TimedRow | None:
        return timed if evaluate(self.node.condition, timed.row, timed.rowtime) is True else None


class FilterInsertsModel(FilterModel):
    """Keeps what is TRUE, and every DELETE."""

    def of(self, timed: TimedRow) -> TimedRow | None:
        return timed if timed.opcode == Opcode.DELETE else super().of(timed)


class ProjectModel(RowWiseModel):
    """Computes new fields; NULL in one that is NOT NULL is rejected, except where the row is deleted."""

    def of(self, timed: TimedRow) -> TimedRow | None:
        row = tuple(evaluate(each, timed.row, timed.rowtime) for each in self.node.expressions)
        for field, value in zip(self.node.row_type, row, strict=True):
            if value is None and not field.nullable and timed.opcode != Opcode.DELETE:
                raise Rejected(Reason.CONSTRAINT)
        return timed._replace(row=row)


class ProjectKeysModel(ProjectModel):
    """Projects a row with NULL in the keys that fail; it has one fault then, and is not the less done."""

    def of(self, timed: TimedRow) -> TimedRow | None:
        row: list[Any] = []
        failed: Reason | None = None
        for at, each in enumerate(self.node.expressions):
            try:
                row.append(evaluate(each, timed.row, timed.rowtime))
            except Rejected as error:
                if at not in self.node.keys:
                    raise
                row.append(None)
                failed = failed or error.reason
        if failed is not None and timed.opcode != Opcode.DELETE:
            self.tell(self.node.relation, failed, timed)
            self.account.rejected -= 1
        return timed._replace(row=tuple(row))


class PromoteModel(RowWiseModel):
    """Gives a new rowtime; bounds are passed, dropped, or mapped by the same expression."""

    def of(self, timed: TimedRow) -> TimedRow | None:
        rowtime = evaluate(self.node.rowtime, timed.row, timed.rowtime)
        if rowtime is None:
            raise Rejected(Reason.MISSING_FIELD)
        if self.node.max_ahead_ms is not None and rowtime > timed.rowtime + self.node.max_ahead_ms:
            raise Rejected(Reason.FUTURE)
        return timed._replace(rowtime=rowtime)

    def promised(self) -> int:
        if self.node.bounds is BoundPolicy.PASS or self.reached == EARLIEST:
            return self.reached
        if self.node.bounds is BoundPolicy.DROP:
            return LATEST if self.reached == LATEST else EARLIEST
        if self.reached > LAST_TIMESTAMP:
            return LATEST
        try:
            return self.at(self.reached)
        except Rejected:
            pass
        try:
            # Out of range now; the last rowtime is in range again if there are any that are.
            self.at(LAST_TIMESTAMP)
        except Rejected:
            return LATEST
        return EARLIEST

    def promise(self) -> Bound:
        rowtime = self.promised()
        if self.node.bounds is BoundPolicy.PASS:
            return self.passed
        # Rows that are rounded down to one rowtime come in no order of origins there.
        strict = self.node.bounds is BoundPolicy.MAP and rowtime < self.after()
        return self.passed.shifted(rowtime) if strict else Bound(rowtime)

    def after(self) -> int:
        """Return the rowtime of rows a millisecond behind the bound; none come where these are out of range."""
        try:
            self.at(self.reached)
        except Rejected:
            return EARLIEST
        try:
            return self.at(self.reached + 1)
        except Rejected:
            return LATEST

    def at(self, rowtime: int) -> int:
        return int(evaluate(self.node.rowtime, (), rowtime))


class SortModel(Model):
    """t-sort: late iff t + WITHIN < H or t < the explicit bound; ties leave in order of arrival.

    A change of a table is not late: it takes the time below which it would be.
    """

    def __init__(self, node: Sort, site: OperatorSite) -> None:
        super().__init__()
        self.node = node
        self.signs = site.origin if site.merged else None
        self.signed = 0
        self.highest: int | None = None
        self.explicit = EARLIEST
        self.waiting: list[TimedRow] = []
        self.mark = (UNMARKED, UNMARKED)

    def row(self, port: int, timed: TimedRow) -> None:
        self.account.rows_in += 1
        clock = self.promised()
        if self.node.is_in_log_order:
            timed = timed._replace(rowtime=max(timed.rowtime, clock))
        if timed.rowtime < clock:
            self.tell(self.node.relation, Reason.LATE, timed, self.promised())
            return
        self.highest = timed.rowtime if self.highest is None else max(self.highest, timed.rowtime)
        if self.signs is not None:
            timed = timed._replace(origin=self.signs, counter=self.signed)
            self.signed += 1
        self.waiting.append(timed)
        # Rows come in order of their counters: at any one rowtime none before this one follows.
        self.mark = (timed.origin, timed.counter)
        self.let_go()

    def bound(self, port: int, bound: Bound) -> None:
        self.explicit = max(self.explicit, bound.rowtime)
        self.let_go()

    def let_go(self) -> None:
        limit = self.promised()
        for timed in sorted(self.waiting, key=lambda each: each.rowtime):
            if timed.rowtime <= limit:
                self.waiting.remove(timed)
                self.account.done += 1
                self.give(timed)

    def promised(self) -> int:
        if self.highest is None:
            return self.explicit
        return max(self.highest - self.node.within_ms, self.explicit)

    def promise(self) -> Bound:
        return Bound(self.promised(), *self.mark)

    def held(self) -> int:
        return len(self.waiting)


class MergeModel(Model):
    """The ordered union: the least row leaves once no other port can still bring one before it."""

    def __init__(self, node: Merge, site: OperatorSite) -> None:
        super().__init__()
        self.origins = site.port_origins
        together = [origin for origins in self.origins for origin in origins]
        self.order = sorted(set(together), key=together.index)
        self.waiting: list[tuple[TimedRow, int]] = []
        self.bounds = [NO_BOUND for _ in self.origins]
        self.last: list[TimedRow | None] = [None for _ in self.origins]
        self.came: dict[int, TimedRow] = {}

    def place_of(self, timed: TimedRow) -> tuple[int, int, int]:
        return (timed.rowtime, self.order.index(timed.origin), timed.counter)

    def row(self, port: int, timed: TimedRow) -> None:
        self.account.rows_in += 1
        self.waiting.append((timed, port))
        self.came[port] = timed

    def bound(self, port: int, bound: Bound) -> None:
        # Only now: more rows of the last one's place may have come after it.
        if port in self.came:
            self.last[port] = self.came.pop(port)
        self.bounds[port] = later(self.bounds[port], bound)
        self.let_go()

    def may_come(self, port: int) -> tuple[int, int, int]:
        """Return the least place that a row of this port may still have."""
        bound, last = self.bounds[port], self.last[port]
        found = (bound.rowtime, *self.least_at(port, bound.origin, bound.counter + 1))
        if last is not None:
            # Rows come in order and those of a place together, so a row promises as much as a bound.
            found = max(found, (last.rowtime, *self.least_at(port, last.origin, last.counter + 1)))
        return found

    def least_at(self, port: int, origin: int, counter: int) -> tuple[int, int]:
        """Return the least (rank, counter) at one rowtime if this origin goes on with ``counter``."""
        mine = self.origins[port]
        if origin == UNMARKED:
            return min((self.order.index(each), -1) for each in mine)
        later_ones = mine[mine.index(origin) + 1 :]
        return min([(self.order.index(origin), counter), *((self.order.index(o), -1) for o in later_ones)])

    def let_go(self) -> None:
        while self.waiting:
            least = min(self.waiting, key=lambda each: (self.place_of(each[0]), each[1]))
            place = self.place_of(least[0])
            if any(self.may_come(each) <= place for each in range(len(self.bounds))):
                return
            self.waiting.remove(least)
            self.account.done += 1
            self.give(least[0])

    def promised(self) -> int:
        return self.least()[0]

    def least(self) -> tuple[int, int, int]:
        """Return the least place of what may still come out."""
        return min(self.may_come(port) for port in range(len(self.bounds)))

    def promise(self) -> Bound:
        rowtime, rank, counter = self.least()
        if counter > -1:
            return Bound(rowtime, self.order[rank], counter - 1)
        # All of the origins before this one have passed.
        return Bound(rowtime, self.order[rank - 1], LATEST - 1) if rank else Bound(rowtime)

    def held(self) -> int:
        return len(self.waiting)


class TableModel(Model):
    """An engine table: the row of a key is replaced, or a multiset where there is no key."""

    def __init__(self, node: KeyedTable, _site: OperatorSite) -> None:
        super().__init__()
        self.node = node
        self.rows: list[Row] = []
        self.passed = NO_BOUND

    def row(self, port: int, timed: TimedRow) -> None:
        self.account.rows_in += 1
        if any(timed.row[index] is None for index in self.node.key) and timed.opcode != Opcode.DELETE:
            self.tell(self.node.relation, Reason.NULL_KEY, timed)
            return
        self.account.done += 1
        if timed.opcode == Opcode.NOP:
            return
        if not self.node.key:
            if timed.opcode == Opcode.INSERT:
                self.rows.append(timed.row)
                self.give(timed)
            elif timed.row in self.rows:
                self.rows.remove(timed.row)
                self.give(timed)
            return
        for old in self.rows:
            if self.key(old) == self.key(timed.row):
                self.rows.remove(old)
                self.give(timed._replace(opcode=Opcode.DELETE, row=old))
                break
        if timed.opcode == Opcode.INSERT:
            self.rows.append(timed.row)
            self.give(timed)

    def key(self, row: Row) -> Row:
        return tuple(row[index] for index in self.node.key)

    def bound(self, port: int, bound: Bound) -> None:
        self.passed = later(self.passed, bound)

    def promised(self) -> int:
        return self.passed.rowtime

    def promise(self) -> Bound:
        return self.passed


class PatchedTableModel(TableModel):
    """A table whose INSERTs may name columns that keep the value that the row has, and may have the row before them."""

    def row(self, port: int, timed: TimedRow) -> None:
        width = len(timed.row) // 2
        values, kept, before = list(timed.row[:width]), timed.row[width], timed.row[width + 1 :]
        if timed.opcode == Opcode.INSERT and None not in self.key(timed.row):
            moves = None not in self.key(before)
            of_key = [row for row in self.rows if self.key(row) == self.key(before if moves else timed.row)]
            old = [row for row in of_key if not moves or self.agree(row, before)]
            source = old[0] if old else before
            for at in () if kept is None else map(int, str(kept).split(",")):
                if not old and before[at] is None:
                    self.account.rows_in += 1
                    self.tell(self.node.relation, Reason.MISSING_FIELD, timed._replace(row=timed.row[:width]))
                    return
                values[at] = source[at]
            if moves and old:
                self.rows.remove(old[0])
                self.give(timed._replace(opcode=Opcode.DELETE, row=old[0]))
        super().row(port, timed._replace(row=tuple(values)))

    @staticmethod
    def agree(row: Row, before: Row) -> bool:
        """Return whether all values that both rows have are equal."""
        both = [pair for pair in zip(row, before, strict=True) if None not in pair]
        return all(repr(has) == repr(was) or has == was for has, was in both)


class UniqueTableModel(TableModel):
    """A table that takes no row whose values in some fields another row has."""

    def __init__(self, node: UniqueTable, site: OperatorSite) -> None:
        super().__init__(node, site)
        self.unique = node.unique

    def row(self, port: int, timed: TimedRow) -> None:
        known = timed.opcode == Opcode.INSERT and None not in self.key(timed.row)
        if known and any(self.clashes(timed.row, old) for old in self.rows):
            self.account.rows_in += 1
            self.tell(self.node.relation, Reason.CONSTRAINT, timed)
            return
        super().row(port, timed)

    def clashes(self, row: Row, old: Row) -> bool:
        if self.node.key and self.key(row) == self.key(old):
            return False
        return any(all(row[at] is not None and row[at] == old[at] for at in each) for each in self.unique)
