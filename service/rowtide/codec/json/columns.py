"""Convert many JSON values of one field to a column.

A builder takes the values that msgspec decoded for one field, and returns the
column and the doubtful rows, which ``json.values`` processes one by one. The
result of a row depends only on its own value, so both paths agree.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rowtide.codec.json.values import MAX_FLOAT32, FromJson, converter
from rowtide.errors import RejectedRowError
from rowtide.rows.arrays import Mask
from rowtide.rows.column import Column
from rowtide.rows.types import INTEGER_BYTES, MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS, Kind, Type

Builder = Callable[[list[Any], Mask | None], tuple[Column, Mask | None]]
"""Takes a field's values (None: null) and a mask of those that are not null (None: all); returns
the column and the doubtful rows (None: no row)."""

_SURE_BELOW = float(1 << 45)
"""Scaled numbers below this have an error below 2**-7, so rounding is safe unless close to a half."""
_HALF_MARGIN = 1 / 64
_PLAIN_TIMESTAMP = r"^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(\.\d{1,6})?(Z|[+-](0\d|1[0-4]):[0-5]\d)?$"
"""ISO 8601 in the form that Arrow and ``datetime`` both read. Other forms are read one by one."""


def wire_type(kind: Type) -> Any:
    """Return the type that msgspec accepts for a column of ``kind``: at most what ``json.values`` accepts."""
    if kind.is_integer:
        bits = 8 * INTEGER_BYTES[kind.kind] - 1
        return Annotated[int, msgspec.Meta(ge=-(1 << bits), le=(1 << bits) - 1)]
    if kind.element is not None:
        return list[wire_type(kind.element) | None]  # type: ignore[misc]
    match kind.kind:
        case Kind.JSON:
            return msgspec.Raw
        case Kind.BOOLEAN:
            return bool
        case Kind.DOUBLE | Kind.REAL:
            return float
        case Kind.DECIMAL:
            return float | str
        case Kind.TIMESTAMP | Kind.INSTANT | Kind.DATE | Kind.TIME:
            return int | str
        case _:
            return str


def builder(kind: Type, convert: FromJson, *, plain: bool = True) -> Builder:
    """Return the builder of columns of ``kind``; ``convert`` is the rule for one value.

    If not ``plain``, the column declares a unit or a pattern, which only ``convert`` applies.
    """
    if kind.element is not None:
        of_element = converter(kind.element)
        assert of_element is not None
        return _arrays(kind, builder(kind.element, of_element))
    if kind.is_text or kind.kind is Kind.JSON:
        return _text(kind)
    match kind.kind:
        case Kind.DECIMAL if kind.dtype != np.dtype(object):
            return _decimal(kind)
        case Kind.TIMESTAMP | Kind.INSTANT if plain:
            return _timestamp(kind)
        case Kind.REAL:
            return _real(kind)
        case Kind.DECIMAL:
            return _one_by_one(kind)
        case Kind.TIMESTAMP | Kind.INSTANT | Kind.DATE | Kind.TIME | Kind.BINARY | Kind.VARBINARY | Kind.UUID:
            return _by_value(kind, convert)
        case _:
            return _numbers(kind)


def _filled(values: list[Any], valid: Mask | None, filler: object) -> list[Any]:
    """Replace null values by ``filler``."""
    return values if valid is None else [filler if value is None else value for value in values]


def _some(doubtful: Mask) -> Mask | None:
    return doubtful if doubtful.any() else None


def _numbers(kind: Type) -> Builder:
    def build(values: list[Any], valid: Mask | None) -> tuple[Column, Mask | None]:
        return Column(kind, np.array(_filled(values, valid, 0), dtype=kind.dtype), valid), None

    return build


def _real(kind: Type) -> Builder:
    def build(values: list[Any], valid: Mask | None) -> tuple[Column, Mask | None]:
        wide = np.array(_filled(values, valid, 0.0), dtype=np.float64)
        doubtful = np.abs(wide) > MAX_FLOAT32
        wide[doubtful] = 0.0
        return Column(kind, wide.astype(np.float32), valid), _some(doubtful)

    return build


def _text(kind: Type) -> Builder:
    def build(values: list[Any], valid: Mask | None) -> tuple[Column, Mask | None]:
        array = pa.array(values, type=pa.string())
        doubtful = np.zeros(len(values), dtype=np.bool_)
        held = array.buffers()[2]
        if held is not None and not np.frombuffer(held, dtype=np.uint8).all():
            doubtful |= np.asarray(pc.fill_null(pc.match_substring(array, "\0"), False))
        if kind.precision is not None:
            doubtful |= np.asarray(pc.fill_null(pc.greater(pc.utf8_length(array), kind.precision), False))
        return Column(kind, array, valid), _some(doubtful)

    return build


def _decimal(kind: Type) -> Builder:
    factor = 10.0**kind.scale
    limit = 10.0 ** (kind.precision or 0)
    whole_digits = (kind.precision or 0) - kind.scale
    fraction = rf"(\.\d{{1,{kind.scale}}})?" if kind.scale else ""
    plain = rf"^-?\d{{1,{whole_digits}}}{fraction}$" if whole_digits else rf"^-?0{fraction}$"

    def build(values: list[Any], valid: Mask | None) -> tuple[Column, Mask | None]:
        types = set(map(type, values)) - {type(None)}
        if types == {str}:
            return of_text(values, valid)
        if str in types:
            return _doubtful(kind, len(values), valid)
        scaled = np.array(_filled(values, valid, 0.0), dtype=np.float64) * factor
        whole = np.rint(scaled)
        doubtful = (np.abs(scaled) >= _SURE_BELOW) | (np.abs(whole) >= limit)
        doubtful |= np.abs(np.abs(scaled - whole) - 0.5) < _HALF_MARGIN
        whole[doubtful] = 0.0
        return Column(kind, whole.astype(np.int64), valid), _some(doubtful)

    def of_text(values: list[Any], valid: Mask | None) -> tuple[Column, Mask | None]:
        array = pa.array(values, type=pa.string())
        doubtful = ~np.asarray(pc.fill_null(pc.match_substring_regex(array, plain), True))
        if doubtful.any() or valid is not None:
            skipped = doubtful if valid is None else doubtful | ~valid
            array = pc.if_else(pa.array(skipped), "0", array)
        wide = pc.cast(array, pa.decimal128(38, kind.scale))
        # Little-endian 128 bits; 18 digits and their sign are in the low 64.
        stored = np.frombuffer(wide.buffers()[1], dtype=np.int64)[: 2 * len(wide) : 2].copy()
        return Column(kind, stored, valid), _some(doubtful)

    return build


def _timestamp(kind: Type) -> Builder:
    def build(values: list[Any], valid: Mask | None) -> tuple[Column, Mask | None]:
        types = set(map(type, values)) - {type(None)}
        if types == {str}:
            return of_text(values, valid)
        if str in types:
            return _doubtful(kind, len(values), valid)
        try:
            stored = np.array(_filled(values, valid, 0), dtype=np.int64)
        except OverflowError:
            return _doubtful(kind, len(values), valid)
        return Column(kind, stored, valid), _some((stored < MIN_TIMESTAMP_MS) | (stored > MAX_TIMESTAMP_MS))

    def of_text(values: list[Any], valid: Mask | None) -> tuple[Column, Mask | None]:
        array = pa.array(values, type=pa.string())
        plain = np.asarray(pc.fill_null(pc.match_substring_regex(array, _PLAIN_TIMESTAMP), True))
        for target in (pa.timestamp("us", "UTC"), pa.timestamp("us")):
            try:
                micros = pc.fill_null(pc.cast(pc.cast(array, target), pa.int64()), 0)
            except pa.ArrowInvalid:
                continue
            stored = np.asarray(micros) // 1000
            unsure = ~plain | (stored < MIN_TIMESTAMP_MS) | (stored > MAX_TIMESTAMP_MS)
            return Column(kind, stored, valid), _some(unsure)
        return _doubtful(kind, len(values), valid)

    return build


def _doubtful(kind: Type, count: int, valid: Mask | None) -> tuple[Column, Mask | None]:
    """Leave every value that is not null to ``json.values``."""
    return Column.nulls(kind, count), np.ones(count, np.bool_) if valid is None else valid


def _by_value(kind: Type, convert: FromJson) -> Builder:
    """Convert each value by the rule itself, which takes the same text and whole numbers."""

    def build(values: list[Any], valid: Mask | None) -> tuple[Column, Mask | None]:
        found: list[object] = []
        doubtful: list[int] = []
        for at, value in enumerate(values):
            try:
                found.append(None if value is None else convert(value))
            except RejectedRowError:
                found.append(None)
                doubtful.append(at)
        column = Column.from_values(kind, found)
        if not doubtful:
            return column, None
        unsure = np.zeros(len(values), np.bool_)
        unsure[doubtful] = True
        return column, unsure

    return build


def _arrays(kind: Type, build_elements: Builder) -> Builder:
    """Convert the elements of all arrays as one column, and cut it into arrays."""

    def build(values: list[Any], valid: Mask | None) -> tuple[Column, Mask | None]:
        del valid
        lengths = [0 if value is None else len(value) for value in values]
        elements = [each for value in values if value is not None for each in value]
        known = None
        if None in elements:
            known = np.fromiter((each is not None for each in elements), np.bool_, len(elements))
        column, doubtful = build_elements(elements, known)
        ends = np.cumsum(lengths)
        converted = column.to_list()
        column = Column.from_values(
            kind,
            [
                None if value is None else converted[end - length : end]
                for value, length, end in zip(values, lengths, ends.tolist(), strict=True)
            ],
        )
        if doubtful is None:
            return column, None
        unsure = np.zeros(len(values), np.bool_)
        unsure[np.repeat(np.arange(len(values)), lengths)[doubtful]] = True
        return column, unsure

    return build


def _one_by_one(kind: Type) -> Builder:
    def build(values: list[Any], valid: Mask | None) -> tuple[Column, Mask | None]:
        return _doubtful(kind, len(values), valid)

    return build
