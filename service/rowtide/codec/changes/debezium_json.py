"""Debezium's envelopes in JSON: changes of a table of another database.

See docs/sql/tables.md#tables-that-a-topic-fills. An envelope has the operation (``op``), the row
before and the row after. Kafka Connect may write it inside of an object with its schema.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import replace

import msgspec

from rowtide.codec.changes.rows import Gathered, KeyReader, key_type
from rowtide.codec.contract import Decoded
from rowtide.codec.format_options import PATH, UNAVAILABLE, UNAVAILABLE_VALUE
from rowtide.codec.json.decoder import JsonDecoder
from rowtide.codec.options import Declared
from rowtide.errors import Reason, StatementError
from rowtide.expr.json_path import parse_path
from rowtide.rows.types import RowType

_NULL = msgspec.Raw(b"null")


class _Envelope(msgspec.Struct):
    op: str | None = None
    before: msgspec.Raw = _NULL
    after: msgspec.Raw = _NULL
    payload: msgspec.Raw = _NULL


_decode_envelope = msgspec.json.Decoder(_Envelope).decode
_decode_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


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
        self._rows = self._decoder(declared.row_type)
        self._before = self._decoder(key_type(declared))
        self._keys = KeyReader(declared)
        self._keeping: dict[str, JsonDecoder] = {}
        given = declared.options.get(UNAVAILABLE, UNAVAILABLE_VALUE)
        text = msgspec.json.encode(given)
        encoded = msgspec.json.encode(base64.b64encode(given.encode()).decode())
        self._unavailable = (text, encoded, b"[" + text + b"]", b"[" + encoded + b"]")

    def decode(self, values: Sequence[bytes | None]) -> Decoded:
        """Decode messages without keys; see ``codec.contract.Decoder``."""
        return self.decode_changes(values, [None] * len(values))

    def decode_changes(self, values: Sequence[bytes | None], keys: Sequence[bytes | None]) -> Decoded:
        """Decode messages; see ``codec.contract.ChangeDecoder``."""
        gathered = Gathered(self._declared)
        rows: list[tuple[int, bytes]] = []
        before: list[tuple[int, bytes]] = []
        by_key: list[int] = []
        for at, value in enumerate(values):
            envelope = None if value is None else self._envelope(gathered, at, value)
            if value is None or (envelope is not None and envelope.op == "d" and envelope.before == _NULL):
                by_key.append(at)
            elif envelope is not None and envelope.op == "d":
                before.append((at, bytes(envelope.before)))
            elif envelope is not None:
                rows.append((at, bytes(envelope.after)))
        self._add_rows(gathered, rows)
        if before:
            decoded = self._before.decode([image for _, image in before])
            gathered.deletes(decoded, [at for at, _ in before])
        self._keys.delete(gathered, by_key, [keys[at] for at in by_key])
        return gathered.decoded()

    def _envelope(self, gathered: Gathered, at: int, value: bytes) -> _Envelope | None:
        """Return the envelope of a message that is a change; None where it was rejected."""
        try:
            found = _decode_envelope(value)
            if found.op is None and found.payload != _NULL:
                found = _decode_envelope(found.payload)
        except RecursionError:
            gathered.reject(at, Reason.DECODE, "JSON is nested too deeply")
            return None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            gathered.reject(at, Reason.DECODE, f"the message is not a Debezium envelope: {error}")
            return None
        why = not_applied(found.op)
        if why is None:
            return found
        gathered.reject(at, Reason.DECODE, why)
        return None

    def _add_rows(self, gathered: Gathered, images: Sequence[tuple[int, bytes]]) -> None:
        """Add rows after their changes, grouped by the columns that they leave unchanged."""
        by_kept: dict[str, list[tuple[int, bytes]]] = {}
        for at, image in images:
            kept, whole = "", image
            if any(each in image for each in self._unavailable):
                kept, whole = self._without_unavailable(image)
            by_kept.setdefault(kept, []).append((at, whole))
        for kept, found in by_kept.items():
            decoder = self._rows if not kept else self._keeping_decoder(kept)
            decoded = decoder.decode([image for _, image in found])
            gathered.inserts(decoded, [at for at, _ in found], kept or None)

    def _without_unavailable(self, image: bytes) -> tuple[str, bytes]:
        """Return the columns of a row that are unchanged, and the row with null for them."""
        try:
            members = _decode_members(image)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return "", image
        kept = []
        for name, raw in members.items():
            columns = self._columns_of(name) if bytes(raw) in self._unavailable else []
            if columns:
                kept += columns
                members[name] = _NULL
        return ",".join(map(str, sorted(set(kept)))), msgspec.json.encode(members)

    def _columns_of(self, name: str) -> list[int]:
        """Return the columns, not those of the key, that are read from a member."""
        found = []
        for at, field in enumerate(self._declared.row_type):
            path = self._declared.of(field.name).get(PATH)
            same = field.name.lower() == name.lower() if path is None else parse_path(path) == (name,)
            if same and at not in self._declared.key:
                found.append(at)
        return found

    def _keeping_decoder(self, kept: str) -> JsonDecoder:
        """Return the decoder of rows that leave these columns unchanged, where they may be NULL."""
        if kept not in self._keeping:
            places = set(map(int, kept.split(",")))
            fields = [
                replace(field, nullable=field.nullable or at in places)
                for at, field in enumerate(self._declared.row_type)
            ]
            self._keeping[kept] = self._decoder(RowType(tuple(fields)))
        return self._keeping[kept]

    def _decoder(self, row_type: RowType) -> JsonDecoder:
        return JsonDecoder(self._declared.relation, row_type, self._declared.columns, texts_are_json=True)
