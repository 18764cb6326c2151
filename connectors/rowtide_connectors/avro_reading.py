"""Avro schemas as Rowtide reads them: exact values, a reader's schema, a limited depth.

fastavro decodes by a schema that is made here of the writer's: for the same bytes, and with functions where values
are not to be taken as they come. It calls them as readers of a logical type. So

* logical types are those of ``avro_values`` and exact decimals, and no value of a field that is not used can be wrong;
* text that is not UTF-8 has surrogates (``surrogateescape``), for the same reason;
* a reader's schema is applied to the values. fastavro's own resolution skips fields without a check for the end
  of the message: a damaged length of an array of fields that it skips keeps it busy for years;
* records that contain themselves are counted: the compiled reader recurses without a check, and overflows the stack.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from typing import Any, BinaryIO
from uuid import UUID

import fastavro
import fastavro.read

from rowtide_connectors.avro_values import AvroDate, AvroTime, AvroTimestamp

DEEPEST = 1_000
"""The most records, arrays and maps within each other."""

Schema = Any
Names = Mapping[str, Schema]
"""Parsed named types by their full names."""
Hook = Callable[[Any], Any]

_HOOK = "rowtide"
"""The logical type of values that a function changes, and the key of the function in their schema."""
_DEPTH = "\0"
"""A field of records that contain themselves. It takes no bytes, and is read before the others."""
_LONGEST_DECIMAL = 4_096
"""Bytes of a decimal. A longer one stays bytes: to make digits of them takes time that grows with the square."""
_EXACT = Context(prec=MAX_PREC, Emin=MIN_EMIN, Emax=MAX_EMAX)
_NAMED = ("record", "enum", "fixed")
_ITEMS = {"array": "items", "map": "values"}
"""The types that have items, and the key of these in a schema."""
_PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
_PROMOTED = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}


def _call_hook(value: Any, schema: Any, _reader: Any) -> Any:
    return schema[_HOOK](value)


for _each in (*_NAMED, *_ITEMS, *_PRIMITIVES):
    fastavro.read.LOGICAL_READERS[f"{_each}-{_HOOK}"] = _call_hook


def parse(text: str, names: dict[str, Schema]) -> Schema:
    """Return a parsed schema, and add its named types to ``names``. Invalid decimals are what they are stored as.

    Raises:
      ValueError, KeyError, TypeError, AttributeError, RecursionError, SchemaParseException: it is not a schema.
    """
    given: Any = json.loads(text) if text.lstrip()[:1] in '{["' else text
    name = given.get("name") if isinstance(given, dict) else None
    full = f"{given['namespace']}.{name}" if name and given.get("namespace") and "." not in name else name
    # A schema that two others reference is added once.
    return given if full in names else fastavro.parse_schema(_valid(given), named_schemas=names)


def _valid(schema: Schema) -> Schema:
    """Return a schema without logical types that are invalid: Avro's specification says to ignore them."""
    if isinstance(schema, list):
        return [_valid(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    kept = dict(schema)
    if kept.get("logicalType") == "decimal" and not _is_decimal(kept):
        del kept["logicalType"]
    for inner in ("items", "values", "type"):
        if inner in kept:
            kept[inner] = _valid(kept[inner])
    if isinstance(kept.get("fields"), list):
        kept["fields"] = [_valid(each) for each in kept["fields"]]
    return kept


def _is_decimal(schema: Mapping[str, Any]) -> bool:
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if schema.get("type") not in ("bytes", "fixed") or type(precision) is not int or type(scale) is not int:
        return False
    if schema["type"] == "fixed" and precision > math.log10(2) * (8 * schema["size"] - 1):
        return False
    return 0 <= scale <= precision <= 10**6 and precision > 0


class RecordReader:
    """Reads values of a writer's schema, as a reader's schema has them if there is one. Not for several threads.

    Raises:
      ValueError: the size of a message does not limit the number of its values, or a default is not of its type.
      KeyError, TypeError, AttributeError, RecursionError: it is not a schema.
    """

    def __init__(
        self, writer: Schema, names: Names, reader: Schema = None, reader_names: Names | None = None
    ) -> None:
        check_bounded(writer, names)
        self._names = names
        self._reader_names: Names = reader_names or {}
        self._recursive = _recursive(names)
        self._costs: dict[str, int] = {}
        self._records: dict[tuple[int, int], dict[str, Any]] = {}
        self._depth = 0
        self._schema = _as_parsed(self._node(writer, reader))

    def read(self, stream: BinaryIO) -> Any:
        """Return the next value.

        Raises:
          Exception: the bytes do not fit the schema; damaged ones may raise any exception.
        """
        self._depth = 0
        return fastavro.schemaless_reader(stream, self._schema, None, handle_unicode_errors="surrogateescape")

    # ------------------------------------------------------------------ the schema to read by

    def _node(self, writer: Schema, reader: Schema) -> Schema:
        """Return the schema by which fastavro reads the values of a writer's."""
        writer = _named(writer, self._names)
        if isinstance(writer, list):
            return [self._node(branch, reader) for branch in writer]
        found = None if reader is None else self._fitting(writer, reader)
        if reader is not None and found is None:
            why = f"the writer's {_shown(writer)} is not the reader's {_shown(reader)}"
            return _hooked(self._node(writer, None), _refusal(why))
        kind = _kind(writer)
        if kind == "record":
            return self._record(writer, found)
        if kind in _ITEMS:
            inner = _ITEMS[kind]
            return {"type": kind, inner: self._node(writer[inner], None if found is None else found[inner])}
        node: Schema = kind
        if kind in ("enum", "fixed"):
            node = {key: writer[key] for key in ("type", "name", "symbols", "size") if key in writer}
        own = _logical(writer)
        if own is None and found is not None:
            resolved = _symbols(writer, found) if kind == "enum" else _promotion(kind, _kind(found))
            return _hooked(_hooked(node, resolved), _logical(found))
        return _hooked(node, own)

    def _record(self, writer: Schema, reader: Schema) -> Schema:
        """Return the schema of a record: with the names of the reader, and a count of its depth if it is recursive."""
        known = self._records.get((id(writer), id(reader)))
        if known is not None:
            return known
        fields: list[dict[str, Any]] = []
        node = {"type": "record", "name": writer["name"], "fields": fields}
        self._records[id(writer), id(reader)] = node
        left = {} if reader is None else {field["name"]: field for field in reader["fields"]}
        aliases = {alias: name for name, field in left.items() for alias in field.get("aliases", ())}
        defaults = {
            name: self._default(field["type"], field["default"])
            for name, field in left.items()
            if "default" in field
        }
        cost = self._cost(writer) if writer["name"] in self._recursive else 0
        dropped = []
        if cost:
            dropped.append(_DEPTH)
            fields.append({"name": _DEPTH, "type": _hooked("null", self._entering(cost))})
        for field in writer["fields"]:
            name, wanted = field["name"], None
            if reader is not None:
                found = left.pop(name if name in left else aliases.get(name, name), None)
                name, wanted = ("\0" + name, None) if found is None else (found["name"], found["type"])
                if found is None:
                    dropped.append(name)
            fields.append({"name": name, "type": self._node(field["type"], wanted)})
        missing = next((name for name in left if name not in defaults), None)
        if missing is not None:
            why = f'the message has no field "{missing}", and the reader no default for it'
            node.update(_hook(_refusal(why)))
        elif dropped or left:
            node.update(_hook(self._leaving(cost, dropped, {name: defaults[name] for name in left})))
        return node

    def _entering(self, cost: int) -> Hook:
        def enter(_: object) -> None:
            self._depth += cost
            if self._depth > DEEPEST:
                raise ValueError(f"it is nested more than {DEEPEST} deep")

        return enter

    def _leaving(self, cost: int, dropped: list[str], defaults: Mapping[str, object]) -> Hook:
        def leave(record: dict[str, Any]) -> dict[str, Any]:
            self._depth -= cost
            for name in dropped:
                del record[name]
            record.update(defaults)
            return record

        return leave

    def _cost(self, schema: Schema) -> int:
        """Return how many records, arrays and maps are within each other, up to the next recursive record."""
        schema = _named(schema, self._names)
        if isinstance(schema, list):
            return max(map(self._below, schema), default=0)
        kind = _kind(schema)
        if kind in _ITEMS:
            return 1 + self._below(schema[_ITEMS[kind]])
        if kind != "record":
            return 0
        name = schema["name"]
        if name not in self._costs:
            self._costs[name] = 1 + max((self._below(each["type"]) for each in schema["fields"]), default=0)
        return self._costs[name]

    def _below(self, schema: Schema) -> int:
        found = _named(schema, self._names)
        is_recursive = isinstance(found, dict) and found.get("name") in self._recursive
        return 0 if is_recursive else self._cost(found)

    # ------------------------------------------------------------------ the reader's schema

    def _fitting(self, writer: Schema, reader: Schema) -> Schema:
        """Return the reader's schema of values of the writer's, which is no union; None if they do not fit.

        Of a union it is the branch of the same type, else the first one that the writer's is promoted to.
        """
        branches = [
            _named(each, self._reader_names) for each in _branches(_named(reader, self._reader_names))
        ]
        fitting = [each for each in branches if self._fits(writer, each)]
        same = [each for each in fitting if _kind(each) == _kind(writer)]
        return next(iter(same or fitting), None)

    def _fits(self, writer: Schema, reader: Schema) -> bool:
        writer, reader = _named(writer, self._names), _named(reader, self._reader_names)
        if isinstance(writer, list) or isinstance(reader, list):
            return True
        kind, other = _kind(writer), _kind(reader)
        if kind in _ITEMS and kind == other:
            return self._fits(writer[_ITEMS[kind]], reader[_ITEMS[kind]])
        if kind in _NAMED and kind == other:
            names = {writer["name"], writer["name"].rpartition(".")[2]}
            accepted = {reader["name"].rpartition(".")[2], *reader.get("aliases", ())}
            return not names.isdisjoint(accepted) and writer.get("size") == reader.get("size")
        return kind == other or other in _PROMOTED.get(kind, ())

    def _default(self, schema: Schema, given: Any) -> Any:
        """Return the value of a default, which a schema has as JSON.

        Raises:
          ValueError: it is not of its type.
        """
        branches = [
            _named(each, self._reader_names) for each in _branches(_named(schema, self._reader_names))
        ]
        found = next((each for each in branches if _is_default(_kind(each), given)), None)
        if found is None:
            raise ValueError(f"the default {json.dumps(given)} is not of its type")
        kind, value = _kind(found), given
        if kind == "record":
            value = {
                field["name"]: self._default(
                    field["type"], given[field["name"]] if field["name"] in given else field["default"]
                )
                for field in found["fields"]
            }
        elif kind == "array":
            value = [self._default(found["items"], each) for each in given]
        elif kind == "map":
            value = {name: self._default(found["values"], each) for name, each in given.items()}
        elif kind in ("bytes", "fixed"):
            value = given.encode("latin-1")
        elif kind in ("float", "double"):
            value = float(given)
        hook = _logical(found)
        return value if hook is None else hook(value)


# ------------------------------------------------------------------ parts of schemas


def _named(schema: Schema, names: Names) -> Schema:
    return names.get(schema, schema) if isinstance(schema, str) else schema


def _branches(schema: Schema) -> list[Schema]:
    return schema if isinstance(schema, list) else [schema]


def _kind(schema: Schema) -> str:
    kind = str(schema["type"] if isinstance(schema, dict) else schema)
    return "record" if kind == "error" else kind


def _shown(schema: Schema) -> str:
    if isinstance(schema, list):
        return "union"
    name = schema.get("name") if isinstance(schema, dict) else None
    return _kind(schema) if name is None else f"{_kind(schema)} {name}"


def _inner(schema: Schema) -> list[Schema]:
    """Return the schemas directly within a schema."""
    if isinstance(schema, list):
        return schema
    if not isinstance(schema, dict):
        return []
    kind = _kind(schema)
    if kind in _ITEMS:
        return [schema[_ITEMS[kind]]]
    return [field["type"] for field in schema["fields"]] if kind == "record" else []


def _recursive(names: Names) -> frozenset[str]:
    """Return the names of the records that may contain themselves."""

    def named_in(schema: Schema) -> Iterator[str]:
        for each in _inner(schema):
            name = each if isinstance(each, str) else each.get("name") if isinstance(each, dict) else None
            if name is None:
                yield from named_in(each)
            elif name in names:
                yield name

    direct = {name: frozenset(named_in(schema)) for name, schema in names.items()}

    def reached(name: str) -> set[str]:
        found: set[str] = set()
        left = set(direct[name])
        while left:
            found |= left
            left = {further for each in left for further in direct[each]} - found
        return found

    return frozenset(name for name in names if name in reached(name))


def _hook(hook: Hook) -> dict[str, Any]:
    return {"logicalType": _HOOK, _HOOK: hook}


def _hooked(schema: Schema, hook: Hook | None) -> Schema:
    """Return a schema whose values ``hook`` makes of those that were read, after the functions that it has."""
    if hook is None:
        return schema
    node = dict(schema) if isinstance(schema, dict) else {"type": schema}
    before: Hook | None = node.get(_HOOK)
    return {**node, **_hook(hook if before is None else lambda value: hook(before(value)))}


def _as_parsed(schema: Schema) -> Schema:
    """Return a schema that fastavro does not parse: it may contain itself."""
    if isinstance(schema, list):
        return [_as_parsed(each) for each in schema]
    return (
        {**schema, "__fastavro_parsed": True, "__named_schemas": {}} if isinstance(schema, dict) else schema
    )


def _refusal(why: str) -> Hook:
    def refuse(_: object) -> None:
        raise ValueError(why)

    return refuse


def _promotion(kind: str, wanted: str) -> Hook | None:
    if wanted in ("float", "double") and kind in ("int", "long"):
        return float
    if (kind, wanted) == ("string", "bytes"):
        return lambda text: text.encode("utf-8", "surrogateescape")
    if (kind, wanted) == ("bytes", "string"):
        return lambda given: given.decode("utf-8", "surrogateescape")
    return None


def _symbols(writer: Schema, reader: Schema) -> Hook | None:
    known, default = frozenset(reader["symbols"]), reader.get("default")
    if known.issuperset(writer["symbols"]):
        return None

    def symbol(given: str) -> str:
        if given not in known and default is None:
            raise ValueError(f'the reader\'s enum {reader["name"]} has no "{given}"')
        return given if given in known else str(default)

    return symbol


def _is_default(kind: str, given: Any) -> bool:
    match given:
        case None:
            return kind == "null"
        case bool():
            return kind == "boolean"
        case int():
            return kind in ("int", "long", "float", "double")
        case float():
            return kind in ("float", "double")
        case str():
            return kind in ("string", "bytes", "fixed", "enum")
        case list():
            return kind == "array"
        case _:
            return kind in ("map", "record")


# ------------------------------------------------------------------ logical types


def _logical(schema: Schema) -> Hook | None:
    """Return what makes values of a logical type; None if it is none, or what is stored is its value."""
    if not isinstance(schema, dict):
        return None
    match schema["type"], schema.get("logicalType"):
        case (("bytes" | "fixed"), "decimal"):
            return _decimal(schema.get("scale", 0))
        case "fixed", "uuid" if schema["size"] == 16:
            return lambda given: UUID(bytes=given)
        case stored, logical if isinstance(stored, str) and isinstance(logical, str):
            return _TIMES.get((stored, logical))
    return None


def _decimal(scale: int) -> Hook:
    def decimal(given: bytes) -> Decimal | bytes:
        if len(given) > _LONGEST_DECIMAL:
            return given
        return Decimal(int.from_bytes(given, "big", signed=True)).scaleb(-scale, _EXACT)

    return decimal


_TIMES: dict[tuple[str, str], Hook] = {
    ("int", "date"): AvroDate,
    ("int", "time-millis"): lambda count: AvroTime(count * 1_000_000),
    ("long", "time-micros"): lambda count: AvroTime(count * 1_000),
    ("long", "timestamp-millis"): lambda count: AvroTimestamp(count * 1_000_000),
    ("long", "timestamp-micros"): lambda count: AvroTimestamp(count * 1_000),
    ("long", "timestamp-nanos"): AvroTimestamp,
    ("long", "local-timestamp-millis"): lambda count: AvroTimestamp(count * 1_000_000, local=True),
    ("long", "local-timestamp-micros"): lambda count: AvroTimestamp(count * 1_000, local=True),
    ("long", "local-timestamp-nanos"): lambda count: AvroTimestamp(count, local=True),
}


def check_bounded(schema: Schema, names: Names) -> None:
    """Check that the size of a message limits the number of its values.

    An array of items that take no bytes may claim any number of them, and a damaged message would be
    decoded forever.

    Raises:
      ValueError: the schema has such an array.
    """
    empty: dict[str, bool] = {}

    def is_empty(each: Schema) -> bool:
        """Return whether a value takes no bytes; look at all that it contains."""
        found = _named(each, names)
        kind = "union" if isinstance(found, list) else _kind(found)
        if kind in _NAMED and found["name"] in empty:
            return empty[found["name"]]
        if kind in _NAMED:
            # A record that contains itself does so in a union, array or map, which take bytes.
            empty[found["name"]] = False
        within = [is_empty(inner) for inner in _inner(found)]
        if kind == "array" and within[0]:
            raise ValueError("an array has items that take no bytes")
        if kind == "record":
            empty[found["name"]] = all(within)
        elif kind == "fixed":
            empty[found["name"]] = found["size"] == 0
        return empty[found["name"]] if kind in _NAMED else kind == "null"

    is_empty(schema)
