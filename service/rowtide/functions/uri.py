"""Parts of URIs (RFC 3986)."""

from __future__ import annotations

import re
from urllib.parse import unquote_plus

_PARTS = re.compile(
    r"(?:(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):)?(?://(?P<authority>[^/?#]*))?(?P<path>[^?#]*)"
    r"(?:\?(?P<query>[^#]*))?(?:#(?P<fragment>.*))?",
    re.DOTALL,
)
_AUTHORITY = re.compile(r"(?:(?P<user>[^@]*)@)?(?P<host>\[[^\]]*\]|[^:]*)(?::(?P<port>[0-9]*))?")
NAMES = ("scheme", "authority", "user", "host", "port", "path", "query", "fragment")


def part(uri: str, name: str) -> str | None:
    """Return a part of a URI as it is written; None if the URI does not have it.

    ``name`` is scheme, authority, user, host, port, path, query or fragment, in any case.

    Raises:
      ValueError: the part does not exist, or the authority is invalid.
    """
    wanted = name.lower()
    if wanted not in NAMES:
        raise ValueError(f"a URI has no {name!r}: its parts are {', '.join(NAMES)}")
    parts = _PARTS.fullmatch(uri)
    if parts is None:
        return None
    if wanted not in ("user", "host", "port"):
        return parts[wanted]
    if parts["authority"] is None:
        return None
    authority = _AUTHORITY.fullmatch(parts["authority"])
    if authority is None:
        raise ValueError(f"invalid authority of a URI: {parts['authority']!r}")
    return authority[wanted] or None


def parameter(uri: str, name: str) -> str | None:
    """Return the decoded value of the first query parameter of a name; None if the URI does not have it."""
    query = part(uri, "query")
    for pair in (query or "").split("&"):
        key, _, value = pair.partition("=")
        if pair and unquote_plus(key) == name:
            return unquote_plus(value)
    return None
