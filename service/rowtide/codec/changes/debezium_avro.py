"""Debezium's envelopes in Avro; as ``debezium_json``, with records instead of objects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rowtide.codec.avro import AvroRecords
from rowtide.codec.changes.debezium_json import check_table, not_applied
from rowtide.codec.changes.keys import KeyReader, key_type
from rowtide.codec.changes.moves import Moves
from rowtide.codec.changes.rows import Gathered
from rowtide.codec.changes.unavailable import Placeholder, Unavailable
from rowtide.codec.contract import Decoded
from rowtide.codec.options import Declared
from rowtide.codec.records import RecordRows
from rowtide.codec.rowwise import decode_each
from rowtide.errors import Reason, RejectedRowError
from rowtide.rows.rowop import Row
from rowtide.rows.types import RowType

Record = dict[str, object]


class DebeziumAvroDecoder:
    """Decodes the changes of one table; see ``codec.contract.ChangeDecoder``.

    Raises:
      StatementError: it is not a declared table, or an option is wrong.
    """

    def __init__(self, declared: Declared) -> None:
        check_table(declared, "DEBEZIUM_AVRO")
        self._declared = declared
        self._records = AvroRecords(declared)
        self._rows = RecordRows(declared, declared.row_type)
        self._key_type = key_type(declared)
        self._before = RecordRows(declared, self._key_type)
        self._keys = KeyReader(declared, "AVRO")
        self._unavailable = Unavailable(declared, Placeholder(declared))
        fields = tuple(replace(field, nullable=True) for field in declared.row_type)
        self._rows_before = RecordRows(declared, RowType(fields))
        self._moves = Moves(declared, self._decode_keys, self._decode_rows_before)

    def decode(self, values: Sequence[bytes | None]) -> Decoded:
        """Decode messages without keys; see ``codec.contract.Decoder``."""
        return self.decode_changes(values, [None] * len(values))

    def decode_changes(self, values: Sequence[bytes | None], keys: Sequence[bytes | None]) -> Decoded:
        """Decode messages; see ``codec.contract.ChangeDecoder``.

        Raises:
          UnavailableError: the registry does not answer; no message was decoded.
        """
        self._records.prepare(values)
        gathered = Gathered(self._declared)
        rows: dict[tuple[int, ...], list[tuple[int, Record]]] = {}
        updated: dict[int, Record] = {}
        deleted: list[tuple[int, Record]] = []
        by_key: list[int] = []
        for at, value in enumerate(values):
            if value is None:
                by_key.append(at)
                continue
            try:
                op, old, new = self._envelope(value)
            except RejectedRowError as error:
                gathered.reject(at, error.reason, error.message)
                continue
            if op != "d":
                rows.setdefault(self._unavailable.columns(new), []).append((at, new))
                if op == "u" and old:
                    updated[at] = old
            elif old:
                deleted.append((at, old))
            else:
                by_key.append(at)
        for kept, found in rows.items():
            decoded = decode_each(
                [new for _, new in found],
                self._declared.row_type,
                lambda new, kept=kept: self._rows.row(new, kept),  # type: ignore[misc]
            )
            places = [at for at, _ in found]
            gathered.inserts(decoded, places, kept, self._moves.rows_before(decoded, places, updated))
        if deleted:
            gathered.deletes(self._decode_keys([old for _, old in deleted]), [at for at, _ in deleted])
        self._keys.delete(gathered, by_key, [keys[at] for at in by_key])
        return gathered.decoded()

    def _envelope(self, value: bytes) -> tuple[str, Record, Record]:
        """Return the operation, the row before and the row after; a missing row is empty.

        Raises:
          RejectedRowError: DECODE, it is not an envelope, or not a change that is applied.
        """
        found = self._records.read(value)
        op = found.get("op") if isinstance(found, dict) else None
        why = not_applied(op)
        if why is not None:
            raise RejectedRowError(Reason.DECODE, why)
        assert isinstance(found, dict)
        images = [found.get(name) for name in ("before", "after")]
        old, new = (image if isinstance(image, dict) else {} for image in images)
        return str(op), old, new

    def _decode_keys(self, records: Sequence[Record]) -> Decoded:
        return decode_each(records, self._key_type, self._before.row)

    def _decode_rows_before(self, records: Sequence[Record]) -> Decoded:
        def row(record: Record) -> Row:
            return self._rows_before.row(record, self._unavailable.columns(record))

        return decode_each(records, self._declared.row_type, row)
