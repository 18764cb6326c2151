from __future__ import annotations

from decimal import Decimal

import pytest

from rowtide.codec.written.times import ScenarioDay
from rowtide.errors import StatementError
from rowtide.rows.rowop import Opcode
from rowtide.rows.types import DOUBLE, INTEGER, VARCHAR, Field, Kind, RowType, Type, decimal
from rowtide.sql.catalog.written_names import fold, relation_name
from rowtide.testing.compare import ANY, ActualRow, ExpectedRow, Misfit, RowComparison
from rowtide.testing.difference import render_difference
from rowtide.testing.rows import InputRow, RelationShape, RowReader
from rowtide.testing.scenario import ListRow, NamedRow

ORDERS = RelationShape(
    "ORDERS", RowType((Field("ID", INTEGER), Field("TICKER", VARCHAR), Field("OP", VARCHAR)))
)
STOCK = RelationShape(
    "STOCK", RowType((Field("ID", INTEGER), Field("PRICE", decimal(6, 2)))), is_changes=True
)


def reader(shape: RelationShape) -> RowReader:
    return RowReader(shape, ScenarioDay(), fold)


def listed(*cells: str | None) -> ListRow:
    return ListRow(cells, 1)


def named(**cells: str | None) -> NamedRow:
    return NamedRow(tuple(cells.items()), 1)


def test_a_row_of_a_stream_is_its_rowtime_and_its_columns() -> None:
    rows = reader(ORDERS).inputs([listed("00:00:01", "7", "ORCL", None)])
    assert rows == [InputRow(1000, (7, "ORCL", None))]


def test_what_a_mapping_does_not_name_goes_in_as_null_and_is_not_compared_coming_out() -> None:
    row = named(id="7", ROWTIME="1")
    assert reader(ORDERS).inputs([row]) == [InputRow(1, (7, None, None))]
    assert reader(ORDERS).wanted([row]) == [ExpectedRow(1, (7, ANY, ANY), ANY)]
    assert reader(ORDERS).wanted([named(ticker=None)]) == [ExpectedRow(ANY, (ANY, None, ANY), ANY)]


def test_a_change_of_a_table_begins_with_plus_or_minus_and_plus_may_be_left_out() -> None:
    assert reader(STOCK).inputs(
        [listed("-", "1", "7", "2.5"), listed("1", "7", "2.5"), named(OP="-", ROWTIME="1", id="7")]
    ) == [
        InputRow(1, (7, Decimal("2.50")), Opcode.DELETE),
        InputRow(1, (7, Decimal("2.50")), Opcode.INSERT),
        InputRow(1, (7, None), Opcode.DELETE),
    ]


def test_a_delete_may_leave_out_what_stands_behind_the_key() -> None:
    assert reader(STOCK).inputs([listed("-", "1", "7")]) == [InputRow(1, (7, None), Opcode.DELETE)]


def test_a_column_called_op_is_a_column() -> None:
    assert reader(ORDERS).wanted([named(op="x")]) == [ExpectedRow(ANY, (ANY, ANY, "x"), ANY)]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (listed("1", "7", "ORCL"), "has 3 columns after its ROWTIME, not 2"),
        (listed("1", "seven", "ORCL", None), 'not a number, in column "ID"'),
        (listed("noon", "7", "ORCL", None), "in ROWTIME"),
        (named(tikcer="x"), 'column "TIKCER" does not exist'),
        (NamedRow((("id", "1"), ("ID", "2")), 1), "named twice"),
    ],
)
def test_a_row_that_does_not_fit_the_relation_is_refused(row: ListRow, message: str) -> None:
    with pytest.raises(StatementError) as refused:
        reader(ORDERS).inputs([row])
    assert message in refused.value.message


def test_an_expected_value_that_no_row_can_have_is_a_difference() -> None:
    (want,) = reader(STOCK).wanted([listed("1", "seven", "123456789")])
    assert want.values == (Misfit("seven"), Decimal(123456789))
    matched = RowComparison(STOCK.row_type).in_order([want], [ActualRow(1, (7, Decimal("1.00")))])
    assert matched.differing == (0,)


def test_decimals_are_compared_as_numbers_and_chars_without_trailing_blanks() -> None:
    row_type = RowType((Field("D", decimal(8, 6)), Field("C", Type(Kind.CHAR, 4))))
    shape = RelationShape("V", row_type)
    wanted = reader(shape).wanted([listed("1", "2.5", "ab")])
    given = [ActualRow(1, (Decimal("2.500000"), "ab  "))]
    assert RowComparison(row_type).in_order(wanted, given).is_equal
    assert RowComparison(row_type).as_multiset(wanted, given).is_equal


def test_a_tolerance_is_relative_and_for_floats_only() -> None:
    row_type = RowType((Field("X", DOUBLE), Field("N", decimal(20, 10))))
    wanted = [ExpectedRow(1, (1e12, Decimal(1)))]
    near, exact = 1e12 * (1 + 1e-10), Decimal(1)
    assert RowComparison(row_type, 1e-9).in_order(wanted, [ActualRow(1, (near, exact))]).is_equal
    assert RowComparison(row_type, 1e-9).as_multiset(wanted, [ActualRow(1, (near, exact))]).is_equal
    assert not RowComparison(row_type).in_order(wanted, [ActualRow(1, (near, exact))]).is_equal
    assert (
        not RowComparison(row_type, 1e-9)
        .in_order(wanted, [ActualRow(1, (1e12, exact + Decimal("1e-10")))])
        .is_equal
    )


def test_a_reason_may_be_given_by_its_code_alone() -> None:
    row_type = RowType((Field("REASON", VARCHAR),))
    comparison = RowComparison(row_type, prefixes=frozenset({"REASON"}))
    given = [ActualRow(1, ('CAST: "x" is not a valid INTEGER',))]
    assert comparison.in_order([ExpectedRow(1, ("CAST",))], given).is_equal
    assert not comparison.as_multiset([ExpectedRow(1, ("CA",))], given).is_equal


def test_opcodes_are_compared() -> None:
    comparison = RowComparison(STOCK.row_type)
    row = (7, Decimal(1))
    assert not comparison.in_order([ExpectedRow(1, row)], [ActualRow(1, row, Opcode.DELETE)]).is_equal
    assert comparison.in_order([ExpectedRow(1, row, ANY)], [ActualRow(1, row, Opcode.DELETE)]).is_equal


def test_a_difference_shows_expected_and_got_side_by_side_with_rowtimes() -> None:
    row_type = RowType((Field("N", INTEGER),))
    shape = RelationShape("V", row_type)
    rows = [ActualRow(1000 * number, (number,)) for number in range(12)]
    wanted = [ExpectedRow(row.rowtime, row.row) for row in rows]
    del wanted[6]
    wanted[8] = ExpectedRow(9000, (None,))
    wanted.append(ExpectedRow(20_000, (20,)))
    matched = RowComparison(row_type).in_order(wanted, rows)
    assert render_difference(matched, shape, ScenarioDay()).splitlines() == [
        "  expected           got",
        "  ...",
        "  00:00:03  3        00:00:03  3",
        "  00:00:04  4        00:00:04  4",
        "  00:00:05  5        00:00:05  5",
        "                  >  00:00:06  6",
        "  00:00:07  7        00:00:07  7",
        "  00:00:08  8        00:00:08  8",
        "  00:00:09  null  |  00:00:09  9",
        "  00:00:10  10       00:00:10  10",
        "  00:00:11  11       00:00:11  11",
        "  00:00:20  20    <",
    ]


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("orders", "ORDERS"),
        ('"orders"', "orders"),
        ("public.orders", "ORDERS"),
        ("sys.errors", "SYS.ERRORS"),
        ('traffic."in.put"', 'TRAFFIC."in.put"'),
        ('"a""b"', '"a""b"'),
    ],
)
def test_relations_are_named_as_in_sql(written: str, name: str) -> None:
    assert relation_name(written) == name


@pytest.mark.parametrize("written", ["", "a.", "a b", "a.b.c", '"a'])
def test_what_is_no_name_is_refused(written: str) -> None:
    with pytest.raises(StatementError, match="invalid name"):
        relation_name(written)
