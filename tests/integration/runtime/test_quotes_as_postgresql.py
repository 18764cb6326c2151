"""QUOTE_IDENT, QUOTE_LITERAL and FORMAT return what PostgreSQL's functions of these names do."""

from __future__ import annotations

import json
import random
from pathlib import Path

import psycopg
import sqlalchemy as sa
from typer.testing import CliRunner

from rowtide.cli.main import app
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


ROWS = (("ann", "o'k"), ("a b", None), ("", "back\\slash"), ("select", "x"))


def drawn_format(draw: random.Random) -> str:
    """Return a call of FORMAT that has a place for each of its two values."""
    number, used, form = 0, set[int](), ""
    while len(form) < 20 or used != {1, 2}:
        position = draw.choice(("", "", "1$", "2$"))
        number = int(position[0]) if position else number + 1
        if number > 2:
            position, number = "1$", 1
        used.add(number)
        # FORMAT of PostgreSQL fails for a NULL at %I.
        kind = draw.choice("sIL" if number == 1 else "sL")
        width = draw.choice(("", "", "1", "6", "-6", "-"))
        form += draw.choice(("", " ", "%%", "=")) + f"%{position}{width}{kind}"
    return f"FORMAT('{form}', a, b)"


def test_places_of_a_format_are_filled_as_in_postgresql(postgres_url: str, tmp_path: Path) -> None:
    draw = random.Random(4)
    calls = [drawn_format(draw) for _ in range(60)]
    query = f"SELECT k, {', '.join(f'{call} AS f{at}' for at, call in enumerate(calls))} FROM t ORDER BY k"
    create = "CREATE TABLE t (k INTEGER PRIMARY KEY, a VARCHAR(20), b VARCHAR(20))"
    quoted = [
        ["NULL" if each is None else "'" + each.replace("'", "''") + "'" for each in row] for row in ROWS
    ]
    insert = f"INSERT INTO t VALUES {', '.join(f'({k}, {a}, {b})' for k, (a, b) in enumerate(quoted))}"

    address = sa.make_url(postgres_url).set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(address) as connection:
        for statement in (create, insert):
            connection.execute(statement.encode())
        wanted = connection.execute(query.encode()).fetchall()
    (tmp_path / "t.sql").write_text(f"{create};\n{insert};\n")
    shown = CliRunner().invoke(app, ["sql", str(tmp_path / "t.sql"), "-e", query, "--json"])
    assert shown.exit_code == 0, shown.output
    found = [json.loads(line) for line in shown.stdout.splitlines()]
    for at, call in enumerate(calls):
        assert (call, [row[f"F{at}"] for row in found]) == (call, [row[at + 1] for row in wanted])
