from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rowtide.engine import (
    DELETE,
    INSERT,
    NOP,
    Collapse,
    Fifo,
    Hashed,
    JoinTwo,
    LookupJoin,
    ModelError,
    Ordered,
    RowType,
    Sorted,
    Table,
    TableType,
    Unit,
)
from rowtide.engine.projection import choose_fields, filter_fields, project

ORDER = RowType(id="int32", customer="string", amount="float64")
CUSTOMER = RowType(customer="string", city="string")
CUSTOMERS = TableType(CUSTOMER, by_name=Hashed("customer"), by_city=Hashed("city", all=Fifo()))
ORDERS = TableType(ORDER, by_id=Hashed("id"), by_customer=Hashed("customer", all=Fifo()))


def customers() -> Table:
    table = Table(Unit("u"), "customers", CUSTOMERS)
    table.insert(CUSTOMER.row("Ann", "Aachen"))
    return table


def rowops_of(join: LookupJoin | JoinTwo) -> list[str]:
    rowops: list[str] = []
    join.out.then(
        lambda rowop: rowops.append(f"{rowop.opcode.name} {rowop.label.row_type.format_csv(rowop.row)}"),
        name="log",
    )
    return rowops


@pytest.mark.parametrize(
    ("patterns", "names"),
    [
        ([".*"], ["id", "customer", "amount"]),
        (["amount", "id"], ["id", "amount"]),
        (["!id", ".*"], ["customer", "amount"]),
        (["!id"], []),
        (["(.)(.*)/$2_$1", "none.*"], ["d_i", "ustomer_c", "mount_a"]),
        ([".*/left_$&"], ["left_id", "left_customer", "left_amount"]),
        (["i.*/number", "cust"][:1], ["number"]),
    ],
)
def test_the_first_pattern_that_fits_a_field_decides(patterns: list[str], names: list[str]) -> None:
    assert [new for _, new in choose_fields(ORDER.names, patterns)] == names


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("cust", 'field pattern "cust": field "cust" does not exist'),
        ("!cust", 'field "cust" does not exist'),
        ("(", "is not a valid regular expression"),
        ("(.*)/$2", "has no group 2"),
        (r"(.*)/old_\1", r'"old_\1" is not a field name'),
    ],
)
def test_a_slip_in_a_pattern_is_noticed(pattern: str, message: str) -> None:
    with pytest.raises(ModelError) as caught:
        choose_fields(ORDER.names, [pattern])
    assert message in str(caught.value)


def test_a_filter_gives_a_name_for_each_field() -> None:
    assert filter_fields(("id", "symbol", "size"), ["!id", "size/lot_$&", ".*"]) == [
        None,
        "symbol",
        "lot_size",
    ]


def test_a_projection_of_several_rows_takes_an_absent_one_as_nulls() -> None:
    third = RowType(x="int32")
    cases: list[tuple[list[RowType], list[Any], Any]] = [
        ([ORDER], [(1, "Ann", 2.0)], (1, 2.0)),
        ([ORDER, CUSTOMER], [None, ("Ann", "Aachen")], (None, None, "Aachen")),
        ([ORDER, CUSTOMER, third], [(1, "Ann", 2.0), None, (7,)], (1, 2.0, None, 7)),
    ]
    for sources, rows, result in cases:
        chosen = [choose_fields(source.names, ["!cust.*", ".*"]) for source in sources]
        made, function = project(*zip(sources, chosen[: len(sources)], strict=True))
        assert function(*rows) == result
        assert len(made) == len(result)


def test_a_projection_cannot_give_a_name_twice() -> None:
    with pytest.raises(ModelError, match='field "customer" occurs twice'):
        project((ORDER, [("customer", "customer")]), (CUSTOMER, [("customer", "customer")]))


def lookup(**options: Any) -> LookupJoin:
    return LookupJoin(
        "join", ORDER, customers(), **{"by": {"customer": "customer"}, "right_fields": ["city"], **options}
    )


def test_a_lookup_join_passes_what_has_no_match_unless_it_is_inner() -> None:
    for kind, expected in [("left", ["INSERT 1,Bob,2,"]), ("inner", [])]:
        join = lookup(kind=kind)
        rowops = rowops_of(join)
        join.input.insert(ORDER.row(1, "Bob", 2.0))
        assert rowops == expected
        assert len(join.lookup(ORDER.row(1, "Bob", 2.0))) == len(expected)


def test_a_nop_is_joined_and_passed_on_as_a_nop() -> None:
    join = lookup()
    rowops = rowops_of(join)
    join.input.send(NOP, ORDER.row(1, "Ann"))
    assert rowops == ["NOP 1,Ann,,Aachen"]


def test_null_meets_null() -> None:
    join = lookup()
    join.right.insert(CUSTOMER.row(None, "nowhere"))
    assert [row.city for row in join.lookup(ORDER.row(1))] == ["nowhere"]


def test_a_lookup_may_go_through_an_ordered_index() -> None:
    table = Table(Unit("u"), "c", TableType(CUSTOMER, by_name=Ordered("customer", all=Fifo())))
    table.insert(CUSTOMER.row("Ann", "Aachen"))
    table.insert(CUSTOMER.row("Ann", "Bonn"))
    join = LookupJoin("join", ORDER, table, by=["customer"], index="by_name", right_fields=["city"])
    assert [row.city for row in join.lookup(ORDER.row(1, "Ann"))] == ["Aachen", "Bonn"]


def test_the_key_of_an_absent_row_may_be_mirrored() -> None:
    join = lookup(mirror_key=True, left_fields=["id"], right_fields=[".*"])
    assert join.lookup(ORDER.row(1, "Bob")) == [(1, "Bob", None)]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: lookup(by={"id": "customer"}), "can never be equal: int32 and string"),
        (lambda: lookup(by={"customer": "city"}), "has the key customer, but is joined by customer=city"),
        (lambda: lookup(by={"custmer": "customer"}), 'join "join": field "custmer" does not exist'),
        (lambda: lookup(by={}), "at least one pair"),
        (lambda: lookup(index="nowhere"), 'index "nowhere" does not exist'),
        (lambda: lookup(index=("by_city", "all")), "has no key fields"),
        (lambda: lookup(kind="outer"), 'kind "outer" does not exist'),
        (lambda: lookup(right_fields=[".*"]), 'field "customer" occurs twice'),
        (
            lambda: LookupJoin(
                "join",
                ORDER,
                Table(Unit("u"), "t", TableType(CUSTOMER, s=Sorted("s", key=lambda row: 1))),
                by=["customer"],
            ),
            'table "t" has no hashed index at the top',
        ),
    ],
)
def test_a_lookup_join_that_makes_no_sense_is_refused(make: Callable[[], LookupJoin], message: str) -> None:
    with pytest.raises(ModelError) as caught:
        make()
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("mine", "other", "pairs"),
    [
        ("int32", "string", [(12, "12"), (-3, "-3")]),
        ("string", "int32", [("12", 12), ("012", None), ("5000000000", None), ("x", None), ("", None)]),
        ("string", "uint8[]", [("\u00e9", b"\xc3\xa9"), ("\udc00", None)]),
        ("uint8[]", "string", [(b"\xc3\xa9", "\u00e9"), (b"\xff", None)]),
        ("uint8[]", "int64", [(b"12", 12), (b"\xff", None)]),
        ("int64", "uint8", [(7, b"7"), (12, None)]),
        ("int32", "float64", [(2, 2.0)]),
        ("timestamp", "string", []),
        ("float64", "string", []),
        ("int32[]", "string", []),
        ("date", "timestamp", []),
    ],
)
def test_keys_are_converted_one_to_one_or_not_at_all(
    mine: str, other: str, pairs: list[tuple[Any, Any]]
) -> None:
    left, right = RowType(key=mine), RowType(key=other)
    table = Table(Unit("u"), "t", TableType(right, by=Hashed("key")))

    def make() -> LookupJoin:
        return LookupJoin(
            "join",
            left,
            table,
            by=["key"],
            kind="inner",
            left_fields=["key/mine"],
            convert_keys=True,
        )

    if not pairs:
        with pytest.raises(ModelError, match=r"cannot be converted to .* without loss"):
            make()
        return
    join = make()
    for given, expected in pairs:
        table.clear()
        if expected is not None:
            table.insert(right.row(expected))
        assert [row.key for row in join.lookup(left.row(given))] == [expected] * (expected is not None)


def test_a_mirrored_key_is_converted_or_null() -> None:
    table = Table(Unit("u"), "t", TableType(RowType(key="int32"), by=Hashed("key")))
    join = LookupJoin(
        "join", RowType(text="string"), table, by={"text": "key"}, mirror_key=True, convert_keys=True
    )
    assert [tuple(join.lookup(join.left_type.row(text))[0]) for text in ("12", "x")] == [
        ("12", 12),
        ("x", None),
    ]


@pytest.mark.parametrize(("mine", "other"), [("string", "uint8[]"), ("date", "timestamp")])
def test_keys_that_can_never_be_equal_as_they_are_are_refused(mine: str, other: str) -> None:
    table = Table(Unit("u"), "t", TableType(RowType(key=other), by=Hashed("key")))
    with pytest.raises(ModelError, match="can never be equal"):
        LookupJoin("join", RowType(key=mine), table, by=["key"], left_fields=[])


def two(unit: Unit | None = None, **options: Any) -> JoinTwo:
    unit = unit or Unit("u")
    orders = Table(unit, "orders", ORDERS)
    people = Table(unit, "customers", CUSTOMERS)
    return JoinTwo(
        "join", orders, people, **{"left_index": "by_customer", "right_index": "by_name", **options}
    )


def tables_of(join: JoinTwo) -> tuple[Table, Table]:
    return join.right_lookup.right, join.left_lookup.right


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({}, "id customer amount city"),
        ({"left_first": False}, "customer city id amount"),
        ({"unique_key": "right"}, "id amount customer city"),
        ({"unique_key": "manual", "right_fields": ["city", "customer/who"]}, "id customer amount who city"),
    ],
)
def test_the_key_is_given_once_on_the_chosen_side(options: dict[str, Any], names: str) -> None:
    assert " ".join(two(**options).result_type.names) == names


def test_only_with_key_mirroring_an_unmatched_right_row_shows_its_key_on_the_left() -> None:
    for unique_key, shown in [("manual", "INSERT ,Ann,,Aachen"), ("none", "INSERT ,,,Aachen")]:
        join = two(kind="outer", unique_key=unique_key, right_fields=["city"])
        rowops = rowops_of(join)
        tables_of(join)[1].insert(CUSTOMER.row("Ann", "Aachen"))
        assert rowops == [shown]


def test_a_simple_minded_outer_join_never_replaces_what_had_no_match() -> None:
    join = two(kind="outer", simple_minded=True)
    rowops = rowops_of(join)
    orders, people = tables_of(join)
    people.insert(CUSTOMER.row("Ann", "Aachen"))
    orders.insert(ORDER.row(1, "Ann", 2.0))
    assert rowops == ["INSERT ,Ann,,Aachen", "INSERT 1,Ann,2,Aachen"]


def test_a_change_that_matches_replaces_row_by_row() -> None:
    join = two(kind="left")
    orders, people = tables_of(join)
    orders.insert(ORDER.row(1, "Ann"))
    orders.insert(ORDER.row(2, "Ann"))
    rowops = rowops_of(join)
    people.insert(CUSTOMER.row("Ann", "Aachen"))
    assert rowops == ["DELETE 1,Ann,,", "INSERT 1,Ann,,Aachen", "DELETE 2,Ann,,", "INSERT 2,Ann,,Aachen"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"left_index": "by_id"}, 'key fields "id" and "customer" have types int32 and string'),
        ({"left_index": "by_id", "allow_key_types": True}, "can never be equal"),
        ({"kind": "full"}, 'kind "full" does not exist'),
        ({"unique_key": "both"}, 'kind "both" does not exist'),
        ({"by": {"id": "customer"}}, "are not the keys of the indexes"),
        ({"right_index": ("by_city", "all")}, "has no key fields"),
    ],
)
def test_a_join_of_two_that_makes_no_sense_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError) as caught:
        two(**options)
    assert message in str(caught.value)


def test_tables_of_two_units_cannot_be_joined() -> None:
    with pytest.raises(ModelError, match='tables "orders" and "customers" belong to different units'):
        JoinTwo(
            "join",
            Table(Unit("u"), "orders", ORDERS),
            Table(Unit("v"), "customers", CUSTOMERS),
            left_index="by_customer",
            right_index="by_name",
        )


def test_a_collapse_concludes_from_changes_since_the_last_flush_alone() -> None:
    collapse = Collapse("c", CUSTOMER, "customer", unit=Unit("u"))
    rowops: list[str] = []
    collapse.out.then(lambda rowop: rowops.append(f"{rowop.opcode.name} {rowop.row.city}"), name="log")
    ann, moved = CUSTOMER.row("Ann", "Aachen"), CUSTOMER.row("Ann", "Bonn")
    for sent, left in [
        ([(INSERT, ann), (DELETE, moved)], []),
        ([(DELETE, ann), (INSERT, ann)], ["DELETE Aachen", "INSERT Aachen"]),
        ([(DELETE, ann), (INSERT, moved), (DELETE, moved)], ["DELETE Aachen"]),
        ([(INSERT, ann), (INSERT, moved)], ["INSERT Bonn"]),
        ([(DELETE, ann), (DELETE, moved)], ["DELETE Bonn"]),
        ([(NOP, ann)], []),
    ]:
        rowops.clear()
        for opcode, row in sent:
            collapse.input.send(opcode, row)
        collapse.flush()
        assert rowops == left


def test_a_collapse_needs_a_key_and_a_unit() -> None:
    with pytest.raises(ModelError, match="needs key fields"):
        Collapse("c", CUSTOMER, unit=Unit("u"))
    with pytest.raises(ModelError, match="needs a unit"):
        Collapse("c", CUSTOMER, "customer")
    with pytest.raises(ModelError, match='label "l" belongs to another unit'):
        Collapse("c", Unit("u").label("l", CUSTOMER), "customer", unit=Unit("v"))


def test_a_join_tells_what_it_was_made_of() -> None:
    join = two(kind="left", left_first=False)
    assert (join.kind, join.unique_key, join.by) == ("left", "right", [("customer", "customer")])
    assert (join.left_fields, join.right_fields) == (("!customer", ".*"), (".*",))
    assert (join.left_index, join.right_index) == (("by_customer",), ("by_name",))
    inner = join.right_lookup
    assert (inner.kind, inner.limit_one, inner.index) == ("inner", False, ("by_customer",))
    assert join.left_lookup.limit_one


def test_a_lookup_join_says_what_it_will_do() -> None:
    table = customers()
    join = LookupJoin(
        "j", ORDER, table, by=["customer"], right_fields=["!customer", "city/town"], kind="inner"
    )
    assert join.describe().splitlines() == [
        'join "j": inner, each row of j.in as left',
        '  find one row at most of table "customers" where customer = left.customer '
        "(index by_name, HashedIndex(customer))",
        "  none found: send nothing",
        "  for each found as right: send both, same opcode",
        "  a result, sent to j.out, is",
        "    int32 id = left.id",
        "    string customer = left.customer",
        "    float64 amount = left.amount",
        "    string town = right.city",
    ]
    moved = RowType(city="string")
    by_city = LookupJoin("k", moved, table, by={"city": "city"}, index="by_city", right_fields=["customer"])
    rowops = by_city.describe()
    assert 'find all rows of table "customers" where city = left.city (index by_city, ' in rowops
    assert "none found: send left with right absent, same opcode" in rowops
    first = LookupJoin("l", moved, table, by=["city"], index="by_city", limit_one=True, left_fields=["!city"])
    assert 'find the first row of table "customers"' in first.describe()
    swapped = LookupJoin(
        "m", moved, table, by=["city"], index="by_city", right_fields=["customer"], left_first=False
    )
    assert swapped.describe().splitlines()[-3:] == [
        "    string customer = right.customer",
        "    string city = left.city",
        "  an absent side has NULLs",
    ]


def test_a_join_of_two_tables_says_what_either_side_does() -> None:
    unit = Unit("u")
    orders, people = Table(unit, "orders", ORDERS), Table(unit, "customers", CUSTOMERS)
    join = JoinTwo(
        "j",
        orders,
        people,
        left_index="by_customer",
        right_index="by_name",
        kind="outer",
        left_fields=["id", "customer"],
    )
    assert join.describe().splitlines() == [
        'join "j": outer, results go to j.out',
        "  orders.out goes to",
        '    join "j.leftLookup": left, each row of j.leftLookup.in as left',
        '      find one row at most of table "customers" where customer = left.customer '
        "(index by_name, HashedIndex(customer))",
        "      none found: send left with right absent, same opcode",
        "      OP_INSERT, for each found as right: if left is the first of its key, OP_DELETE with left "
        "absent; OP_INSERT of both",
        "      OP_DELETE, for each found as right: OP_DELETE of both; if left was the last of its key, "
        "OP_INSERT with left absent",
        "      OP_NOP with any found: send nothing",
        "      a result, sent to j.leftLookup.out, is",
        "        int32 id = left.id",
        "        string customer = left.customer",
        "        string city = right.city",
        "      an absent side has the key of the other, else NULLs",
        "  customers.out goes to",
        '    join "j.rightLookup": left, each row of j.rightLookup.in as left',
        '      find all rows of table "orders" where customer = left.customer '
        "(index by_customer, HashedIndex(customer))",
        "      none found: send left with right absent, same opcode",
        "      OP_INSERT, for each found as right: OP_DELETE with left absent; OP_INSERT of both",
        "      OP_DELETE, for each found as right: OP_DELETE of both; OP_INSERT with left absent",
        "      OP_NOP with any found: send nothing",
        "      a result, sent to j.rightLookup.out, is",
        "        int32 id = right.id",
        "        string customer = right.customer",
        "        string city = left.city",
        "      an absent side has the key of the other, else NULLs",
    ]


def test_what_an_outer_join_says_it_sends_is_what_it_sends() -> None:
    unit = Unit("u")
    orders, people = Table(unit, "orders", ORDERS), Table(unit, "customers", CUSTOMERS)
    join = JoinTwo(
        "j", orders, people, left_index="by_customer", right_index="by_name", kind="outer", left_fields=["id"]
    )
    rowops = rowops_of(join)
    people.insert(CUSTOMER.row("Ann", "Aachen"))
    orders.insert(ORDER.row(1, "Ann"))
    orders.insert(ORDER.row(2, "Ann"))
    join.left_lookup.input.send(NOP, ORDER.row(3, "Ann"))
    join.left_lookup.input.send(NOP, ORDER.row(3, "Bob"))
    orders.delete(ORDER.row(1))
    orders.delete(ORDER.row(2))
    people.delete(CUSTOMER.row("Ann"))
    assert rowops == [
        "INSERT ,Aachen",
        "DELETE ,Aachen",
        "INSERT 1,Aachen",
        "INSERT 2,Aachen",
        "NOP 3,",
        "DELETE 1,Aachen",
        "DELETE 2,Aachen",
        "INSERT ,Aachen",
        "DELETE ,Aachen",
    ]


@pytest.mark.parametrize(
    ("kind", "value", "given", "mirrored"),
    [
        ("int64", "float64", 9.0, 9),
        ("int64", "float64", 9.5, None),
        ("int64", "float64", float("inf"), None),
        ("int32", "int64", 99_999_999_999, None),
        ("float64", "int64", 7, 7.0),
        ("float64", "int64", 2**53 + 1, None),
        ("float64[]", "int64[]", (7,), (7.0,)),
        ("int64[]", "float64[]", (7.5,), None),
    ],
)
def test_a_key_under_the_other_sides_name_is_a_value_of_its_type(
    kind: str, value: str, given: object, mirrored: object
) -> None:
    unit = Unit("u")
    left_type, right_type = RowType(key=value, a="int32"), RowType(id=kind, b="int32")
    left = Table(unit, "left", TableType(left_type, by_key=Hashed("key")))
    right = Table(unit, "right", TableType(right_type, by_id=Hashed("id")))
    join = JoinTwo(
        "join",
        left,
        right,
        left_index="by_key",
        right_index="by_id",
        kind="outer",
        unique_key="right",
        allow_key_types=True,
    )
    seen: list[object] = []
    join.out.then(lambda rowop: seen.append(rowop.row.id), name="note")
    left.insert(left_type.row(given, 1))
    assert seen == [mirrored]
    assert type(seen[0]) is type(mirrored)
