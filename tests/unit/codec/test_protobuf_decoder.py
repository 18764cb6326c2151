"""Protobuf by declared descriptors (docs/sql/streams.md#protobuf)."""

from __future__ import annotations

import base64
import importlib.util
import json
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from rowtide.codec.contract import Decoder
from rowtide.errors import Reason, RejectedRowError, StatementError
from support.codec import outcome
from support.protobuf import FILE, decoder, headed, message, register, written
from support.registry import FakeRegistry


def by_file(columns: str, name: str = "shop.Everything") -> Decoder:
    return decoder(columns, descriptor=str(FILE), message=name)


def one(column: str, name: str = "shop.Everything", /, **fields: Any) -> Any:
    """Return the value of one column in a message with fields; of a rejected one its reason and the text."""
    rows, faults = outcome(by_file(column, name), [written(name, **fields)])
    if rows:
        ((value,),) = rows
        return value
    ((_, reason, text),) = faults
    return reason, text


def test_a_message_has_the_descriptors_that_the_stream_names() -> None:
    messages = [written("shop.Order", id=1, note="x"), written("shop.Order", id=2), b"\x08", None]
    text = base64.b64encode(FILE.read_bytes()).decode()
    for options in ({"descriptor": str(FILE)}, {"descriptor_base64": text}):
        rows, faults = outcome(
            decoder("id INTEGER, note VARCHAR(5)", message="shop.Order", **options), messages
        )
        assert rows == [(1, "x"), (2, None)]
        assert [each[:2] for each in faults] == [(2, Reason.DECODE), (3, Reason.TOMBSTONE)]


SCALARS: list[tuple[str, object, str, object]] = [
    ("f_double", 0.1, "DOUBLE", 0.1),
    ("f_double", "NaN", "DOUBLE", "NaN"),
    ("f_double", 12.345, "DECIMAL(9, 2)", Decimal("12.35")),
    ("f_double", 3.0, "INTEGER", 3),
    ("f_float", 0.5, "REAL", 0.5),
    ("f_int32", -(2**31), "INTEGER", -(2**31)),
    ("f_int32", 7, "TINYINT", 7),
    ("f_int64", -(2**63), "BIGINT", -(2**63)),
    ("f_uint32", 2**32 - 1, "BIGINT", 2**32 - 1),
    ("f_uint64", 2**64 - 1, "DECIMAL(20, 0)", Decimal(2**64 - 1)),
    ("f_uint64", 2**63 - 1, "BIGINT", 2**63 - 1),
    ("f_sint32", -5, "SMALLINT", -5),
    ("f_sint64", -5, "BIGINT", -5),
    ("f_fixed32", 5, "INTEGER", 5),
    ("f_fixed64", 2**63, "DECIMAL(19, 0)", Decimal(2**63)),
    ("f_sfixed32", -5, "INTEGER", -5),
    ("f_sfixed64", -5, "BIGINT", -5),
    ("f_bool", True, "BOOLEAN", True),
    ("f_string", "é", "VARCHAR(1)", "é"),
    ("f_string", "12.5", "DECIMAL(9, 2)", Decimal("12.50")),
    ("f_string", "2026-01-01", "DATE", 20_454),
    ("f_string", '{"a": 1}', "JSON", '{"a": 1}'),
    ("f_bytes", "AP8=", "VARBINARY(2)", b"\x00\xff"),
    ("color", "BLUE", "VARCHAR(9)", "BLUE"),
    ("color", "BLUE", "INTEGER", 2),
    ("color", 99, "VARCHAR(9)", "99"),
    ("color", "RED", "JSON", '"RED"'),
    ("at", "2026-01-01T00:00:00.0059Z", "TIMESTAMP", 1_767_225_600_005),
    ("at", "1969-12-31T23:59:59.9999Z", "TIMESTAMP", -1),
    ("at", "2026-01-01T23:00:00Z", "DATE", 20_454),
    ("at", "2026-01-01T00:00:00.0059Z", "VARCHAR(40)", "2026-01-01T00:00:00.005900Z"),
    ("at", "2026-01-01T00:00:00Z", "JSON", '"2026-01-01T00:00:00Z"'),
    ("lapse", "-1.5s", "DECIMAL(9, 3)", Decimal("-1.500")),
    ("lapse", "-1.5s", "VARCHAR(9)", "-1.500s"),
    ("lapse", "60s", "INTEGER", 60),
    ("w_string", "x", "VARCHAR(5)", "x"),
    ("w_string", "", "VARCHAR(5)", ""),
    ("w_int64", "0", "BIGINT", 0),
    ("w_double", 2.5, "DOUBLE", 2.5),
    ("w_bool", False, "BOOLEAN", False),
    ("w_bytes", "AP8=", "VARBINARY(2)", b"\x00\xff"),
    ("struct", {"a": [1, None, {"b": 2.5}]}, "JSON", '{"a": [1, null, {"b": 2.5}]}'),
    ("value", "x", "JSON", '"x"'),
    ("value", "x", "VARCHAR(3)", "x"),
    ("value", 7, "BIGINT", 7),
    ("value", None, "JSON", None),
    ("list", [1, "a"], "VARCHAR(20)", '[1, "a"]'),
    ("numbers", [1, 2], "JSON", "[1, 2]"),
    ("numbers", [], "VARCHAR(9)", "[]"),
    ("colors", ["RED", 7], "JSON", '["RED", "7"]'),
    ("times", ["2026-01-01T00:00:00Z"], "VARCHAR(40)", '["2026-01-01T00:00:00Z"]'),
    ("by_number", {"1": "a"}, "JSON", '{"1": "a"}'),
    ("by_flag", {"true": {"city": "Rome"}}, "JSON", '{"true": {"city": "Rome", "zip": ""}}'),
    ("color_of", {"a": "RED"}, "JSON", '{"a": "RED"}'),
    ("tree", {"n": 1, "inside": [{"n": 2}]}, "JSON", '{"n": 1, "inside": [{"n": 2, "inside": []}]}'),
]


@pytest.mark.parametrize(("name", "value", "kind", "wanted"), SCALARS)
def test_each_type_of_a_field_is_a_value_of_a_column(
    name: str, value: object, kind: str, wanted: object
) -> None:
    found = one(f'"{name}" {kind}', **{name: value})
    assert str(found) == "nan" if wanted == "NaN" else found == wanted


PATHS: list[tuple[str, dict[str, Any], str, object]] = [
    ("$.numbers[1]", {"numbers": [4, 5]}, "INTEGER", 5),
    ("$.numbers[2]", {"numbers": [4, 5]}, "INTEGER", None),
    ("$.times[0]", {"times": ["2026-01-01T00:00:00Z"]}, "TIMESTAMP", 1_767_225_600_000),
    ("$.by_number[7]", {"by_number": {"7": "x"}}, "VARCHAR(5)", "x"),
    ("$.by_number[8]", {"by_number": {"7": "x"}}, "VARCHAR(5)", None),
    ("$.by_number[''-7'']", {"by_number": {"-7": "x"}}, "VARCHAR(5)", "x"),
    ("$.by_flag.true.city", {"by_flag": {"true": {"city": "Rome"}}}, "VARCHAR(5)", "Rome"),
    ("$.by_flag.false.city", {"by_flag": {"true": {"city": "Rome"}}}, "VARCHAR(5)", None),
    ("$.color_of.a", {"color_of": {"a": "RED"}}, "VARCHAR(5)", "RED"),
    ("$.struct.a[0].b", {"struct": {"a": [{"b": 1}]}}, "BIGINT", 1),
    ("$.struct.c", {"struct": {"a": 1}}, "BIGINT", None),
    ("$.list[1]", {"list": [1, "x"]}, "VARCHAR(5)", "x"),
    ("$.value.a", {"value": {"a": True}}, "BOOLEAN", True),
    ("$.at.seconds", {"at": "1970-01-01T00:00:07Z"}, "BIGINT", 7),
    ("$.w_int64.value", {"w_int64": 5}, "BIGINT", 5),
    ("$.tree.inside[0].inside[0].n", {"tree": {"inside": [{"inside": [{"n": 3}]}]}}, "INTEGER", 3),
    ("$.tree.inside[0].inside[0].n", {}, "INTEGER", None),
]


@pytest.mark.parametrize(("path", "fields", "kind", "wanted"), PATHS)
def test_a_path_selects_a_value(path: str, fields: dict[str, Any], kind: str, wanted: object) -> None:
    assert one(f"a {kind} OPTIONS (path '{path}')", **fields) == wanted


def test_the_whole_message_is_json() -> None:
    text = one(
        "m JSON OPTIONS (path '$')", "shop.Order", id=2**60, user={"name": "ann"}, items=[{"sku": "a"}]
    )
    assert text == (
        '{"id": 1152921504606846976, "user": {"name": "ann"}, "items": [{"sku": "a", "qty": 0}], "props": {}}'
    )


def test_the_entries_of_a_map_are_in_the_order_of_their_keys() -> None:
    numbers = {str(number): "x" for number in range(50, 0, -1)}
    wanted = {str(number): "x" for number in range(1, 51)}
    for name, given in (("by_number", numbers), ("struct", dict(sorted(numbers.items(), reverse=True)))):
        found = json.loads(one(f"{name} JSON", **{name: given}))
        assert list(found) == (list(wanted) if name == "by_number" else sorted(wanted))


def test_a_unit_and_a_pattern_of_a_column_are_those_of_other_formats() -> None:
    assert one("seconds TIMESTAMP OPTIONS (time_unit 's')", seconds=5) == 5000
    assert one("f_string DATE OPTIONS (pattern 'dd.MM.yyyy')", f_string="01.01.2026") == 20_454


@pytest.mark.parametrize(
    ("column", "fields", "wanted"),
    [
        (
            "f_uint64 BIGINT",
            {"f_uint64": 2**63},
            'field "F_UINT64": number 9223372036854775808 is not a valid',
        ),
        ("f_string VARCHAR(1)", {"f_string": "ab"}, "it has 2 characters"),
        ("f_string VARCHAR(9)", {"f_string": "a\0"}, "it has a NUL character"),
        ("f_bytes VARCHAR(9)", {"f_bytes": "AP8="}, "it is bytes"),
        ("f_bytes VARBINARY(1)", {"f_bytes": "AP8="}, "it has 2 bytes"),
        ("f_double DECIMAL(9, 2)", {"f_double": "Infinity"}, "it is not a finite number"),
        ("f_int32 VARCHAR(9)", {"f_int32": 1}, "number 1 is not a valid VARCHAR(9)"),
        ("numbers INTEGER", {"numbers": [1]}, "an array is not a valid INTEGER"),
        ("tree INTEGER", {"tree": {"n": 1}}, "an object is not a valid INTEGER"),
        ("lapse INTEGER", {"lapse": "1.5s"}, "it has a fractional part"),
        ("at TIME", {"at": "2026-01-01T00:00:00Z"}, "is not a valid TIME"),
        ("struct JSON", {"struct": {"a": 1}, "f_double": 0}, None),
        (
            "x BIGINT OPTIONS (path '$.struct.a.b')",
            {"struct": {"a": 1}},
            'field "X" ($.struct.a.b): $.a is number',
        ),
        ("x JSON OPTIONS (path '$')", {"f_double": "NaN"}, "a number in it is not finite"),
    ],
)
def test_what_a_column_cannot_hold_is_rejected_with_its_path(
    column: str, fields: dict[str, Any], wanted: str | None
) -> None:
    found = one(column, **fields)
    if wanted is None:
        assert found == '{"a": 1}'
    else:
        reason, text = found
        assert reason is Reason.TYPE
        assert wanted in text


def test_a_timestamp_out_of_range_is_rejected() -> None:
    for fields in ({"seconds": 10**12}, {"seconds": -(10**12)}, {"nanos": -1}, {"nanos": 10**9}):
        whole = message("shop.Everything")
        for name, value in fields.items():
            setattr(whole.at, name, value)
        for kind in ("TIMESTAMP", "DATE", "VARCHAR(40)", "JSON"):
            ((_, reason, text),) = outcome(by_file(f"at {kind}"), [whole.SerializeToString()])[1]
            assert reason is Reason.TYPE
            assert text.startswith('field "AT": an object is not a valid')


def test_a_field_that_is_not_set_is_null_if_it_has_presence_and_else_its_default() -> None:
    columns = (
        "f_int32 INTEGER, f_string VARCHAR(9), f_bool BOOLEAN, color VARCHAR(20), w_string VARCHAR(9), at TIMESTAMP, "
        "tree JSON, numbers JSON, struct JSON, by_number JSON"
    )
    assert outcome(by_file(columns), [b""])[0] == [
        (0, "", False, "COLOR_UNSPECIFIED", None, None, None, "[]", None, "{}")
    ]
    columns = "id BIGINT, note VARCHAR(9), card VARCHAR(9), voucher INTEGER"
    orders = [written("shop.Order", **fields) for fields in ({}, {"note": ""}, {"card": ""}, {"voucher": 0})]
    assert outcome(by_file(columns, "shop.Order"), orders)[0] == [
        (0, None, None, None),
        (0, "", None, None),
        (0, None, "", None),
        (0, None, None, 0),
    ]
    legacy = written("legacy.Event", id=1)
    assert outcome(by_file("kind VARCHAR(9), level VARCHAR(9)", "legacy.Event"), [legacy])[0] == [
        (None, None)
    ]
    ((_, reason, text),) = outcome(by_file("kind VARCHAR(9) NOT NULL", "legacy.Event"), [legacy])[1]
    assert (reason, text) == (Reason.MISSING_FIELD, 'field "KIND" is absent')


def test_messages_of_proto2_have_required_fields_groups_and_closed_enums() -> None:
    columns = "id BIGINT, level VARCHAR(9), n INTEGER OPTIONS (path '$.extra.n'), packed JSON"
    fine = written("legacy.Event", id=1, level="HIGH", extra={"n": 7}, packed=[-1, 2])
    unknown_level = fine + b"\x18\x63"
    rows, faults = outcome(by_file(columns, "legacy.Event"), [fine, unknown_level, b"", fine + b"\x22\x00"])
    # The last value of a field counts, and an unknown one of a closed enum is an unknown field.
    assert rows == [(1, "HIGH", 7, "[-1, 2]")] * 2
    assert faults == [
        (2, Reason.DECODE, "the message is not legacy.Event: required fields are missing: $.id"),
        (3, Reason.DECODE, "the message is not legacy.Event: required fields are missing: $.part[0].name"),
    ]


def test_text_of_proto2_that_is_not_utf_8_is_rejected() -> None:
    ((_, *found),) = outcome(by_file("kind VARCHAR(9)", "legacy.Event"), [b"\x08\x01\x12\x01\xff"])[1]
    assert found == [Reason.TYPE, 'field "KIND": text is not UTF-8']


def test_unknown_fields_are_ignored() -> None:
    newer = written("shop.Order", id=1) + b"\xca\x3e\x03abc"
    assert outcome(by_file("id BIGINT", "shop.Order"), [newer])[0] == [(1,)]


@pytest.mark.parametrize(
    ("damaged", "wanted"),
    [
        (b"\x08", "$.id at byte 1: a number is cut off"),
        (b"\x08" + b"\xff" * 11, "a number has more than 10 bytes"),
        (b"\x12\x02\xff\xff", "$.note at byte 2: text is not UTF-8"),
        (b"\x1a\x04\x12\x02\x0a\x09", "$.user.address.city at byte 5: 9 bytes are announced, and 0 are left"),
        (b"\x22\x00\x22\x02\x0a\x05", "$.items[1].sku at byte 5: 5 bytes are announced"),
        (b"\x2a\x03\x0a\x01\xff", "$.props.key at byte 4: text is not UTF-8"),
        (b"\x00\x01", "$ at byte 0: invalid tag of a field"),
        (b"\x0e", "$ at byte 0: invalid tag of a field"),
        (b"\x0c", "$ at byte 0: the end of a group that did not begin"),
        (b"\x7b\x08\x01", "the message ends within a group"),
        (b'{"id": 1}', "the message is not shop.Order: $"),
        (b"\x0d\x01\x02", "$.id at byte 1: 4 bytes are announced, and 2 are left"),
    ],
)
def test_an_error_names_the_place_in_a_damaged_message(damaged: bytes, wanted: str) -> None:
    ((_, reason, text),) = outcome(by_file("id BIGINT", "shop.Order"), [damaged])[1]
    assert reason is Reason.DECODE
    assert wanted in text


def test_messages_nested_too_deeply_are_rejected() -> None:
    deep = b""
    for _ in range(200):
        size, rest = bytearray(), len(deep)
        while rest >= 0x80:
            size.append(rest & 0x7F | 0x80)
            rest >>= 7
        deep = b"\x12" + bytes((*size, rest)) + deep
    ((_, reason, text),) = outcome(by_file("n INTEGER", "shop.Tree"), [deep])[1]
    assert reason is Reason.DECODE
    assert "it is nested more than 100 deep" in text


@pytest.mark.parametrize(
    ("columns", "options", "wanted", "hint"),
    [
        ("id BIGINT", {}, "Protobuf needs descriptors or a Schema Registry", "descriptor '/etc"),
        ("id BIGINT", {"descriptor": "/none.desc"}, "cannot be read: No such file", "protoc"),
        ("id BIGINT", {"descriptor": str(Path(__file__))}, "not a descriptor set", "protoc"),
        ("id BIGINT", {"descriptor_base64": "%"}, "it is not base64", "protoc"),
        ("id BIGINT", {"descriptor_base64": ""}, "it has no file", "protoc"),
        ("id BIGINT", {"descriptor": str(FILE)}, "the name of the message is missing", "shop.Order"),
        (
            "id BIGINT",
            {"descriptor": str(FILE), "message": "shop.Ordr"},
            'message "shop.Ordr" does not exist',
            "shop.Order",
        ),
        ("id BIGINT", {"descriptor": str(FILE), "descriptor_base64": ""}, "is given too", "one of them"),
        (
            "idd BIGINT",
            {"descriptor": str(FILE), "message": "shop.Order"},
            'has no field "idd" for column "IDD"',
            "id",
        ),
        (
            "a BIGINT OPTIONS (path '$.user.nam')",
            {"descriptor": str(FILE), "message": "shop.Order"},
            'has no field "user.nam"',
            "name",
        ),
        (
            "a BIGINT OPTIONS (path '$.id.x')",
            {"descriptor": str(FILE), "message": "shop.Order"},
            '$.id is not a message, so it has no field "x"',
            None,
        ),
        (
            "a BIGINT OPTIONS (path '$.items.sku')",
            {"descriptor": str(FILE), "message": "shop.Order"},
            '$.items is repeated, so it has no field "sku"',
            None,
        ),
        (
            "a BIGINT OPTIONS (path '$.props[0]')",
            {"descriptor": str(FILE), "message": "shop.Order"},
            "$.props is a map, so it has no element [0]",
            None,
        ),
        *(
            (
                f"a VARCHAR(9) OPTIONS (path '$.{path}')",
                {"descriptor": str(FILE), "message": "shop.Everything"},
                f"$.{path.partition('.')[0].partition('[')[0]} is a map, so it has no",
                None,
            )
            for path in (
                "by_number[''99999999999'']",
                "by_number[''--1'']",
                "by_number.x",
                "by_flag.maybe",
                "by_flag[1]",
            )
        ),
        (
            "a BIGINT OPTIONS (path '$.user[0]')",
            {"descriptor": str(FILE), "message": "shop.Order"},
            "$.user is shop.User, not repeated, so it has no element [0]",
            None,
        ),
        ("id BIGINT", {"schema": "x"}, "format PROTOBUF does not take it", "descriptor"),
    ],
)
def test_a_wrong_declaration_says_what_to_write(
    columns: str, options: dict[str, str], wanted: str, hint: str | None
) -> None:
    with pytest.raises(StatementError) as caught:
        decoder(columns, **options)
    assert wanted in caught.value.message
    assert hint is None or hint in (caught.value.hint or "")


def test_without_its_package_the_format_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(
        "rowtide.codec.registry.find_spec", lambda name: None if "google" in name else found(name)
    )
    with pytest.raises(StatementError, match="needs the package protobuf") as caught:
        by_file("id BIGINT", "shop.Order")
    assert "pip install 'rowtide[protobuf]'" in (caught.value.hint or "")


FULL: dict[str, Any] = {name: value for name, value, _, _ in SCALARS if value not in ([], None, {})}
EVERY_COLUMN = ", ".join(
    [f"c{at} {kind} OPTIONS (path '$.{name}')" for at, (name, _, kind, _) in enumerate(SCALARS)]
    + [f"p{at} {kind} OPTIONS (path '{path}')" for at, (path, _, kind, _) in enumerate(PATHS)]
    + ["whole JSON OPTIONS (path '$')"]
)


@pytest.mark.parametrize("seed", range(2))
def test_damaged_messages_stop_nothing(
    registry: FakeRegistry, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    def foreseen(error: Exception, reason: Reason) -> RejectedRowError:
        assert isinstance(error, RejectedRowError), f"unforeseen: {error!r}"
        return error

    monkeypatch.setattr("rowtide.codec.rowwise.rejection_of", foreseen)
    number = register(registry, "t-value")
    wholes = [
        written("shop.Everything", **FULL),
        *(written("shop.Everything", **each) for _, each, _, _ in PATHS),
    ]
    chance, messages = random.Random(seed), []
    for at in range(5000):
        damaged = bytearray(headed(number, wholes[at % len(wholes)], [2]))
        for _ in range(chance.randint(1, 3)):
            place = chance.randrange(5, len(damaged))
            if chance.random() < 0.7:
                damaged[place] = chance.randrange(256)
            else:
                del damaged[place : place + chance.randint(1, 5)]
                damaged += b"x"
        messages.append(bytes(damaged))
    decoded = decoder(EVERY_COLUMN, registry_url=registry.url).decode(messages)
    places = sorted([*decoded.accepted.tolist(), *(fault.index for fault in decoded.faults)])
    assert places == list(range(len(messages)))
    assert len(decoded.accepted)
    reasons = {fault.reason for fault in decoded.faults}
    assert reasons == {Reason.DECODE, Reason.TYPE}
    assert not [each for each in decoded.faults if "cannot be parsed" in each.message]
