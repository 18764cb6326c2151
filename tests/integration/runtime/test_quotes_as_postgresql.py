"""QUOTE_IDENT and QUOTE_LITERAL return what PostgreSQL's functions of these names do; FORMAT calls them."""

from __future__ import annotations

import random

import psycopg
import sqlalchemy as sa

from rowtide.expr.rowwise import compile_row
from rowtide.expr.tree import Call, Expr, FieldRef
from rowtide.rows.types import VARCHAR

TEXT = FieldRef(0, VARCHAR)
CALLS: tuple[Expr, ...] = (
    Call("QUOTE_IDENT", (TEXT,), VARCHAR),
    Call("QUOTE_LITERAL", (TEXT,), VARCHAR),
)
LETTERS = "aZ_09 $'\"\\é%.\n"


def texts(keywords: list[str]) -> list[str]:
    """Return all key words, in small letters and in capitals, and texts of letters that quoting is about."""
    draw = random.Random(18)
    drawn = ["".join(draw.choices(LETTERS, k=draw.randrange(6))) for _ in range(400)]
    return ["", *keywords, *map(str.upper, keywords), *drawn]


def test_texts_are_quoted_as_in_postgresql(postgres_url: str) -> None:
    address = sa.make_url(postgres_url).set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(address) as connection:
        given = texts([word for (word,) in connection.execute("SELECT word FROM pg_get_keywords()")])
        wanted = connection.execute(
            "SELECT quote_ident(t), quote_literal(t) FROM unnest(%s::text[]) WITH ORDINALITY AS u(t, n) ORDER BY n",
            [given],
        ).fetchall()
    functions = [compile_row(call) for call in CALLS]
    found = [tuple(each((text,), 0) for each in functions) for text in given]
    assert len(given) > 1000
    assert [pair for pair in zip(given, found, wanted, strict=True) if pair[1] != pair[2]] == []
