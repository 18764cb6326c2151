"""Files and names that are on the disk once a call returns, on file systems of this machine."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rowtide_connectors.errors import DeniedError, MismatchError, UnavailableError

_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EXDEV, errno.EMLINK})
"""The errors of a file system that has no hard links."""


@contextmanager
def writing_to(folder: Path) -> Iterator[None]:
    """Turn errors of the file system into those of connectors: a disk that is full may have room later.

    Raises:
      DeniedError, UnavailableError.
    """
    try:
        yield
    except PermissionError as error:
        raise DeniedError(
            f'"{error.filename}" cannot be written: permission denied',
            hint="The user of the service needs to write there.",
        ) from error
    except OSError as error:
        raise UnavailableError(f'"{folder}" cannot be written: {error.strerror or error}') from error


def write_through(path: Path, data: bytes) -> None:
    """Write a file whose bytes are on the disk afterwards."""
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def replace_text(path: Path, text: str, token: str) -> None:
    """Replace the content of a file at once. ``token`` makes the name that it is written under."""
    hidden = path.with_name(f".{path.name}.{token}.tmp")
    write_through(hidden, text.encode())
    hidden.replace(path)
    sync_folder(path.parent)


def make_folder(folder: Path) -> None:
    """Make a folder and those above it that are missing, so that they are on the disk afterwards."""
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Let the names in a folder be on the disk."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def check_links(folder: Path, shown: Path) -> None:
    """Check that files of a folder can be written and linked; the error shows ``shown``.

    Raises:
      MismatchError: the file system has no hard links.
      OSError: a file cannot be written.
    """
    token = secrets.token_hex(8)
    probe, linked = folder / f".{token}.tmp", folder / f".{token}.linked.tmp"
    probe.write_bytes(b"")
    try:
        os.link(probe, linked)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        raise MismatchError(
            f'files of "{shown}" cannot be linked: {error.strerror}',
            hint="Use a file system with hard links: without them, two processes could write a row twice.",
        ) from error
    finally:
        probe.unlink()
        linked.unlink(missing_ok=True)
