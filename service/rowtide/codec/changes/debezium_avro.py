"""Debezium's envelopes in Avro; as ``debezium_json``, with records instead of objects."""

from __future__ import annotations

import base64
from collections.abc import Sequence

from rowtide.codec.avro import AvroRecords
from rowtide.codec.changes.debezium_json import check_table, not_applied
from rowtide.codec.changes.rows import Gathered, KeyReader, key_type
from rowtide.codec.contract import Decoded
from rowtide.codec.format_options import UNAVAILABLE, UNAVAILABLE_VALUE
from rowtide.codec.json.readings import value_at
from rowtide.codec.options import Declared
from rowtide.codec.records import RecordRows
from rowtide.codec.rowwise import decode_each
from rowtide.errors import Reason, RejectedRowError

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
        given = declared.options.get(UNAVAILABLE, UNAVAILABLE_VALUE)
        encoded = base64.b64encode(given.encode()).decode()
        self._unavailable: tuple[object, ...] = (given, given.encode(), encoded, [given], [given.encode()])

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
        before: list[tuple[int, Record]] = []
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
                rows.setdefault(self._kept(new), []).append((at, new))
            elif old:
                before.append((at, old))
            else:
                by_key.append(at)
        for kept, found in rows.items():
            decoded = decode_each(
                [new for _, new in found],
                self._declared.row_type,
                lambda new, kept=kept: self._rows.row(new, kept),  # type: ignore[misc]
            )
            gathered.inserts(decoded, [at for at, _ in found], ",".join(map(str, kept)) or None)
        if before:
            decoded = decode_each([old for _, old in before], self._key_type, self._before.row)
            gathered.deletes(decoded, [at for at, _ in before])
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

    def _kept(self, record: Record) -> tuple[int, ...]:
        """Return the unchanged columns, without those of the key."""
        return tuple(
            at
            for at in range(len(self._declared.row_type))
            if at not in self._declared.key and self._is_unavailable(at, record)
        )

    def _is_unavailable(self, at: int, record: Record) -> bool:
        try:
            return value_at(record, self._rows.path_of(at, record)) in self._unavailable
        except RejectedRowError:
            return False
