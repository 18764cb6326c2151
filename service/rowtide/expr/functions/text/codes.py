"""Text and bytes as other text: hashes, hexadecimal digits, Base64 and URL encoding.

MD5 SHA1 SHA224 SHA256 SHA384 SHA512 CRC32 HEX UNHEX TO_HEX TO_BASE64 FROM_BASE64 URL_ENCODE URL_DECODE. Text
counts as its bytes in UTF-8. All are computed row by row.
"""

from __future__ import annotations

import base64
import hashlib
import re
import zlib
from collections.abc import Callable, Sequence
from urllib.parse import quote_plus, unquote_to_bytes

from rowtide.expr.functions.function import ScalarFunction, mismatch, strict
from rowtide.expr.functions.rejections import undefined
from rowtide.expr.functions.shapes import always, any_length, declared, no_columns
from rowtide.rows.types import BIGINT, INTEGER_BYTES, VARCHAR, Kind, Type

_HASHES = {"MD5": "md5", **{f"SHA{bits}": f"sha{bits}" for bits in (1, 224, 256, 384, 512)}}
_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


def _bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value


def _hash(name: str, algorithm: str) -> ScalarFunction:
    digits = 2 * hashlib.new(algorithm, usedforsecurity=False).digest_size

    def digest(value: str | bytes) -> str:
        return hashlib.new(algorithm, _bytes(value), usedforsecurity=False).hexdigest()

    return declared(name, "b", always(Type(Kind.VARCHAR, digits)), digest)


def _hex(name: str, *, upper: bool) -> ScalarFunction:
    """Declare HEX, or TO_HEX in lower case: of bytes two digits each, of an integer its two's complement."""

    def resolve(args: Sequence[Type]) -> Type:
        if len(args) != 1 or not (args[0].is_text or args[0].is_binary or args[0].is_integer):
            raise mismatch(name, args)
        return VARCHAR

    def row(kind: Type) -> Callable[[str | bytes | int], str]:
        ones = (1 << 8 * INTEGER_BYTES[kind.kind]) - 1 if kind.is_integer else 0

        def digits(value: str | bytes | int) -> str:
            found = f"{value & ones:x}" if isinstance(value, int) else _bytes(value).hex()
            return found.upper() if upper else found

        return digits

    return strict(name, resolve, lambda signature: row(signature.args[0]), no_columns)


def _unhex(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError as error:
        raise undefined("UNHEX", (text,), "it has two hexadecimal digits for each byte") from error


def _to_base64(value: str | bytes) -> str:
    return base64.b64encode(_bytes(value)).decode("ascii")


def _from_base64(text: str) -> bytes:
    """Read Base64; blanks and line ends in it are ignored, as in PostgreSQL."""
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except ValueError as error:
        raise undefined("FROM_BASE64", (text,), "the text is not Base64") from error


def _url_encode(text: str) -> str:
    """Write text as a form does: a blank becomes +, letters, digits and . - * _ stay."""
    return quote_plus(text, safe="*").replace("~", "%7E")


def _url_decode(text: str) -> str:
    wrong = _ESCAPE.search(text)
    if wrong is not None:
        raise undefined("URL_DECODE", (text,), "% must be followed by two hexadecimal digits")
    try:
        return unquote_to_bytes(text.replace("+", " ")).decode()
    except UnicodeDecodeError as error:
        raise undefined("URL_DECODE", (text,), "the bytes are not UTF-8") from error


CODES: Sequence[ScalarFunction] = (
    *(_hash(name, algorithm) for name, algorithm in _HASHES.items()),
    declared("CRC32", "b", always(BIGINT), lambda value: zlib.crc32(_bytes(value))),
    _hex("HEX", upper=True),
    _hex("TO_HEX", upper=False),
    declared("UNHEX", "t", always(Type(Kind.VARBINARY)), _unhex),
    declared("TO_BASE64", "b", any_length, _to_base64),
    declared("FROM_BASE64", "t", always(Type(Kind.VARBINARY)), _from_base64),
    declared("URL_ENCODE", "t", any_length, _url_encode),
    declared("URL_DECODE", "t", any_length, _url_decode),
)
