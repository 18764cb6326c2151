"""What a refused statement shows, word for word: ``errors.txt``, and ``habits.txt`` for habits of other systems.

``pytest --rewrite`` writes them again.
"""

from __future__ import annotations

from copy import copy
from pathlib import Path

import pytest

from rowtide.errors import StatementError
from rowtide.sql.pipeline import SqlSession

GOLDEN = Path(__file__).with_name("errors.txt")
HABITS = Path(__file__).with_name("habits.txt")
MESSAGE_SAYS_IT = (
    "is written",
    "remove it",
    "add two intervals",
    "would wait for the end",
    "takes two numbers",
)
"""Messages that say by themselves what to write."""
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
PREPARED = SqlSession()
PREPARED.feed(PRELUDE)


def cases(golden: Path = GOLDEN) -> list[tuple[str, str]]:
    """Return the texts of a golden file with what they should show."""
    found = []
    for block in golden.read_text(encoding="utf-8").split("\nplan\n")[1:]:
        text, _, shown = block.partition("\n----\n")
        found.append((text, shown.strip("\n")))
    return found


def shown_for(text: str) -> str:
    """Return what planning ``text`` after the prelude shows."""
    session = copy(PREPARED)
    try:
        if text.startswith("SELECT"):
            session.query(text)
        else:
            session.feed(text)
    except StatementError as error:
        assert error.place is not None
        return error.render()
    return "accepted"


ALL = [*cases(), *cases(HABITS)]


@pytest.mark.parametrize(("text", "shown"), ALL, ids=[text[:60] for text, _ in ALL])
def test_a_refusal_shows_what_the_golden_file_says(
    text: str, shown: str, request: pytest.FixtureRequest
) -> None:
    if request.config.getoption("--rewrite"):
        pytest.skip("the file is being written")
    assert shown_for(text) == shown


@pytest.mark.parametrize("golden", [GOLDEN, HABITS], ids=lambda each: each.stem)
def test_the_golden_file_is_written_anew_when_asked(golden: Path, request: pytest.FixtureRequest) -> None:
    head = golden.read_text(encoding="utf-8").split("\nplan\n")[0]
    written = "".join(f"\nplan\n{text}\n----\n{shown_for(text)}\n" for text, _ in cases(golden))
    if request.config.getoption("--rewrite"):
        golden.write_text(head + written, encoding="utf-8")
    assert golden.read_text(encoding="utf-8") == head + written


@pytest.mark.parametrize(("text", "shown"), cases(HABITS), ids=[text[:60] for text, _ in cases(HABITS)])
def test_a_habit_of_another_system_gets_what_is_written_here(text: str, shown: str) -> None:
    assert "\nhint: " in shown or any(each in shown for each in MESSAGE_SAYS_IT)
