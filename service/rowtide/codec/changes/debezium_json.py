"""Debezium's envelopes in JSON: changes of a table of another database.

See docs/sql/tables.md#tables-that-a-topic-fills. An envelope has the operation (``op``), the row
before and the row after. Kafka Connect may write it inside of an object with its schema.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import msgspec

from rowtide.codec.changes.keys import KeyReader, key_type
from rowtide.codec.changes.moves import Moves
from rowtide.codec.changes.rows import Gathered
from rowtide.codec.changes.unavailable import Placeholder, Unavailable
from rowtide.codec.contract import Decoded
from rowtide.codec.json.decoder import JsonDecoder
from rowtide.codec.json.faults import marked, why_not_json, with_lone_surrogates, without_lone_surrogates
from rowtide.codec.options import Declared
from rowtide.codec.rowwise import decode_each
from rowtide.errors import Reason, RejectedRowError, StatementError
from rowtide.rows.column import Column
from rowtide.rows.rowop import Row
from rowtide.rows.types import RowType

Kept = tuple[int, ...]
"""The columns, by number, that a change leaves unchanged."""

_NULL = msgspec.Raw(b"null")


class _Envelope(msgspec.Struct):
    op: str | None = None
    before: msgspec.Raw = _NULL
    after: msgspec.Raw = _NULL
    payload: msgspec.Raw = _NULL


_decode_envelope = msgspec.json.Decoder(_Envelope).decode
_decode_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def _read_envelope(value: bytes) -> _Envelope:
    """Return the envelope of a message, also if it is in an object with its schema."""
    try:
        found = _decode_envelope(value)
    except msgspec.DecodeError:
        without = without_lone_surrogates(value)
        if without is None:
            raise
        # What no column reads may have them; the decoders of the rows see them again.
        message, marker = without
        found = _read_envelope(message)
        images = (
            msgspec.Raw(with_lone_surrogates(bytes(each), marker)) for each in (found.before, found.after)
        )
        return _Envelope(found.op, *images)
    if found.op is None and found.payload != _NULL:
        return _decode_envelope(found.payload)
    return found


def not_applied(op: object) -> str | None:
    """Return why a change of this ``op`` is not applied to a table; None if it is applied."""
    if op in ("c", "u", "r", "d"):
        return None
    if op is None:
        return 'the message is not a Debezium envelope: it has no "op"'
    if op == "t":
        return (
            'op "t": TRUNCATE is not applied, as its place among the changes of other partitions is not known'
        )
    return f'op "{str(op)[:20]}" is not one of c, u, r, d'


def check_table(declared: Declared, format_name: str) -> None:
    """Check that the relation is a table whose plan accepts changes that leave columns unchanged.

    Raises:
      StatementError: it is another relation.
    """
    if not declared.key:
        raise StatementError(
            f'format "{format_name}" of foreign stream "{declared.relation}": its messages are changes of a table',
            hint="Declare it as CREATE TABLE .. (.., PRIMARY KEY (..)) SERVER ..",
        )
    if not declared.patched:
        raise StatementError(
            f'format "{format_name}" of table "{declared.relation}" is set in the configuration',
            hint=f"Write OPTIONS (format '{format_name}') in the statement: the plan of the table depends on it.",
        )


class DebeziumJsonDecoder:
    """Decodes the changes of one table; see ``codec.contract.ChangeDecoder``.

    Raises:
      StatementError: it is not a declared table, or a column cannot be read from JSON.
    """

    def __init__(self, declared: Declared) -> None:
        check_table(declared, "DEBEZIUM_JSON")
        self._declared = declared
        self._decoders: dict[tuple[Kept, bool], JsonDecoder] = {}
        self._before = self._of(key_type(declared))
        self._keys = KeyReader(declared)
        self._placeholder = Placeholder(declared)
        self._unavailable = Unavailable(declared, self._placeholder)
        self._moves = Moves(declared, self._before.decode, self._rows_before)

    def decode(self, values: Sequence[bytes | None]) -> Decoded:
        """Decode messages without keys; see ``codec.contract.Decoder``."""
        return self.decode_changes(values, [None] * len(values))

    def decode_changes(self, values: Sequence[bytes | None], keys: Sequence[bytes | None]) -> Decoded:
        """Decode messages; see ``codec.contract.ChangeDecoder``."""
        gathered = Gathered(self._declared)
        rows: list[tuple[int, bytes]] = []
        updated: dict[int, bytes] = {}
        deleted: list[tuple[int, bytes]] = []
        by_key: list[int] = []
        for at, value in enumerate(values):
            envelope = None if value is None else self._envelope(gathered, at, value)
            if value is None or (envelope is not None and envelope.op == "d" and envelope.before == _NULL):
                by_key.append(at)
            elif envelope is not None and envelope.op == "d":
                deleted.append((at, bytes(envelope.before)))
            elif envelope is not None:
                rows.append((at, bytes(envelope.after)))
                if envelope.op == "u" and envelope.before != _NULL:
                    updated[at] = bytes(envelope.before)
        self._add_rows(gathered, rows, updated)
        if deleted:
            decoded = self._before.decode([image for _, image in deleted])
            gathered.deletes(decoded, [at for at, _ in deleted])
        self._keys.delete(gathered, by_key, [keys[at] for at in by_key])
        return gathered.decoded()

    def _envelope(self, gathered: Gathered, at: int, value: bytes) -> _Envelope | None:
        """Return the envelope of a message that is a change; None where it was rejected."""
        try:
            found = _read_envelope(value)
        except RecursionError:
            gathered.reject(at, Reason.DECODE, "JSON is nested too deeply")
            return None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            said = why_not_json(value, "it") or str(error)
            gathered.reject(at, Reason.DECODE, f"the message is not a Debezium envelope: {said}")
            return None
        why = not_applied(found.op)
        if why is None:
            return found
        gathered.reject(at, Reason.DECODE, why)
        return None

    def _add_rows(
        self, gathered: Gathered, images: Sequence[tuple[int, bytes]], before: Mapping[int, bytes]
    ) -> None:
        """Add rows after their changes, grouped by the columns that they leave unchanged."""
        by_kept: dict[Kept, list[tuple[int, bytes]]] = {}
        for at, image in images:
            by_kept.setdefault(self._kept(image), []).append((at, image))
        for kept, found in by_kept.items():
            places = [at for at, _ in found]
            decoded = self._decoded([image for _, image in found], kept)
            gathered.inserts(decoded, places, kept, self._moves.rows_before(decoded, places, before))

    def _kept(self, image: bytes) -> Kept:
        """Return the columns whose values a row has not got."""
        if not self._placeholder.may_be_in(image):
            return ()
        try:
            members = _decode_members(marked(image)[0])
        except (msgspec.DecodeError, RecursionError):
            return ()
        return self._unavailable.columns({name: self._value(raw) for name, raw in members.items()})

    def _value(self, raw: msgspec.Raw) -> object:
        """Return the value of a member that may have a placeholder; of others it is not needed."""
        if not self._placeholder.may_be_in(bytes(raw)):
            return raw
        try:
            return msgspec.json.decode(raw)
        except (msgspec.DecodeError, RecursionError):
            return raw

    def _decoded(self, images: Sequence[bytes], kept: Kept, *, before: bool = False) -> Decoded:
        """Decode rows in which the columns ``kept`` are NULL."""
        found = self._decoder(kept, before=before).decode(images)
        there = iter(found.columns)
        count = len(found.accepted)
        columns = tuple(
            Column.nulls(field.type, count) if at in kept else next(there)
            for at, field in enumerate(self._declared.row_type)
        )
        return replace(found, columns=columns)

    def _rows_before(self, images: Sequence[bytes]) -> Decoded:
        """Decode rows before their changes, in which any value may be missing."""
        return decode_each(images, self._declared.row_type, self._row_before)

    def _row_before(self, image: bytes) -> Row:
        decoded = self._decoded([image], self._kept(image), before=True)
        for fault in decoded.faults:
            raise RejectedRowError(fault.reason, fault.message)
        return tuple(column.to_list()[0] for column in decoded.columns)

    def _decoder(self, kept: Kept, *, before: bool) -> JsonDecoder:
        """Return the decoder of rows without the columns ``kept``; ``before``: any other may be missing."""
        if (kept, before) not in self._decoders:
            fields = [
                replace(field, nullable=before or field.nullable)
                for at, field in enumerate(self._declared.row_type)
                if at not in kept
            ]
            self._decoders[kept, before] = self._of(RowType(tuple(fields)))
        return self._decoders[kept, before]

    def _of(self, row_type: RowType) -> JsonDecoder:
        return JsonDecoder(self._declared.relation, row_type, self._declared.columns, texts_are_json=True)
