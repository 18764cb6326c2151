"""Files of lines and of CSV records, read in chunks: memory does not depend on the size of file or line.

The place of a row is the number of its line, from 0 on; that of a record, the number of its first line.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import BinaryIO

from rowtide_connectors.files.batches import CHUNK_BYTES, Row

_SHOWN_BYTES = 1_000
"""How much of a line that is too long the error row has."""
_MARK = b"\xef\xbb\xbf"
"""What editors of some systems put at the beginning of a text in UTF-8."""
ANY_HEADER = "*"
"""The header of files whose first line is anything."""


class DamagedFileError(Exception):
    """No row of a file can be read, whatever its bytes are."""


class _LongLine(bytes):
    """The beginning of a line that is longer than allowed."""


def lines(stream: BinaryIO, most: int, *, blanks: bool) -> Iterator[Row]:
    """Yield the lines, without their ends.

    Args:
      stream: of bytes that are not compressed.
      most: bytes of a line. A longer one is damaged.
      blanks: whether lines without characters are rows.
    """
    for place, line in enumerate(_split(stream, most)):
        if isinstance(line, _LongLine):
            yield Row(place, bytes(line), _too_long(most))
        elif blanks or line.strip():
            yield Row(place, line)


def records(stream: BinaryIO, most: int, header: str | None) -> Iterator[Row]:
    """Yield the CSV records (RFC 4180); a field in quotes may contain line ends. Empty lines are none.

    A record is at most ``most`` bytes long. If a quote is not closed within them, its first line is damaged, and the
    next record begins in the line after it.

    Args:
      stream: of bytes that are not compressed.
      most: bytes of a record.
      header: the first line of the file, which is not a record; ``*``: any line; None: the file has no such line.

    Raises:
      DamagedFileError: the file has another header.
    """
    source = enumerate(_split(stream, most))
    if header is not None:
        _check_header(next(source, None), header)
    again: deque[tuple[int, bytes]] = deque()
    while (taken := again.popleft() if again else next(source, None)) is not None:
        place, line = taken
        if not line.strip():
            continue
        parts, size, quotes = [line], len(line), line.count(b'"')
        followers: list[tuple[int, bytes]] = []
        is_long = isinstance(line, _LongLine)
        while quotes % 2 and size <= most and not is_long:
            more = again.popleft() if again else next(source, None)
            if more is None:
                break
            followers.append(more)
            parts.append(more[1])
            size += len(more[1]) + 1
            quotes += more[1].count(b'"')
            is_long = isinstance(more[1], _LongLine)
        if not quotes % 2 and size <= most and not is_long:
            yield Row(place, b"\n".join(parts))
            continue
        again.extendleft(reversed(followers))
        why = _too_long(most) if isinstance(line, _LongLine) else f"a quote is not closed within {most} bytes"
        yield Row(place, bytes(line[:_SHOWN_BYTES]), why)


def _check_header(first: tuple[int, bytes] | None, header: str) -> None:
    """Check the first line of a file that is not empty.

    Raises:
      DamagedFileError: it is another one.
    """
    if first is None or header == ANY_HEADER:
        return
    found = first[1].decode(errors="replace").strip()
    if found != header.strip():
        raise DamagedFileError(f"the file begins with {found[:200]!r}, not with the header {header!r}")


def _too_long(most: int) -> str:
    return f"the line has more than {most} bytes (option max_row_bytes)"


def _split(stream: BinaryIO, most: int) -> Iterator[bytes]:
    """Yield lines without their ends; of one that is too long, its beginning."""
    rest: list[bytes] = []
    held = 0
    begin = _MARK
    while chunk := stream.read(CHUNK_BYTES):
        chunk, begin = chunk.removeprefix(begin), b""
        first, *others = chunk.split(b"\n")
        if held <= most:
            rest.append(first)
        held += len(first)
        if not others:
            continue
        yield _line(rest, held, most)
        last = others.pop()
        for line in others:
            yield _line([line], len(line), most)
        rest, held = [last], len(last)
    if held:
        yield _line(rest, held, most)


def _line(parts: list[bytes], size: int, most: int) -> bytes:
    line = b"".join(parts)
    if size > most:
        return _LongLine(line[:_SHOWN_BYTES])
    return line.removesuffix(b"\r")
