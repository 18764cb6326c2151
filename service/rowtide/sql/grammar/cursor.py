"""The position of a parser in the tokens of one statement, and its errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from rowtide.errors import SourceSpan, StatementError
from rowtide.sql.grammar.dialect import RESERVED, LineIndex, Token, TokenKind
from rowtide.sql.grammar.habits import for_unsupported, where_stopped
from rowtide.sql.grammar.syntax import Name, QualifiedName

MAX_NESTING = 60
"""Maximum nesting of expressions and queries. Python's stack overflows at about 90."""

Item = TypeVar("Item")


class Cursor:
    """Reads the tokens of one statement from left to right."""

    def __init__(self, tokens: Sequence[Token], places: LineIndex, end: int) -> None:
        """Start before the first of ``tokens``; ``end`` is the offset after the last one."""
        self._tokens = tokens
        self._places = places
        self._index = 0
        self._nesting = 0
        self._end = Token(TokenKind.END, "", end, end + 1)

    @property
    def current(self) -> Token:
        """The token ahead."""
        return self.ahead(0)

    def ahead(self, count: int) -> Token:
        """Return the token ``count`` after the one ahead."""
        index = self._index + count
        return self._tokens[index] if index < len(self._tokens) else self._end

    @property
    def at_end(self) -> bool:
        """Return whether all tokens have been read."""
        return self._index >= len(self._tokens)

    def advance(self) -> Token:
        """Take the token ahead."""
        token = self.current
        self._index += 1
        return token

    def enter(self) -> None:
        """Go one level deeper; every caller calls ``leave`` afterwards.

        Raises:
          StatementError: if the statement is nested too deeply.
        """
        self._nesting += 1
        if self._nesting > MAX_NESTING:
            raise self.fail(f"the statement is nested more than {MAX_NESTING} levels deep")

    def leave(self) -> None:
        """Leave the level of ``enter``."""
        self._nesting -= 1

    # ------------------------------------------------------------- places

    def place_of(self, token: Token) -> SourceSpan:
        """Return the place of one token."""
        return self._places.place(token.start, token.end)

    def span(self, first: Token) -> SourceSpan:
        """Return the place from ``first`` to the token read last, cut at the end of the first line."""
        last = self._tokens[self._index - 1] if self._index else first
        return self._places.place(first.start, max(first.end, last.end))

    # --------------------------------------------------------------- words

    def is_word(self, *words: str, ahead: int = 0) -> bool:
        """Return whether these unquoted words come next."""
        for offset, word in enumerate(words):
            token = self.ahead(ahead + offset)
            if token.kind is not TokenKind.WORD or token.text != word:
                return False
        return True

    @property
    def is_query(self) -> bool:
        """Return whether a query begins here, without parentheses."""
        return any(map(self.is_word, ("SELECT", "WITH", "VALUES")))

    def accept(self, *words: str) -> bool:
        """Take these words if they follow, all or none."""
        if not self.is_word(*words):
            return False
        self._index += len(words)
        return True

    def take_out(self, *words: str, within: int) -> bool:
        """Remove these words if they begin among the next tokens, ``within`` of them."""
        for ahead in range(within):
            if self.is_word(*words, ahead=ahead):
                at = self._index + ahead
                self._tokens = [*self._tokens[:at], *self._tokens[at + len(words) :]]
                return True
        return False

    def expect(self, *words: str) -> Token:
        """Take these words; return the first one's token."""
        first = self.current
        for word in words:
            if not self.accept(word):
                raise self.unexpected(f'"{word}"')
        return first

    def one_of(self, *words: str) -> str | None:
        """Take the word ahead if it is one of these."""
        token = self.current
        if token.kind is TokenKind.WORD and token.text in words:
            self._index += 1
            return token.text
        return None

    def is_symbol(self, *symbols: str) -> bool:
        """Return whether one of these symbols is ahead."""
        token = self.current
        return token.kind is TokenKind.SYMBOL and token.text in symbols

    def accept_symbol(self, symbol: str) -> bool:
        """Take this symbol if it is ahead."""
        if not self.is_symbol(symbol):
            return False
        self._index += 1
        return True

    def expect_symbol(self, symbol: str) -> Token:
        """Take this symbol."""
        token = self.current
        if not self.accept_symbol(symbol):
            raise self.unexpected(f'"{symbol}"')
        return token

    # --------------------------------------------------------------- names

    def is_name(self, ahead: int = 0) -> bool:
        """Return whether a name that is not a reserved word is ahead."""
        token = self.ahead(ahead)
        return token.kind is TokenKind.QUOTED or (token.kind is TokenKind.WORD and token.text not in RESERVED)

    def name(self, what: str) -> Name:
        """Take a name; ``what`` is the kind of object, for the message."""
        token = self.current
        if not self.is_name():
            hint = None
            if token.kind is TokenKind.WORD:
                hint = f'{token.text} is a reserved word. As a name it is in quotes: "{token.text}".'
            raise self.unexpected(what, hint=hint)
        if token.text == "":
            raise self.fail("a name cannot be empty")
        self._index += 1
        return Name(token.text, self.place_of(token))

    def qualified_name(self, what: str) -> QualifiedName:
        """Take ``name`` or ``schema.name``."""
        first = self.current
        parts = [self.name(what)]
        while self.accept_symbol("."):
            parts.append(self.name(what))
        place = self.span(first)
        if len(parts) > 2:
            raise StatementError(
                f"{what} has at most a schema and a name",
                span=place,
                hint="Catalogs are not supported: write schema.name.",
            )
        return QualifiedName(tuple(parts), place)

    def string(self, what: str) -> str:
        """Take a string in single quotes."""
        if self.current.kind is not TokenKind.STRING:
            raise self.unexpected(what)
        return self.advance().text

    # --------------------------------------------------------------- lists

    def comma_list(self, parse: Callable[[], Item]) -> tuple[Item, ...]:
        """Take one or more items separated by commas. An extra comma is refused with a hint."""
        items = [parse()]
        while self.is_symbol(","):
            comma = self.advance()
            if self._ends_a_list():
                raise StatementError(
                    f"unexpected token after this comma: {self.current.shown}",
                    span=self.place_of(comma),
                    hint="Remove the comma.",
                )
            items.append(parse())
        return tuple(items)

    def _ends_a_list(self) -> bool:
        token = self.current
        return (
            token.kind is TokenKind.END
            or (token.kind is TokenKind.SYMBOL and token.text in (")", "]", ",", ";"))
            or (token.kind is TokenKind.WORD and token.text in ("FROM", "WHERE", "GROUP", "HAVING", "ORDER"))
        )

    def wrapped(self, parse: Callable[[], Item]) -> tuple[Item, ...]:
        """Take ``(item, item, ...)``."""
        self.expect_symbol("(")
        items = self.comma_list(parse)
        self.expect_symbol(")")
        return items

    # -------------------------------------------------------------- errors

    def unexpected(self, wanted: str, *, hint: str | None = None) -> StatementError:
        """Return the error for an unexpected token ahead."""
        before = [self._tokens[at].text for at in range(self._index - 1, max(self._index - 3, -1), -1)]
        found = "'" if self.current.kind is TokenKind.STRING else self.current.text
        habit = where_stopped(wanted, found, before)
        return self.fail(f"expected {wanted}, found {self.current.shown}", hint=habit or hint)

    def unsupported(
        self, what: str, *, token: Token | None = None, hint: str | None = None
    ) -> StatementError:
        """Return the error for a part of the language that is not supported yet."""
        return self.fail(f"{what} not supported yet", token=token, hint=hint or for_unsupported(what))

    def fail(self, message: str, *, token: Token | None = None, hint: str | None = None) -> StatementError:
        """Return the error that refuses the statement at ``token``, by default the token ahead."""
        return StatementError(message, span=self.place_of(token or self.current), hint=hint)
