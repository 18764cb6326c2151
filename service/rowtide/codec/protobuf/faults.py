"""The place in a damaged Protobuf message: the parser says only that there is one.

The bytes are walked again by the message type, until they do not fit.
"""

from __future__ import annotations

from rowtide.codec.protobuf.schemas import Descriptor
from rowtide.codec.protobuf.values import FieldType, is_map
from rowtide.expr.json_path import JsonSteps, show_path

_VARINT, _FIXED64, _SIZED, _GROUP, _END_GROUP, _FIXED32 = range(6)
_WIDTHS = {_FIXED64: 8, _FIXED32: 4}
_LONGEST_VARINT = 10
_LONGEST_TAG, _MOST_TAG = 5, (1 << 32) - 1
_DEEPEST = 100
"""Messages in messages that google.protobuf parses."""


class _FoundError(Exception):
    """The bytes at ``at`` are wrong, in the value of ``path``."""

    def __init__(self, path: JsonSteps, at: int, problem: str) -> None:
        super().__init__(f"{show_path(path)} at byte {at}: {problem}")


def place_of_fault(descriptor: Descriptor, value: bytes) -> str | None:
    """Return the path at which the bytes of a message are damaged and what is wrong there; None if nothing is."""
    try:
        _Scan(value).message(descriptor, 0, len(value), ())
    except _FoundError as error:
        return str(error)
    return None


class _Scan:
    def __init__(self, value: bytes) -> None:
        self._value = value

    def message(
        self,
        descriptor: Descriptor | None,
        at: int,
        end: int,
        path: JsonSteps,
        group: int | None = None,
        depth: int = 0,
    ) -> int:
        """Walk the fields of a message, or of a ``group`` up to its end; return where it ends."""
        if depth > _DEEPEST:
            raise _FoundError(path, at, f"it is nested more than {_DEEPEST} deep")
        counts: dict[int, int] = {}
        while at < end:
            start = at
            tag, at = self._varint(at, end, path)
            number, wire = tag >> 3, tag & 7
            if number == 0 or wire > _FIXED32 or at - start > _LONGEST_TAG or tag > _MOST_TAG:
                raise _FoundError(path, start, "invalid tag of a field")
            if wire == _END_GROUP:
                if number != group:
                    raise _FoundError(path, start, "the end of a group that did not begin")
                return at
            field = None if descriptor is None else descriptor.fields_by_number.get(number)
            inner = self._path(path, field, counts)
            at = self._field(field, wire, number, at, end, inner, depth)
        if group is not None:
            raise _FoundError(path, end, "the message ends within a group")
        return at

    def _path(self, path: JsonSteps, field: FieldType | None, counts: dict[int, int]) -> JsonSteps:
        if field is None:
            return path
        if not field.is_repeated or is_map(field):
            return (*path, field.name)
        counts[field.number] = counts.get(field.number, -1) + 1
        return (*path, field.name, counts[field.number])

    def _field(
        self, field: FieldType | None, wire: int, number: int, at: int, end: int, path: JsonSteps, depth: int
    ) -> int:
        """Walk the value of a field; return where it ends."""
        inner = None if field is None else field.message_type
        if wire == _VARINT:
            return self._varint(at, end, path)[1]
        if wire == _GROUP:
            return self.message(inner, at, end, path, number, depth + 1)
        start = at
        size, at = (_WIDTHS[wire], at) if wire != _SIZED else self._varint(at, end, path)
        if at + size > end:
            raise _FoundError(path, start, f"{size} bytes are announced, and {end - at} are left")
        if wire == _SIZED and field is not None:
            if inner is not None and field.type == field.TYPE_MESSAGE:
                self.message(inner, at, at + size, path, None, depth + 1)
            elif field.type == field.TYPE_STRING:
                self._text(at, size, path)
            elif field.is_repeated and field.type != field.TYPE_BYTES:
                self._packed(field, at, at + size, path)
        return at + size

    def _packed(self, field: FieldType, at: int, end: int, path: JsonSteps) -> None:
        width = {
            **dict.fromkeys((field.TYPE_DOUBLE, field.TYPE_FIXED64, field.TYPE_SFIXED64), 8),
            **dict.fromkeys((field.TYPE_FLOAT, field.TYPE_FIXED32, field.TYPE_SFIXED32), 4),
        }.get(field.type)
        if width is not None and (end - at) % width:
            raise _FoundError(path, at, f"{end - at} bytes are not numbers of {width} bytes")
        while width is None and at < end:
            _, at = self._varint(at, end, path)

    def _text(self, at: int, size: int, path: JsonSteps) -> None:
        try:
            self._value[at : at + size].decode()
        except UnicodeDecodeError as error:
            raise _FoundError(path, at + error.start, f"text is not UTF-8: {error.reason}") from error

    def _varint(self, at: int, end: int, path: JsonSteps) -> tuple[int, int]:
        number = 0
        for index, byte in enumerate(self._value[at : min(end, at + _LONGEST_VARINT)]):
            number |= (byte & 0x7F) << (7 * index)
            if byte < 0x80:
                return number, at + index + 1
        is_long = end - at >= _LONGEST_VARINT
        problem = "a number has more than 10 bytes" if is_long else "a number is cut off"
        raise _FoundError(path, at, problem)
