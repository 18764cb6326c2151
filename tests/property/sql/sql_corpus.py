"""All SQL that the project has, by statement: of scenarios, documentation, examples and the benchmark."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from copy import copy
from functools import cache
from pathlib import Path
from typing import NamedTuple

import yaml

from rowtide.bench import nexmark
from rowtide.errors import StatementError
from rowtide.sql.pipeline import SqlSession

ROOT = Path(__file__).parents[3]
NEXMARK = Path(nexmark.__file__).parent
COMMENT = re.compile(r"--[^\n]*")
TOKEN = re.compile(r"'[^']*'|\"[^\"]*\"|[A-Za-z_]\w*|[\d.]+|<>|<=|>=|\|\||\S")


class Seed(NamedTuple):
    """A statement by its tokens, and a session in which it stands."""

    session: SqlSession
    tokens: list[str]


def scripts() -> Iterator[str]:
    """Yield each pipeline as one text; a scenario's further statements follow its first ones."""
    for path in sorted([*ROOT.glob("tests/scenarios/**/*.yaml"), *ROOT.glob("examples/**/*.yaml")]):
        yield from _of_yaml(path.read_text())
    for path in sorted(ROOT.glob("docs/**/*.md")):
        for kind, text in re.findall(r"```(sql|yaml)\n(.*?)```", path.read_text(), re.DOTALL):
            yield from [text] if kind == "sql" else _of_yaml(text)
    schema = (NEXMARK / "schema.sql").read_text()
    for path in sorted((NEXMARK / "queries").glob("*.sql")):
        yield schema + path.read_text()


@cache
def seeds() -> tuple[Seed, ...]:
    """Return every statement that is different from all others, in a session that has taken those before it."""
    found: dict[str, Seed] = {}
    for script in scripts():
        session = SqlSession()
        for tokens in _statements(script):
            text = " ".join(tokens)
            found.setdefault(text, Seed(copy(session), tokens))
            try:
                session.feed(text)
            except StatementError:
                # Scenarios of refusals have such.
                continue
    return tuple(found.values())


@cache
def grafts() -> tuple[tuple[str, ...], ...]:
    """Return every bracketed piece of a statement that is different from all others, brackets and all."""
    statements = dict.fromkeys(tuple(tokens) for script in scripts() for tokens in _statements(script))
    return tuple(dict.fromkeys(tuple(piece) for tokens in statements for piece in _brackets(tokens)))


def bracket_at(tokens: Sequence[str], start: int) -> int:
    """Return the end (exclusive) of the bracket that opens at ``start``; of one that never closes, the end."""
    depth = 0
    for at in range(start, len(tokens)):
        depth += {"(": 1, ")": -1}.get(tokens[at], 0)
        if not depth:
            return at + 1
    return len(tokens)


def _brackets(tokens: Sequence[str]) -> Iterator[Sequence[str]]:
    return (tokens[at : bracket_at(tokens, at)] for at, token in enumerate(tokens) if token == "(")


def _statements(script: str) -> Iterator[list[str]]:
    tokens: list[str] = []
    for token in TOKEN.findall(COMMENT.sub("", script)):
        tokens.append(token)
        if token == ";":
            yield tokens
            tokens = []
    if tokens:
        yield tokens


def _of_yaml(text: str) -> Iterator[str]:
    if "sql:" not in text:
        # A compose file in the documentation has tags that only its own reader knows.
        return
    for document in yaml.safe_load_all(text):
        found = "\n".join(_texts(document))
        if found:
            yield found


def _texts(value: object) -> Iterator[str]:
    """Yield what stands under "sql", at any depth, in order."""
    if isinstance(value, dict):
        for key, each in value.items():
            if key == "sql" and isinstance(each, str):
                yield each
            else:
                yield from _texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)
