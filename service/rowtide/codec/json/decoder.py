"""JSON messages to columns (docs/sql/semantics.md#error-rows, #servers-formats-and-pseudo-columns).

Fields match column names without regard to the case of ASCII letters. If a message spells one name in
several ways, the column's main spelling counts (the name in lower case; for a quoted name with small
letters, the name itself), else the last of the others. Unknown fields are ignored. If a field is
repeated, the last one counts. An absent field or ``null`` is NULL, or MISSING_FIELD if the column is
NOT NULL. A message that is not a JSON object is DECODE. A column with a path takes the value at that
place; names match the path exactly. For an object or an array, a column of text has the JSON text of
the message.

msgspec decodes almost every message into a struct of the main spellings, whose fields are gathered
into columns. A message with an object or an array for text is decoded into a second struct. Any other
message (a field absent, another type, bad JSON) is processed alone, with a precise reason. All paths
agree, and the path of a message depends only on the message.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import msgspec
import numpy as np
from msgspec import UNSET, UnsetType

from rowtide.codec.contract import Decoded, DecodeFault
from rowtide.codec.json.columns import Builder, builder, wire_type
from rowtide.codec.json.faults import marked, why_not_json
from rowtide.codec.json.readings import folded, reading_of, text_at, text_of_raw, value_at
from rowtide.codec.json.shape import Shape, struct_decoder
from rowtide.codec.json.values import ElementError
from rowtide.codec.options import Declared, Options
from rowtide.errors import Reason, RejectedRowError, rejection_of
from rowtide.expr.json_path import show_path
from rowtide.rows.arrays import Mask
from rowtide.rows.column import Column, Indices
from rowtide.rows.rowop import Row
from rowtide.rows.types import Kind, RowType

_ESCAPE = rb"\u"
_BLANKS = b" \t\r\n"
_PLAIN_NAME = re.compile(r"\w+", re.ASCII)
"""Names that JSON can write only in capitals, in small letters and with \\u escapes."""


class _MalformedError(Exception):
    """A message is not JSON, or has a surrogate without its pair; msgspec does not tell the two apart."""


class _Way(NamedTuple):
    """How messages are decoded together: their shape, and the function that decodes one."""

    shape: Shape
    decode: Callable[[Any], Any]


class JsonDecoder:
    """Decodes the JSON messages of one foreign stream; see ``codec.contract``.

    Raises:
      StatementError: a column's type cannot be read from JSON, or one of its options is wrong.
    """

    def __init__(
        self,
        relation: str,
        row_type: RowType,
        columns: Mapping[str, Options] | None = None,
        *,
        texts_are_json: bool = False,
    ) -> None:
        declared = Declared(relation, row_type, {}, columns or {})
        self._row_type = row_type
        self._texts_are_json = texts_are_json
        self._readings = [reading_of(declared, field) for field in row_type]
        self._converters = [reading.convert for reading in self._readings]
        self._builders: list[Builder] = [
            builder(field.type, reading.convert, plain=reading.plain)
            for field, reading in zip(row_type, self._readings, strict=True)
        ]
        self._folded = {
            folded(field.name): index
            for index, field in enumerate(row_type)
            if self._readings[index].path is None
        }
        spellings = [_main_spelling(field.name) for field in row_type]
        self._spellings = spellings
        self._quoted = [
            f'"{field.name.lower()}"'.encode() if _PLAIN_NAME.fullmatch(field.name) else None
            for field in row_type
        ]
        paths = [
            (spellings[index],) if reading.path is None else reading.path
            for index, reading in enumerate(self._readings)
        ]
        strict = [wire_type(field.type) for field in row_type]
        loose = [msgspec.Raw if field.type.is_text else strict[at] for at, field in enumerate(row_type)]
        ways = [struct_decoder(paths, types) for types in ([strict] if strict == loose else [strict, loose])]
        self._ways = [_Way(*way) for way in ways if way is not None]
        """First structs whose text columns are text; then those whose text columns may be an object
        or an array."""
        self._decode_any = msgspec.json.Decoder(float_hook=Decimal).decode

    def decode(self, values: Sequence[bytes | None]) -> Decoded:
        """Decode messages; see ``codec.contract.Decoder``."""
        left: Indices = np.arange(len(values), dtype=np.int64)
        parts: list[tuple[tuple[Column, ...], Indices]] = []
        alone: list[Indices] = []
        for way in self._ways:
            if len(left):
                together, doubtful, left = self._together(way, values, left)
                parts += [] if together is None else [together]
                alone.append(doubtful)
        alone.append(left)
        single = np.sort(np.concatenate(alone))
        if not len(single) and len(parts) == 1:
            return Decoded(*parts[0], ())
        rows, found, faults = self._one_by_one(values, single)
        if rows or not parts:
            columns = tuple(
                Column.from_values(field.type, (row[index] for row in rows))
                for index, field in enumerate(self._row_type)
            )
            parts.append((columns, np.array(found, dtype=np.int64)))
        if len(parts) == 1:
            return Decoded(*parts[0], faults)
        accepted = np.concatenate([indices for _, indices in parts])
        order = np.argsort(accepted, kind="stable")
        merged = tuple(
            Column.concat(same).take(order) for same in zip(*(columns for columns, _ in parts), strict=True)
        )
        return Decoded(merged, accepted[order], faults)

    def _together(
        self, way: _Way, values: Sequence[bytes | None], indices: Indices
    ) -> tuple[tuple[tuple[Column, ...], Indices] | None, Indices, Indices]:
        """Decode the messages at ``indices`` into structs and these into columns.

        Returns:
          The columns and the messages in them; the doubtful messages; and those that are not such structs.
        """
        every = len(indices) == len(values)
        messages, failed = _structs(way, values if every else [values[at] for at in indices.tolist()])
        others = indices[failed]
        if failed:
            messages = [message for message in messages if message is not None]
            indices = np.delete(indices, failed)
        if not messages:
            return None, indices, others
        leave = np.zeros(len(messages), dtype=np.bool_)
        try:
            # Numbers out of range are doubtful and need no warning.
            with np.errstate(all="ignore"):
                columns = self._columns(way, values, messages, indices, leave)
        except Exception:  # noqa: BLE001 - whatever a value does to a column, it does to one message only
            return None, indices, others
        return (columns, indices[~leave]), indices[leave], others

    def _columns(
        self,
        way: _Way,
        values: Sequence[bytes | None],
        messages: list[Any],
        indices: Indices,
        leave: Mask,
    ) -> tuple[Column, ...]:
        """Return the columns of the structs that convert, and mark the others in ``leave``."""
        gathered: list[list[Any]] = [[] for _ in self._row_type]
        way.shape.gather(messages, gathered)
        columns = []
        for index, (field, build) in enumerate(zip(self._row_type, self._builders, strict=True)):
            fields = gathered[index]
            types = set(map(type, fields))
            valid = None
            if UnsetType in types:
                unset = [number for number, value in enumerate(fields) if value is UNSET]
                for number in unset:
                    fields[number] = None
                    leave[number] |= self._may_be_spelled_otherwise(index, values[indices[number]])
            if msgspec.Raw in types:
                is_json = field.type.kind is Kind.JSON
                fields = self._jsons(fields, leave) if is_json else _texts(fields, leave)
                types = set(map(type, fields))
            if UnsetType in types or type(None) in types:
                valid = np.fromiter((value is not None for value in fields), np.bool_, len(fields))
                if not field.nullable:
                    leave |= ~valid
            column, doubtful = build(fields, valid)
            if doubtful is not None:
                leave |= doubtful
            columns.append(column)
        if leave.any():
            keep: Indices = np.flatnonzero(~leave)
            columns = [column.take(keep) for column in columns]
        return tuple(_without_needless_mask(column) for column in columns)

    def _jsons(self, fields: Sequence[Any], leave: Mask) -> list[Any]:
        """Return the JSON of each value as text; mark those in ``leave`` that are JSON inside of a text."""
        found: list[Any] = []
        for at, value in enumerate(fields):
            raw = b"null" if value is None else bytes(value).strip(_BLANKS)
            leave[at] |= self._texts_are_json and raw[:1] == b'"'
            try:
                found.append(None if raw == b"null" else raw.decode())
            except UnicodeDecodeError:
                found.append(None)
                leave[at] = True
        return found

    def _may_be_spelled_otherwise(self, index: int, value: bytes | None) -> bool:
        """Return whether a message may name the field at ``index`` in another than its main spelling."""
        if self._readings[index].path is not None:
            return False
        quoted = self._quoted[index]
        return value is None or quoted is None or quoted in value.lower() or _ESCAPE in value

    def _one_by_one(
        self, values: Sequence[bytes | None], indices: Indices
    ) -> tuple[list[Row], list[int], tuple[DecodeFault, ...]]:
        """Process single messages; return the rows, their indexes, and the faults of the others."""
        rows: list[Row] = []
        found: list[int] = []
        faults: list[DecodeFault] = []
        for index in indices.tolist():
            try:
                rows.append(self._row(values[index]))
                found.append(index)
            except Exception as error:  # noqa: BLE001 - no message may stop a pipeline
                rejection = rejection_of(error, Reason.DECODE)
                faults.append(DecodeFault(index, rejection.reason, rejection.message))
        return rows, found, tuple(faults)

    def _row(self, value: bytes | None) -> Row:
        """Decode one message by the rules of ``json.values``.

        Raises:
          RejectedRowError: DECODE, TYPE, MISSING_FIELD or TOMBSTONE.
        """
        if value is None:
            raise RejectedRowError(Reason.TOMBSTONE, "the message has no value")
        try:
            return self._fields(value, {})
        except (UnicodeDecodeError, _MalformedError):
            # Text that no column reads may be anything.
            text, whys = marked(value)
            try:
                return self._fields(text, whys)
            except _MalformedError as error:
                raise RejectedRowError(Reason.DECODE, why_not_json(value) or str(error)) from error

    def _fields(self, value: bytes, refused: Mapping[str, str]) -> Row:
        """Return the columns of a message; see ``_row``.

        ``refused`` are texts that no column may have, each with the message of the rejection.

        Raises:
          UnicodeDecodeError: the message is not UTF-8.
          _MalformedError: it is not JSON.
        """
        try:
            message = self._decode_any(value)
        except RecursionError:
            raise RejectedRowError(Reason.DECODE, "JSON is nested too deeply") from None
        except msgspec.ValidationError as error:
            raise RejectedRowError(Reason.TYPE, f"a number is out of range: {error}") from error
        except ArithmeticError as error:
            raise RejectedRowError(Reason.TYPE, "a number is out of range") from error
        except msgspec.DecodeError as error:
            raise _MalformedError(str(error)) from error
        if not isinstance(message, dict):
            raise RejectedRowError(Reason.DECODE, "the message is not a JSON object")
        names = {self._folded.get(folded(name)): name for name in message}
        return tuple(
            self._field(index, value, message, names, refused) for index in range(len(self._row_type))
        )

    def _field(
        self,
        index: int,
        value: bytes,
        message: dict[str, object],
        names: Mapping[int | None, str],
        refused: Mapping[str, str],
    ) -> object:
        """Return the value of one column; ``names`` are how the message spells the columns' names."""
        field, reading = self._row_type[index], self._readings[index]
        path = reading.path
        if path is None:
            main = self._spellings[index]
            name = main if main in message else names.get(index, main)
            path = (name,)
        try:
            given = value_at(message, path)
            if given is UNSET or given is None:
                if field.nullable:
                    return None
                raise RejectedRowError(Reason.MISSING_FIELD, "is absent" if given is UNSET else "is null")
            for marker, why in refused.items():
                if marker.encode() in msgspec.json.encode(given):
                    raise RejectedRowError(Reason.DECODE, why)
            if field.type.kind is Kind.JSON and not (self._texts_are_json and isinstance(given, str)):
                return text_at(value, path)
            if isinstance(given, dict | list) and field.type.is_text:
                given = text_at(value, path)
            return self._converters[index](given)
        except ElementError as error:
            place = show_path((*path, error.at))
            raise RejectedRowError(error.reason, f'field "{field.name}" ({place}): {error.why}') from error
        except RejectedRowError as error:
            colon = "" if error.reason is Reason.MISSING_FIELD else ":"
            raise RejectedRowError(error.reason, f"{reading.shown}{colon} {error.message}") from error


def _structs(way: _Way, values: Sequence[bytes | None]) -> tuple[list[Any], list[int]]:
    """Decode each message into a struct, None where that fails; also return the positions of failures."""
    messages: list[Any] = []
    failed: list[int] = []
    # After an error the iterator continues with the next message; extend() keeps the messages before it.
    decoded: Iterator[Any] = map(way.decode, values)
    while True:
        try:
            messages.extend(decoded)
            return messages, failed
        except Exception:  # noqa: BLE001 - processed alone, which says why
            failed.append(len(messages))
            messages.append(None)


def _texts(fields: Sequence[Any], leave: Mask) -> list[Any]:
    """Return the text of each value; mark those that are not text in ``leave``."""
    found: list[Any] = []
    for at, value in enumerate(fields):
        try:
            found.append(text_of_raw(value))
        except ValueError:
            found.append(None)
            leave[at] = True
    return found


def _main_spelling(name: str) -> str:
    """Return the main spelling: SQL has folded an unquoted name to upper case."""
    return name.lower() if name == name.upper() else name


def _without_needless_mask(column: Column) -> Column:
    if column.valid is not None and column.valid.all():
        return Column(column.type, column.values)
    return column
