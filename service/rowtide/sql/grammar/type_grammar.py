"""The grammar of types, and of literals that name their type: tokens -> syntax."""

from __future__ import annotations

from string import hexdigits

from rowtide.errors import StatementError
from rowtide.rows.types import (
    DATE,
    INSTANT,
    INTERVAL_DAY,
    INTERVAL_MONTH,
    JSON,
    MAX_DECIMAL_PRECISION,
    TIME,
    TIMESTAMP,
    UUID,
    Kind,
    Type,
    decimal,
)
from rowtide.sql.grammar import habits, literals
from rowtide.sql.grammar.clauses.arrays import array_in_angles, array_type
from rowtide.sql.grammar.cursor import Cursor
from rowtide.sql.grammar.dialect import Token, TokenKind
from rowtide.sql.grammar.syntax import NUMERIC, BinaryLiteral, IntervalFields, TypedLiteral, digits_hint

MAX_TEXT_LENGTH = 2**31 - 1
_DECIMALS = ("DECIMAL", "NUMERIC", "DEC")
_ZONED = ("WITH", "TIME", "ZONE")


class TypeGrammar:
    """Reads types and literals from a cursor."""

    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor

    # ---------------------------------------------------------------- types

    def type(self) -> Type:
        """Read the name of a type, which may be an array: INTEGER ARRAY, INTEGER[] or ARRAY<INTEGER>."""
        cursor = self.cursor
        first = cursor.current
        if cursor.is_word("ARRAY") and cursor.ahead(1).text == "<":
            cursor.advance()
            cursor.advance()
            found = array_in_angles(cursor, self.type(), first)
        else:
            found = self._scalar()
        return array_type(cursor, found, first)

    def _scalar(self) -> Type:
        """Read the name of a type that is not an array."""
        cursor = self.cursor
        token = cursor.current
        word = token.text if token.kind is TokenKind.WORD else ""
        plain = _PLAIN_TYPES.get(word)
        if plain is not None:
            cursor.advance()
            if word == "DOUBLE":
                cursor.accept("PRECISION")
            if plain in (TIME, TIMESTAMP, INSTANT):
                return self._of_milliseconds(word, plain)
            return plain
        match word:
            case _ if word in _DECIMALS:
                cursor.advance()
                return self._decimal(token)
            case "VARCHAR" | "VARBINARY":
                cursor.advance()
                return Type(Kind[word], self._length())
            case "CHAR" | "CHARACTER" | "BINARY":
                cursor.advance()
                family = "BINARY" if word == "BINARY" else "CHAR"
                if cursor.accept("VARYING"):
                    return Type(Kind["VAR" + family], self._length())
                return Type(Kind[family], self._length() or 1)
            case "INTERVAL":
                return self.interval_type()[0]
        if cursor.is_name():
            hint = habits.TYPES.get(token.text) or f"Types are {_TYPE_NAMES}."
            raise cursor.fail(f'type "{token.text}" does not exist', hint=hint)
        raise cursor.unexpected("a type")

    def cast_target(self) -> tuple[Type, IntervalFields | None]:
        """Read the type of a CAST: NUMERIC may have no digits there, and an INTERVAL has units."""
        cursor = self.cursor
        if cursor.is_word("INTERVAL"):
            return self.interval_type()
        if any(map(cursor.is_word, _DECIMALS)) and cursor.ahead(1).text not in ("(", "[", "ARRAY"):
            cursor.advance()
            return NUMERIC, None
        return self.type(), None

    def interval_type(self) -> tuple[Type, IntervalFields]:
        """Read INTERVAL unit [(precision)] [TO unit [(precision)]]."""
        cursor = self.cursor
        first = cursor.expect("INTERVAL")
        unit, precision = self._interval_unit()
        to, to_precision = self._interval_unit() if cursor.accept("TO") else (unit, precision)
        if unit != to and not literals.is_range(unit, to):
            raise cursor.fail(f"invalid interval unit: {unit} TO {to}", token=first)
        of = INTERVAL_DAY if unit in literals.MS else INTERVAL_MONTH
        return of, self._interval_fields(unit, precision, to, to_precision)

    def _interval_fields(
        self, unit: str, precision: tuple[int, ...], to: str, to_precision: tuple[int, ...]
    ) -> IntervalFields:
        """Return the meaning of units and precisions; the last precision of SECOND is that of its fraction."""
        sizes = literals.MS if unit in literals.MS else literals.MONTHS
        least = sizes[to]
        if to == "SECOND":
            # SECOND (digits, fraction), and TO SECOND (fraction).
            parts = to_precision[-1:] if unit != to else to_precision[1:]
            least = 10 ** max(3 - parts[0], 0) if parts else 1
        return IntervalFields(
            sizes[unit], sizes[unit] if unit == to else None, least, precision[0] if precision else None
        )

    def _decimal(self, first: Token) -> Type:
        cursor = self.cursor
        if not cursor.accept_symbol("("):
            raise StatementError(
                f"{first.text} needs its digits", span=cursor.span(first), hint=digits_hint(first.text)
            )
        precision, scale = self._digits("the digits of the DECIMAL"), 0
        if cursor.accept_symbol(","):
            scale = self._digits("the digits after the point")
        cursor.expect_symbol(")")
        if not 1 <= precision <= MAX_DECIMAL_PRECISION or scale > precision:
            raise StatementError(
                f"invalid type DECIMAL({precision}, {scale})",
                span=cursor.span(first),
                hint=f"It has 1 to {MAX_DECIMAL_PRECISION} digits, and no more of them after the point.",
            )
        return decimal(precision, scale)

    def _length(self) -> int | None:
        """Read ``(n)`` if it follows."""
        cursor = self.cursor
        if not cursor.accept_symbol("("):
            return None
        token = cursor.current
        length = self._digits("a length")
        if not 1 <= length <= MAX_TEXT_LENGTH:
            raise cursor.fail(f"invalid length: {length}", token=token)
        cursor.expect_symbol(")")
        return length

    def _of_milliseconds(self, word: str, plain: Type) -> Type:
        """Read ``(3)`` and WITH or WITHOUT TIME ZONE if they follow; refuse any other precision and a TIME's zone."""
        cursor = self.cursor
        if cursor.accept_symbol("("):
            token = cursor.current
            if self._digits("a precision") != 3:
                hint = f"Write {word} or {word}(3): text with more digits is cut to milliseconds."
                raise cursor.fail(f"{word} supports millisecond precision only", token=token, hint=hint)
            cursor.expect_symbol(")")
        if plain == TIMESTAMP and (cursor.accept(*_ZONED) or cursor.accept("WITH", "LOCAL", "TIME", "ZONE")):
            return INSTANT
        if plain == TIME and cursor.is_word(*_ZONED):
            raise cursor.unsupported(f"{word} WITH TIME ZONE is", hint="All times of day are UTC.")
        if plain != INSTANT:
            cursor.accept("WITHOUT", "TIME", "ZONE")
        return plain

    def _digits(self, what: str) -> int:
        token = self.cursor.current
        if token.kind is not TokenKind.NUMBER or not token.text.isdigit() or len(token.text) > 10:
            raise self.cursor.unexpected(what)
        self.cursor.advance()
        return int(token.text)

    # ------------------------------------------------------------- literals

    def datetime(self) -> TypedLiteral:
        """Read DATE, TIME, TIMESTAMP or TIMESTAMP WITH TIME ZONE and the text after it."""
        cursor = self.cursor
        first = cursor.advance()
        zoned = cursor.accept(*_ZONED) or first.text == "TIMESTAMPTZ"
        text = cursor.advance().text
        try:
            match first.text:
                case "DATE":
                    return TypedLiteral(literals.date_days(text), DATE, cursor.span(first))
                case "TIME":
                    return TypedLiteral(literals.time_ms(text), TIME, cursor.span(first))
                case _ if zoned:
                    return TypedLiteral(literals.instant_ms(text), INSTANT, cursor.span(first))
                case _:
                    return TypedLiteral(literals.timestamp_ms(text), TIMESTAMP, cursor.span(first))
        except ValueError as error:
            hint = None
            if first.text == "TIMESTAMP" and not zoned and literals.has_offset(text):
                hint = f"Write {INSTANT} '{text}'."
            raise StatementError(str(error), span=cursor.span(first), hint=hint) from error

    def is_datetime(self) -> bool:
        """Return whether a literal of a time follows."""
        cursor = self.cursor
        ahead = 4 if cursor.is_word("TIMESTAMP", *_ZONED) else 1
        named = cursor.current.text in ("DATE", "TIME", "TIMESTAMP", "TIMESTAMPTZ")
        return named and cursor.ahead(ahead).kind is TokenKind.STRING

    def interval(self) -> TypedLiteral:
        """Read INTERVAL [sign] '..' unit [TO unit], or INTERVAL '2 hours 30 minutes'."""
        cursor = self.cursor
        first = cursor.expect("INTERVAL")
        sign = -1 if cursor.accept_symbol("-") else 1
        if sign > 0:
            cursor.accept_symbol("+")
        if cursor.current.kind is TokenKind.NUMBER:
            number, unit_token = cursor.current.text, cursor.ahead(1)
            unit = unit_token.text if unit_token.kind is TokenKind.WORD else "MINUTE"
            raise cursor.fail(
                "the length of an interval is in single quotes", hint=f"Write INTERVAL '{number}' {unit}."
            )
        text = cursor.string("the length of the interval in single quotes")
        if cursor.is_word("WEEK") or cursor.is_word("QUARTER") or cursor.is_word("MILLISECOND"):
            return self.interval_in_words(f"{text} {cursor.advance().text}", first, sign)
        if not self._is_unit() and any(each.isalpha() or each == ":" for each in text):
            return self.interval_in_words(text, first, sign)
        unit, precision = self._interval_unit()
        to, to_precision = None, precision
        # Units go from large to small: in FLOOR(x + INTERVAL '1' HOUR TO DAY) the TO belongs to FLOOR.
        if cursor.is_word("TO") and literals.is_range(unit, cursor.ahead(1).text):
            cursor.expect("TO")
            to, to_precision = self._interval_unit()
        fields = self._interval_fields(unit, precision, to or unit, to_precision)
        try:
            value = sign * literals.interval(text, unit, to)
            if fields.digits is not None and abs(value) // fields.first >= 10**fields.digits:
                raise ValueError(f"'{text}' has more than {fields.digits} digits of {unit}")
        except ValueError as error:
            raise StatementError(str(error), span=cursor.span(first)) from error
        of = INTERVAL_DAY if unit in literals.MS else INTERVAL_MONTH
        if value % fields.least:
            raise cursor.fail(f"'{text}' has more parts of a second than its type", token=first)
        return TypedLiteral(value, of, cursor.span(first), fields.unit)

    def interval_in_words(self, text: str, first: Token, sign: int = 1) -> TypedLiteral:
        """Return the interval whose units are in the text, as in PostgreSQL."""
        place = self.cursor.span(first)
        try:
            value, of, unit = literals.interval_in_words(text)
        except ValueError as error:
            hint = None
            if "months and days" not in str(error):
                hint = "Write INTERVAL '10' MINUTE or INTERVAL '2 hours 30 minutes'."
            raise StatementError(str(error), span=place, hint=hint) from error
        return TypedLiteral(sign * value, INTERVAL_DAY if of == "DAY" else INTERVAL_MONTH, place, unit)

    def is_wordless_interval(self) -> bool:
        """Return whether INTERVAL follows without a unit."""
        return self.cursor.is_word("INTERVAL") and not self._is_unit(ahead=1)

    def _is_unit(self, ahead: int = 0) -> bool:
        token = self.cursor.ahead(ahead)
        word = token.text.removesuffix("S") if token.kind is TokenKind.WORD else ""
        return word in literals.MS or word in literals.MONTHS

    def _interval_unit(self) -> tuple[str, tuple[int, ...]]:
        """Read a unit of an interval, and its precision if it has one."""
        cursor = self.cursor
        token = cursor.current
        word = token.text.removesuffix("S") if token.kind is TokenKind.WORD else ""
        if word not in literals.MS and word not in literals.MONTHS:
            raise cursor.unexpected(
                "YEAR, MONTH, DAY, HOUR, MINUTE or SECOND",
                hint="Write INTERVAL '10' MINUTE or INTERVAL '10 minutes'.",
            )
        if word != token.text:
            raise cursor.fail(f'unit "{token.text}" does not exist', hint=f"Write {word}.")
        cursor.advance()
        if not cursor.accept_symbol("("):
            return word, ()
        digits = cursor.comma_list(lambda: self._digits("the precision of the interval"))
        cursor.expect_symbol(")")
        return word, tuple(digits)

    def binary(self) -> BinaryLiteral:
        """Read X'..'."""
        cursor = self.cursor
        first = cursor.advance()
        digits = cursor.advance().text
        if len(digits) % 2 or not all(each in hexdigits for each in digits):
            raise StatementError("X'..' needs two hexadecimal digits per byte", span=cursor.span(first))
        return BinaryLiteral(bytes.fromhex(digits), cursor.span(first))


_PLAIN_TYPES = {
    "BOOLEAN": Type(Kind.BOOLEAN),
    "TINYINT": Type(Kind.TINYINT),
    "SMALLINT": Type(Kind.SMALLINT),
    "INTEGER": Type(Kind.INTEGER),
    "INT": Type(Kind.INTEGER),
    "BIGINT": Type(Kind.BIGINT),
    "REAL": Type(Kind.REAL),
    "FLOAT": Type(Kind.DOUBLE),
    "DOUBLE": Type(Kind.DOUBLE),
    **dict.fromkeys(("TEXT", "STRING"), Type(Kind.VARCHAR)),
    **dict.fromkeys(("BYTEA", "BYTES"), Type(Kind.VARBINARY)),
    "BOOL": Type(Kind.BOOLEAN),
    **{"INT2": Type(Kind.SMALLINT), "INT4": Type(Kind.INTEGER), "INT8": Type(Kind.BIGINT)},
    **{"FLOAT4": Type(Kind.REAL), "FLOAT8": Type(Kind.DOUBLE)},
    "UUID": UUID,
    **dict.fromkeys(("JSON", "JSONB"), JSON),
    "DATE": DATE,
    "TIME": TIME,
    "TIMESTAMP": TIMESTAMP,
    **dict.fromkeys(("TIMESTAMPTZ", "TIMESTAMP_LTZ"), INSTANT),
}
_TYPE_NAMES = ", ".join(kind.value for kind in Kind if "INTERVAL" not in kind.value) + " and INTERVAL"
