"""The place where files are: a directory of this machine, or of an object store that pyarrow knows."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast
from urllib.parse import unquote, urlsplit

from rowtide_connectors.errors import DeniedError, GoneError, MismatchError, UnavailableError
from rowtide_connectors.listed import FoundFile

if TYPE_CHECKING:
    from pyarrow.fs import FileInfo, FileSystem

UNFINISHED = (".tmp", ".part", ".inprogress", ".crdownload")
"""The endings of names of files that somebody is still writing."""
WILDCARDS = re.compile(r"[*?\[]")
NAME = "NAME"
MODIFIED = "MODIFIED"
"""The orders of files that are found together."""


def is_left_out(name: str) -> bool:
    """Return whether a path below the folder of a pattern is that of an unfinished or hidden file."""
    return name.endswith(UNFINISHED) or any(part.startswith((".", "_")) for part in name.split("/"))


@dataclass(frozen=True, slots=True)
class Pattern:
    """Which files below a directory are read: all of a folder, or those that match a glob.

    ``*`` and ``?`` stand for characters of one name, ``**`` for any folders, ``[..]`` for one of some characters.
    """

    text: str

    @property
    def folder(self) -> str:
        """The folder that has all of them."""
        parts = self.text.strip("/").split("/")
        plain = next((at for at, part in enumerate(parts) if WILDCARDS.search(part)), None)
        return "/".join(parts if plain is None else parts[:plain])

    def compiled(self) -> re.Pattern[str]:
        """Return the pattern of whole names.

        Raises:
          re.error: brackets do not match.
        """
        text = self.text.strip("/")
        if not WILDCARDS.search(text):
            return re.compile(re.escape(text) + "/.+" if text else ".+", re.DOTALL)
        parts = re.split(r"(\*\*/|\*\*|\*|\?|\[[^/\]]+\])", text)
        return re.compile("".join(_translated(part) for part in parts), re.DOTALL)


def _translated(part: str) -> str:
    match part:
        case "**/":
            return "(?:[^/]+/)*"
        case "**":
            return ".*"
        case "*":
            return "[^/]*"
        case "?":
            return "[^/]"
    if part.startswith("[") and part.endswith("]") and len(part) > 2:
        inside = part[1:-1].replace("\\", "\\\\").replace("[", "\\[")
        return f"[{'^' + inside[1:] if inside.startswith('!') else inside}]"
    return re.escape(part)


class Directory:
    """A directory, by the address of a server. It connects at its first use.

    Args:
      url: a path of this machine, or an address that pyarrow knows, such as s3://bucket/folder.
    """

    def __init__(self, url: str) -> None:
        self.shown = re.sub(r"://[^/@]*@", "://***@", url).partition("?")[0]
        self._url = url
        self._opened: tuple[FileSystem, str] | None = None

    @property
    def is_local(self) -> bool:
        """Whether it is on a file system of this machine."""
        return "://" not in self._url or self._url.startswith("file://")

    def folder(self) -> Path:
        """Return the directory, which is local."""
        return Path(unquote(urlsplit(self._url).path) if "://" in self._url else self._url)

    def exists(self) -> bool:
        """Return whether the directory exists.

        Raises:
          UnavailableError, DeniedError.
        """
        return self._is_folder(self._open()[1] or "/")

    def find(self, pattern: Pattern, order: str, partitions: int) -> list[FoundFile]:
        """Return the files that match, in order.

        Raises:
          GoneError: the folder does not exist. UnavailableError, DeniedError.
        """
        import pyarrow.fs as pafs

        system, root = self._open()
        wanted = pattern.compiled()
        base = _path(root, pattern.folder)
        try:
            with self._asking(base):
                infos = system.get_file_info(pafs.FileSelector(base, recursive=True))
        except GoneError as error:
            if self._is_folder(base):
                raise UnavailableError(f'"{base}" changed while it was listed: {error.message}') from error
            raise
        found = []
        for info in infos:
            below = info.path[len(base) :].lstrip("/")
            name = _path(pattern.folder, below)
            if info.type == pafs.FileType.File and wanted.fullmatch(name) and not is_left_out(below):
                partition = zlib.crc32(name.encode(errors="surrogatepass")) % partitions
                found.append(FoundFile(name, partition, info.size, _modified_ms(info)))
        by_name = sorted(found, key=lambda each: each.name)
        return by_name if order == NAME else sorted(by_name, key=lambda each: each.modified_ms)

    def open(self, file: FoundFile) -> BinaryIO:
        """Open a file that is as it was listed.

        Raises:
          GoneError: it does not exist, or it has changed. UnavailableError, DeniedError.
        """
        import pyarrow.fs as pafs

        system, root = self._open()
        path = _path(root, file.name)
        with self._asking(path):
            info = system.get_file_info(path)
        if info.type != pafs.FileType.File:
            raise GoneError(
                f'file "{file.name}" of "{self.shown}" does not exist any more, and its rows are needed',
                hint="A file that was listed must stay until a snapshot is past it. Put it back as it was, with its "
                "time of modification (cp --preserve=timestamps).",
            )
        if (info.size, _modified_ms(info)) != (file.size, file.modified_ms):
            raise GoneError(
                f'file "{file.name}" of "{self.shown}" has changed since it was listed: it had {file.size} bytes of '
                f"{file.modified_ms} ms, and has {info.size} of {_modified_ms(info)} ms",
                hint="A file that was listed must not change. Put it back as it was, with its time of modification, "
                "and write new rows to a new file. Write under a name that ends in .tmp, then rename it.",
            )
        with self._asking(path):
            return cast(BinaryIO, system.open_input_file(path))

    def _is_folder(self, path: str) -> bool:
        import pyarrow.fs as pafs

        with self._asking(path):
            return bool(self._open()[0].get_file_info(path).type == pafs.FileType.Directory)

    def is_readable(self, file: FoundFile) -> bool:
        """Return whether all bytes of a file can be read, so that a fault of it is one of its content."""
        try:
            with self.open(file) as opened:
                while opened.read(1 << 20):
                    pass
        except OSError:
            return False
        return True

    def _open(self) -> tuple[FileSystem, str]:
        if self._opened is None:
            import pyarrow as pa
            import pyarrow.fs as pafs

            try:
                if "://" in self._url:
                    self._opened = pafs.FileSystem.from_uri(self._url)
                else:
                    self._opened = pafs.LocalFileSystem(), str(Path(self._url))
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                raise MismatchError(
                    f'url "{self.shown}" cannot be used: {error}',
                    hint="It is a path, or an address that begins with file://, s3://, gs:// or hdfs://.",
                ) from error
            except OSError as error:
                raise UnavailableError(f'"{self.shown}" cannot be reached: {error}') from error
        return self._opened

    @contextmanager
    def _asking(self, path: str) -> Iterator[None]:
        """Turn errors of the file system into those of connectors."""
        try:
            yield
        except FileNotFoundError as error:
            raise GoneError(
                f'"{path}" does not exist', hint="Create the folder, or correct url and path."
            ) from error
        except NotADirectoryError as error:
            raise GoneError(
                f'"{path}" is not a folder', hint="Name a folder, or a pattern such as orders/*.csv."
            ) from error
        except PermissionError as error:
            raise DeniedError(
                f'"{path}" cannot be read: permission denied',
                hint="The user of the service needs to read it.",
            ) from error
        except OSError as error:
            raise UnavailableError(f'"{path}" cannot be read: {error}') from error


def _path(folder: str, name: str) -> str:
    """Return the path of a name in a folder; either may be empty."""
    return f"{folder.rstrip('/')}/{name}" if folder and name else folder or name


def _modified_ms(info: FileInfo) -> int:
    """Return when a file was modified, in ms; 0 where the file system does not know."""
    nanoseconds = cast("int | None", cast(Any, info).mtime_ns)
    return 0 if nanoseconds is None else nanoseconds // 1_000_000
