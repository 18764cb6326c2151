"""Changes of a table: rows collected from several decoders, and messages whose null value is a DELETE.

See docs/sql/tables.md#tables-that-a-topic-fills.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import msgspec
import numpy as np

from rowtide.codec.contract import Decoded, DecodeFault, Decoder
from rowtide.codec.csv import converter as text_converter
from rowtide.codec.format_options import KEY_FORMAT, PATH
from rowtide.codec.json.decoder import JsonDecoder
from rowtide.codec.json.faults import why_not_json
from rowtide.codec.options import Declared, Options
from rowtide.codec.records import RecordRows
from rowtide.codec.rowwise import decode_each, text_of
from rowtide.errors import Reason
from rowtide.plan.plan import KEPT, changes_type
from rowtide.rows.column import Column, Indices
from rowtide.rows.rowop import Opcode, Row
from rowtide.rows.types import RowType, Type


def key_type(declared: Declared) -> RowType:
    """Return the columns of the PRIMARY KEY."""
    return RowType(tuple(declared.row_type[at] for at in declared.key))


@dataclass(slots=True)
class Gathered:
    """Collects rows that several decoders decoded, and sorts them into the order of the messages."""

    declared: Declared
    parts: list[tuple[tuple[Column, ...], Indices, int]] = field(default_factory=list)
    faults: list[DecodeFault] = field(default_factory=list)

    def reject(self, at: int, reason: Reason, message: str) -> None:
        """Add the fault of a message."""
        self.faults.append(DecodeFault(at, reason, message))

    def inserts(
        self,
        decoded: Decoded,
        places: Sequence[int],
        kept: Sequence[int] = (),
        before: Mapping[int, Row] = MappingProxyType({}),
    ) -> None:
        """Add rows of the messages at ``places``.

        ``kept`` are the columns that are unchanged, ``before`` the rows before the changes that move them, by message.
        """
        columns = decoded.columns
        if self.declared.patched:
            names = ",".join(map(str, kept)) or None
            kept_column = Column.from_values(KEPT.type, [names] * len(decoded.accepted))
            rows = [before.get(places[at]) for at in decoded.accepted.tolist()]
            columns = (*columns, kept_column, *_columns_of(self.declared.row_type, rows))
        self._add(decoded, columns, places, Opcode.INSERT)

    def deletes(self, decoded: Decoded, places: Sequence[int]) -> None:
        """Add DELETEs of the messages at ``places``; the decoded columns are those of the key."""
        count = len(decoded.accepted)
        keys = dict(zip(self.declared.key, decoded.columns, strict=True))
        columns = tuple(
            keys[at] if at in keys else Column.nulls(each, count) for at, each in enumerate(self._types())
        )
        self._add(decoded, columns, places, Opcode.DELETE)

    def _types(self) -> list[Type]:
        changes = changes_type(self.declared.row_type, self.declared.key, patched=self.declared.patched)
        return [each.type for each in changes]

    def _add(self, decoded: Decoded, columns: tuple[Column, ...], places: Sequence[int], opcode: int) -> None:
        where = np.array(places, dtype=np.int64)
        self.parts.append((columns, where[decoded.accepted], opcode))
        self.faults += [
            DecodeFault(places[fault.index], fault.reason, fault.message) for fault in decoded.faults
        ]

    def decoded(self) -> Decoded:
        """Return everything in the order of the messages."""
        faults = tuple(sorted(self.faults, key=lambda fault: fault.index))
        if not self.parts:
            nothing = tuple(Column.nulls(each, 0) for each in self._types())
            return Decoded(nothing, np.zeros(0, dtype=np.int64), faults)
        accepted = np.concatenate([places for _, places, _ in self.parts])
        opcodes = np.concatenate(
            [np.full(len(places), opcode, dtype=np.int8) for _, places, opcode in self.parts]
        )
        order = np.argsort(accepted, kind="stable")
        columns = tuple(
            Column.concat(same).take(order)
            for same in zip(*(columns for columns, _, _ in self.parts), strict=True)
        )
        return Decoded(columns, accepted[order], faults, opcodes[order])


def _columns_of(row_type: RowType, rows: Sequence[Row | None]) -> Iterator[Column]:
    """Yield the columns of rows, which are NULL where there is no row."""
    some = any(rows)
    for at, each in enumerate(row_type):
        if some:
            yield Column.from_values(each.type, (None if row is None else row[at] for row in rows))
        else:
            yield Column.nulls(each.type, len(rows))


class KeyReader:
    """Decodes the keys of messages into the columns of a table's PRIMARY KEY.

    Raises:
      FormatOptionError: ``key_format`` does not exist, or does not fit the key.
    """

    def __init__(self, declared: Declared, default: str = "JSON") -> None:
        self._type = key_type(declared)
        form = declared.options.get(KEY_FORMAT, default).upper()
        forms = ("AVRO", "JSON", "TEXT") if default == "AVRO" else ("JSON", "TEXT")
        if form not in forms:
            hint = f"Keys of messages of this format are {' or '.join(forms)}."
            raise declared.error(KEY_FORMAT, f'"{form}" is not supported', hint=hint)
        if form == "TEXT" and len(self._type) > 1:
            raise declared.error(
                KEY_FORMAT,
                f"TEXT is for one column, and the PRIMARY KEY has {len(self._type)}",
                hint="Write keys as JSON objects, and declare key_format 'JSON'.",
            )
        self._convert: Callable[[str], object] | None = None
        if form == "TEXT":
            self._convert = text_converter(self._type[0].name, self._type[0].type)
        self._json = JsonDecoder(declared.relation, self._type, _of_keys(declared))
        self._avro: Callable[[Sequence[bytes]], Decoded] | None = None
        if form == "AVRO":
            self._avro = _avro_keys(declared, self._type)

    def delete(self, gathered: Gathered, places: Sequence[int], keys: Sequence[bytes | None]) -> None:
        """Add the DELETEs of messages at ``places`` with these keys."""
        there = [(at, key) for at, key in zip(places, keys, strict=True) if key is not None]
        for at, key in zip(places, keys, strict=True):
            if key is None:
                gathered.reject(at, Reason.TOMBSTONE, "the message has neither a value nor a key")
        if not there:
            return
        if self._avro is not None:
            decoded = self._avro([key for _, key in there])
        elif self._convert is not None:
            decoded = decode_each([key for _, key in there], self._type, self._row)
        else:
            decoded = self._json.decode([self._object(key) for _, key in there])
        named = tuple(
            DecodeFault(fault.index, fault.reason, f"key of the message: {self._why(fault, there)}")
            for fault in decoded.faults
        )
        gathered.deletes(Decoded(decoded.columns, decoded.accepted, named), [at for at, _ in there])

    def _why(self, fault: DecodeFault, keys: Sequence[tuple[int, bytes]]) -> str:
        """Return the message of a fault; of one that is not JSON it counts the bytes of the key itself."""
        is_json = self._avro is None and self._convert is None and fault.reason is Reason.DECODE
        why = why_not_json(keys[fault.index][1], "it") if is_json else None
        return why or fault.message

    def _row(self, key: bytes) -> Row:
        assert self._convert is not None
        return (self._convert(text_of(key)),)

    def _object(self, key: bytes) -> bytes:
        """Return a key as a JSON object of columns: out of the wrapper with its schema, or the only value."""
        try:
            inner = _decode_wrapper(key).payload
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            inner = None
        given = key if inner is None else bytes(inner)
        if len(self._type) == 1 and not given.lstrip().startswith(b"{"):
            name = self._type[0].name
            main = name.lower() if name == name.upper() else name
            return b"{" + msgspec.json.encode(main) + b":" + given + b"}"
        return given


def _of_keys(declared: Declared) -> Mapping[str, Options]:
    """Return the options of columns as they are in keys: with units and patterns, and without paths in the value."""
    return {
        column: {name: value for name, value in options.items() if name != PATH}
        for column, options in declared.columns.items()
    }


def _avro_keys(declared: Declared, row_type: RowType) -> Callable[[Sequence[bytes]], Decoded]:
    """Return the decoder of keys in Avro: records with the columns of the key, or the value of the only one."""
    from rowtide.codec.avro import AvroRecords

    records = AvroRecords(declared, of_keys=True)
    rows = RecordRows(replace(declared, columns=_of_keys(declared)), row_type)

    def row(key: bytes) -> Row:
        found = records.read(key)
        if len(row_type) == 1 and not isinstance(found, dict):
            found = {row_type[0].name: found}
        return rows.row(found)

    def decode(keys: Sequence[bytes]) -> Decoded:
        records.prepare(keys)
        return decode_each(keys, row_type, row)

    return decode


class _Wrapper(msgspec.Struct):
    """The object in which Kafka Connect writes a value with its schema."""

    schema: msgspec.Raw
    payload: msgspec.Raw


_decode_wrapper = msgspec.json.Decoder(_Wrapper).decode


class UpsertDecoder:
    """Decodes messages with the whole current row of their key; a message without a value deletes the row."""

    def __init__(self, declared: Declared, rows: Decoder, key_format: str = "JSON") -> None:
        self._declared = declared
        self._rows = rows
        self._keys = KeyReader(declared, key_format)

    def decode(self, values: Sequence[bytes | None]) -> Decoded:
        """Decode messages without keys; see ``codec.contract.Decoder``."""
        return self.decode_changes(values, [None] * len(values))

    def decode_changes(self, values: Sequence[bytes | None], keys: Sequence[bytes | None]) -> Decoded:
        """Decode messages; see ``codec.contract.ChangeDecoder``."""
        gathered = Gathered(self._declared)
        there = [at for at, value in enumerate(values) if value is not None]
        gone = [at for at, value in enumerate(values) if value is None]
        gathered.inserts(self._rows.decode([values[at] for at in there]), there)
        self._keys.delete(gathered, gone, [keys[at] for at in gone])
        return gathered.decoded()
