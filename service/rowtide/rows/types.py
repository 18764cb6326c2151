"""SQL types and row types.

A type fixes three forms of a value, declared here once:

| type                       | in a row (Python)         | in a column (NumPy or Arrow)      |
|----------------------------|---------------------------|-----------------------------------|
| BOOLEAN                    | bool                      | bool                              |
| TINYINT .. BIGINT          | int                       | int8 .. int64                     |
| REAL, DOUBLE               | float                     | float32, float64                  |
| DECIMAL(p<=18, s)          | Decimal with s digits     | int64, unscaled                   |
| DECIMAL(p>18, s)           | Decimal with s digits     | object: Python int, unscaled      |
| CHAR, VARCHAR              | str                       | Arrow string                      |
| UUID                       | str: 36 small characters  | Arrow string                      |
| JSON                       | str, as it was written    | Arrow string                      |
| ARRAY                      | tuple, None for NULL      | Arrow string, see ``rows.arrays_as_text`` |
| BINARY, VARBINARY          | bytes                     | Arrow binary                      |
| DATE                       | int, days since the epoch | int32                             |
| TIME                       | int, ms of the day        | int64                             |
| TIMESTAMP                  | int, ms since epoch, UTC  | int64                             |
| TIMESTAMP WITH TIME ZONE   | int, ms since epoch, UTC  | int64                             |
| INTERVAL day to second     | int, ms                   | int64                             |
| INTERVAL year to month     | int, months               | int64                             |

NULL is None in a row and a False in a column's ``valid`` mask.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum

import numpy as np

OMITTED: Mapping[str, bool] = {"omitted": True}
"""The metadata of a field that a digest leaves out if it is None: plans without it keep their digests."""
MAX_DECIMAL_PRECISION = 38
FAST_DECIMAL_PRECISION = 18
"""The number of decimal digits that always fit an int64. Wider decimals take the slow path."""

MIN_TIMESTAMP_MS = -62_135_596_800_000
"""0001-01-01 00:00:00: databases and ``datetime`` hold no earlier time."""
MAX_TIMESTAMP_MS = 253_402_300_799_999
"""9999-12-31 23:59:59.999."""


class Kind(Enum):
    """The SQL type names."""

    BOOLEAN = "BOOLEAN"
    TINYINT = "TINYINT"
    SMALLINT = "SMALLINT"
    INTEGER = "INTEGER"
    BIGINT = "BIGINT"
    REAL = "REAL"
    DOUBLE = "DOUBLE"
    DECIMAL = "DECIMAL"
    CHAR = "CHAR"
    VARCHAR = "VARCHAR"
    BINARY = "BINARY"
    VARBINARY = "VARBINARY"
    UUID = "UUID"
    JSON = "JSON"
    ARRAY = "ARRAY"
    DATE = "DATE"
    TIME = "TIME"
    TIMESTAMP = "TIMESTAMP"
    INSTANT = "TIMESTAMP WITH TIME ZONE"
    INTERVAL_DAY = "INTERVAL DAY TO SECOND"
    INTERVAL_MONTH = "INTERVAL YEAR TO MONTH"


INTEGER_BYTES = {Kind.TINYINT: 1, Kind.SMALLINT: 2, Kind.INTEGER: 4, Kind.BIGINT: 8}

# Read for every column of every tray. Sets would hash their members in Python, so these are tuples.
_FLOATS = (Kind.REAL, Kind.DOUBLE)
_TIMESTAMPS = (Kind.TIMESTAMP, Kind.INSTANT)
_INTERVALS = (Kind.INTERVAL_DAY, Kind.INTERVAL_MONTH)
_TEXTS = (Kind.CHAR, Kind.VARCHAR)
_BINARIES = (Kind.BINARY, Kind.VARBINARY)
_STRINGS = (*_TEXTS, Kind.UUID, Kind.JSON)
_VARIABLE_WIDTHS = (*_STRINGS, *_BINARIES, Kind.ARRAY)
_ELEMENTS = tuple(kind for kind in Kind if kind not in (Kind.JSON, Kind.ARRAY, *_INTERVALS))

_DTYPES: dict[Kind, str] = {
    Kind.BOOLEAN: "bool",
    Kind.TINYINT: "int8",
    Kind.SMALLINT: "int16",
    Kind.INTEGER: "int32",
    Kind.BIGINT: "int64",
    Kind.REAL: "float32",
    Kind.DOUBLE: "float64",
    Kind.DATE: "int32",
    Kind.TIME: "int64",
    Kind.TIMESTAMP: "int64",
    Kind.INSTANT: "int64",
    Kind.INTERVAL_DAY: "int64",
    Kind.INTERVAL_MONTH: "int64",
}


@dataclass(frozen=True, slots=True)
class Type:
    """One SQL type.

    ``precision`` is digits of a DECIMAL or length of CHAR, VARCHAR, BINARY. An ARRAY, and only an ARRAY, has an
    ``element``: the type of its elements.
    """

    kind: Kind
    precision: int | None = None
    scale: int = 0
    element: Type | None = field(default=None, metadata=OMITTED)

    @property
    def is_integer(self) -> bool:
        """Return whether this is TINYINT to BIGINT."""
        return self.kind in INTEGER_BYTES

    @property
    def is_exact(self) -> bool:
        """Return whether this is an integer or a DECIMAL."""
        return self.is_integer or self.kind is Kind.DECIMAL

    @property
    def is_float(self) -> bool:
        """Return whether this is REAL or DOUBLE."""
        return self.kind in _FLOATS

    @property
    def is_numeric(self) -> bool:
        """Return whether arithmetic applies."""
        return self.is_exact or self.is_float

    @property
    def is_interval(self) -> bool:
        """Return whether this is a length of time: days to seconds, or years and months."""
        return self.kind in _INTERVALS

    @property
    def is_timestamp(self) -> bool:
        """Return whether this is TIMESTAMP or TIMESTAMP WITH TIME ZONE: both are milliseconds since 1970, UTC."""
        return self.kind in _TIMESTAMPS

    @property
    def is_text(self) -> bool:
        """Return whether this is CHAR or VARCHAR."""
        return self.kind in _TEXTS

    @property
    def is_string(self) -> bool:
        """Return whether its values are Python strings: text, UUID or JSON."""
        return self.kind in _STRINGS

    @property
    def is_binary(self) -> bool:
        """Return whether this is BINARY or VARBINARY."""
        return self.kind in _BINARIES

    @property
    def is_variable_width(self) -> bool:
        """Return whether a column of it is an Arrow array of offsets and bytes."""
        return self.kind in _VARIABLE_WIDTHS

    @property
    def of_elements(self) -> Type:
        """The type of the elements of an ARRAY; only an ARRAY has one."""
        if self.element is None:
            raise ValueError(f"{self} has no elements")
        return self.element

    @property
    def can_be_element(self) -> bool:
        """Return whether there are arrays of this type: of all types but INTERVAL, JSON and ARRAY."""
        return self.kind in _ELEMENTS

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """The NumPy type of a column's values; object for wide DECIMAL and for variable width."""
        if self.kind is Kind.DECIMAL and (self.precision or MAX_DECIMAL_PRECISION) <= FAST_DECIMAL_PRECISION:
            return np.dtype("int64")
        return np.dtype(_DTYPES.get(self.kind, "object"))

    def __repr__(self) -> str:
        # Keys of snapshots are digests of it: those of plans without arrays stay as they are.
        element = "" if self.element is None else f", element={self.element!r}"
        return f"Type(kind={self.kind!r}, precision={self.precision!r}, scale={self.scale!r}{element})"

    def __str__(self) -> str:
        if self.element is not None:
            return f"{self.element} ARRAY"
        if self.kind is Kind.DECIMAL and self.precision is not None:
            return f"DECIMAL({self.precision}, {self.scale})"
        if self.precision is not None:
            return f"{self.kind.value}({self.precision})"
        return self.kind.value


BOOLEAN = Type(Kind.BOOLEAN)
INTEGER = Type(Kind.INTEGER)
BIGINT = Type(Kind.BIGINT)
DOUBLE = Type(Kind.DOUBLE)
VARCHAR = Type(Kind.VARCHAR)
UUID = Type(Kind.UUID)
JSON = Type(Kind.JSON)
DATE = Type(Kind.DATE)
TIME = Type(Kind.TIME)
TIMESTAMP = Type(Kind.TIMESTAMP)
INSTANT = Type(Kind.INSTANT)
"""TIMESTAMP WITH TIME ZONE (docs/decisions/0024-timestamp-with-time-zone.md)."""
INTERVAL_DAY = Type(Kind.INTERVAL_DAY)
INTERVAL_MONTH = Type(Kind.INTERVAL_MONTH)


def decimal(precision: int, scale: int = 0) -> Type:
    """Return DECIMAL(precision, scale)."""
    return Type(Kind.DECIMAL, precision, scale)


def array_of(element: Type) -> Type:
    """Return the type of arrays of ``element``."""
    return Type(Kind.ARRAY, element=element)


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a row type; SQL text calls it a column."""

    name: str
    type: Type
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class RowType:
    """The ordered fields of a row. ROWTIME is not among them: every row has it besides.

    Field names are as the catalog folds them; they are unique.
    """

    fields: tuple[Field, ...]
    _positions: dict[str, int] = field(init=False, repr=False, compare=False, hash=False)

    def __post_init__(self) -> None:
        positions = {column.name: index for index, column in enumerate(self.fields)}
        if len(positions) != len(self.fields):
            raise ValueError(f"field names are not unique: {', '.join(f.name for f in self.fields)}")
        object.__setattr__(self, "_positions", positions)

    @property
    def names(self) -> tuple[str, ...]:
        """The field names in order."""
        return tuple(column.name for column in self.fields)

    def index(self, name: str) -> int:
        """Return the position of field ``name``.

        Raises:
          KeyError: the field does not exist.
        """
        return self._positions[name]

    def __len__(self) -> int:
        return len(self.fields)

    def __iter__(self) -> Iterator[Field]:
        return iter(self.fields)

    def __getitem__(self, index: int) -> Field:
        return self.fields[index]
