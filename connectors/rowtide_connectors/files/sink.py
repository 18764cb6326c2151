"""The message sink: rows become files of lines, each row in exactly one of them.

A file has the messages of one outbox from the number in its name on, without gaps. It is written under a hidden name,
and gets its own by a hard link, which fails if the name exists. So a number is in one file only, and the files
themselves say which message was the last one (docs/decisions/0019-rows-in-files.md).
"""

from __future__ import annotations

import gzip
import os
import re
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from urllib.parse import quote

from rowtide_connectors.api import OutgoingMessage
from rowtide_connectors.durable import (
    check_links,
    make_folder,
    replace_text,
    sync_folder,
    write_through,
    writing_to,
)
from rowtide_connectors.errors import (
    GoneError,
    RefusedMessageError,
    UnavailableError,
)

OWN_FOLDER = "_rowtide"
"""The folder of what senders note; readers leave it out."""
FOLDERS = {"NONE": "", "DAY": "date=%Y-%m-%d", "HOUR": "date=%Y-%m-%d/hour=%H"}
"""The folders of files, by the ROWTIME of their rows in UTC."""
ENDINGS = {"NONE": ".jsonl", "GZIP": ".jsonl.gz"}
"""The endings of names, by compression."""


MOST_BYTES = 64 << 20
"""The bytes of messages that are enough for a file, and that are in memory to write it."""


@dataclass(frozen=True, slots=True)
class Writing:
    """Where and how files are written: below ``folder``, in ``folders`` by time, with a compression.

    A file has at most ``rows``. They wait for each other ``wait_s`` seconds.
    """

    root: Path
    folder: Path
    folders: str
    compression: str
    rows: int
    wait_s: float

    def folder_of(self, timestamp_ms: int) -> Path:
        """Return the folder of a ROWTIME."""
        written = datetime.fromtimestamp(timestamp_ms // 1000, UTC).strftime(FOLDERS[self.folders])
        return self.folder / written


class FolderSink:
    """What sinks that write files have in common: names that only one of them gets, and notes.

    Args:
      writing: where files are written.
      sender: the name of the outbox.
      endings: a regular expression of the endings of files.
    """

    def __init__(self, writing: Writing, sender: str, endings: str) -> None:
        self.most_messages = writing.rows
        self.most_bytes = MOST_BYTES
        self.wait_s = writing.wait_s
        self._writing = writing
        self._sender = quote(sender, safe="")
        self._token = secrets.token_hex(8)
        self._own = re.compile(rf"{re.escape(self._sender)}-(\d{{19}}){endings}")
        self._unfinished = re.compile(
            rf"\.{re.escape(self._sender)}(-\d{{19}}{endings}|\.owner|\.number)\.[0-9a-f]{{16}}\.tmp"
        )

    def check(self) -> None:
        """Check that files can be written and linked."""
        root = self._writing.root
        if not root.is_dir():
            raise GoneError(f'directory "{root}" does not exist', hint="Create it, or correct url.")
        with writing_to(self._writing.folder):
            check_links(self._writing.folder if self._writing.folder.is_dir() else root, root)

    def close(self) -> None:
        """Do nothing: no file stays open."""

    def _take_over(self) -> None:
        """Become the only sink of the sender."""
        replace_text(self._notes() / f"{self._sender}.owner", self._token, self._token)

    def _noted(self) -> int | None:
        """Return the number that was noted last."""
        try:
            return int((self._notes() / f"{self._sender}.number").read_text())
        except FileNotFoundError:
            return None

    def _note(self, number: int) -> None:
        replace_text(self._notes() / f"{self._sender}.number", str(number), self._token)

    def _own_files(self) -> Iterator[tuple[int, Path]]:
        """Yield the files of the sender by first number, and remove what earlier processes left unfinished."""
        for folder, _, names in os.walk(self._writing.folder):
            for name in names:
                if self._unfinished.fullmatch(name):
                    (Path(folder) / name).unlink(missing_ok=True)
                elif found := self._own.fullmatch(name):
                    yield int(found[1]), Path(folder) / name

    def _link(self, folder: Path, first: int, ending: str, data: bytes) -> None:
        """Make the file that begins with a number.

        Raises:
          UnavailableError: it exists.
        """
        name = f"{self._sender}-{first:019}{ending}"
        make_folder(folder)
        hidden = folder / f".{name}.{self._token}.tmp"
        write_through(hidden, data)
        try:
            self._check_owner()
            os.link(hidden, folder / name)
        except FileExistsError as error:
            raise UnavailableError(f'"{folder / name}" exists: another sender took over') from error
        finally:
            hidden.unlink(missing_ok=True)
        sync_folder(folder)

    def _check_owner(self) -> None:
        owner = (self._notes() / f"{self._sender}.owner").read_text()
        if owner != self._token:
            raise UnavailableError(f'"{self._writing.folder}": another sender took over')

    def _notes(self) -> Path:
        notes = self._writing.folder / OWN_FOLDER
        make_folder(notes)
        return notes


class FilesSink(FolderSink):
    """Writes the messages of one outbox as lines, in order; see ``api.MessageSink``.

    A failure may leave a beginning of the messages of a ``send``. Then ``begin`` returns the number of its last one.
    """

    def __init__(self, writing: Writing, sender: str) -> None:
        super().__init__(writing, sender, r"\.jsonl(?:\.gz)?")

    def begin(self) -> int | None:
        """Become the only sink of the sender; return the number of the last message in its files."""
        with writing_to(self._writing.folder):
            self._take_over()
            last, noted = max(self._own_files(), default=None), self._noted()
            if last is None:
                return noted
            first, path = last
            return max(first + _count_lines(path) - 1, noted or 0)

    def send(self, messages: Sequence[OutgoingMessage], number: int) -> None:
        """Write one file for each run of messages of one folder, then note the number."""
        for each in messages:
            _check_message(each)
        with writing_to(self._writing.folder):
            self._check_owner()
            for folder, group in groupby(messages, lambda each: self._writing.folder_of(each.timestamp_ms)):
                self._write(folder, list(group))
            self._note(number)

    def _write(self, folder: Path, messages: Sequence[OutgoingMessage]) -> None:
        data = b"".join((each.value or b"") + b"\n" for each in messages)
        compression = self._writing.compression
        if compression == "GZIP":
            data = gzip.compress(data, mtime=0)
        self._link(folder, messages[0].number, ENDINGS[compression], data)


def _check_message(message: OutgoingMessage) -> None:
    """Check that a message can be a line.

    Raises:
      RefusedMessageError: it has a key, headers or a partition, has no value, or has a line end in it.
    """
    if message.value is None:
        why, hint = "it has no value", "Files take rows, not deletions: remove changes 'upsert'."
    elif message.key is not None or message.headers or message.partition is not None:
        why, hint = "it has a key, headers or a partition", "Files have none: remove these columns' options."
    elif b"\n" in message.value:
        why, hint = "it has a line end in it", "A row is a line: use format 'JSON'."
    else:
        return
    raise RefusedMessageError(
        f"message {message.number} cannot be a line of a file: {why}", number=message.number, hint=hint
    )


def _count_lines(path: Path) -> int:
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        return sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(1 << 20), b""))
