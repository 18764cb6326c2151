"""Truth tables of three-valued logic, comparisons, and which arguments are looked at."""

from __future__ import annotations

import math
from decimal import Decimal
from itertools import product

import pytest

from rowtide.errors import Reason, RejectedRowError
from rowtide.expr.functions import TypeMismatch, resolve
from rowtide.expr.tree import Call, Expr, FieldRef, Literal
from rowtide.rows.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    INTERVAL_DAY,
    TIMESTAMP,
    VARCHAR,
    Kind,
    Type,
    decimal,
)
from unit.expr.expressions import evaluated, type_of, value_of

D = Decimal
TRUTHS: tuple[bool | None, ...] = (True, False, None)
FAILING = Call(
    "=", (Call("/", (Literal(1, INTEGER), Literal(0, INTEGER)), INTEGER), Literal(1, INTEGER)), BOOLEAN
)


def truth(value: bool | None) -> tuple[object, Type]:
    return value, BOOLEAN


@pytest.mark.parametrize(("left", "right"), list(product(TRUTHS, TRUTHS)))
def test_and_or_have_their_truth_tables(left: bool | None, right: bool | None) -> None:
    both = (left, right)
    conjunction = False if False in both else None if None in both else True
    disjunction = True if True in both else None if None in both else False
    assert value_of("AND", truth(left), truth(right)) is conjunction
    assert value_of("OR", truth(left), truth(right)) is disjunction


@pytest.mark.parametrize(
    ("name", "answers"),
    [
        ("NOT", (False, True, None)),
        ("IS NULL", (False, False, True)),
        ("IS NOT NULL", (True, True, False)),
        ("IS TRUE", (True, False, False)),
        ("IS NOT TRUE", (False, True, True)),
        ("IS FALSE", (False, True, False)),
        ("IS NOT FALSE", (True, False, True)),
    ],
)
def test_tests_of_one_truth_value(name: str, answers: tuple[bool | None, ...]) -> None:
    assert tuple(value_of(name, truth(value)) for value in TRUTHS) == answers


def test_distinct_from_takes_null_for_a_value() -> None:
    null = (None, INTEGER)
    assert [value_of("IS DISTINCT FROM", a, b) for a, b in ((1, 1), (1, 2), (1, null), (null, null))] == [
        False,
        True,
        True,
        False,
    ]
    assert value_of("IS NOT DISTINCT FROM", null, null) is True


def test_nullif_keeps_the_type_of_its_first_argument() -> None:
    assert value_of("NULLIF", 3, 3) is None
    assert value_of("NULLIF", 3, (None, INTEGER)) == 3
    assert value_of("NULLIF", 0, (None, INTEGER)) == 0
    assert value_of("NULLIF", "", (None, VARCHAR)) == ""
    assert value_of("NULLIF", "ab", "a") == "ab"
    assert type_of("NULLIF", D("1.50"), 0) == decimal(3, 2)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (1, D("1.5")),
        (D("1.499"), D("1.50")),
        ((2**53, BIGINT), (2**53 + 1, BIGINT)),
        ((2**53, BIGINT), D("9007199254740992.5")),
        (1.5, (1.75, Type(Kind.REAL))),
        (D("0.1"), 0.2),
        (False, True),
        ("a", "a "),
        ("Z", "a"),
        ("z", "é"),
        ("\uffff", "\U00010000"),
        ((b"a", Type(Kind.VARBINARY)), (b"b", Type(Kind.VARBINARY))),
        ((0, DATE), (1, TIMESTAMP)),
        ((-1, INTERVAL_DAY), (1, INTERVAL_DAY)),
    ],
)
def test_the_first_is_less_than_the_second(left: object, right: object) -> None:
    assert [value_of(name, left, right) for name in ("<", "<=", ">", ">=", "=", "<>")] == [
        True,
        True,
        False,
        False,
        False,
        True,
    ]
    assert value_of("=", left, left) is True
    null = (None, INTEGER)
    assert value_of("=", 1, null) is None


def test_a_decimal_meets_a_double_as_a_double() -> None:
    assert value_of("=", D("0.1"), 0.1) is True
    assert value_of("=", (2**53 + 1, BIGINT), 2.0**53) is True


def test_nan_is_neither_less_nor_equal_nor_greater() -> None:
    assert [value_of(name, math.nan, math.nan) for name in ("<", "=", ">", "<>")] == [
        False,
        False,
        False,
        True,
    ]


def test_text_and_numbers_are_not_compared() -> None:
    with pytest.raises(TypeMismatch, match=r'operator "=" does not take \(VARCHAR, INTEGER\)'):
        resolve("=", [VARCHAR, INTEGER])


@pytest.mark.parametrize(("name", "decisive"), [("AND", False), ("OR", True)])
def test_what_follows_a_settled_answer_is_not_looked_at(name: str, decisive: bool) -> None:
    flag = FieldRef(0, BOOLEAN)
    lazy = Call(name, (flag, FAILING), BOOLEAN)
    assert evaluated(lazy, [truth(decisive)]) is decisive
    for still_open in (not decisive, None):
        with pytest.raises(RejectedRowError) as caught:
            evaluated(lazy, [truth(still_open)])
        assert caught.value.reason is Reason.DIVISION_BY_ZERO
    # The order of the arguments is the order of looking.
    with pytest.raises(RejectedRowError):
        evaluated(Call(name, (FAILING, flag), BOOLEAN), [truth(decisive)])


def fraction_or(otherwise: Expr) -> Expr:
    """CASE WHEN x <> 0 THEN 1 / x ELSE otherwise END."""
    x = FieldRef(0, INTEGER)
    safe = Call("<>", (x, Literal(0, INTEGER)), BOOLEAN)
    return Call("CASE", (safe, Call("/", (Literal(1, INTEGER), x), INTEGER), otherwise), INTEGER)


def test_case_looks_only_at_the_value_it_gives() -> None:
    guarded = fraction_or(Literal(-1, INTEGER))
    assert [evaluated(guarded, [(x, INTEGER)]) for x in (1, 0, None)] == [1, -1, -1]
    failing = fraction_or(Call("/", (FieldRef(0, INTEGER), Literal(0, INTEGER)), INTEGER))
    assert [evaluated(failing, [(x, INTEGER)]) for x in (1, None)] == [1, None]
    with pytest.raises(RejectedRowError):
        evaluated(failing, [(0, INTEGER)])


def test_case_takes_the_first_condition_that_is_true_and_null_is_not() -> None:
    first, second = FieldRef(0, BOOLEAN), FieldRef(1, BOOLEAN)
    case = Call(
        "CASE", (first, Literal("a", VARCHAR), second, Literal("b", VARCHAR), Literal(None, VARCHAR)), VARCHAR
    )
    answers = {pair: evaluated(case, [truth(each) for each in pair]) for pair in product(TRUTHS, TRUTHS)}
    assert answers == {(a, b): "a" if a else "b" if b else None for a, b in product(TRUTHS, TRUTHS)}


def test_case_brings_its_values_to_their_common_type() -> None:
    flag = FieldRef(0, BOOLEAN)
    kind = resolve("CASE", [BOOLEAN, INTEGER, decimal(3, 2)])
    assert kind == decimal(12, 2)
    case = Call("CASE", (flag, Literal(1, INTEGER), Literal(D("2.50"), decimal(3, 2))), kind)
    assert [str(evaluated(case, [truth(value)])) for value in (True, False)] == ["1.00", "2.50"]


def test_coalesce_looks_no_further_than_the_first_value() -> None:
    failing = Call("/", (Literal(1, INTEGER), Literal(0, INTEGER)), INTEGER)
    lazy = Call("COALESCE", (FieldRef(0, INTEGER), failing), INTEGER)
    assert evaluated(lazy, [(7, INTEGER)]) == 7
    with pytest.raises(RejectedRowError):
        evaluated(lazy, [(None, INTEGER)])
    assert value_of("COALESCE", (None, INTEGER), (None, INTEGER)) is None
    assert value_of("COALESCE", (None, VARCHAR), "b") == "b"


def test_of_several_errors_the_first_looked_at_counts() -> None:
    divides = Call("/", (FieldRef(0, INTEGER), FieldRef(1, INTEGER)), INTEGER)
    overflows = Call("+", (FieldRef(0, INTEGER), FieldRef(0, INTEGER)), INTEGER)
    fields = [(2**31 - 1, INTEGER), (0, INTEGER)]
    for order, reason in (
        ((divides, overflows), Reason.DIVISION_BY_ZERO),
        ((overflows, divides), Reason.OVERFLOW),
    ):
        with pytest.raises(RejectedRowError) as caught:
            evaluated(Call("-", order, INTEGER), fields)
        assert caught.value.reason is reason


def test_greatest_and_least_are_null_with_a_null() -> None:
    assert value_of("GREATEST", 1, D("2.5"), 2) == D("2.5")
    assert value_of("LEAST", "b", "a", "c") == "a"
    assert value_of("GREATEST", 1, (None, INTEGER)) is None
    assert type_of("LEAST", 1, 2.0) == DOUBLE


def test_conditions_are_boolean() -> None:
    for name, types in (
        ("AND", [BOOLEAN, INTEGER]),
        ("NOT", [VARCHAR]),
        ("CASE", [INTEGER, INTEGER, INTEGER]),
    ):
        with pytest.raises(TypeMismatch):
            resolve(name, types)
