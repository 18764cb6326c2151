"""Records: rows as messages for sinks that store columns, and the columns of Parquet that are made of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec
import numpy as np

from rowtide_connectors.api import TableColumn

if TYPE_CHECKING:
    import pyarrow as pa

NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"
"""What the name of a folder has for NULL, as in Hive and Spark."""
MAX_FOLDER_BYTES = 200
"""Of the name of a folder: file systems take 255 bytes."""

_SPELLING = re.compile(r"([A-Z][A-Z ]*[A-Z])\s*(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?")
_IN_FOLDERS = ("BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "CHAR", "VARCHAR", "UUID", "DATE")
_ALIASES = {
    "BOOLEAN": "bool",
    "TINYINT": "int8",
    "SMALLINT": "int16",
    "INTEGER": "int32",
    "BIGINT": "int64",
    "REAL": "float32",
    "DOUBLE": "float64",
    "BINARY": "binary",
    "VARBINARY": "binary",
    "DATE": "date32",
    "INTERVAL DAY TO SECOND": "int64",
    "INTERVAL YEAR TO MONTH": "int64",
}
"""Types of Arrow; those that are missing are text."""
_decode = msgspec.msgpack.Decoder(list[Any]).decode


def record_of(message: bytes) -> list[Any]:
    """Return the values of a record, by its columns (``file_sinks.RecordSinkConnector``)."""
    return _decode(message)


def names_folders(column: TableColumn) -> bool:
    """Return whether the values of a column can be in names of folders."""
    return _SPELLING.match(column.sql_type.upper())[1] in _IN_FOLDERS and not _is_array(column)  # type: ignore[index]


def main_spelling(name: str) -> str:
    """Return the name of a column in files: SQL has folded an unquoted name to upper case."""
    return name.lower() if name == name.upper() else name


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of records: those at ``folders`` are in the names of folders, the others in files."""

    columns: Sequence[TableColumn]
    folders: Sequence[int]

    def folder_of(self, record: Sequence[Any]) -> str:
        """Return the folder of a record, such as ``city=Rome/year=2026``.

        Raises:
          ValueError: a name is too long.
        """
        parts = []
        for at in self.folders:
            name, value = quote(main_spelling(self.columns[at].name), safe=" "), record[at]
            if value is not None and self.columns[at].sql_type == "DATE":
                value = np.datetime64(value, "D")
            elif isinstance(value, bool):
                value = str(value).lower()
            part = f"{name}={NULL_FOLDER if value in (None, '') else quote(str(value), safe=' ')}"
            if len(part.encode()) > MAX_FOLDER_BYTES:
                raise ValueError(
                    f'the name of its folder, "{part[:40]}..", has more than {MAX_FOLDER_BYTES} bytes'
                )
            parts.append(part)
        return "/".join(parts)

    def table(self, records: Sequence[Sequence[Any]]) -> pa.Table:
        """Return records as a table of Arrow."""
        import pyarrow as pa

        kept = [at for at in range(len(self.columns)) if at not in self.folders]
        schema = pa.schema(
            [
                pa.field(
                    main_spelling(self.columns[at].name),
                    _arrow(self.columns[at].sql_type),
                    self.columns[at].nullable,
                )
                for at in kept
            ]
        )
        arrays = [
            _array([record[at] for record in records], field.type)
            for at, field in zip(kept, schema, strict=True)
        ]
        return pa.Table.from_arrays(arrays, schema=schema)


def _is_array(column: TableColumn) -> bool:
    return column.sql_type.upper().endswith(" ARRAY")


def _array(values: list[Any], kind: pa.DataType) -> pa.Array:
    import pyarrow as pa

    if pa.types.is_decimal(kind):
        values = [None if value is None else Decimal(value) for value in values]
    elif pa.types.is_list(kind):
        lists = [None if value is None else _array(value, kind.value_type).to_pylist() for value in values]
        return pa.array(lists, kind)
    elif pa.types.is_temporal(kind):
        # Counts: days, or milliseconds.
        counts = pa.array(values, pa.int32() if kind.bit_width == 32 else pa.int64())
        return counts.cast(kind)
    return pa.array(values, kind)


def _arrow(sql_type: str) -> pa.DataType:
    """Return the type of Arrow for a type of the standard's spelling."""
    import pyarrow as pa

    spelled = sql_type.strip().upper()
    if spelled.endswith(" ARRAY"):
        return pa.list_(_arrow(spelled[: -len(" ARRAY")]))
    found = _SPELLING.fullmatch(spelled)
    assert found is not None, sql_type
    name, precision, scale = found.groups()
    if name == "DECIMAL":
        return pa.decimal128(int(precision or 38), int(scale or 0))
    if name == "TIMESTAMP":
        return pa.timestamp("ms")
    if name == "TIMESTAMP WITH TIME ZONE":
        return pa.timestamp("ms", "UTC")
    if name == "TIME":
        return pa.time32("ms")
    return pa.type_for_alias(_ALIASES.get(name, "string"))
