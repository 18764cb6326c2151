"""Tables with foreign keys take the same rows however the log is read, cut and restarted (docs/decisions/0029)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from contract.operators.inputs import through_bytes
from rowtide.flow.flow import Flow
from rowtide.plan.outputs import table_nodes
from rowtide.rows.rowop import Opcode, Row, TimedRow
from rowtide.rows.tray import Tray
from rowtide.rows.types import RowType
from rowtide.rowtime.bound import LATEST, Bound
from rowtide.runtime.backfill.backfill_output import TableFold, TablesOutput, folded_keys
from rowtide.runtime.state.output import TableOutput, Writes
from rowtide.runtime.state.written_order import WrittenOrder
from rowtide.sql.pipeline import SqlSession
from rowtide_connectors.api import TargetTable
from rowtide_connectors.errors import RefusedRowsError

PIPELINE = """
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite://');
CREATE STREAM lines (id INTEGER, o INTEGER);
CREATE STREAM orders (id INTEGER, up INTEGER);
CREATE STREAM notes (id INTEGER, line INTEGER);
CREATE FOREIGN TABLE orders_of (id INTEGER, up INTEGER REFERENCES orders_of, PRIMARY KEY (id)) SERVER d;
CREATE FOREIGN TABLE lines_of (id INTEGER, o INTEGER REFERENCES orders_of (id), PRIMARY KEY (id)) SERVER d;
CREATE FOREIGN TABLE notes_of (id INTEGER, line INTEGER, FOREIGN KEY (line) REFERENCES lines_of) SERVER d;
CREATE PUMP n AS INSERT INTO notes_of SELECT STREAM * FROM notes;
CREATE PUMP l AS INSERT INTO lines_of SELECT STREAM * FROM lines;
CREATE PUMP o AS INSERT INTO orders_of SELECT STREAM * FROM orders;
"""
PLAN = SqlSession().feed(PIPELINE)
NODES = table_nodes(PLAN)
PARTITIONS = {"ORDERS": (0, 1), "LINES": (0, 1), "NOTES": (0,)}
TABLES = {"ORDERS_OF": "ORDERS", "LINES_OF": "LINES", "NOTES_OF": "NOTES"}
"""The stream of each table, tables before those that refer to them."""
PARENTS = {"ORDERS_OF": "ORDERS_OF", "LINES_OF": "ORDERS_OF", "NOTES_OF": "LINES_OF"}

Way = tuple[str, int, int, Opcode, Row]
"""One row that comes in: stream, partition, rowtime, opcode, row."""
WAYS = st.lists(
    st.sampled_from([(name, each) for name, numbers in PARTITIONS.items() for each in numbers]).flatmap(
        lambda place: st.tuples(
            st.just(place[0]),
            st.just(place[1]),
            st.integers(0, 5),
            st.sampled_from([Opcode.INSERT] * 3 + [Opcode.DELETE] * (place[0] != "NOTES")),
            st.tuples(st.integers(1, 3), st.none() | st.integers(1, 3)),
        )
    ),
    max_size=16,
)


class Database:
    """Tables with the foreign keys of the pipeline, checked row by row; it also is every transaction."""

    def __init__(self) -> None:
        self.keyed: dict[str, dict[object, object]] = {"ORDERS_OF": {}, "LINES_OF": {}}
        self.appended: list[Row] = []
        self.refused: list[tuple[str, Row]] = []

    def judges_rows(self, table: TargetTable) -> bool:
        return True

    def compared(
        self, table: TargetTable, keys: Mapping[str, Sequence[object]]
    ) -> Sequence[Sequence[object]]:
        return list(keys.values())

    def upsert(self, table: TargetTable, columns: Mapping[str, Sequence[object]]) -> None:
        self._each(table, columns, self.insert_row)

    append = upsert

    def check(self, table: TargetTable, columns: Mapping[str, Sequence[object]]) -> None:
        raise AssertionError("no row of a table with foreign keys is folded away")

    def delete(self, table: TargetTable, keys: Mapping[str, Sequence[object]]) -> None:
        self._each(table, keys, self.delete_row)

    def _each(
        self,
        table: TargetTable,
        columns: Mapping[str, Sequence[object]],
        write: Callable[[str, Row], bool],
    ) -> None:
        rows = list(zip(*columns.values(), strict=True))
        refused = {index: "foreign key" for index, row in enumerate(rows) if not write(table.name, row)}
        if refused:
            raise RefusedRowsError("foreign key", table=table.name, rows=refused)

    def insert_row(self, name: str, row: Row) -> bool:
        key, parent = row
        itself = PARENTS[name] == name and parent == key
        if parent is not None and parent not in self.keyed[PARENTS[name]] and not itself:
            return False
        if name in self.keyed:
            self.keyed[name][key] = parent
        else:
            self.appended.append(row)
        return True

    def delete_row(self, name: str, row: Row) -> bool:
        key = row[0]
        held = self.keyed[name]
        if key not in held:
            return True
        children = [parent for each, parent in self.keyed["ORDERS_OF"].items() if each != key]
        children = children if name == "ORDERS_OF" else []
        children += (
            self.keyed["LINES_OF"].values() if name == "ORDERS_OF" else [each[1] for each in self.appended]
        )
        if key in children:
            return False
        del held[key]
        return True

    def commit(self, writes: Sequence[Writes]) -> None:
        for each in writes:
            for index in each.refused(self).rows:  # type: ignore[arg-type]
                (row,) = each.tray.slice(index, index + 1).rows()
                self.refused.append((each.name, row.row))

    @property
    def contents(self) -> object:
        return self.keyed, sorted(self.appended, key=repr), sorted(self.refused, key=repr)


def in_turns(rows: Sequence[Way], data: st.DataObject) -> Iterator[Way]:
    """Mix the partitions in any way."""
    queues: dict[tuple[str, int], list[Way]] = {}
    for row in sorted(rows, key=lambda each: each[2]):
        queues.setdefault(row[:2], []).append(row)
    while queues:
        place = data.draw(st.sampled_from(sorted(queues)))
        yield queues[place].pop(0)
        if not queues[place]:
            del queues[place]


def read(rows: Sequence[Way], data: st.DataObject) -> Database:
    """Let rows in, drained, committed and restarted anywhere."""
    database, flow = Database(), Flow(NODES, PARTITIONS)
    in_order = WrittenOrder(PLAN.foreign_tables, list(NODES))
    outputs = {table.name: TableOutput(table) for table in PLAN.foreign_tables}
    counters: Counter[tuple[str, int]] = Counter()

    def drain() -> None:
        for name, trays in flow.drain().outputs.items():
            outputs[name].add(trays)

    def commit() -> None:
        taken = [writes for each in outputs.values() if (writes := each.take()) is not None]
        database.commit(in_order(taken, flow.ranks))

    for stream, partition, rowtime, opcode, row in in_turns(rows, data):
        place = (stream, partition)
        timed = TimedRow(rowtime, flow.origin(*place), counters[place], opcode, row)
        counters[place] += 1
        flow.insert(*place, Tray.from_rows(flow.row_type(stream), [timed]))
        how = data.draw(st.integers(0, 7))
        if how < 4:
            drain()
        if how < 3:
            commit()
        if how == 0:
            state = {key: through_bytes(each) for key, each in flow.snapshot().items()}
            flow = Flow(NODES, PARTITIONS)
            flow.restore(state)
    for stream, numbers in PARTITIONS.items():
        for partition in numbers:
            flow.bound(stream, partition, Bound(LATEST))
    drain()
    commit()
    return database


class SparkRows:
    """What a run on Spark gives of tables that are not folded by key: each one's rows in order, in some blocks."""

    def __init__(self, rows: Mapping[str, Sequence[Tray]]) -> None:
        self._rows = rows
        self._folded: list[Tray] = []

    def fold(self, name: str, _: RowType, fold: TableFold) -> SparkRows:
        found = SparkRows({})
        found._folded = [each for each in fold(self._rows[name]) if isinstance(each, Tray)]
        return found

    def trays(self) -> Iterator[Tray]:
        return iter(self._folded)


def filled(rows: Sequence[Way], data: st.DataObject) -> Database:
    """Let a backfill write the rows in one slice."""
    flow = Flow(NODES, PARTITIONS)
    counters: Counter[tuple[str, int]] = Counter()
    blocks: dict[str, list[Tray]] = {name: [] for name in NODES}
    for stream, partition, rowtime, opcode, row in in_turns(rows, data):
        place = (stream, partition)
        timed = TimedRow(rowtime, flow.origin(*place), counters[place], opcode, row)
        counters[place] += 1
        flow.insert(*place, Tray.from_rows(flow.row_type(stream), [timed]))
    for stream, numbers in PARTITIONS.items():
        for partition in numbers:
            flow.bound(stream, partition, Bound(LATEST))
    for name, trays in flow.drain().outputs.items():
        for tray in trays:
            at = data.draw(st.integers(0, len(tray)))
            blocks[name] += [each for each in (tray.slice(0, at), tray.slice(at, len(tray))) if len(each)]
    database = Database()
    run, context, retry = (
        cast("Any", each)
        for each in (SparkRows(blocks), SimpleNamespace(plan=PLAN, database=database, name="p"), None)
    )
    tables = TablesOutput(run, context, 1, retry, flow.ranks)
    tables.prepare()
    assert tables.moves() == []
    database.commit(list(tables.writes()))
    return database


def one_by_one(rows: Sequence[Way]) -> Database:
    """Write each row alone, in the order of rowtime, the tables that are referred to first."""
    database, streams = Database(), list(TABLES.values())
    tables = {stream: table for table, stream in TABLES.items()}
    for stream, _, _, opcode, row in sorted(
        rows, key=lambda each: (each[2], streams.index(each[0]), each[1])
    ):
        write = database.delete_row if opcode == Opcode.DELETE else database.insert_row
        if not write(tables[stream], row):
            database.refused.append((tables[stream], row))
    return database


@given(rows=WAYS, data=st.data())
def test_tables_take_the_rows_that_they_would_take_one_by_one(rows: list[Way], data: st.DataObject) -> None:
    assert read(rows, data).contents == one_by_one(rows).contents


@given(rows=WAYS, data=st.data())
def test_no_row_is_refused_whose_parent_the_log_has_at_an_earlier_or_equal_rowtime(
    rows: list[Way], data: st.DataObject
) -> None:
    kept = [
        (stream, partition, rowtime, Opcode.INSERT, row if stream == "LINES" else (row[0], None))
        for stream, partition, rowtime, _, row in rows
        if stream != "NOTES"
    ]
    orders = {(row[0], rowtime) for stream, _, rowtime, _, row in kept if stream == "ORDERS"}
    wanted = Counter(
        ("LINES_OF", row)
        for stream, _, rowtime, _, row in kept
        if stream == "LINES"
        and row[1] is not None
        and not any((row[1], at) in orders for at in range(rowtime + 1))
    )
    assert Counter(read(kept, data).refused) == wanted


@given(rows=WAYS, data=st.data())
def test_a_backfill_writes_what_the_service_writes(rows: list[Way], data: st.DataObject) -> None:
    assert filled(rows, data).contents == one_by_one(rows).contents
    assert set(folded_keys(PLAN).values()) == {()}
