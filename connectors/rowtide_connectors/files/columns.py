"""Files of Parquet and of Avro: their rows become JSON objects, as rows of a polled table do.

Times are whole milliseconds since 1970, dates are text, decimals are numbers with all their digits, binary is base64.
Times within lists and records are text.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO, cast

import msgspec

from rowtide_connectors.avro_values import AvroTimestamp
from rowtide_connectors.files.batches import GROUP_ROWS, Row
from rowtide_connectors.files.lines import DamagedFileError

_encode = msgspec.json.Encoder(decimal_format="number", enc_hook=str).encode
_BUFFER_BYTES = 1 << 18
"""How much of each column of a row group is read at once: without it, all of them would be."""
_MOST_BYTES = 1 << 28
"""The most bytes of a block, a name or a schema of an Avro file: what claims more is damaged."""
_COUNTS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


def parquet_rows(stream: BinaryIO, skip: int) -> Iterator[Row]:
    """Yield the rows of a Parquet file, without row groups that end before place ``skip``."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(stream, pre_buffer=False, buffer_size=_BUFFER_BYTES) as file:
        place = 0
        for number in range(file.num_row_groups):
            count = file.metadata.row_group(number).num_rows
            if place + count > skip:
                at = place
                for batch in file.iter_batches(GROUP_ROWS, row_groups=[number]):
                    if at + batch.num_rows > skip:
                        yield from (Row(at + index, value) for index, value in enumerate(_objects(batch)))
                    at += batch.num_rows
            place += count


def avro_rows(stream: BinaryIO, skip: int) -> Iterator[Row]:
    """Yield the rows of an Avro object container, without blocks that end before place ``skip``."""
    import fastavro

    from rowtide_connectors.avro_reading import RecordReader, parse

    place = 0
    blocks: Any = fastavro.block_reader(cast(BinaryIO, _Claims(stream)))
    names: dict[str, Any] = {}
    records = RecordReader(parse(blocks.metadata["avro.schema"], names), names)
    for block in blocks:
        if place + block.num_records > skip:
            for at in range(place, place + block.num_records):
                yield Row(at, _encode(_plain(records.read(block.bytes_))))
        place += block.num_records


class _Claims:
    """A stream that reads what is there, and not what the lengths in a file claim.

    A damaged length may be anything up to 2^63, and a stream allocates what it is asked for before it reads.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._at = 0

    def tell(self) -> int:
        """Return the number of bytes that were read."""
        return self._at

    def read(self, size: int) -> bytes:
        """Return ``size`` bytes, fewer at the end.

        Raises:
          DamagedFileError: they are more than a part of a file has.
        """
        if not 0 <= size <= _MOST_BYTES:
            raise DamagedFileError(f"the file is damaged: it says that a part of it has {size} bytes")
        parts: list[bytes] = []
        while size > 0 and (part := self._stream.read(min(size, _BUFFER_BYTES))):
            parts.append(part)
            size -= len(part)
            self._at += len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)


def _objects(batch: Any) -> Iterator[bytes]:
    """Yield the rows of a batch of Arrow as JSON objects."""
    names = batch.schema.names
    columns = [_values(column) for column in batch.columns]
    for row in zip(*columns, strict=True):
        yield _encode(dict(zip(names, row, strict=True)))


def _values(column: Any) -> list[object]:
    """Return a column's values as JSON has them."""
    import pyarrow as pa

    if pa.types.is_timestamp(column.type):
        per_second = _COUNTS[column.type.unit]
        counts: list[int | None] = column.cast(pa.int64()).to_pylist()
        return [None if each is None else each * 1_000 // per_second for each in counts]
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    values: list[object] = column.to_pylist()
    return values


def _plain(row: Any) -> object:
    """Return a record with its times as JSON has them; a value of another type stays."""
    if not isinstance(row, dict):
        return {"value": row}
    return {
        name: value.nanoseconds // 1_000_000 if isinstance(value, AvroTimestamp) else value
        for name, value in row.items()
    }
