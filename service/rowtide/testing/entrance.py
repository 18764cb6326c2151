"""Where rows and messages of a scenario enter: converts them as a source of the service does.

Rows become a tray of their partition, with offsets as counters. A message that
does not decode and a row with a NULL in a NOT NULL column are rejected here:
they become faults and are not in a tray.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rowtide.codec.contract import Decoder
from rowtide.codec.pseudo import pseudo_columns
from rowtide.codec.registry import decoder_of
from rowtide.errors import Reason, StatementError
from rowtide.operators.contract import Fault
from rowtide.plan.nodes import Source, TableSource
from rowtide.rows.rowop import Opcode, Row, TimedRow
from rowtide.rows.tray import Tray
from rowtide.rows.types import MAX_TIMESTAMP_MS
from rowtide.runtime.ingest.intake import decoded_by, not_a_time
from rowtide.testing.relations import Relations
from rowtide.testing.rows import InputRow
from rowtide.testing.source_log import LogRows, SourceLog

UNSIGNED = 0
"""The origin of rows and faults in the log; the runner replaces it when it feeds them to a flow."""


class ScenarioEntrance:
    """Makes log entries for one pipeline."""

    def __init__(self, relations: Relations, log: SourceLog) -> None:
        self._relations = relations
        self._log = log
        self._decoders: dict[str, Decoder] = {}

    def rows(self, relation: str, partition: int, rows: Sequence[InputRow], now: int) -> LogRows:
        """Make the entry of rows; one without ROWTIME takes ``now`` (ms).

        Raises:
          StatementError: if rows cannot be inserted there.
        """
        source = self._source(relation)
        if isinstance(source, TableSource):
            if partition != 0:
                raise StatementError(f'table "{relation}" has no partitions')
        elif not self._fills_a_table(relation) and any(row.opcode is Opcode.DELETE for row in rows):
            raise StatementError(f'rows of stream "{relation}" cannot be deleted')
        first = self._log.take_offsets(relation, partition, len(rows))
        accepted, faults = [], []
        for offset, row in enumerate(rows, start=first):
            rowtime = now if row.rowtime is None else row.rowtime
            missing = self._missing(source, row)
            if missing is None:
                whole = row.row + self._pseudo(relation, partition, offset, rowtime)
                accepted.append(TimedRow(rowtime, UNSIGNED, offset, row.opcode, whole))
            else:
                faults.append(_null_fault(source, missing, rowtime, offset, row.row))
        return LogRows(relation, partition, Tray.from_rows(source.row_type, accepted), tuple(faults))

    def messages(self, relation: str, partition: int, messages: Sequence[bytes | None], at: int) -> LogRows:
        """Make the entry of messages with timestamp ``at`` (ms).

        Raises:
          StatementError: if the relation is not a foreign stream, or its format is unknown.
        """
        source = self._source(relation)
        decoder = self._decoder(relation)
        first = self._log.take_offsets(relation, partition, len(messages))
        self._log.keep_raw(relation, partition, first, messages)
        if not 0 <= at <= MAX_TIMESTAMP_MS:
            refused = tuple(
                not_a_time(relation, at, UNSIGNED, first + index) for index in range(len(messages))
            )
            return LogRows(relation, partition, Tray.empty(source.row_type), refused)
        keys: list[bytes | None] = [None] * len(messages)
        decoded = decoded_by(decoder, messages, keys)
        faults = (
            Fault(relation, fault.reason, fault.message, at, UNSIGNED, first + fault.index)
            for fault in decoded.faults
        )
        accepted = decoded.accepted
        offsets = accepted.astype(np.int64) + first
        timestamps = np.full(len(accepted), at, dtype=np.int64)
        stream = self._relations.foreign_stream(relation)
        names = () if stream is None else stream.pseudo
        topic = self._relations.topics().get(relation, relation)
        pseudo = pseudo_columns(names, topic, partition, offsets, timestamps, [None] * len(offsets), None)
        columns = decoded.columns + pseudo
        tray = Tray.from_columns(source.row_type, columns, timestamps, UNSIGNED, offsets, decoded.opcodes)
        return LogRows(relation, partition, tray, tuple(faults))

    def _fills_a_table(self, relation: str) -> bool:
        stream = self._relations.foreign_stream(relation)
        return stream is not None and bool(stream.key)

    def _pseudo(self, relation: str, partition: int, offset: int, rowtime: int) -> Row:
        """Return the pseudo-columns of a row of a foreign stream, as of a message without a key."""
        stream = self._relations.foreign_stream(relation)
        if stream is None or not stream.pseudo:
            return ()
        values: dict[str, object] = {
            "KAFKA_TOPIC": self._relations.topics()[relation],
            "KAFKA_PARTITION": partition,
            "KAFKA_OFFSET": offset,
            "KAFKA_TIMESTAMP": rowtime,
        }
        return tuple(values.get(name) for name in stream.pseudo)

    def _source(self, relation: str) -> Source | TableSource:
        source = self._relations.entrance(relation)
        if source is None:
            raise StatementError(
                f'rows cannot be inserted into "{relation}"',
                hint="Rows enter streams, foreign streams and engine tables.",
            )
        return source

    def _decoder(self, relation: str) -> Decoder:
        if relation not in self._decoders:
            stream = self._relations.foreign_stream(relation)
            if stream is None:
                raise StatementError(f'"{relation}" is not a foreign stream: it takes rows, not raw messages')
            self._decoders[relation] = decoder_of(stream)
        return self._decoders[relation]

    def _missing(self, source: Source | TableSource, row: InputRow) -> int | None:
        """Return the first NOT NULL column that is NULL; the table itself checks its key columns."""
        if row.opcode is Opcode.DELETE:
            return None
        key = self._relations.key(source.relation)
        for index, (column, value) in enumerate(zip(source.row_type, row.row, strict=False)):
            if value is None and not column.nullable and index not in key:
                return index
        return None


def _null_fault(source: Source | TableSource, column: int, rowtime: int, offset: int, row: Row) -> Fault:
    is_foreign = isinstance(source, Source) and source.foreign
    reason = Reason.MISSING_FIELD if is_foreign else Reason.CONSTRAINT
    message = f'column "{source.row_type[column].name}" is NOT NULL'
    return Fault(source.relation, reason, message, rowtime, UNSIGNED, offset, row)
