"""The message sink of Parquet: records become files of columns, each record in exactly one of them.

Each folder is a sequence of its own. A file there has the messages of the folder from the number in its name on,
and its footer has the number of the last one. The next file of the folder begins with the next message that belongs
there, which is the same for every sender: messages and their folders never change. So a batch may have messages of many
folders, and one of which only some files were written is completed by the next sender
(docs/decisions/0019-rows-in-files.md).
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

from rowtide_connectors.api import OutgoingMessage
from rowtide_connectors.durable import writing_to
from rowtide_connectors.errors import MismatchError, RefusedMessageError
from rowtide_connectors.files.records import Columns, record_of
from rowtide_connectors.files.sink import FolderSink, Writing

LAST = b"rowtide.last"
"""The name in a file's metadata of the number of its last message."""
COMPRESSIONS = {"NONE": "none", "SNAPPY": "snappy", "GZIP": "gzip", "ZSTD": "zstd"}
_ENDING = ".parquet"


class ParquetSink(FolderSink):
    """Writes the records of one outbox; see ``api.MessageSink``.

    A failure may leave the files of some folders of a ``send``. ``begin`` then returns an earlier number, and the next
    ``send`` leaves out what is in the files.
    """

    def __init__(self, writing: Writing, sender: str, columns: Columns) -> None:
        super().__init__(writing, sender, r"\.parquet")
        self._columns = columns
        self._lasts: dict[Path, int] = {}
        """The number of the last message in the files of each folder, as far as it is known."""

    def begin(self) -> int | None:
        """Become the only sink of the sender; return the number up to which all messages are in its files."""
        with writing_to(self._writing.folder):
            self._take_over()
            newest: dict[Path, tuple[int, Path]] = {}
            for first, path in self._own_files():
                newest[path.parent] = max(newest.get(path.parent, (0, path)), (first, path))
            self._lasts = {folder: _last_number(path) for folder, (_, path) in newest.items()}
            return self._noted()

    def send(self, messages: Sequence[OutgoingMessage], number: int) -> None:
        """Write one file for each folder, then note the number."""
        groups: dict[Path, list[tuple[int, list[object]]]] = {}
        for each in messages:
            record = record_of(each.value or b"")
            if len(record) != len(self._columns.columns):
                raise _of_other_columns(each.number, f"it has {len(record)} columns")
            try:
                below = self._columns.folder_of(record)
            except ValueError as error:
                raise RefusedMessageError(
                    f"message {each.number} cannot be written: {error}",
                    number=each.number,
                    hint="Leave the column out of partition_by.",
                ) from error
            folder = self._writing.folder / below
            within = self._writing.folder_of(each.timestamp_ms).relative_to(self._writing.folder)
            groups.setdefault(folder / within, []).append((each.number, record))
        with writing_to(self._writing.folder):
            self._check_owner()
            for folder, held in groups.items():
                self._write(folder, [each for each in held if each[0] > self._lasts.get(folder, 0)])
            self._note(number)

    def _write(self, folder: Path, records: Sequence[tuple[int, list[object]]]) -> None:
        if not records:
            return
        import pyarrow as pa
        import pyarrow.parquet as pq

        first, last = records[0][0], records[-1][0]
        try:
            table = self._columns.table([record for _, record in records])
        except (pa.ArrowException, ArithmeticError, TypeError) as error:
            raise _of_other_columns(
                first, f"in it or after it is a value of another type: {error}"
            ) from error
        table = table.replace_schema_metadata({LAST: str(last).encode()})
        data = io.BytesIO()
        pq.write_table(table, data, compression=COMPRESSIONS[self._writing.compression])
        self._link(folder, first, _ENDING, data.getvalue())
        self._lasts[folder] = last


def _of_other_columns(number: int, why: str) -> RefusedMessageError:
    return RefusedMessageError(
        f"message {number} does not fit the columns: {why}",
        number=number,
        hint="Rows of an earlier declaration wait. Undo the change, let them be written, stop the pipeline, and then "
        "change the columns.",
    )


def _last_number(path: Path) -> int:
    """Return the number of the last message of a file.

    Raises:
      MismatchError: the file is not one of this sink.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return int((pq.read_schema(path).metadata or {})[LAST])
    except (pa.ArrowException, KeyError, ValueError) as error:
        raise MismatchError(
            f'file "{path}" is not as it was written: {error}',
            hint="Put it back as it was: it has the number of the last row that was written to its folder.",
        ) from error
