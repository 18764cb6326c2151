"""The SQL types of target columns, and the types of databases that take them.

``TYPES`` is the one declaration: what a new column is created as, and which types an existing column may have.
Dialects, messages and docs/reference/type-mapping.md read it. Where an existing column takes fewer values than
its declaration, ``Limit`` checks each value, so that one that does not fit is an error row.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Context, Decimal

from rowtide_connectors.errors import OptionError

_SPELLING = re.compile(r"([A-Z][A-Z ]*[A-Z])\s*(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?")

NAMES = frozenset(
    {
        "BOOLEAN",
        "TINYINT",
        "SMALLINT",
        "INTEGER",
        "BIGINT",
        "REAL",
        "DOUBLE",
        "DECIMAL",
        "CHAR",
        "VARCHAR",
        "BINARY",
        "VARBINARY",
        "UUID",
        "JSON",
        "ARRAY",
        "DATE",
        "TIME",
        "TIMESTAMP",
        "TIMESTAMP WITH TIME ZONE",
        "INTERVAL DAY TO SECOND",
        "INTERVAL YEAR TO MONTH",
    }
)


@dataclass(frozen=True, slots=True)
class SqlType:
    """A type's name, with the digits or length in ``precision`` where it has any.

    An ARRAY has the type of its elements. Its values are texts, JSON arrays (``api.Transaction``).
    """

    name: str
    precision: int | None = None
    scale: int = 0
    element: SqlType | None = None

    @property
    def arguments(self) -> str:
        """Return the numbers in parentheses after the name; empty if there are none."""
        if self.precision is None:
            return ""
        return f"({self.precision}, {self.scale})" if self.name == "DECIMAL" else f"({self.precision})"

    @property
    def is_sized(self) -> bool:
        """Return whether values are texts or bytes of any length."""
        return self.name in ("CHAR", "VARCHAR", "BINARY", "VARBINARY", "JSON", "ARRAY")

    @property
    def spelled(self) -> str:
        """Return the type as SQL writes it."""
        if self.element is not None:
            return f"{self.element.spelled} ARRAY"
        return f"{self.name}{self.arguments}"


def parse_type(spelling: str) -> SqlType:
    """Read a type such as ``DECIMAL(10, 2)`` or ``INTEGER ARRAY``.

    Raises:
      OptionError: it is not one of ``NAMES``.
    """
    if spelling.strip().upper().endswith(" ARRAY"):
        return SqlType("ARRAY", element=parse_type(spelling.strip()[: -len(" ARRAY")]))
    found = _SPELLING.fullmatch(spelling.strip().upper())
    if found is None or found[1] not in NAMES:
        raise OptionError(f'type "{spelling}" does not exist', hint=f"Available: {', '.join(sorted(NAMES))}.")
    return SqlType(found[1], int(found[2]) if found[2] else None, int(found[3] or 0))


@dataclass(frozen=True, slots=True)
class TargetTypes:
    """The types of one kind of database for one SQL type, without lengths and digits.

    ``created`` is that of a new column; ``taken`` are those of existing columns that take its values.
    """

    created: str
    taken: tuple[str, ...]


def _same(name: str) -> TargetTypes:
    return TargetTypes(name, (name,))


_POSTGRESQL_INTEGERS = ("smallint", "integer", "bigint", "numeric")
_MYSQL_INTEGERS = ("tinyint", "smallint", "mediumint", "int", "bigint")
_MYSQL_TEXTS = ("varchar", "tinytext", "text", "mediumtext", "longtext")
_MYSQL_BLOBS = ("varbinary", "tinyblob", "blob", "mediumblob", "longblob")
_TIME, _TIMESTAMP = "time without time zone", "timestamp without time zone"
_INSTANT = "timestamp with time zone"
ENUM = "enum "
"""Before the name of a type of PostgreSQL that CREATE TYPE .. AS ENUM has made."""
TIMESTAMPS = ("TIMESTAMP", "TIMESTAMP WITH TIME ZONE")
"""Types whose values are milliseconds since 1970, in UTC."""

TYPES: Mapping[str, Mapping[str, TargetTypes]] = {
    "postgresql": {
        "BOOLEAN": _same("boolean"),
        "TINYINT": TargetTypes("smallint", _POSTGRESQL_INTEGERS),
        "SMALLINT": TargetTypes("smallint", _POSTGRESQL_INTEGERS),
        "INTEGER": TargetTypes("integer", _POSTGRESQL_INTEGERS),
        "BIGINT": TargetTypes("bigint", _POSTGRESQL_INTEGERS),
        "REAL": TargetTypes("real", ("real", "double precision")),
        "DOUBLE": _same("double precision"),
        "DECIMAL": TargetTypes("numeric", ("numeric", "smallint", "integer", "bigint")),
        "CHAR": TargetTypes("character", ("character", "character varying", "text")),
        "VARCHAR": TargetTypes(
            "character varying", ("character varying", "text", "uuid", "json", "jsonb", "enum")
        ),
        "BINARY": _same("bytea"),
        "VARBINARY": _same("bytea"),
        "UUID": TargetTypes("uuid", ("uuid", "character varying", "text")),
        "JSON": TargetTypes("jsonb", ("jsonb", "json", "character varying", "text")),
        "ARRAY": TargetTypes("[]", ("[]", "jsonb", "json", "character varying", "text")),
        "DATE": _same("date"),
        "TIME": _same(_TIME),
        "TIMESTAMP": TargetTypes(_TIMESTAMP, (_TIMESTAMP, _INSTANT)),
        "TIMESTAMP WITH TIME ZONE": TargetTypes(_INSTANT, (_INSTANT, _TIMESTAMP)),
        "INTERVAL DAY TO SECOND": _same("interval"),
        "INTERVAL YEAR TO MONTH": _same("interval"),
    },
    "mysql": {
        "BOOLEAN": TargetTypes("boolean", _MYSQL_INTEGERS),
        "TINYINT": TargetTypes("tinyint", (*_MYSQL_INTEGERS, "decimal")),
        "SMALLINT": TargetTypes("smallint", (*_MYSQL_INTEGERS, "decimal")),
        "INTEGER": TargetTypes("int", (*_MYSQL_INTEGERS, "decimal")),
        "BIGINT": TargetTypes("bigint", (*_MYSQL_INTEGERS, "decimal")),
        "REAL": TargetTypes("float", ("float", "double")),
        "DOUBLE": _same("double"),
        "DECIMAL": TargetTypes("decimal", ("decimal", *_MYSQL_INTEGERS)),
        "CHAR": TargetTypes("char", ("char", *_MYSQL_TEXTS)),
        "VARCHAR": TargetTypes("varchar", (*_MYSQL_TEXTS, "uuid", "json")),
        "BINARY": TargetTypes("varbinary", _MYSQL_BLOBS),
        "VARBINARY": TargetTypes("varbinary", _MYSQL_BLOBS),
        "UUID": TargetTypes("char", ("char", *_MYSQL_TEXTS, "uuid")),
        "JSON": TargetTypes("json", ("json", *_MYSQL_TEXTS)),
        "ARRAY": TargetTypes("json", ("json", *_MYSQL_TEXTS)),
        "DATE": _same("date"),
        "TIME": _same("time"),
        "TIMESTAMP": TargetTypes("datetime", ("datetime", "timestamp")),
        "TIMESTAMP WITH TIME ZONE": TargetTypes("datetime", ("datetime", "timestamp")),
        "INTERVAL DAY TO SECOND": TargetTypes("bigint", (*_MYSQL_INTEGERS, "decimal")),
        "INTERVAL YEAR TO MONTH": TargetTypes("bigint", (*_MYSQL_INTEGERS, "decimal")),
    },
}
"""By kind of database and SQL type. SQLite is not among them: there a type is only a preference of its column."""

_WIDE = Context(prec=400)
_BYTES = {"TINYINT": 1, "SMALLINT": 2, "INTEGER": 4}
_LENGTHS = {"CHAR": 1, "BINARY": 1, "UUID": 36}
"""Lengths of types that are declared without one."""
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def whole_numbers(count: int, *, unsigned: bool = False) -> tuple[int, int]:
    """Return the least and the greatest number of an integer type of this many bytes."""
    return (0, 2 ** (8 * count) - 1) if unsigned else (-(2 ** (8 * count - 1)), 2 ** (8 * count - 1) - 1)


@dataclass(frozen=True, slots=True)
class Limit:
    """The values that an existing column takes. None: that is not limited.

    ``numbers`` are the least and the greatest number, times ``10 ** scale``; ``size`` is in bytes.
    """

    numbers: tuple[int, int] | None = None
    scale: int = 0
    characters: int | None = None
    size: int | None = None
    is_uuid: bool = False

    def takes_all(self, sql_type: SqlType) -> bool:
        """Return whether every value of a type is within the limit."""
        if self.numbers is not None:
            low, high = self.numbers
            if sql_type.name == "DECIMAL":
                if sql_type.precision is None or sql_type.scale > self.scale:
                    return False
                most = (10**sql_type.precision - 1) * 10 ** (self.scale - sql_type.scale)
                return bool(low <= -most and most <= high)
            if sql_type.name in TIMESTAMPS:
                return False
            ends = (0, 1) if sql_type.name == "BOOLEAN" else whole_numbers(_BYTES.get(sql_type.name, 8))
            return bool(low <= ends[0] * 10**self.scale and ends[1] * 10**self.scale <= high)
        length = sql_type.precision or _LENGTHS.get(sql_type.name)
        if self.characters is not None:
            return length is not None and length <= self.characters
        if self.size is not None:
            return length is not None and length * (4 if sql_type.name.endswith("CHAR") else 1) <= self.size
        return not self.is_uuid or sql_type.name == "UUID"

    def misfit(self, value: object) -> str | None:
        """Return why the column does not take a value; None: it does."""
        if self.numbers is not None and isinstance(value, int | Decimal):
            low, high = self.numbers
            scaled = (
                Decimal(value).scaleb(self.scale, _WIDE)
                if isinstance(value, Decimal)
                else value * 10**self.scale
            )
            if not low <= scaled <= high:
                return "the number is too large"
            if scaled != int(scaled):
                return f"the number has more than {self.scale} digits after the point"
        if self.characters is not None and isinstance(value, str) and len(value) > self.characters:
            return f"the text is longer than {self.characters}"
        if self.size is not None and isinstance(value, str | bytes):
            size = len(value if isinstance(value, bytes) else value.encode("utf-8", "replace"))
            return f"the value is longer than {self.size} bytes" if size > self.size else None
        if self.is_uuid and isinstance(value, str) and not _UUID.fullmatch(value):
            return "the text is not a UUID in small letters: see LOWER"
        return None


@dataclass(frozen=True, slots=True)
class TargetColumn:
    """An existing column that takes a SQL type.

    ``type`` is its type without lengths and digits. ``limit`` is set if it does not take all values.
    ``padded_to`` is the length to which the database pads texts with blanks, which it ignores in comparisons.
    """

    type: str
    limit: Limit | None = None
    padded_to: int | None = None

    @property
    def is_judged(self) -> bool:
        """Whether only the database can say whether it takes a text."""
        return self.is_json or self.type.startswith(ENUM)

    @property
    def is_json(self) -> bool:
        """Whether different texts are one value."""
        return self.type in ("json", "jsonb")


def target_of(kind: str, sql_type: SqlType, name: str, limit: Limit | None = None) -> TargetColumn | None:
    """Return an existing column of type ``name`` as target of a SQL type; None: it does not take it."""
    if name not in TYPES[kind][sql_type.name].taken:
        return None
    return TargetColumn(name, None if limit is None or limit.takes_all(sql_type) else limit)


def whole(value: int | Decimal) -> int | Decimal:
    """Return a number that an integer was written as; one with a fraction, which others have written, as it is."""
    found = int(value)
    return found if found == value else value


def same_json(text: str) -> str:
    """Return one text for all JSON texts of one value, which JSONB stores alike."""
    try:
        value = json.loads(text, parse_float=_number, parse_int=_number)
    except ValueError:
        return text
    return json.dumps(value, sort_keys=True, separators=(",", ":"), default=str, ensure_ascii=False)


def _number(text: str) -> object:
    number = Decimal(text).normalize()
    is_short_integer = 0 <= number.as_tuple().exponent < _LONGEST_NUMBER if number.is_finite() else False  # type: ignore[operator]
    return int(number) if is_short_integer else number


_LONGEST_NUMBER = 400
