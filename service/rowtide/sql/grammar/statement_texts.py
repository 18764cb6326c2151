"""Where the statements of a text begin and end."""

from __future__ import annotations

from collections.abc import Sequence

from rowtide.sql.grammar.dialect import Token, TokenKind, tokenize


def statement_texts(text: str) -> dict[tuple[int, int], str]:
    """Return the text of each statement by the line and column at which it begins."""
    tokens, places = tokenize(text)
    found = {}
    for part in statements_of(tokens):
        begin, end = part[0].start, part[-1].end
        place = places.place(begin, end)
        found[place.line, place.column] = text[begin:end]
    return found


def statements_of(tokens: Sequence[Token]) -> list[list[Token]]:
    """Cut tokens at the semicolons; empty statements are left out."""
    parts: list[list[Token]] = [[]]
    for token in tokens:
        if token.kind is TokenKind.SYMBOL and token.text == ";":
            parts.append([])
        else:
            parts[-1].append(token)
    return [part for part in parts if part]
