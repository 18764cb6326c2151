"""Rows as records, for connectors that store columns: the values in row form, as an array of MessagePack.

They are those of ``rows/types.py``. Nothing is lost that a message of text would lose, such as NaN.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

RECORDS = "PARQUET"
"""The format of foreign streams whose connector gets records."""

_encode = msgspec.msgpack.Encoder(decimal_format="string").encode


class RecordEncoder:
    """Encodes rows as records; see ``codec.encode.contract``."""

    def encode(self, row: Sequence[object]) -> bytes:
        """Return the record of a row; see ``codec.encode.contract.Encoder``."""
        return _encode(list(row))
