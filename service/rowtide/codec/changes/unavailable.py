"""Placeholders of Debezium for values that it has not got, because they have not changed (docs/sql/tables.md).

The form depends on the column's type and on the settings of the connector. For text it is the placeholder itself; for
bytes they are its bytes, or their text in base64 or hex; for an hstore a map of it to itself; for an array one element
with the placeholder, one UUID that is made of it, or, of numbers, one element for each of its bytes.
"""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any
from uuid import UUID

from rowtide.codec.format_options import UNAVAILABLE, UNAVAILABLE_VALUE
from rowtide.codec.json.readings import value_at
from rowtide.codec.options import Declared
from rowtide.codec.records import RecordRows
from rowtide.errors import RejectedRowError
from rowtide.expr.json_path import JsonSteps


class Placeholder:
    """The forms of the placeholder that a table declares."""

    def __init__(self, declared: Declared) -> None:
        text = declared.options.get(UNAVAILABLE, UNAVAILABLE_VALUE)
        self._bytes = text.encode()
        self._map = {text: text}
        encoded = [
            base64.b64encode(self._bytes).decode(),
            base64.urlsafe_b64encode(self._bytes).decode(),
            self._bytes.hex(),
        ]
        maps = [
            json.dumps(self._map, separators=separators, ensure_ascii=False)
            for separators in ((",", ":"), (", ", ": "))
        ]
        self._texts = frozenset((text, *encoded, *maps))
        # Bytes of Java have a sign, and its UUID of bytes is that of their MD5.
        numbers = [byte - 256 if byte > 127 else byte for byte in self._bytes]
        uuid = UUID(bytes=hashlib.md5(self._bytes, usedforsecurity=False).digest(), version=3)
        single = [*self._texts, self._bytes, self._map, uuid, str(uuid)]
        self._arrays: list[list[Any]] = [*([each] for each in single), numbers, list(map(str, numbers))]
        in_json = [json.dumps(text, ensure_ascii=is_ascii)[1:-1] for is_ascii in (True, False)]
        lists = [form.join(map(str, numbers)) for form in (",", ", ", ".0,", ".0, ", '","', '", "')]
        self._marks = {each.encode() for each in (*in_json, *encoded, str(uuid), *lists)}

    def is_form(self, value: object) -> bool:
        """Return whether a value of a record or of a row is one of the forms."""
        match value:
            case str():
                return value in self._texts
            case bytes():
                return value == self._bytes
            case dict():
                return value == self._map
            case list() | tuple():
                return list(value) in self._arrays
            case _:
                return False

    def may_be_in(self, message: bytes) -> bool:
        """Return whether JSON may have one of the forms; if not, it has none."""
        return any(each in message for each in self._marks)


class Unavailable:
    """Finds the columns whose values a record has not got."""

    def __init__(self, declared: Declared, placeholder: Placeholder) -> None:
        self._rows = RecordRows(declared, declared.row_type)
        self._key = declared.key
        self._placeholder = placeholder

    def columns(self, record: dict[str, object]) -> tuple[int, ...]:
        """Return the columns, without those of the key, that are a placeholder or below one."""
        return tuple(
            at
            for at, path in enumerate(self._rows.paths(record))
            if at not in self._key and self._is_at(record, path)
        )

    def _is_at(self, record: dict[str, object], path: JsonSteps) -> bool:
        """Return whether a value on the way along ``path`` is a placeholder."""
        value: object = record
        for step in path:
            try:
                value = value_at(value, (step,))
            except RejectedRowError:
                return False
            if self._placeholder.is_form(value):
                return True
        return False
