"""What a refused statement shows, word for word: ``errors.txt``; ``pytest --rewrite`` writes it again."""

from __future__ import annotations

from pathlib import Path

import pytest

from rowtide.errors import StatementError
from rowtide.sql.pipeline import SqlSession

GOLDEN = Path(__file__).with_name("errors.txt")
PRELUDE = """
CREATE SERVER broker FOREIGN DATA WRAPPER KAFKA OPTIONS (bootstrap_servers 'localhost:9092');
CREATE SERVER db FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite://');
CREATE STREAM trades (symbol VARCHAR(8), price DECIMAL(10, 2), shares INTEGER, at TIMESTAMP);
CREATE STREAM quotes (symbol VARCHAR(8), bid DECIMAL(10, 2));
CREATE FOREIGN STREAM feed (symbol VARCHAR(8), at TIMESTAMP) SERVER broker OPTIONS (topic 'feed');
CREATE TABLE companies (symbol VARCHAR(8) PRIMARY KEY, name VARCHAR(40), shares INTEGER NOT NULL);
CREATE FOREIGN TABLE totals (symbol VARCHAR(8) PRIMARY KEY, total BIGINT, rate DOUBLE NOT NULL) SERVER db;
CREATE FOREIGN TABLE log (symbol VARCHAR(8), total BIGINT) SERVER db;
CREATE VIEW big AS SELECT STREAM symbol, shares FROM trades WHERE shares > 1000;
"""


def cases() -> list[tuple[str, str]]:
    """Return the texts of the golden file with what they should show."""
    found = []
    for block in GOLDEN.read_text(encoding="utf-8").split("\nplan\n")[1:]:
        text, _, shown = block.partition("\n----\n")
        found.append((text, shown.strip("\n")))
    return found


def shown_for(text: str) -> str:
    """Return what planning ``text`` after the prelude shows."""
    session = SqlSession()
    session.feed(PRELUDE)
    try:
        if text.startswith("SELECT"):
            session.query(text)
        else:
            session.feed(text)
    except StatementError as error:
        assert error.place is not None
        return error.render()
    return "accepted"


@pytest.mark.parametrize(("text", "shown"), cases(), ids=[text[:60] for text, _ in cases()])
def test_a_refusal_shows_what_the_golden_file_says(
    text: str, shown: str, request: pytest.FixtureRequest
) -> None:
    if request.config.getoption("--rewrite"):
        pytest.skip("the file is being written")
    assert shown_for(text) == shown


def test_the_golden_file_is_written_anew_when_asked(request: pytest.FixtureRequest) -> None:
    head = GOLDEN.read_text(encoding="utf-8").split("\nplan\n")[0]
    written = "".join(f"\nplan\n{text}\n----\n{shown_for(text)}\n" for text, _ in cases())
    if request.config.getoption("--rewrite"):
        GOLDEN.write_text(head + written, encoding="utf-8")
    assert GOLDEN.read_text(encoding="utf-8") == head + written
