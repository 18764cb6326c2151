"""Tables: rows in a tree of indexes; a table announces every change of a row.

One operation has these steps:

1. every index, in the order of the tree, selects the rows that the new one displaces;
2. the aggregators of the groups that will change send their old results;
3. for each displaced row, oldest first, and then for the new row: the table sends the
   rowop to ``pre``, removes or inserts the row, and sends the rowop to ``out``;
4. aggregators send their new results; then groups that have become empty collapse.

So at each rowop the table shows exactly the changes announced so far. Handlers
of these rowops cannot change the same table. An error that stops an operation
after its first change breaks the table: it can still be read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

from rowtide.engine.errors import BrokenTableError, FieldValueError, ModelError, RecursionFault, TableError
from rowtide.engine.row_type import Row
from rowtide.engine.table.aggregate.aggregator import Aggregation
from rowtide.engine.table.handle import RowHandle
from rowtide.engine.table.snapshot import TableState, restore_table, snapshot_table
from rowtide.engine.table.table_type import TableType
from rowtide.engine.table.tree import Group, KeyedLeaf
from rowtide.engine.table.view import TableIndex, stale_iteration
from rowtide.engine.unit.label import Label
from rowtide.engine.unit.rowop import DELETE, INSERT, Rowop
from rowtide.engine.unit.unit import CountsChanges, Unit
from rowtide.engine.values import Value

LARGEST_PORTION = 1024
"""The most rows that ``remove_while`` reads ahead: with this number, the repeated search costs little."""


class Table(CountsChanges):
    """Rows of one type in one unit, in the indexes of a table type.

    Rowops that are sent to the label ``input`` change the table. It announces each change of a row to the
    label ``pre`` just before the change and to ``out`` just after it, always with the full row. Iterating
    over a table yields its rows in the order of the first leaf index.
    """

    def __init__(self, unit: Unit, name: str, table_type: TableType) -> None:
        self.name = name
        self.type = table_type
        self.row_type = table_type.row_type
        self.unit = unit
        self.input = unit.label(f"{name}.in", self.row_type, self._take)
        self.pre = unit.label(f"{name}.pre", self.row_type)
        self.out = unit.label(f"{name}.out", self.row_type)
        self._row_class = self.row_type.row_class
        self._top = Group(table_type.nodes)
        self._indexes = self._top.indexes
        self._first_leaf = table_type.first_leaf
        self._default = TableIndex(self, self._first_leaf)
        self._size = 0
        self._changes = 0
        self._barred: Callable[[], Exception] | None = None
        self._busy = self._recursion
        self._aggregation = Aggregation.of(self)
        only = self._indexes[0] if len(self._indexes) == 1 and self._aggregation is None else None
        self._only_leaf = only if isinstance(only, KeyedLeaf) else None
        unit.keep(name, self)

    # Reading

    def index(self, *path: str) -> TableIndex:
        """Return the index at a path of names.

        Raises:
          ModelError: if it does not exist.
        """
        try:
            return TableIndex(self, self.type.node(*path))
        except ModelError as error:
            raise ModelError(f'table "{self.name}": {error.message}', hint=error.hint) from error

    def find(self, sought: Row | RowHandle) -> RowHandle | None:
        """Return the row with the key of ``sought`` in the first leaf index, or None."""
        return self._default.find(sought)

    def find_by(self, **fields: Value) -> RowHandle | None:
        """Return the row with these key values in the first leaf index, or None; other fields are NULL."""
        return self._default.find_by(**fields)

    def first(self) -> RowHandle | None:
        """Return the first row in the order of the first leaf index, or None."""
        return self._default.first()

    def next(self, handle: RowHandle) -> RowHandle | None:
        """Return the row after ``handle`` in the order of the first leaf index, or None."""
        return self._default.next(handle)

    def handles(self) -> Iterator[RowHandle]:
        """Return the handles of all rows in the order of the first leaf index."""
        return self._default.handles()

    def __iter__(self) -> Iterator[Row]:
        return iter(self._default)

    def __len__(self) -> int:
        return self._size if self._only_leaf is None else len(self._only_leaf)

    def __bool__(self) -> bool:
        return True

    def __contains__(self, row: Row) -> bool:
        return self.find(row) is not None

    @property
    def aggregators(self) -> tuple[str, ...]:
        """The names of the table's aggregators, in the order of the index tree."""
        return tuple(self._aggregation.labels) if self._aggregation else ()

    def results(self, aggregator: str) -> Label:
        """Return the label to which an aggregator sends its results.

        Raises:
          ModelError: if the table has no aggregator of this name.
        """
        label = self._aggregation.labels.get(aggregator) if self._aggregation else None
        if label is None:
            there = ", ".join(self.aggregators)
            raise ModelError(
                f'table "{self.name}" has no aggregator "{aggregator}"',
                hint=f"The aggregators are {there}."
                if there
                else "aggregate() returns a new index type: use the returned one.",
            )
        return label

    def _adopt(self, row: Row) -> Row:
        return self._named(self.row_type.adopt, row)

    def sought(self, **fields: Value) -> Row:
        """Make a row for a look-up, with these field values; other fields are NULL.

        Raises:
          ModelError: if a field does not exist.
          FieldValueError: if a value does not fit its field.
        """
        return self._named(self.row_type.row, **fields)

    def _named(self, make: Callable[..., Row], *values: Any, **fields: Any) -> Row:
        try:
            return make(*values, **fields)
        except ModelError as error:
            raise ModelError(f'table "{self.name}": {error.message}', hint=error.hint) from error
        except FieldValueError as error:
            raise error.at(f'table "{self.name}"') from error

    def handle(self, row: Row) -> RowHandle:
        """Make a handle for ``row`` without inserting it."""
        return RowHandle(self, self._adopt(row))

    def check_own(self, handle: RowHandle) -> None:
        """Check that a handle belongs to this table.

        Raises:
          TableError: if it belongs to another table, or is not a row handle.
        """
        try:
            owner = handle.table
        except AttributeError as error:
            raise TableError(self.name, f"{handle!r} is not a row handle") from error
        if owner is not self:
            raise TableError(
                self.name, f'a row handle of table "{owner.name}" cannot be used with this table'
            )

    def guarded(self, handles: Iterable[RowHandle]) -> Iterator[RowHandle]:
        """Yield ``handles`` as long as the table does not change.

        Raises:
          TableError: at the next step after a change.
        """
        changes = self._changes
        for handle in handles:
            yield handle
            if self._changes != changes:
                raise stale_iteration(self.name)

    # Changing

    def insert(self, row: Row | RowHandle) -> bool:
        """Insert a row, after deleting the rows that it displaces; return whether it was inserted.

        A handle that is in the table already is not inserted.

        Raises:
          ModelError: if the row is of another type; nothing has changed.
          FieldValueError: if a value does not fit its field; nothing has changed.
          TableError: if a key function, a comparison or an aggregator raised.
          RecursionFault: if the table is being changed already; nothing has changed.
          BrokenTableError: if an earlier error has broken the table.
          ExecutionError: if a label raised. Errors after the first change break the table; only one of a
            label that is chained to ``out``, for the last change of a table without aggregators, does not.
        """
        if row.__class__ is not RowHandle:
            if row.__class__ is not self._row_class:
                row = self._adopt(row)
            handle = RowHandle(self, row)
        else:
            handle = row
            self.check_own(handle)
            if handle.number > 0:
                return False
        if self._only_leaf is not None:
            self._replace(self._only_leaf, handle)
        else:
            self._insert(handle)
        return True

    def _insert(self, handle: RowHandle) -> None:
        if self._barred is not None:
            raise self._barred()
        doomed: list[RowHandle] = []
        try:
            for index in self._indexes:
                index.displace(handle, doomed)
        except Exception as error:
            raise self._no_place(handle.row, error) from error
        if len(doomed) > 1:
            doomed.sort(key=_number)
        self._barred, changes, size = self._busy, self._changes, self._size
        try:
            if self._aggregation is not None:
                self._aggregation.before(doomed, handle)
            for old in doomed:
                self._take_out(old)
            self._put_in(handle)
            if self._aggregation is not None:
                self._aggregation.after(doomed, handle)
        except BaseException as error:
            # The row is in and has been sent to ``out``: only followers have failed, the change is complete.
            is_in = self._size == size - len(doomed) + 1
            self._settle(error, changes, is_complete=self._aggregation is None and is_in)
            raise
        self._barred = None

    def _replace(self, leaf: KeyedLeaf, handle: RowHandle) -> None:
        """Insert into a table with one keyed index and no aggregators: a faster ``_insert``."""
        if self._barred is not None:
            raise self._barred()
        row = handle.row
        try:
            key = leaf.key_of(row)
            old: RowHandle | None = leaf.rows.get(key)
        except Exception as error:
            raise self._no_place(row, error) from error
        pre, out, run = self.pre, self.out, self.unit._run
        self._barred, changes, is_in = self._busy, self._changes, False
        try:
            if old is not None:
                if pre._followers:
                    run(Rowop(pre, DELETE, old.row), pre, None)
                self._changes += 1
                old.number = -old.number
                del leaf.rows[key]
                if leaf.links is not None:
                    leaf.links.remove(old)
                if out._followers or self.unit.tracer is not None:
                    run(Rowop(out, DELETE, old.row), out, None)
            if pre._followers:
                run(Rowop(pre, INSERT, row), pre, None)
            self._changes = handle.number = self._changes + 1
            leaf.rows[key] = handle
            if leaf.links is not None:
                leaf.links.append(handle)
            is_in = True
            if out._followers or self.unit.tracer is not None:
                run(Rowop(out, INSERT, row), out, None)
        except BaseException as error:
            self._settle(error, changes, is_complete=is_in)
            raise
        self._barred = None

    def _no_place(self, row: Row, error: Exception) -> TableError:
        shown = self.row_type.format(row)
        return TableError(self.name, f"an index cannot take the row {shown}: {error}")

    def remove(self, handle: RowHandle) -> None:
        """Remove the row of a handle; a handle that is not in the table changes nothing.

        Raises:
          TableError: if the handle belongs to another table, or an aggregator raised.
          RecursionFault: if the table is being changed already; nothing has changed.
          BrokenTableError: if an earlier error has broken the table.
          ExecutionError: if a label raised; see ``insert``.
        """
        self.check_own(handle)
        if self._barred is not None:
            raise self._barred()
        if handle.number <= 0:
            return
        self._barred, changes = self._busy, self._changes
        try:
            if self._aggregation is None:
                self._take_out(handle)
            else:
                self._aggregation.before([handle], None)
                self._take_out(handle)
                self._aggregation.after([handle], None)
        except BaseException as error:
            self._settle(error, changes, is_complete=self._aggregation is None)
            raise
        self._barred = None

    def delete(self, row: Row) -> bool:
        """Remove the row with the key of ``row`` in the first leaf index; return whether there was one.

        Raises: as ``insert``.
        """
        found = self._default.find(row)
        if found is None:
            return False
        self.remove(found)
        return True

    def clear(self, limit: int | None = None) -> int:
        """Remove all rows, or the first ``limit``, in the order of the first leaf index; return how many.

        Raises: as ``insert``, and ModelError for a negative limit.
        """
        return self.remove_while(_always, limit=limit)

    def remove_while(
        self, condition: Callable[[Row], bool], index: TableIndex | None = None, limit: int | None = None
    ) -> int:
        """Remove rows from the beginning of an index while ``condition`` holds; return how many.

        The default index is the first leaf index. With ``limit``, at most so many rows are removed.

        Raises: as ``insert``, and ModelError for a negative limit.
        """
        if limit is not None and limit < 0:
            raise ModelError(f'table "{self.name}": {limit} rows cannot be removed')
        order = index or self._default
        removed, portion = 0, 1
        while limit is None or removed < limit:
            # A change ends an iteration, so handles are read in portions. Usually at most one row is removed:
            # the first portion is one row, and each portion is twice the one before.
            wanted = portion if limit is None else min(portion, limit - removed)
            going = list(islice(order.handles(), wanted))
            for handle in going:
                if not condition(handle.row):
                    return removed
                self.remove(handle)
                removed += 1
            if len(going) < wanted:
                break
            portion = min(2 * portion, LARGEST_PORTION)
        return removed

    @property
    def changes(self) -> int:
        """The number of rows that have been inserted and removed since the table was made."""
        return self._changes

    def snapshot(self) -> TableState:
        """Return the state of the table as plain values.

        Raises:
          TableError: if the table is broken or being changed.
        """
        return snapshot_table(self)

    def restore(self, state: TableState) -> None:
        """Restore, in an empty table, the state of a table of an equal type; no rowops are sent.

        Raises:
          TableError: if the table is not empty, or is broken.
        """
        restore_table(self, state)

    def _take(self, rowop: Rowop) -> None:
        if rowop.opcode is INSERT:
            self.insert(rowop.row)
        elif rowop.opcode is DELETE:
            self.delete(rowop.row)

    def _take_out(self, handle: RowHandle) -> None:
        unit, row = self.unit, handle.row
        if self.pre._followers:
            unit._run(Rowop(self.pre, DELETE, row), self.pre, None)
        self._changes += 1
        handle.number = -handle.number
        for index in self._indexes:
            index.remove(handle)
        self._size -= 1
        if self.out._followers or unit.tracer is not None:
            unit._run(Rowop(self.out, DELETE, row), self.out, None)

    def _put_in(self, handle: RowHandle) -> None:
        unit, row = self.unit, handle.row
        if self.pre._followers:
            unit._run(Rowop(self.pre, INSERT, row), self.pre, None)
        self._changes += 1
        if handle.number < 0:
            for index in self._indexes:
                index.forget(handle)
        handle.number = self._changes
        for index in self._indexes:
            index.add(handle)
        self._size += 1
        if self.out._followers or unit.tracer is not None:
            unit._run(Rowop(self.out, INSERT, row), self.out, None)

    def _recursion(self) -> Exception:
        return RecursionFault(
            f'table "{self.name}" cannot be changed by a handler of one of its own changes',
            hint="Schedule the change, or use a loop.",
        )

    def _settle(self, error: BaseException, changes: int, *, is_complete: bool) -> None:
        """Release the table after an error, or mark it as broken if a change was not completed."""
        message = f"broken by an error in the middle of a change: {error}"
        half_way = self._changes != changes and not is_complete
        self._barred = (lambda: BrokenTableError(self.name, message)) if half_way else None

    @property
    def is_broken(self) -> bool:
        """Whether an error has broken the table, so that it can be read but not changed."""
        return self._barred is not None and isinstance(self._barred(), BrokenTableError)

    def __repr__(self) -> str:
        return f'<Table "{self.name}" of {len(self)} rows>'


def _number(handle: RowHandle) -> int:
    return handle.number


def _always(row: Row) -> bool:
    return True
