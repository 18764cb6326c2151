r"""CAST to and from text, and between lengths of text and of binary strings.

Text of a value:

| type                   | text                                                             |
|------------------------|------------------------------------------------------------------|
| BOOLEAN                | TRUE, FALSE (read in any case)                                   |
| integers, DECIMAL      | 12, 1.50: all digits of the scale                                |
| REAL, DOUBLE           | the shortest that reads back the same, as Python writes it       |
| DATE, TIME             | 2024-02-29, 12:34:56 or 12:34:56.789                             |
| TIMESTAMP              | date and time with a blank; T is read too, and Z or +hh:mm       |
| TIMESTAMP WITH TIME ZONE | the same in UTC with +00:00                                    |
| INTERVAL day to second | [-]d hh:mm:ss[.mmm]                                              |
| INTERVAL year to month | [-]y-m                                                           |
| BINARY                 | UTF-8                                                            |
| UUID                   | small letters with dashes; read in the spellings of PostgreSQL   |
| JSON                   | as it was written                                                |

Blanks around a value are ignored. A number may have the form of any numeric literal and is rounded as
CAST between numbers rounds; digits finer than a millisecond are cut off. Text of another form rejects
the row with CAST, a number out of range with OVERFLOW.

A string goes into a shorter type only if nothing but blanks (zero bytes) are
cut off. CHAR and BINARY are not filled up: nothing in Rowtide depends on it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow.compute as pc

from rowtide.errors import Reason, RejectedRowError
from rowtide.expr.evaluation import ColumnKernel, RowKernel
from rowtide.expr.functions import arrow
from rowtide.expr.functions.casts.text_reading import number_reader, reader
from rowtide.expr.functions.casts.text_writing import COLUMN_WRITERS, WRITERS
from rowtide.expr.functions.numbers import exact
from rowtide.expr.functions.rejections import shown
from rowtide.rows.arrays import Mask
from rowtide.rows.strings import CANONICAL_UUID, FORMS
from rowtide.rows.types import Kind, Type


def allowed(source: Type, target: Type) -> bool:
    """Return whether the cast exists: text with everything, binary with text and binary."""
    if source.is_binary or target.is_binary:
        return (source.is_binary or source.is_text) and (target.is_binary or target.is_text)
    return source.is_text or target.is_text


def row(source: Type, target: Type) -> RowKernel:
    """Return the row function of a cast from or to text, or between binary strings."""
    if not target.is_variable_width:
        return reader(target)
    if target.kind in FORMS:
        return _form_reader(target)
    fit = _fit_row(target)
    write = _writer(source, target)
    if write is None:
        return fit
    return lambda value: fit(write(value))


def columns(source: Type, target: Type) -> ColumnKernel | None:
    """Return the column function of a cast from or to text, or between binary strings."""
    if target.is_integer or target.kind in (Kind.DOUBLE, Kind.REAL):
        return number_reader(target)
    if not target.is_variable_width:
        return None
    if target.kind in FORMS:
        return _canonical_uuids if target.kind is Kind.UUID else None
    if source.is_variable_width:
        return _fitted(target, _as_it_is) if source.is_string == target.is_text else None
    write = COLUMN_WRITERS.get(source.kind)
    return None if write is None or target.is_binary else _fitted(target, write)


def _fit_row(target: Type) -> RowKernel:
    """Return the function that fits a string into the length of ``target``."""
    length = target.precision
    blank: Any = " " if target.is_text else b"\0"

    def fit(value: Any) -> object:
        if length is None or len(value) <= length:
            return value
        if value[length:].strip(blank):
            raise RejectedRowError(Reason.CAST, f"{shown(value)} is longer than {target}")
        return value[:length]

    return fit


def _fitted(target: Type, write: ColumnKernel) -> ColumnKernel:
    """Make the column function that writes values and leaves those that are too long to the row function."""
    length = target.precision
    measure = pc.utf8_length if target.is_text else pc.binary_length

    def convert(values: Any) -> tuple[Any, Mask | None]:
        texts, doubtful = write(values)
        if length is None:
            return texts, doubtful
        long = arrow.numbers(measure(texts), "int32") > length
        return texts, exact.either(doubtful, long) if long.any() else doubtful

    return convert


def _writer(source: Type, target: Type) -> Callable[[Any], Any] | None:
    """Return the function that writes a value as text; None if it is already such a string."""
    if source.is_binary:
        return _utf8 if target.is_text else None
    if target.is_binary:
        return lambda text: text.encode()
    return None if source.is_string else WRITERS[source.kind]


def _form_reader(target: Type) -> RowKernel:
    """Return the function that reads a UUID or JSON from text."""
    form = FORMS[target.kind]

    def read(text: str) -> object:
        try:
            return form(text)
        except ValueError:
            raise RejectedRowError(Reason.CAST, f"{shown(text)} is not a valid {target}") from None

    return read


def _canonical_uuids(values: Any) -> tuple[Any, Mask | None]:
    """Return texts; those that are not UUIDs in their one form are left to the row function."""
    doubtful = ~arrow.flags(pc.match_substring_regex(values, CANONICAL_UUID))
    return values, doubtful if doubtful.any() else None


def _as_it_is(values: Any) -> tuple[Any, Mask | None]:
    return values, None


def _utf8(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise RejectedRowError(Reason.CAST, f"{shown(value)} is not UTF-8 text") from None
