"""Bytes as people read them."""

from __future__ import annotations

from codecs import getincrementaldecoder


def bytes_text(raw: bytes, most: int | None = None) -> str:
    """Return bytes as text if they are UTF-8, else in hexadecimal; at most the first ``most`` bytes."""
    shown = raw if most is None else raw[:most]
    more = "..." if len(shown) < len(raw) else ""
    try:
        # Leave out a character that is cut in the middle.
        text = getincrementaldecoder("utf-8")().decode(shown, final=not more)
    except UnicodeDecodeError:
        return f"X'{shown.hex()}'{more}"
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text) + more
