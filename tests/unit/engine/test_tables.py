from __future__ import annotations

import pytest

from rowtide.engine import (
    DELETE,
    INSERT,
    NOP,
    BrokenTableError,
    Descending,
    ExecutionError,
    FieldValueError,
    Fifo,
    Hashed,
    IndexType,
    ModelError,
    Ordered,
    RecursionFault,
    Row,
    Rowop,
    RowType,
    Sorted,
    Table,
    TableError,
    TableType,
    TextTracer,
    Unit,
)

TRADE = RowType(id="int32", symbol="string", price="float64")
BY_ID = TableType(TRADE, by_id=Hashed("id"))
BY_SYMBOL = TableType(TRADE, by_id=Hashed("id"), by_symbol=Hashed("symbol", arrived=Fifo()))


def table_of(table_type: TableType, *rows: tuple[object, ...]) -> Table:
    table = Table(Unit("u"), "t", table_type)
    for row in rows:
        table.insert(TRADE.row(*row))
    return table


def rowops_of(table: Table) -> list[str]:
    rowops: list[str] = []
    table.pre.then(lambda rowop: rowops.append(str(rowop)), name="before")
    table.out.then(lambda rowop: rowops.append(str(rowop)), name="after")
    return rowops


def test_a_delete_by_key_tells_of_the_whole_row() -> None:
    table = table_of(BY_ID, (1, "A", 10.0))
    rowops = rowops_of(table)
    table.input.delete(TRADE.row(1))
    assert rowops == [
        't.pre OP_DELETE id="1" symbol="A" price="10"',
        't.out OP_DELETE id="1" symbol="A" price="10"',
    ]
    table.input.delete(TRADE.row(1))
    table.input.send(NOP, TRADE.row(1))
    assert len(rowops) == 2


def test_replacing_a_row_by_an_identical_one_is_a_delete_and_an_insert() -> None:
    table = table_of(BY_ID, (1, "A", 10.0))
    rowops = rowops_of(table)
    table.insert(TRADE.row(1, "A", 10.0))
    assert [line.split()[:2] for line in rowops] == [
        ["t.pre", "OP_DELETE"],
        ["t.out", "OP_DELETE"],
        ["t.pre", "OP_INSERT"],
        ["t.out", "OP_INSERT"],
    ]


def test_a_pre_label_that_nothing_follows_is_not_even_traced() -> None:
    table = table_of(BY_ID)
    tracer = table.unit.tracer = TextTracer()
    table.input.insert(TRADE.row(1))
    assert [line.split("'")[3] for line in tracer.lines] == ["t.in", "t.out"]


@pytest.mark.parametrize(
    ("indexes", "left"),
    [
        ({"by_id": Hashed("id"), "last3": Fifo(limit=3)}, [1, 3, 2]),
        ({"last3": Fifo(limit=3), "by_id": Hashed("id")}, [3, 2]),
    ],
)
def test_a_fifo_counts_out_what_indexes_before_it_displace(
    indexes: dict[str, IndexType], left: list[int]
) -> None:
    table = table_of(TableType(TRADE, **indexes), (1,), (2,), (3,), (2,))
    assert [row.id for row in table.index("last3")] == left


def test_a_fifo_does_not_count_out_what_is_displaced_in_another_group() -> None:
    tree = TableType(TRADE, by_id=Hashed("id"), by_symbol=Hashed("symbol", last=Fifo(limit=1)))
    table = table_of(tree, (1, "A"), (2, "B"), (1, "B"))
    assert [(row.id, row.symbol) for row in table] == [(1, "B")]


def test_rows_that_one_row_displaces_go_oldest_first() -> None:
    by_both = TableType(TRADE, by_price=Hashed("price"), by_symbol=Hashed("symbol"), by_id=Hashed("id"))
    table = table_of(by_both, (1, "A", 1.0), (2, "B", 2.0), (3, "C", 3.0))
    rowops: list[tuple[str, int]] = []
    table.out.then(lambda rowop: rowops.append((rowop.opcode.name, rowop.row.id)), name="after")
    table.insert(TRADE.row(2, "A", 3.0))
    assert rowops == [("DELETE", 1), ("DELETE", 2), ("DELETE", 3), ("INSERT", 2)]


def test_null_is_a_key_of_its_own() -> None:
    for index in (Hashed("symbol", "price"), Ordered("symbol", "price")):
        table = table_of(TableType(TRADE, key=index), (1, None, None), (2, "", 0.0), (3, "", None))
        assert len(table) == 3
        assert table.find_by(symbol="").row.id == 3  # type: ignore[union-attr]
        table.insert(TRADE.row(4))
        assert len(table) == 3


def test_an_ordered_index_puts_null_first_and_descending_it_last() -> None:
    rows = [(1, "b", 2.0), (2, "a", None), (3, "b", 1.0), (4, None, 5.0)]
    ordered = TableType(TRADE, key=Ordered("symbol", Descending("price")))
    assert [row.id for row in table_of(ordered, *rows)] == [4, 2, 1, 3]
    backwards = TableType(TRADE, key=Ordered(Descending("symbol"), "price"))
    assert [row.id for row in table_of(backwards, *rows)] == [3, 1, 2, 4]


def test_a_comparison_orders_and_says_which_rows_are_the_same() -> None:
    def by_tens(left: Row, right: Row) -> int:
        return int(left.id // 10 - right.id // 10)

    for index in (Sorted("tens", compare=by_tens), Sorted("tens", key=lambda row: row.id // 10)):
        table = table_of(TableType(TRADE, tens=index), (25,), (11,), (39,), (12,))
        assert [row.id for row in table] == [12, 25, 39]


def test_a_fifo_may_jump_and_may_be_read_backwards() -> None:
    jumping = table_of(TableType(TRADE, last=Fifo(limit=2, jumping=True)), (1,), (2,), (3,))
    assert [row.id for row in jumping] == [3]
    reverse = table_of(TableType(TRADE, last=Fifo(limit=2, reverse=True)), (1,), (2,), (3,))
    assert [row.id for row in reverse] == [3, 2]


def test_a_fifo_finds_by_the_whole_row() -> None:
    table = table_of(TableType(TRADE, arrived=Fifo()), (1, "A", 1.0), (1, "A", 2.0), (1, "A", 2.0))
    assert not table.delete(TRADE.row(1))
    assert table.delete(TRADE.row(1, "A", 2.0))
    assert [row.price for row in table] == [1.0, 2.0]


def test_a_handle_keeps_its_identity_in_and_out_of_the_table() -> None:
    table = table_of(BY_SYMBOL)
    handle = table.handle(TRADE.row(1, "A"))
    assert not handle.in_table
    assert table.next(handle) is None
    assert table.insert(handle)
    assert not table.insert(handle)
    assert table.find_by(id=1) is handle
    table.insert(TRADE.row(2, "A"))
    table.insert(TRADE.row(3, "A"))
    middle = table.find_by(id=2)
    assert middle is not None
    table.remove(middle)
    table.remove(middle)
    assert table.insert(middle)
    assert [row.id for row in table.index("by_symbol", "arrived")] == [1, 3, 2]


def test_a_group_that_is_not_there_is_empty() -> None:
    table = table_of(BY_SYMBOL, (1, "A"))
    group = table.index("by_symbol").group_by(symbol="B")
    assert (list(group), len(group), group.first(), group.last(), group.following()) == (
        [],
        0,
        None,
        None,
        None,
    )
    table.insert(TRADE.row(2, "B"))
    assert [row.id for row in group] == [2]


def test_only_an_index_with_others_inside_has_groups() -> None:
    with pytest.raises(ModelError, match='index "by_id" is a leaf, it has no groups'):
        table_of(BY_ID).index("by_id").group_by(id=1)


def test_finding_by_a_group_gives_its_first_row() -> None:
    table = table_of(BY_SYMBOL, (1, "A"), (2, "B"), (3, "A"))
    found = table.index("by_symbol").find_by(symbol="A")
    assert found is not None
    group = table.index("by_symbol").group(found)
    second = group.next(found)
    assert second is not None
    assert (found.row.id, second.row.id, group.next(second)) == (1, 3, None)


def test_a_handle_of_another_table_is_refused() -> None:
    table, other = table_of(BY_ID), table_of(BY_ID, (1,))
    handle = other.first()
    assert handle is not None
    for use in (table.insert, table.remove, table.find, table.next):
        with pytest.raises(
            TableError, match='table "t": a row handle of table "t" cannot be used with this table'
        ):
            use(handle)
    assert len(table) == 0


def test_a_row_that_does_not_fit_changes_nothing() -> None:
    table = table_of(BY_ID)
    with pytest.raises(FieldValueError, match='table "t": field "id" of type int32 cannot hold \'one\''):
        table.insert(("one", None, None))
    with pytest.raises(FieldValueError, match=r'label "t\.in": field "id" of type int32 cannot hold'):
        table.input.insert(("one", None, None))
    with pytest.raises(ModelError, match="is not a row of"):
        table.insert(RowType(other="int32").row(1))
    assert len(table) == 0
    assert table.insert((1, None, 5))
    assert next(iter(table)).price == 5.0


def test_a_table_cannot_change_while_someone_iterates() -> None:
    table = table_of(BY_SYMBOL, (1, "A"), (2, "A"))
    for rows in (
        table.handles(),
        table.index("by_symbol").handles(),
        table.index("by_symbol").group_by(symbol="A").handles(),
    ):
        next(rows)
        table.insert(TRADE.row(3, "A"))
        with pytest.raises(TableError, match='table "t": changed while it was being iterated over'):
            next(rows)


def test_who_is_told_of_a_change_cannot_change_the_table() -> None:
    table = table_of(BY_ID, (1,))

    @table.out.then
    def meddler(rowop: Rowop) -> None:
        table.insert(TRADE.row(7))

    with pytest.raises(ExecutionError) as caught:
        table.delete(TRADE.row(1))
    assert isinstance(caught.value.__cause__, RecursionFault)
    assert 'table "t" cannot be changed' in str(caught.value)
    assert len(table) == 0
    assert not table.is_broken


def test_a_change_may_be_scheduled_by_who_is_told_of_one() -> None:
    table = table_of(BY_ID, (1,))

    def reinsert(rowop: Rowop) -> None:
        if rowop.opcode is DELETE:
            table.unit.schedule(table.input.rowop(INSERT, TRADE.row(7)))

    table.out.then(reinsert)
    table.delete(TRADE.row(1))
    table.unit.drain()
    assert [row.id for row in table] == [7]


def test_an_error_before_the_first_change_leaves_the_table_as_it_was() -> None:
    table = table_of(BY_ID, (1, "A"))
    table.pre.then(lambda rowop: [].pop(), name="fails")
    with pytest.raises(ExecutionError):
        table.insert(TRADE.row(1, "B"))
    assert [row.symbol for row in table] == ["A"]
    assert not table.is_broken


def test_an_error_between_two_changes_breaks_the_table_but_it_can_be_read() -> None:
    table = table_of(BY_ID, (1, "A"))

    def fail(rowop: Rowop) -> None:
        if rowop.opcode is DELETE:
            raise ValueError("no")

    table.out.then(fail)
    with pytest.raises(ExecutionError):
        table.insert(TRADE.row(1, "B"))
    assert table.is_broken
    assert list(table) == []
    for change in (lambda: table.insert(TRADE.row(2)), lambda: table.input.insert(TRADE.row(2))):
        with pytest.raises((BrokenTableError, ExecutionError), match='table "t": broken by an error'):
            change()


@pytest.mark.parametrize("is_nested", [False, True])
def test_a_key_function_that_fails_leaves_the_table_as_it_was(is_nested: bool) -> None:
    ratio = Sorted("ratio", key=lambda row: 1 / row.price)
    indexes = {"by_symbol": Hashed("symbol", ratio=ratio)} if is_nested else {"ratio": ratio}
    table = table_of(TableType(TRADE, arrived=Fifo(), **indexes), (1, "A", 1.0))
    rowops = rowops_of(table)
    with pytest.raises(
        TableError, match=r'table "t": an index cannot take the row id="2" .* division by zero'
    ):
        table.insert(TRADE.row(2, "B", 0.0))
    assert (len(table), rowops) == (1, [])
    assert table.insert(TRADE.row(3, "C", 2.0))
    assert [row.id for row in table] == [1, 3]


def test_rows_are_removed_from_the_beginning_of_an_index_as_long_as_they_are_old() -> None:
    by_time = TableType(TRADE, by_id=Hashed("id"), by_price=Ordered("price", same=Fifo()))
    table = table_of(by_time, (1, "A", 5.0), (2, "A", 1.0), (3, "A", 1.0), (4, "A", 9.0))
    order = table.index("by_price")
    assert table.remove_while(lambda row: row.price < 6.0, order, limit=2) == 2
    assert table.remove_while(lambda row: row.price < 6.0, order) == 1
    assert [row.id for row in table] == [4]


def test_all_errors_of_an_index_tree_are_shown_with_the_row_type() -> None:
    bad = RowType(a="uint8", b="uint8[]", c="int64", d="float64[]", e="string")
    with pytest.raises(ModelError) as caught:
        TableType(bad, sorted=Ordered("z", Descending("d")), group=Hashed("a", inner=Hashed()))
    assert caught.value.message.splitlines() == [
        "index error:",
        "  nested index 1 'sorted':",
        "    no field 'z' in the row type",
        "    can not order by the field 'd', it has an array type 'float64[]'",
        "  nested index 2 'group':",
        "    nested index 1 'inner':",
        "      a hashed index needs key fields",
        "    the row type is:",
        "    row {",
        "      uint8 a,",
        "      uint8[] b,",
        "      int64 c,",
        "      float64[] d,",
        "      string e,",
        "    }",
    ]


def test_what_makes_no_table_type_is_refused() -> None:
    with pytest.raises(ModelError, match="at least one index"):
        TableType(TRADE)
    with pytest.raises(ModelError, match="cannot be nested in a FIFO"):
        Fifo().nest("x", Fifo())
    with pytest.raises(ModelError, match="either a key or a comparison"):
        Sorted("none")
    with pytest.raises(ModelError, match="limit -1"):
        Fifo(limit=-1)
    with pytest.raises(ModelError, match="is not an index type"):
        Hashed("id", nested="x")  # type: ignore[arg-type]


def test_a_path_leads_to_an_index_and_to_the_key_of_all_above_it() -> None:
    tree = TableType(TRADE, a=Hashed("symbol", b=Hashed("id", c=Fifo())), d=Hashed("id", e=Hashed("id")))
    assert tree.key_of_path("a", "b") == ("symbol", "id")
    assert tree.node("a", "b", "c").path == ("a", "b", "c")
    assert tree.first_leaf.path == ("a", "b", "c")
    with pytest.raises(ModelError, match=r'index "a.x" does not exist'):
        tree.node("a", "x")
    with pytest.raises(ModelError, match="at least one name"):
        tree.node()
    with pytest.raises(ModelError, match=r'index "a.b.c" has no key fields'):
        tree.key_of_path("a", "b", "c")
    with pytest.raises(ModelError, match='field "id" occurs twice'):
        tree.key_of_path("d", "e")
    found = tree.first_of_kind(Fifo)
    assert found is None


def test_a_table_type_prints_its_tree() -> None:
    assert str(
        TableType(RowType(a="int32"), k=Hashed("a", last=Fifo(limit=2)), s=Ordered(Descending("a")))
    ) == (
        "table (\n  row {\n    int32 a,\n  }\n) {\n"
        "  index HashedIndex(a) k {\n    index FifoIndex(limit=2) last,\n  },\n"
        "  index OrderedIndex(a DESC) s,\n}"
    )


def test_equal_table_types_agree_in_names_and_matching_ones_in_keys() -> None:
    mine = TableType(TRADE, k=Hashed("id", last=Fifo(limit=2)))
    assert mine.equals(TableType(TRADE, k=Hashed("id", last=Fifo(limit=2))))
    other = TableType(TRADE, m=Hashed("id", rest=Fifo(limit=3)))
    assert not mine.equals(other)
    assert mine.matches(other)
    assert not mine.matches(TableType(TRADE, k=Ordered("id", last=Fifo(limit=2))))
    assert not mine.matches(TableType(TRADE, k=Hashed("symbol", last=Fifo(limit=2))))
