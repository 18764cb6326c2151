"""What is in a file: its kind and compression, by its name or by an option, and its rows from a place on."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO, cast

from rowtide_connectors.errors import ConnectorError, MismatchError, UnavailableError
from rowtide_connectors.files.batches import FileRows, Row, grouped
from rowtide_connectors.files.columns import avro_rows, parquet_rows
from rowtide_connectors.files.lines import DamagedFileError, lines, records
from rowtide_connectors.files.place import Directory
from rowtide_connectors.listed import FILE_ROWS, FoundFile

AUTO = "AUTO"
LINES, JSON, CSV, AVRO, PARQUET = "LINES", "JSON", "CSV", "AVRO", "PARQUET"
KINDS = (AUTO, LINES, JSON, CSV, AVRO, PARQUET)
"""The values of the option ``file_format``."""
DAMAGE = FILE_ROWS - 1
"""The place of what cannot be read of a file: the last one."""
_ENDINGS = {
    ".jsonl": JSON,
    ".ndjson": JSON,
    ".json": JSON,
    ".csv": CSV,
    ".txt": LINES,
    ".log": LINES,
    ".avro": AVRO,
    ".parquet": PARQUET,
}
_COMPRESSED = {".gz": "gzip", ".zst": "zstd", ".zstd": "zstd", ".bz2": "bz2", ".lz4": "lz4"}


@dataclass(frozen=True, slots=True)
class Content:
    """How files are read.

    Args:
      kind: one of ``KINDS``.
      header: the first line of CSV files; see ``lines.records``.
      max_row_bytes: of a line or a CSV record.
    """

    kind: str = AUTO
    header: str | None = None
    max_row_bytes: int = 1 << 20

    def rows(self, place: Directory, file: FoundFile, skip: int) -> Generator[FileRows]:
        """Yield the rows of a file from place ``skip`` on, in groups.

        If the file is damaged, the rows before the damage come, and then one at ``DAMAGE``, the last place of a file.
        The rows do not depend on ``skip``, and the same bytes always have the same rows.

        Raises:
          UnavailableError: it cannot be read now. GoneError: it is not as it was listed. MismatchError: a package that
          its compression needs is not installed.
        """
        try:
            with place.open(file) as raw:
                kind, compression = self.read_as(file.name)
                with _plain(raw, compression) as stream:
                    yield from grouped(row for row in self._of_kind(kind, stream, skip) if row.place >= skip)
        except (ConnectorError, MemoryError):
            raise
        except DamagedFileError as error:
            yield from _damage(str(error))
        except Exception as error:
            if isinstance(error, ImportError) or "need to install" in str(error):
                # Not the file is wrong: another machine would read its rows.
                raise MismatchError(
                    f'file "{file.name}" cannot be read: {_said(error)}',
                    hint="Install the package, and start again.",
                ) from error
            if not place.is_readable(file):
                raise UnavailableError(f'file "{file.name}" cannot be read: {error}') from error
            yield from _damage(f"the file is damaged: {_said(error)}")

    def read_as(self, name: str) -> tuple[str, str | None]:
        """Return the kind and the compression of a file of this name.

        Raises:
          DamagedFileError: its ending says no kind.
        """
        plain = name.lower()
        compression = next((held for ending, held in _COMPRESSED.items() if plain.endswith(ending)), None)
        if compression is not None:
            plain = plain.rpartition(".")[0]
        kind = self.kind
        if kind == AUTO:
            found = (kind for ending, kind in _ENDINGS.items() if plain.endswith(ending))
            kind = next(found, AUTO)
        if kind == AUTO:
            raise DamagedFileError(
                f"the ending of the name says no kind of files: set file_format to one of {', '.join(KINDS[1:])}"
            )
        return kind, compression

    def unit(self, name: str) -> str:
        """Return what a place of a file of this name is: a line or a row."""
        try:
            kind, _ = self.read_as(name)
        except DamagedFileError:
            return "row"
        return "row" if kind in (AVRO, PARQUET) else "line"

    def _of_kind(self, kind: str, stream: BinaryIO, skip: int) -> Iterator[Row]:
        match kind:
            case "PARQUET":
                return parquet_rows(stream, skip)
            case "AVRO":
                return avro_rows(stream, skip)
            case "CSV":
                return records(stream, self.max_row_bytes, self.header)
        return lines(stream, self.max_row_bytes, blanks=kind == LINES)


def _damage(why: str) -> Iterator[FileRows]:
    return grouped([Row(DAMAGE, None, why)])


@contextmanager
def _plain(raw: BinaryIO, compression: str | None) -> Iterator[BinaryIO]:
    """Yield a stream of bytes that are not compressed."""
    if compression is None:
        yield raw
    elif compression == "gzip":
        # A file may have several members, one after the other.
        with gzip.GzipFile(fileobj=raw) as stream:
            yield cast(BinaryIO, stream)
    else:
        import pyarrow as pa

        opened: Callable[..., Any] = pa.CompressedInputStream
        with opened(raw, compression) as stream:
            yield cast(BinaryIO, stream)


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".replace("\n", " ")[:300]
