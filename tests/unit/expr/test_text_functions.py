"""Functions of text, also beyond ASCII."""

from __future__ import annotations

import pytest

from rowtide.errors import Reason
from rowtide.rows.types import VARCHAR, Kind, Type
from unit.expr.expressions import rejection, type_of, value_of


@pytest.mark.parametrize(
    ("text", "pattern", "matches"),
    [
        ("abc", "a%", True),
        ("abc", "a_c", True),
        ("abc", "a_", False),
        ("a\nc", "a%c", True),
        ("é", "_", True),
        ("a.c", "a.c", True),
        ("abc", "a.c", False),
        ("a\\c", "a\\c", True),
        ("a%c", "a\\%c", False),
        ("", "%", True),
        ("", "", True),
        ("ABC", "abc", False),
    ],
)
def test_like(text: str, pattern: str, matches: bool) -> None:
    assert value_of("LIKE", text, pattern) is matches


def test_like_with_escape() -> None:
    assert value_of("LIKE", "50%", "50!%", "!") is True
    assert value_of("LIKE", "500", "50!%", "!") is False
    assert value_of("LIKE", "a!b", "a!!b", "!") is True
    assert rejection("LIKE", "a", "!a", "!")[0] is Reason.FUNCTION
    assert rejection("LIKE", "a", "a!", "!")[0] is Reason.FUNCTION
    assert rejection("LIKE", "a", "a", "!!")[0] is Reason.FUNCTION


def test_case_keeps_the_number_of_characters() -> None:
    assert value_of("UPPER", "straße é") == "STRAßE É"
    assert value_of("LOWER", "ÀBİ") == "àbi"
    assert value_of("INITCAP", "the qUICK-brown 2nd fox") == "The Quick-Brown 2nd Fox"
    assert type_of("UPPER", ("x", Type(Kind.CHAR, 3))) == Type(Kind.VARCHAR, 3)


@pytest.mark.parametrize(
    ("start", "length", "result"),
    [(2, None, "bcdé"), (0, None, "abcdé"), (2, 3, "bcd"), (0, 2, "a"), (-5, 2, ""), (5, 9, "é"), (9, 1, "")],
)
def test_substring_counts_from_its_start(start: int, length: int | None, result: str) -> None:
    rest = () if length is None else (length,)
    assert value_of("SUBSTRING", "abcdé", start, *rest) == result


def test_substring_with_a_negative_length_is_rejected() -> None:
    assert rejection("SUBSTRING", "abc", 1, -1)[0] is Reason.FUNCTION


def test_lengths_and_positions_count_characters() -> None:
    assert value_of("CHAR_LENGTH", "é\U0001f600") == 2
    assert value_of("POSITION", "b", "éb") == 2
    assert value_of("POSITION", "b", "ab") == 2
    assert value_of("POSITION", "x", "ab") == 0
    assert value_of("POSITION", "", "ab") == 1


def test_trim_takes_any_of_the_characters() -> None:
    assert value_of("TRIM", "  a b ") == "a b"
    assert value_of("TRIM", "xyaxy", "yx") == "a"
    assert value_of("LTRIM", "ééaé", "é") == "aé"
    assert value_of("RTRIM", "a\t ", " ") == "a\t"
    assert value_of("TRIM", " a", "") == " a"


def test_replace_and_overlay() -> None:
    assert value_of("REPLACE", "banana", "an", "-") == "b--a"
    assert value_of("REPLACE", "abc", "", "x") == "abc"
    assert value_of("OVERLAY", "Txxxxas", "hom", 2, 4) == "Thomas"
    assert value_of("OVERLAY", "abc", "XY", 2) == "aXY"
    assert value_of("OVERLAY", "abc", "X", 2, 0) == "aXbc"
    assert rejection("OVERLAY", "abc", "X", 0)[0] is Reason.FUNCTION
    assert rejection("OVERLAY", "abc", "X", 1, -1)[0] is Reason.FUNCTION


def test_concatenation_adds_lengths_and_takes_binary_too() -> None:
    assert value_of("||", "ab", "é") == "abé"
    assert value_of("||", "ab", (None, VARCHAR)) is None
    three, four = Type(Kind.VARCHAR, 3), Type(Kind.CHAR, 4)
    assert type_of("||", ("", three), ("", four)) == Type(Kind.VARCHAR, 7)
    binary = Type(Kind.VARBINARY)
    assert value_of("||", (b"\xff", binary), (b"\0", binary)) == b"\xff\0"
