"""Patterns and texts that come with a row: what they match is found without trying one match after the other.

Trying them all would take longer than the test may for what is here. LIKE and SIMILAR TO are compared with Python.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowtide.errors import RejectedRowError
from rowtide.expr.columnar import compile_columns
from rowtide.expr.functions import resolve
from rowtide.expr.rowwise import compile_row
from rowtide.expr.tree import Call, Expr, FieldRef, Literal
from rowtide.rows.rowop import Opcode, TimedRow
from rowtide.rows.tray import Tray
from rowtide.rows.types import TIMESTAMP, VARCHAR, Field, RowType

LONG = "a" * 2_000
HOSTILE = {
    **dict.fromkeys(("LIKE", "ILIKE"), ("%a" * 40 + "b", "%_a" * 40 + "%b%", "%a%" * 40 + "b")),
    "SIMILAR TO": ("(a*)*b", "((a|aa)+)+b", "(%)*b", "(a?){200}a{200}b", "%a" * 40 + "b"),
    **dict.fromkeys(
        ("REGEXP_LIKE", "REGEXP_COUNT", "REGEXP_SUBSTR", "REGEXP_EXTRACT", "REGEXP_INSTR"),
        ("(a*)*b", "((a|aa)+)+b", "(.*)*b"),
    ),
}


def answers(name: str, rows: Sequence[tuple[str, ...]]) -> list[object]:
    """Return the results, or why there is none; see that rows and columns agree, also for constant patterns."""
    width = len(rows[0])
    row_type = RowType(tuple(Field(f"F{at}", VARCHAR) for at in range(width)))
    fields = [FieldRef(at, VARCHAR) for at in range(width)]
    found = []
    for row in rows:
        tray = Tray.from_rows(row_type, [TimedRow(0, 0, 0, Opcode.INSERT, row)])
        literals = [Literal(value, VARCHAR) for value in row[1:]]
        of: list[object] = []
        forms: list[Sequence[Expr]] = [fields, [fields[0], *literals]]
        for args in forms:
            call = Call(name, tuple(args), resolve(name, (VARCHAR,) * width))
            part = compile_columns(call)(tray)
            try:
                value = compile_row(call)(row, 0)
                assert part.column.to_list() == [value]
            except RejectedRowError as error:
                assert part.errors is not None
                assert [each.message for each in part.errors] == [error.message]
                value = error.message
            of.append(value)
        assert of[0] == of[1]
        found.append(of[0])
    return found


@pytest.mark.timeout(100)
@pytest.mark.parametrize(("name", "pattern"), [(name, each) for name in HOSTILE for each in HOSTILE[name]])
def test_a_pattern_with_many_ways_to_match_ends_at_once(name: str, pattern: str) -> None:
    assert answers(name, [(LONG, pattern)])[0] in (False, 0, None)


@pytest.mark.timeout(100)
@pytest.mark.parametrize("part", ["(a*)*b", "((a|aa)+)+b"])
def test_a_part_of_a_pattern_with_many_ways_to_match_ends_at_once(part: str) -> None:
    assert answers("SUBSTRING SIMILAR", [(LONG, f'%#"{part}#"%', "#")]) == [None]


@given(st.lists(st.tuples(st.text("ab\n", max_size=9), st.text("ab%_", max_size=7)), min_size=1, max_size=5))
def test_like_is_that_of_all_ways_to_match(rows: list[tuple[str, str]]) -> None:
    wanted = [
        re.fullmatch(pattern.replace("%", ".*").replace("_", "."), text, re.DOTALL) is not None
        for text, pattern in rows
    ]
    assert answers("LIKE", rows) == wanted


TIMES = ("*", "+", "?", "{2}", "{1,2}", "{,2}")
PARTS = st.recursive(
    st.sampled_from(["a", "b", "_", "%", "[ab]", "[^a]", "[[:WHITESPACE:]b]", " "]),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda two: f"({two[0]}|{two[1]})"),
        st.tuples(inner, st.sampled_from(TIMES)).map(lambda two: f"({two[0]}){two[1]}"),
    ),
    max_leaves=5,
)


def in_python(pattern: str) -> str:
    for word, form in (("%", ".*"), ("_", "."), ("(", "(?:"), ("[[:WHITESPACE:]b]", r"[\sb]")):
        pattern = pattern.replace(word, form)
    return pattern


@given(st.text("ab \u00a0\x1c", max_size=6), PARTS)
def test_similar_to_is_that_of_all_ways_to_match(text: str, pattern: str) -> None:
    wanted = re.fullmatch(in_python(pattern), text, re.DOTALL) is not None
    assert answers("SIMILAR TO", [(text, pattern)]) == [wanted]


PUNCTUATION = "".join(map(chr, (*range(1, 48), *range(58, 65), *range(91, 97), *range(123, 128), 0x85, 0xE9)))


@given(st.sampled_from(PUNCTUATION), st.sampled_from(PUNCTUATION))
def test_every_character_is_itself_after_the_escape_and_in_a_set(char: str, other: str) -> None:
    rows = [(char, "!" + char, "!"), (other, "!" + char, "!")]
    assert answers("SIMILAR TO", rows) == [True, char == other]
    if char not in "[]^-" and other not in "[]^-":
        assert answers("SIMILAR TO", [(char, f"[{other}{char}]"), ("x", f"[{other}{char}]")]) == [True, False]


INVALID = ("(a", "a)(b", "a**", "*a", "[", "[^]", "[a[b]", "a{2,1}", "a{1001}", "(" * 2_000, "[\0a\0]\0[")


@pytest.mark.parametrize("pattern", INVALID)
def test_an_invalid_pattern_rejects_the_row(pattern: str) -> None:
    assert "is not defined" in str(answers("SIMILAR TO", [("a", pattern)])[0])


@pytest.mark.timeout(100)
def test_a_time_with_many_blanks_ends_at_once() -> None:
    row = ("2026-01-01 " + " " * 1_000_000 + "x",)
    with pytest.raises(RejectedRowError):
        compile_row(Call("CAST", (FieldRef(0, VARCHAR),), TIMESTAMP))(row, 0)
