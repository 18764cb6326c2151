"""The words of our SQL: its tokens, and the reserved words.

sqlglot cuts the text. The grammar (``expression_grammar``, ``query_grammar``,
``statement_grammar``) is our own and strict: sqlglot's own ignores an extra
comma, a missing AND of BETWEEN or a missing parenthesis, and most of its
nodes have no place (docs/decisions/0002).

Invariants, checked by tests/unit/sql/test_dialect.py:

* every token knows its place, counted in lines as ``str.splitlines`` cuts them;
* unquoted names are folded to upper case, quoted ones stay unchanged;
* text that is not one of our tokens is refused at its place.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import TokenType
from sqlglot.tokens import Tokenizer

from rowtide.errors import SourceSpan, StatementError

MAX_STATEMENT_CHARS = 4_000_000
"""Maximum text of one call: ten times the largest expected pipeline."""


class TokenKind(Enum):
    """The kind of a token."""

    WORD = "word"
    """A keyword or an unquoted name; ``text`` is folded to upper case."""
    QUOTED = "quoted name"
    STRING = "string"
    NUMBER = "number"
    SYMBOL = "symbol"
    END = "end"
    """The end of a statement."""


@dataclass(frozen=True, slots=True)
class Token:
    """One token. ``start`` and ``end`` are offsets in the text, ``end`` exclusive."""

    kind: TokenKind
    text: str
    start: int
    end: int

    @property
    def shown(self) -> str:
        """The token as named in messages."""
        match self.kind:
            case TokenKind.STRING:
                return f"'{self.text}'"
            case TokenKind.END:
                return "the end of the statement"
            case _:
                return f'"{self.text}"'


_FOREIGN = {
    "==": "= compares.",
    "&&": "AND connects conditions.",
    "=>": "Arguments have no names here: write the values in their order.",
    ":=": "= compares; there are no variables.",
    "<=>": "x IS NOT DISTINCT FROM y is TRUE for two NULLs.",
    "!<": ">= is its contrary.",
    "!>": "<= is its contrary.",
    "**": "POWER(x, y) is x to the power of y.",
    "~~": "LIKE compares with a pattern.",
    "~~*": "ILIKE compares with a pattern in any case.",
}
"""The SQL to write instead of an operator of another dialect."""


class _Tokenizer(Tokenizer):
    """sqlglot's scanner without keywords: all words are tokens of one kind, and the grammar interprets them."""

    SINGLE_TOKENS: ClassVar[dict[str, TokenType]] = {
        "(": TokenType.L_PAREN,
        ")": TokenType.R_PAREN,
        ",": TokenType.COMMA,
        ".": TokenType.DOT,
        ";": TokenType.SEMICOLON,
        "*": TokenType.STAR,
        "+": TokenType.PLUS,
        "-": TokenType.DASH,
        "/": TokenType.SLASH,
        "%": TokenType.MOD,
        "=": TokenType.EQ,
        "<": TokenType.LT,
        ">": TokenType.GT,
        "'": TokenType.UNKNOWN,
        '"': TokenType.UNKNOWN,
        "[": TokenType.L_BRACKET,
        "]": TokenType.R_BRACKET,
        "|": TokenType.PIPE,
        "&": TokenType.AMP,
        "#": TokenType.HASH,
        "^": TokenType.CARET,
        "~": TokenType.TILDE,
        ":": TokenType.COLON,
        # This character is not a token alone, but it ends a word: a!=b.
        "!": TokenType.UNKNOWN,
    }
    KEYWORDS: ClassVar[dict[str, TokenType]] = {
        "||": TokenType.DPIPE,
        "<>": TokenType.NEQ,
        "!=": TokenType.NEQ,
        "<=": TokenType.LTE,
        ">=": TokenType.GTE,
        "::": TokenType.DCOLON,
        "->": TokenType.ARROW,
        "->>": TokenType.DARROW,
        **dict.fromkeys(("<<", ">>", "~*", "!~", "!~*", "@>", "<@"), TokenType.OPERATOR),
        # Operators of other dialects: each is refused as a whole, with a hint.
        **dict.fromkeys(_FOREIGN, TokenType.UNKNOWN),
    }
    QUOTES: ClassVar[list[tuple[str, str] | str]] = ["'"]
    IDENTIFIERS: ClassVar[list[str | tuple[str, str]]] = ['"']
    STRING_ESCAPES: ClassVar[list[str]] = ["'"]
    COMMENTS: ClassVar[list[str | tuple[str, str]]] = ["--", ("/*", "*/")]
    COMMANDS: ClassVar[set[TokenType]] = set()
    COMMAND_PREFIX_TOKENS: ClassVar[set[TokenType]] = set()
    NUMERIC_LITERALS: ClassVar[dict[str, str]] = {}
    HINT_START: ClassVar[str] = "\0"


_SYMBOLS = frozenset(
    {
        TokenType.L_PAREN,
        TokenType.R_PAREN,
        TokenType.L_BRACKET,
        TokenType.R_BRACKET,
        TokenType.COLON,
        TokenType.COMMA,
        TokenType.DOT,
        TokenType.SEMICOLON,
        TokenType.STAR,
        TokenType.PLUS,
        TokenType.DASH,
        TokenType.SLASH,
        TokenType.MOD,
        TokenType.EQ,
        TokenType.LT,
        TokenType.GT,
        TokenType.DPIPE,
        TokenType.NEQ,
        TokenType.LTE,
        TokenType.GTE,
        TokenType.DCOLON,
        TokenType.OPERATOR,
        TokenType.PIPE,
        TokenType.AMP,
        TokenType.HASH,
        TokenType.CARET,
        TokenType.TILDE,
        TokenType.ARROW,
        TokenType.DARROW,
    }
)
_WORD = re.compile(r"[^\W\d]\w*\Z")
_PLAIN = re.compile(r"[\w.'\" ]")
_NUMBER = re.compile(r"(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?\Z")

RESERVED = frozenset(
    word
    for word in """
    ALL AND ANY AS ASC BETWEEN BY CASE CAST CREATE CROSS DELETE DESC DISTINCT DROP ELSE EMIT END ESCAPE
    EXCEPT EXISTS FALSE FETCH FOR FROM FULL GROUP HAVING IN INNER INSERT INTERSECT INTERVAL INTO IS JOIN
    LATERAL LEFT LIKE LIMIT MERGE NATURAL NOT NULL OFFSET ON OR ORDER OUTER OVER PARTITION PRIMARY QUALIFY
    RIGHT SELECT SET SOME STREAM TABLE THEN TRUE UNION UNIQUE UPDATE USING VALUES WHEN WHERE WINDOW WITH
    WITHIN
    """.split()  # noqa: SIM905 - a table of words reads better than a list of strings
)
"""Words that are names only in double quotes."""


def name_text(name: str) -> str:
    """Return a name as SQL writes it: in double quotes if it would be read as a word or another name."""
    is_plain = _WORD.match(name) is not None and name == name.upper() and name not in RESERVED
    return name if is_plain else '"' + name.replace('"', '""') + '"'


class LineIndex:
    """Turns offsets of one text into lines and columns."""

    def __init__(self, text: str) -> None:
        self._starts = [0]
        for line in text.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        self._length = len(text)

    def place(self, start: int, end: int) -> SourceSpan:
        """Return the place of the characters from ``start`` to ``end`` (exclusive), cut at the line's end."""
        line = bisect_right(self._starts, min(start, self._length)) - 1
        # An offset after the last line break of the text belongs to the line before it.
        if line == len(self._starts) - 1 and line > 0 and start >= self._length:
            line -= 1
        begin = self._starts[line]
        stop = self._starts[line + 1] if line + 1 < len(self._starts) else self._length
        return SourceSpan(line + 1, start - begin + 1, max(1, min(end, stop) - start))


def tokenize(text: str) -> tuple[list[Token], LineIndex]:
    """Cut ``text`` into tokens, comments and blanks left out.

    Raises:
      StatementError: for a character that no token begins with, an open string
        or comment, or a malformed number; with its place.
    """
    places = LineIndex(text)
    if len(text) > MAX_STATEMENT_CHARS:
        raise StatementError(
            f"the text has {len(text)} characters, {MAX_STATEMENT_CHARS} are allowed", span=SourceSpan(1, 1)
        )
    try:
        raw = _Tokenizer().tokenize(text)
    except SqlglotError as error:
        start = _open_delimiter(text)
        raise StatementError(
            "a string, quoted name or comment that begins here is not closed",
            span=places.place(start, start + 1),
            hint="A quote in a string is written twice, without a backslash: 'it''s'."
            if "\\'" in text
            else None,
        ) from error
    tokens: list[Token] = []
    for found in raw:
        start, end = found.start, found.end + 1
        made = _token(found.token_type, found.text, start, end, text)
        if made is None:
            raise _unknown(text, found.token_type, start, end, places)
        before = tokens[-1] if tokens and tokens[-1].end == start else None
        if made.kind is TokenKind.NUMBER and before is not None and before.text == ".":
            tokens.pop()
            made = Token(TokenKind.NUMBER, text[before.start : end], before.start, end)
            before = tokens[-1] if tokens and tokens[-1].end == made.start else None
        if before is not None and before.kind is TokenKind.NUMBER and made.kind in _NEVER_AFTER_NUMBER:
            raise _malformed_number(text, before.start, made.end, places)
        tokens.append(made)
    return tokens, places


_NEVER_AFTER_NUMBER = (TokenKind.WORD, TokenKind.NUMBER, TokenKind.QUOTED)


def _token(kind: TokenType, text: str, start: int, end: int, source: str) -> Token | None:
    """Return our token for a token of sqlglot, or None if this dialect does not have it."""
    if kind is TokenType.STRING and source[start] == "'":
        return Token(TokenKind.STRING, text, start, end)
    if kind is TokenType.IDENTIFIER:
        return Token(TokenKind.QUOTED, text, start, end)
    if kind is TokenType.NUMBER and _NUMBER.match(source[start:end]):
        return Token(TokenKind.NUMBER, source[start:end], start, end)
    if kind in _SYMBOLS:
        return Token(TokenKind.SYMBOL, source[start:end], start, end)
    if kind is TokenType.VAR and _WORD.match(text):
        return Token(TokenKind.WORD, text.upper(), start, end)
    return None


_INSTEAD = {
    ":": "x::type converts x, as CAST(x AS type) does; there are no named parameters.",
    "`": 'Put a name that is not a plain word in double quotes: "order".',
    "!": "NOT x is the contrary of x, x <> y says that they differ.",
    "?": "Parameters are not supported: write the value.",
    "{": "There are no maps and structs: list the fields as columns.",
    "@": "There are no variables: write the value.",
    "$": "Parameters are not supported: write the value.",
    "\\": "A quote in a string is written twice: 'it''s'.",
    "\u2018": "Strings are in straight single quotes.",
    "\u2019": "Strings are in straight single quotes.",
    "\u201c": "Names are in straight double quotes.",
    "\u201d": "Names are in straight double quotes.",
}
"""The SQL to write instead of characters that other dialects use."""


def _malformed_number(text: str, start: int, end: int, places: LineIndex) -> StatementError:
    return StatementError(f'malformed number "{text[start:end]}"', span=places.place(start, end))


def _unknown(text: str, kind: TokenType, start: int, end: int, places: LineIndex) -> StatementError:
    """Return the error for a token that this dialect does not have, at the first invalid character."""
    if kind is TokenType.NUMBER:
        return _malformed_number(text, start, end, places)
    foreign = _FOREIGN.get(text[start:end])
    if foreign is not None:
        place = places.place(start, end)
        return StatementError(f'operator "{text[start:end]}" does not exist', span=place, hint=foreign)
    wrong = next((at for at in range(start, end) if not _PLAIN.match(text[at])), start)
    return StatementError(
        f"unexpected character {text[wrong]!r}",
        span=places.place(wrong, wrong + 1),
        hint=_INSTEAD.get(text[wrong]),
    )


def _open_delimiter(text: str) -> int:
    """Find the start of the string, quoted name or comment that the text does not close."""
    closing = {"'": "'", '"': '"', "/*": "*/"}
    position = 0
    while position < len(text):
        opened = next((mark for mark in closing if text.startswith(mark, position)), None)
        if text.startswith("--", position):
            line_end = text.find("\n", position)
            position = len(text) if line_end < 0 else line_end + 1
        elif opened is None:
            position += 1
        else:
            closed = text.find(closing[opened], position + len(opened))
            if closed < 0:
                return position
            position = closed + len(closing[opened])
    return max(0, len(text) - 1)
