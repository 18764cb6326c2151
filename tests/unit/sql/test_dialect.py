"""Tokens and their places."""

from __future__ import annotations

import pytest

from rowtide.errors import StatementError
from rowtide.sql.grammar.dialect import TokenKind, tokenize


def words(text: str) -> list[tuple[TokenKind, str]]:
    return [(token.kind, token.text) for token in tokenize(text)[0]]


def test_unquoted_names_fold_to_upper_case_and_quoted_ones_stay() -> None:
    assert words('kwh "kWh" "a""b"') == [
        (TokenKind.WORD, "KWH"),
        (TokenKind.QUOTED, "kWh"),
        (TokenKind.QUOTED, 'a"b'),
    ]


def test_numbers_keep_how_they_are_written() -> None:
    assert [text for _, text in words("1 1.50 .5 2. 1e-9 1.5E3")] == [
        "1",
        "1.50",
        ".5",
        "2.",
        "1e-9",
        "1.5E3",
    ]


SYMBOLS = ("||", "<>", "!=", "<=", ">=", "(", ")", ",", ";", "*", "+", "/", "%", "=", "<", ">")
ATOMS = ("a", "A1", '"a"', "'a'", "1", "f(a)", ")", "(")


@pytest.mark.parametrize("symbol", SYMBOLS)
def test_blanks_around_symbols_change_nothing(symbol: str) -> None:
    for before in ATOMS:
        for behind in ATOMS:
            assert words(f"{before}{symbol}{behind}") == words(f"{before} {symbol} {behind}")


def test_comments_are_left_out_nested_ones_too() -> None:
    assert [text for _, text in words("a -- b\n /* c /* d */ e */ /*+ f */ g")] == ["A", "G"]


@pytest.mark.parametrize("break_", ["\n", "\r\n", "\r", "\x0b", "\u2028"])
def test_places_count_lines_as_rendering_cuts_them(break_: str) -> None:
    tokens, places = tokenize(f"one{break_}  two")
    place = places.place(tokens[1].start, tokens[1].end)
    assert (place.line, place.column, place.length) == (2, 3, 3)


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("a 12abc", 3, 'malformed number "12abc"'),
        ("a 1.2.3", 3, 'malformed number "1.2.3"'),
        ("a 1e", 3, 'malformed number "1e"'),
        ("a b$c", 4, "unexpected character '$'"),
        ("a 'b", 3, "a string, quoted name or comment that begins here is not closed"),
        ("'''a' /* b", 7, "a string, quoted name or comment that begins here is not closed"),
    ],
)
def test_what_is_no_token_is_refused_at_its_place(text: str, column: int, message: str) -> None:
    with pytest.raises(StatementError) as refused:
        tokenize(text)
    assert refused.value.message == message
    assert refused.value.place is not None
    assert refused.value.place.column == column
