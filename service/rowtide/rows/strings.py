"""Types whose values are text of a certain form: UUID and JSON.

A UUID has one text, so that equal values are equal texts: 36 characters, small letters, with dashes. JSON is text as
it was written, without blanks around it.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec

from rowtide.rows.types import Kind

CANONICAL_UUID = "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"
"""The one text of a UUID."""

_UUID = re.compile(r"(\{)?((?:[0-9a-fA-F]{4}-?){7}[0-9a-fA-F]{4})(?(1)\})")
_raw = msgspec.json.Decoder(msgspec.Raw).decode


def uuid_of(text: str) -> str:
    """Return the UUID that text spells: in any case, with dashes after any four digits, or in braces.

    Raises:
      ValueError: it is not a UUID.
    """
    found = _UUID.fullmatch(text.strip())
    if found is None:
        raise ValueError("it is not a UUID")
    digits = found[2].replace("-", "").lower()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def json_of(text: str) -> str:
    """Return JSON text without blanks around it.

    Raises:
      ValueError: it is not JSON.
    """
    try:
        return bytes(_raw(text.encode())).decode()
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except (msgspec.DecodeError, UnicodeError):
        raise ValueError("it is not JSON") from None


FORMS: dict[Kind, Callable[[str], str]] = {Kind.UUID: uuid_of, Kind.JSON: json_of}
"""The functions that check text and bring it into the form of a type; they raise ValueError."""
