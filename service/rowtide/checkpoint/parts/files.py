"""A store of state in parts in a folder that all workers share, or in an object store, through pyarrow."""

from __future__ import annotations

import os
from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from rowtide.checkpoint.parts.store import PIECE_BYTES
from rowtide.errors import StatementError
from rowtide_connectors.errors import DeniedError, GoneError, UnavailableError

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

_DROPS_AT_ONCE = 16
"""Files that are removed at the same time."""
_HINT = "It is the path of a folder from the root on, or an address that begins with file://, s3://, gs://, abfs:// or hdfs://."


@dataclass(frozen=True, slots=True)
class FileParts:
    """The blobs are files below ``where``, a folder or an address that pyarrow knows; see ``store.PartStore``.

    Raises:
      StatementError: it is a relative path, or has a password; at ``check``, or at the first use, that pyarrow does
        not know the address.
    """

    where: str

    def __post_init__(self) -> None:
        if "://" not in self.where:
            if not Path(self.where).is_absolute():
                raise StatementError(
                    f'the folder "{self.where}" of state in parts is not an absolute path', hint=_HINT
                )
            return
        parts = urlsplit(self.where)
        if parts.username is not None or parts.password is not None:
            shown = f"{parts.scheme}://***@{parts.hostname or ''}{parts.path}"
            raise StatementError(
                f'the address "{shown}" of state in parts has a user or a password',
                hint="Snapshots name the address. Set the user in the environment, such as AWS_ACCESS_KEY_ID and "
                "AWS_SECRET_ACCESS_KEY.",
            )

    def check(self) -> None:
        """Refuse an address that pyarrow does not know. One that cannot be reached now may be reached later.

        Raises:
          StatementError: naming the address.
        """
        with suppress(UnavailableError):
            _opened(self.where)

    def write(self, name: str, pieces: Iterable[bytes]) -> None:
        """Write a file; on a file system of this machine it is flushed to the disk."""
        system, root = _opened(self.where)
        path = f"{root}/{name}"
        with _asking(self.where, path):
            if _is_local(system):
                _write_local(Path(path), pieces)
                return
            with system.open_output_stream(path) as stream:
                for piece in pieces:
                    stream.write(piece)

    def read(self, name: str) -> Generator[bytes]:
        """Read a file."""
        system, root = _opened(self.where)
        path = f"{root}/{name}"
        with _asking(self.where, path), system.open_input_stream(path) as stream:
            while piece := stream.read(PIECE_BYTES):
                yield piece

    def names(self, folder: str) -> Sequence[str]:
        """List the files of a folder."""
        import pyarrow.fs as pafs

        system, root = _opened(self.where)
        with _asking(self.where, root):
            infos = system.get_file_info(
                pafs.FileSelector(f"{root}/{folder}", allow_not_found=True, recursive=True)
            )
        return sorted(info.path[len(root) + 1 :] for info in infos if info.type == pafs.FileType.File)

    def drop(self, names: Collection[str]) -> None:
        """Remove files, and folders of this machine that have become empty."""
        system, root = _opened(self.where)

        def drop_one(name: str) -> None:
            # One that is gone was removed before.
            with suppress(GoneError), _asking(self.where, f"{root}/{name}"):
                system.delete_file(f"{root}/{name}")

        # An object store takes some hundredths of a second for each, and pyarrow knows no call for several.
        with ThreadPoolExecutor(_DROPS_AT_ONCE) as pool:
            list(pool.map(drop_one, names))
        if _is_local(system):
            _drop_empty(root, names)


@lru_cache(maxsize=8)
def _opened(where: str) -> tuple[FileSystem, str]:
    """Return the file system of an address, and the path there.

    Raises:
      StatementError: pyarrow does not know the address.
    """
    import pyarrow as pa
    import pyarrow.fs as pafs

    try:
        if "://" not in where:
            return pafs.LocalFileSystem(), str(Path(where))
        system, root = pafs.FileSystem.from_uri(where)
        return system, root.rstrip("/")
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise StatementError(f'address "{where}" cannot be used: {error}', hint=_HINT) from error
    except OSError as error:
        raise UnavailableError(f'"{where}" cannot be reached: {error}') from error


def _is_local(system: FileSystem) -> bool:
    import pyarrow.fs as pafs

    return isinstance(system, pafs.LocalFileSystem)


def _write_local(path: Path, pieces: Iterable[bytes]) -> None:
    """Write a file that survives a crash of the machine, with its entry in the folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("xb") as file:
        for piece in pieces:
            file.write(piece)
        file.flush()
        os.fsync(file.fileno())
    # The folders of a commit are new.
    for folder in list(path.parents)[:4]:
        entry = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(entry)
        finally:
            os.close(entry)


def _drop_empty(root: str, names: Collection[str]) -> None:
    """Remove the folders of dropped files that are empty now. Those of a pipeline stay."""
    folders = {folder for name in names for folder in list(Path(name).parents)[:2]}
    for folder in sorted(folders, key=lambda each: -len(each.parts)):
        # Somebody else may have put a file there.
        with suppress(OSError):
            (Path(root) / folder).rmdir()


@contextmanager
def _asking(where: str, path: str) -> Iterator[None]:
    """Turn errors of the file system into those of connectors."""
    try:
        yield
    except FileNotFoundError as error:
        raise GoneError(f'"{path}" does not exist') from error
    except PermissionError as error:
        raise DeniedError(
            f'"{path}" cannot be used: permission denied',
            hint=f"The users of the service and of Spark's workers read and write below {where}.",
        ) from error
    except OSError as error:
        raise UnavailableError(f'"{path}" cannot be used: {error}') from error
