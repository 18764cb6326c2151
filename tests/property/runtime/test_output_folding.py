"""What a commit writes shows what writing every rowop alone would show."""

from hypothesis import given
from hypothesis import strategies as st

from rowtide.plan.plan import ForeignTable
from rowtide.rows.rowop import Opcode, TimedRow
from rowtide.rows.tray import Tray
from rowtide.rows.types import BIGINT, TIMESTAMP, VARCHAR, Field, RowType, decimal
from rowtide.runtime.state.output import TableOutput
from rowtide.testing.in_memory_database import DatabaseContents, InMemoryTransaction

ROW_TYPE = RowType((Field("A", VARCHAR), Field("B", BIGINT), Field("C", BIGINT)))
ROWOPS = st.tuples(
    st.sampled_from([Opcode.INSERT, Opcode.INSERT, Opcode.DELETE]),
    st.sampled_from(["x", "y", None]),
    st.integers(0, 2),
    st.integers(),
).map(lambda each: (each[0], (each[1], each[2], each[3] % 2**40)))


def tray_of(rowops: list[tuple[Opcode, tuple[object, ...]]]) -> Tray:
    return Tray.from_rows(
        ROW_TYPE, [TimedRow(0, 0, counter, opcode, row) for counter, (opcode, row) in enumerate(rowops)]
    )


@given(
    st.lists(st.lists(st.lists(ROWOPS, max_size=6), max_size=3), max_size=4), st.sampled_from([(0, 1), (1,)])
)
def test_folding_by_key_shows_the_same_table_after_every_commit(
    commits: list[list[list[tuple[Opcode, tuple[object, ...]]]]], key: tuple[int, ...]
) -> None:
    output = TableOutput(ForeignTable("T", ROW_TYPE, key, "D", ()))
    database = InMemoryTransaction(DatabaseContents())
    model: dict[object, object] = {}
    for commit in commits:
        faults = 0
        for rowops in commit:
            faults += len(output.add([tray_of(rowops)]))
            for opcode, row in rowops:
                own = tuple(row[index] for index in key)
                if None in own:
                    faults -= opcode is Opcode.INSERT
                elif opcode is Opcode.INSERT:
                    model[own] = row
                else:
                    model.pop(own, None)
        assert faults == 0
        writes = output.take()
        if writes is not None:
            writes.apply(database)
        assert database.contents.tables.get("T", {}) == model
        output.account.check("T", 0)


def test_a_timestamp_that_no_database_holds_is_rejected() -> None:
    row_type = RowType((Field("T", TIMESTAMP), Field("D", decimal(5, 2))))
    output = TableOutput(ForeignTable("T", row_type, (), "D", ()))
    tray = Tray.from_rows(
        row_type, [TimedRow(0, 0, n, Opcode.INSERT, (t, None)) for n, t in enumerate((1, 2**60))]
    )
    (fault,) = output.add([tray])
    assert str(fault.reason) == "CONSTRAINT"
    assert fault.counter == 1
    writes = output.take()
    assert writes is not None
    assert len(writes.tray) == 1
