"""PARSE_URL: the parts of a URL, as Spark, Flink and Hive name them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rowtide.expr.functions.function import ScalarFunction
from rowtide.expr.functions.rejections import undefined
from rowtide.expr.functions.shapes import as_long_as_first, declared
from rowtide.functions.uri import part

_PARTS: Mapping[str, str] = {
    "PROTOCOL": "scheme",
    "AUTHORITY": "authority",
    "USERINFO": "user",
    "HOST": "host",
    "PATH": "path",
    "QUERY": "query",
    "REF": "fragment",
}


def _parse_url(url: str, name: str, key: str | None = None) -> str | None:
    """Return a part of a URL as it is written, or the value of a key of its query; None if it does not have it."""
    args = (url, name) if key is None else (url, name, key)
    if key is not None and name != "QUERY":
        raise undefined("PARSE_URL", args, "only QUERY has keys")
    try:
        if name == "FILE":
            path, query = part(url, "path"), part(url, "query")
            return path if query is None else f"{path}?{query}"
        if name not in _PARTS:
            raise undefined("PARSE_URL", args, f"the parts are {', '.join((*_PARTS, 'FILE'))}")
        found = part(url, _PARTS[name])
    except ValueError as error:
        raise undefined("PARSE_URL", args, str(error)) from None
    if key is None or found is None:
        return found
    pairs = (each.partition("=") for each in found.split("&"))
    return next((value for each, sign, value in pairs if sign and each == key), None)


URLS: Sequence[ScalarFunction] = (declared("PARSE_URL", "tt?t", as_long_as_first, _parse_url),)
