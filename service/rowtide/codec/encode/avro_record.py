"""Records of Avro for the columns of a stream: the schema that is made of them, and the parts of a message.

A schema is compiled once into the parts of a record: bytes that are the same in every message, and the
writers of the columns.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rowtide.codec.encode.avro_values import (
    ToBytes,
    form_of,
    long_bytes,
    sized,
    type_of,
    value_writer,
)
from rowtide.codec.encode.contract import refuse
from rowtide.codec.encode.record import NAME, Place, UnfitError, name_of_columns
from rowtide.codec.format_options import PATH, RECORD_NAME
from rowtide.codec.json.readings import folded
from rowtide.codec.options import Declared

Row = Sequence[object]
Part = bytes | Callable[[Row], bytes]
_SHOWN = 100


def record_of(declared: Declared, places: Sequence[Place], suffix: str = "") -> dict[str, Any]:
    """Return the schema that is made of columns: a field for each, which takes null unless the column is NOT NULL."""
    name = declared.options.get(RECORD_NAME)
    if name is None:
        name = name_of_columns(declared)
    elif not all(NAME.fullmatch(each) for each in name.split(".")):
        raise declared.error(RECORD_NAME, f'"{name}" is not a name of Avro', hint="Such as shop.Alert.")
    record: dict[str, Any] = {"type": "record", "name": name + suffix, "fields": []}
    inner: dict[tuple[str, ...], dict[str, Any]] = {(): record}
    for place in places:
        for depth, step in enumerate(place.path):
            if not NAME.fullmatch(step):
                raise declared.error(
                    PATH,
                    f'"{step}" is not a name of Avro',
                    column=place.field.name,
                    hint="Add OPTIONS (path '$.first_name') to the column.",
                )
            holder, path = inner[place.path[:depth]], place.path[: depth + 1]
            if depth + 1 < len(place.path):
                if path not in inner:
                    inner[path] = {"type": "record", "name": "_".join((name, *path)), "fields": []}
                    holder["fields"].append({"name": step, "type": inner[path]})
                continue
            own = type_of(declared, place.field)
            nullable: dict[str, Any] = {"name": step, "type": ["null", own], "default": None}
            holder["fields"].append(nullable if place.field.nullable else {"name": step, "type": own})
    return record


# ------------------------------------------------------------------ compiling a schema


class Compiler:
    """Makes the parts of a record from a schema. ``option`` is where the schema is from, for errors."""

    def __init__(self, declared: Declared, schema: Any, option: str) -> None:
        self._declared = declared
        self._schema = schema
        self._option = option
        self._known: Mapping[str, Any] = schema.get("__named_schemas", {}) if isinstance(schema, dict) else {}

    def parts(self, places: Sequence[Place]) -> list[Part]:
        """Return the parts of a record, bytes joined.

        Raises:
          FormatOptionError: a column has no field, a field has neither column nor default, or types do not fit.
        """
        found: list[Part] = []
        for each in self._record(self._schema, [(place, place.path) for place in places], ""):
            if isinstance(each, bytes) and found and isinstance(found[-1], bytes):
                found[-1] += each
            else:
                found.append(each)
        return found

    def _record(
        self, schema: Any, wanted: Sequence[tuple[Place, tuple[str, ...]]], within: str
    ) -> list[Part]:
        schema = self._resolved(schema)
        if not isinstance(schema, dict) or schema["type"] not in ("record", "error"):
            what = f'field "{within[:-1]}"' if within else "it"
            raise self._error(f"{what} is {_shown(schema)}, not a record")
        fields = {field["name"]: field["type"] for field in schema["fields"]}
        by_folded = {folded(name): name for name in fields}
        of_field: dict[str, list[tuple[Place, tuple[str, ...]]]] = {}
        for place, (first, *rest) in wanted:
            name = first if first in fields or place.exact else by_folded.get(folded(first), first)
            if name not in fields:
                raise self._error(
                    f'it has no field "{within}{name}" for column "{place.field.name}"',
                    hint=f"Its fields are {', '.join(fields)}." if fields else None,
                )
            of_field.setdefault(name, []).append((place, tuple(rest)))
        if any(len(taken) > 1 and not all(path for _, path in taken) for taken in of_field.values()):
            raise self._error("two columns have the same field")
        parts: list[Part] = []
        for field in schema["fields"]:
            shown = within + field["name"]
            if field["name"] in of_field:
                parts += self._given(field["type"], of_field[field["name"]], shown)
            else:
                parts.append(self._absent(field, shown))
        return parts

    def _given(self, schema: Any, wanted: Sequence[tuple[Place, tuple[str, ...]]], shown: str) -> list[Part]:
        """Return the parts of a field that columns are in."""
        schema = self._resolved(schema)
        ((place, path), *_) = wanted
        branches = schema if isinstance(schema, list) else [schema]
        index = [long_bytes(at) if isinstance(schema, list) else b"" for at in range(len(branches))]
        if path:
            for at, branch in enumerate(branches):
                inner = self._resolved(branch)
                if isinstance(inner, dict) and inner["type"] == "record":
                    return [index[at], *self._record(inner, wanted, f"{shown}.")]
            raise self._error(f'field "{shown}" is {_shown(schema)}, not a record')
        why = ""
        for at, branch in enumerate(branches):
            try:
                write = value_writer(self._declared, place.field, self._resolved(branch))
            except UnfitError as error:
                why = f": {error}" if error.args else why
                continue
            null = index[branches.index("null")] if "null" in branches else None
            return [_column(place, write, index[at], null, shown)]
        raise self._error(
            f'field "{shown}" is {_shown(schema)}, and column "{place.field.name}" is {place.field.type}{why}'
        )

    def _absent(self, field: Mapping[str, Any], shown: str) -> bytes:
        """Return the bytes of a field without a column: its default, or null if it takes that."""
        schema = self._resolved(field["type"])
        if "default" in field:
            try:
                return self._default(schema, field["default"])
            except (KeyError, TypeError, ValueError, struct.error, AttributeError) as error:
                raise self._error(f'the default of field "{shown}" is not of its type') from error
        branches = schema if isinstance(schema, list) else [schema]
        if "null" in branches:
            return long_bytes(branches.index("null")) if isinstance(schema, list) else b""
        raise self._error(
            f'field "{shown}" has no default, and the stream has no column for it',
            hint=f"Add a column {shown.rpartition('.')[2]}, or a default to the field.",
        )

    def _default(self, schema: Any, value: Any) -> bytes:
        schema = self._resolved(schema)
        if isinstance(schema, list):
            return long_bytes(0) + self._default(schema[0], value)
        form, attributes = form_of(schema)
        match form:
            case "null":
                return b""
            case "boolean":
                return b"\1" if value else b"\0"
            case "int" | "long":
                return long_bytes(int(value))
            case "float" | "double":
                return struct.pack("<f" if form == "float" else "<d", value)
            case "string":
                return sized(value.encode())
            case "bytes":
                return sized(value.encode("latin-1"))
            case "fixed":
                return bytes(value.encode("latin-1"))
            case "enum":
                return long_bytes(attributes["symbols"].index(value))
            case "array":
                items = b"".join(self._default(attributes["items"], each) for each in value)
                return (long_bytes(len(value)) + items if value else b"") + b"\0"
            case "map":
                pairs = b"".join(
                    sized(key.encode()) + self._default(attributes["values"], each)
                    for key, each in value.items()
                )
                return (long_bytes(len(value)) + pairs if value else b"") + b"\0"
            case _:
                return b"".join(
                    self._default(each["type"], value.get(each["name"], each.get("default")))
                    for each in attributes["fields"]
                )

    def _resolved(self, schema: Any) -> Any:
        return self._known.get(schema, schema) if isinstance(schema, str) else schema

    def _error(self, problem: str, hint: str | None = None) -> Exception:
        return self._declared.error(self._option, f"the schema does not fit: {problem}", hint=hint)


def _column(place: Place, write: ToBytes, branch: bytes, null: bytes | None, shown: str) -> Part:
    at, name = place.at, place.field.name

    def part(row: Row) -> bytes:
        value = row[at]
        if value is not None:
            return branch + write(value)
        if null is None:
            refuse(f'column "{name}" is NULL, and field "{shown}" of the schema does not take null')
        return null

    return part


def _shown(schema: Any) -> str:
    """Return a type of a schema as errors show it."""
    if isinstance(schema, list):
        return " or ".join(_shown(each) for each in schema)[:_SHOWN]
    form, attributes = form_of(schema)
    logical = attributes.get("logicalType")
    return f"{form} ({logical})" if logical else form
