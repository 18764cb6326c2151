"""Formats of answers: which one the header Accept chooses (RFC 9110), and rows as CSV or as lines of JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

CSV = "text/csv"


def chosen(accept: str, offered: Sequence[str]) -> str | None:
    """Return the type that a client prefers, of those that are offered, the first of equals; None: it takes none."""
    ranges = [_range(each) for each in accept.split(",") if each.strip()] or [("*/*", 1.0)]
    found, best = None, 0.0
    for each in offered:
        # The most specific range counts for a type, and not the best one.
        fitting = [(name.count("*"), -quality) for name, quality in ranges if name in _ranges_of(each)]
        quality = -min(fitting)[1] if fitting else 0.0
        if quality > best:
            found, best = each, quality
    return found


def _ranges_of(media_type: str) -> tuple[str, str, str]:
    return media_type, f"{media_type.partition('/')[0]}/*", "*/*"


def _range(text: str) -> tuple[str, float]:
    """Return a media range of a header Accept, and its quality; one that is not a number counts as 0."""
    name, *parameters = (each.strip().lower() for each in text.split(";"))
    quality = 1.0
    for each in parameters:
        key, _, value = each.partition("=")
        if key.strip() == "q":
            digits = value.strip().replace(".", "", 1)
            is_number = digits.isascii() and digits.isdigit() and len(digits) <= 4
            quality = float(value) if is_number else 0.0
    return name, quality


def csv_of(names: Sequence[str], rows: Iterable[Sequence[object]]) -> bytes:
    """Return rows as CSV (RFC 4180) with a header. A text is in quotes, so that NULL, which is empty, is no text."""
    lines = [",".join(map(_cell, names)), *(",".join(map(_cell, row)) for row in rows), ""]
    return "\r\n".join(lines).encode()


def _cell(value: object) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return '"{}"'.format(text.replace('"', '""')) if isinstance(value, str | list) else text


def lines_of(head: object, rows: Iterable[Sequence[object]]) -> bytes:
    """Return rows as lines of JSON after a line with what is said of them."""
    return b"".join(msgspec.json.encode(each) + b"\n" for each in (head, *({"row": row} for row in rows)))
