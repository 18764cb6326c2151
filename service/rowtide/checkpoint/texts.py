r"""Texts in a form that every database stores, whatever its encoding.

A character that the encoding of a PostgreSQL database lacks is written as in JSON, such as ``\u20ac``. Other
databases have Unicode: the checkpoint's tables are utf8mb4 in MariaDB and MySQL.
"""

from __future__ import annotations

import codecs
import json
import re
from typing import Any

import sqlalchemy as sa

_ESCAPES = "rowtide.escapes"
_SINGLE_BYTE = re.compile(r"LATIN\d+|ISO_8859_\d|WIN\d+|KOI8.")
_ESCAPED = re.compile(r"\\\\|(?:\\u[0-9a-f]{4})+")
_LAST_ASCII = "\x7f"


def _escape(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


codecs.register_error(_ESCAPES, _escape)


def codec_of(connection: sa.Connection) -> str:
    """Return Python's name of an encoding that has no character which the database lacks."""
    if connection.dialect.name != "postgresql":
        return "utf-8"
    driver: Any = connection.connection.driver_connection
    encoding: str = driver.info.parameter_status("server_encoding") or "UTF8"
    if encoding == "UTF8":
        return "utf-8"
    if not _SINGLE_BYTE.fullmatch(encoding):
        # PostgreSQL and Python differ in characters of these. ASCII is part of all.
        return "ascii"
    return re.sub("^WIN", "cp", encoding).replace("KOI8", "koi8_")


def storable(text: str, codec: str = "utf-8") -> str:
    """Return text that the database accepts: PostgreSQL refuses NUL, and drivers refuse lone surrogates."""
    stored = text.replace("\x00", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode("utf-8")
    return stored if codec == "utf-8" else stored.encode(codec, _ESCAPES).decode(codec)


def as_given(text: str, codec: str) -> str:
    """Return a JSON text as it was before ``storable``."""
    return text if codec == "utf-8" else _ESCAPED.sub(_unescaped, text)


def _unescaped(found: re.Match[str]) -> str:
    if found[0] == "\\\\":
        return found[0]
    characters: str = json.loads(f'"{found[0]}"')
    return "".join(each if each > _LAST_ASCII else f"\\u{ord(each):04x}" for each in characters)
