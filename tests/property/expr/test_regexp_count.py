"""REGEXP_COUNT of texts of characters of one to four bytes, against ``re`` of Python, which counts characters.

The expressions are of the kind that ``re`` and RE2 read alike.
"""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from rowtide.expr.columnar import compile_columns
from rowtide.expr.rowwise import compile_row
from rowtide.expr.tree import Call, FieldRef, Literal
from rowtide.rows.rowop import Opcode, TimedRow
from rowtide.rows.tray import Tray
from rowtide.rows.types import INTEGER, VARCHAR, Field, RowType

ROW = RowType((Field("TEXT", VARCHAR),))
TEXTS = st.none() | st.text("xa ß語😀\n", max_size=8)
_ATOMS = st.sampled_from(("x", "ß", "語", ".", "[^a]", "[xß]", r"\b", "^", "$", ""))
_REPEATED = st.tuples(_ATOMS, st.sampled_from(("", "*", "?", "*?", "{0,2}"))).map(
    lambda parts: parts[0] + (parts[1] if parts[0] and parts[0] not in (r"\b", "^", "$") else "")
)
PATTERNS = st.lists(st.lists(_REPEATED, min_size=1, max_size=2).map("".join), min_size=1, max_size=2).map(
    "|".join
)


@given(st.lists(TEXTS, max_size=6), PATTERNS, st.sampled_from(("", "m", "s")))
def test_matches_are_counted_by_characters(texts: list[str | None], pattern: str, flags: str) -> None:
    args = (FieldRef(0, VARCHAR), Literal(pattern, VARCHAR), Literal(flags, VARCHAR))
    count = Call("REGEXP_COUNT", args, INTEGER)
    rows = [TimedRow(at, 0, at, Opcode.INSERT, (text,)) for at, text in enumerate(texts)]
    of_column = compile_columns(count)(Tray.from_rows(ROW, rows)).column.to_list()
    # \Z: the $ of RE2 does not match before a line end at the end of the text.
    read = re.compile(pattern if flags == "m" else pattern.replace("$", r"\Z"), re.ASCII | _flags(flags))
    assert of_column == [None if text is None else _matches(read, text) for text in texts]
    assert of_column == [compile_row(count)((text,), 0) for text in texts]


def _flags(flags: str) -> re.RegexFlag:
    return {"": re.NOFLAG, "m": re.MULTILINE, "s": re.DOTALL}[flags]


def _matches(read: re.Pattern[str], text: str) -> int:
    """Count matches as PostgreSQL does: after an empty one, from the next character on.

    Of expressions that assert a place, an empty match behind another match is none, as in REGEXP_REPLACE.
    """
    asserts = any(each in read.pattern.replace("[^", "") for each in ("^", "$", r"\b", r"\Z"))
    count = at = 0
    last = -1
    while at <= len(text) and (found := read.search(text, at)) is not None:
        count += not (asserts and found.start() == found.end() == last)
        last = found.end()
        at = max(found.end(), found.start() + 1)
    return count
