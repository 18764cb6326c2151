from __future__ import annotations

import math

import pytest

from rowtide.engine import FieldValueError, ModelError, RowType
from rowtide.rows import types

ALL = RowType(a="uint8", b="int32", c="int64", d="float64", e="string")
ARRAYS = RowType(blob="uint8[]", numbers="int32[]")


def test_a_row_type_prints_its_fields() -> None:
    assert str(ALL) == "row {\n  uint8 a,\n  int32 b,\n  int64 c,\n  float64 d,\n  string e,\n}"


def test_a_row_type_prints_with_chosen_indentation_or_on_one_line() -> None:
    assert ALL.render("++", "--").splitlines()[1:3] == ["++--uint8 a,", "++--int32 b,"]
    assert ALL.render("++", "--").endswith("\n++}")
    assert ALL.render(None) == "row { uint8 a, int32 b, int64 c, float64 d, string e, }"


def test_a_row_prints_what_is_not_null_and_escapes_quotes() -> None:
    row = ARRAYS.row(b'ab\\ "cd"', [0, 0])
    assert ARRAYS.format(row) == r'blob="ab\\ \"cd\"" numbers=["0", "0"]'
    assert ALL.format(ALL.row()) == ""


@pytest.mark.parametrize(
    ("value", "text"), [(10.0, "10"), (3.14, "3.14"), (1e20, "1e+20"), (1 / 3, "0.333333333333333")]
)
def test_a_float_prints_with_fifteen_digits(value: float, text: str) -> None:
    assert ALL.format(ALL.row(d=value)) == f'd="{text}"'


def test_a_large_integer_prints_in_full() -> None:
    row = ALL.row(b"1", 456, 3000000000000000, 3.14, "text")
    assert ALL.format(row) == 'a="1" b="456" c="3000000000000000" d="3.14" e="text"'


def test_values_come_by_position_by_name_or_both_and_the_rest_is_null() -> None:
    assert ALL.row(b"x", 1) == (b"x", 1, None, None, None)
    assert ALL.row(b"x", e="t") == (b"x", None, None, None, "t")
    assert ALL.row(d=1).d == 1.0


def test_an_empty_array_is_null_and_a_missing_element_zero() -> None:
    assert ARRAYS.row(numbers=[]).numbers is None
    assert ARRAYS.row(numbers=[1, None]).numbers == (1, 0)


@pytest.mark.parametrize(
    ("field", "value"),
    [("a", b"12"), ("b", 2**31), ("b", "1"), ("b", True), ("c", 2**63), ("d", "x"), ("e", 5), ("e", b"x")],
)
def test_a_value_that_does_not_fit_is_named_with_its_field(field: str, value: object) -> None:
    with pytest.raises(FieldValueError) as caught:
        ALL.row(**{field: value})
    assert (caught.value.field, caught.value.value) == (field, value)
    with pytest.raises(FieldValueError, match=f'field "{field}"'):
        ALL.changed(ALL.row(), **{field: value})


def test_unknown_fields_and_too_many_values_are_refused() -> None:
    with pytest.raises(ModelError, match='field "symbl" does not exist'):
        ALL.row(symbl="A")
    with pytest.raises(ModelError, match="6 values for a row of 5 fields"):
        ALL.row(1, 2, 3, 4, 5, 6)


@pytest.mark.parametrize("kind", ["int", "string[]", "uint8[][]"])
def test_a_type_that_does_not_exist_is_refused(kind: str) -> None:
    with pytest.raises(ModelError, match='field "f": type'):
        RowType(f=kind)


def test_a_field_name_comes_once() -> None:
    with pytest.raises(ModelError, match='field "a" occurs twice'):
        RowType.of([("a", "int32"), ("a", "string")])


def test_equal_types_agree_in_names_and_matching_ones_in_types() -> None:
    pair = RowType(x="int32", y="string")
    renamed = RowType(p="int32", q="string")
    assert pair == RowType.of([("x", "int32"), ("y", "string")])
    assert pair != renamed
    assert pair.matches(renamed)
    assert not pair.matches(RowType(y="string", x="int32"))


def test_a_row_of_a_matching_type_changes_its_names_only() -> None:
    renamed = RowType(p="uint8", q="int32", r="int64", s="float64", t="string")
    row = ALL.row(b=5)
    assert renamed.adopt(row).q == 5
    with pytest.raises(ModelError, match="is not a row of"):
        ARRAYS.adopt(row)
    with pytest.raises(FieldValueError):
        ARRAYS.adopt((b"", "text"))


def test_changing_a_row_leaves_the_original_alone() -> None:
    row = ALL.row(b=1, e="old")
    assert ALL.changed(row, e="new") == (None, 1, None, None, "new")
    assert row.e == "old"


def test_text_becomes_a_row_and_empty_text_null() -> None:
    assert ALL.parse(["x", "1", "", "2.5"]) == (b"x", 1, None, 2.5, None)
    with pytest.raises(FieldValueError, match="field \"b\" of type int32 cannot hold 'one'"):
        ALL.parse(["x", "one"])
    with pytest.raises(ModelError, match="7 values"):
        ALL.parse(["1"] * 7)
    with pytest.raises(ModelError, match="cannot be read from text"):
        ARRAYS.parse(["x"])


def test_extending_a_type_keeps_its_fields_first() -> None:
    assert RowType(x="int32").extended(y="string") == RowType(x="int32", y="string")


def test_a_field_name_that_is_no_python_name_is_read_by_a_getter() -> None:
    odd = RowType.of([("order date", "string"), ("count", "int32")])
    row = odd.row("today", 3)
    assert odd.getter("order date")(row) == "today"
    assert row.count == 3
    assert odd.as_dict(row) == {"order date": "today", "count": 3}


def test_every_nan_is_one_value() -> None:
    first, second = ALL.row(d=float("nan")), ALL.row(d=-math.nan)
    assert {first: "found"}[second] == "found"


def test_sql_row_types_come_and_go() -> None:
    sql = types.RowType((types.Field("n", types.INTEGER), types.Field("at", types.TIMESTAMP)))
    assert RowType.from_sql(sql).to_sql() == sql
    assert RowType.from_sql(sql).render(None) == "row { int32 n, TIMESTAMP at, }"
    with pytest.raises(ModelError, match='"numbers" of type int32\\[\\] has no SQL type'):
        ARRAYS.to_sql()


def test_a_row_is_dumped_with_types_nulls_full_values_and_what_does_not_fit() -> None:
    kind = RowType(id="int32", name="string", price="float64", raw="uint8[]", levels="int64[]")
    row = kind.row(1, None, 0.1 + 0.2, b"\x00\xff", [1, 2])
    assert kind.dump(row).splitlines() == [
        "int32 id = 1",
        "string name = NULL",
        "float64 price = 0.30000000000000004",
        "uint8[] raw = b'\\x00\\xff'",
        "int64[] levels = (1, 2)",
    ]
    unchecked = kind.make(("one", 'a"', None, None, None))
    assert kind.dump(unchecked).splitlines()[:2] == [
        "int32 id = 'one'  (does not fit the type)",
        "string name = 'a\"'",
    ]
    with pytest.raises(ModelError, match="2 values in a row of 5 fields"):
        kind.dump((1, "a"))
