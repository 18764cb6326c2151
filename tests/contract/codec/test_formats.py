"""Every format of Rowtide passes the contract suite of formats."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from decimal import Decimal

import bson
import pytest

from rowtide.codec.registry import FORMATS
from rowtide.errors import Reason
from rowtide.testing.contracts import FormatCase, FormatContract
from rowtide.testing.contracts.format import check_mutations
from support import protobuf
from support.registry import FakeRegistry, written

COLUMNS = "name VARCHAR(8) NOT NULL, amount DECIMAL(9, 2), seen TIMESTAMP"
ROWS = (("ann", Decimal("12.50"), 1_700_000_000_000), ("größe", Decimal("-0.01"), 0), ("", None, None))
RECORD = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "name", "type": "string"},
        {"name": "amount", "type": ["null", "string"], "default": None},
        {"name": "seen", "type": ["null", "string"], "default": None},
        {"name": "next", "type": ["null", "Order"], "default": None},
    ],
}
TEXTS = (("12.50", "2023-11-14 22:13:20"), ("-0.01", "1970-01-01 00:00:00"), (None, None))
"""Amounts and times of the rows, as messages have them."""
KEYED = "id INTEGER PRIMARY KEY, name VARCHAR(8)"
UNMOVED = (None, None, None)
"""Rows of Debezium also name the columns that stay as they are, and have the row before a move: here none."""


def json_case(_: FakeRegistry) -> FormatCase:
    return FormatCase(
        "JSON",
        COLUMNS,
        good={
            json.dumps({"name": row[0], "amount": amount, "seen": seen}, ensure_ascii=False).encode(): row
            for row, (amount, seen) in zip(ROWS, TEXTS, strict=True)
        }
        | {b'{"seen":null,"other":[1,{}],"name":"bob"}': ("bob", None, None)},
        bad={
            b"": Reason.DECODE,
            b'{"name":"ann"': Reason.DECODE,
            b"[]": Reason.DECODE,
            b"\xff{}": Reason.DECODE,
            b'{"amount":1}': Reason.MISSING_FIELD,
            b'{"name":"longer than 8"}': Reason.TYPE,
            b'{"name":"ann","amount":"much"}': Reason.TYPE,
            b'{"name":"ann","seen":"2024-02-30 00:00:00"}': Reason.TYPE,
        },
        nested=lambda depth: b'{"name":"ann","other":' + b'{"a":[' * depth + b"]}" * depth + b"}",
    )


def csv_case(_: FakeRegistry) -> FormatCase:
    return FormatCase(
        "CSV",
        COLUMNS,
        good={
            b"ann,12.50,2023-11-14 22:13:20\r\n": ROWS[0],
            'größe,-0.01,"1970-01-01 00:00:00"'.encode(): ROWS[1],
            b'"",,': ROWS[2],
            b'"a,""b""",1,': ('a,"b"', Decimal("1.00"), None),
        },
        bad={
            b"": Reason.DECODE,
            b"ann,1": Reason.DECODE,
            b'"ann,1,': Reason.DECODE,
            b"\xff,1,": Reason.DECODE,
            b",1,": Reason.MISSING_FIELD,
            b"ann,much,": Reason.TYPE,
        },
    )


def key_value_case(_: FakeRegistry) -> FormatCase:
    return FormatCase(
        "KEY_VALUE",
        COLUMNS,
        good={
            b"name=ann,amount=12.50,seen=2023-11-14 22:13:20\r\n": ROWS[0],
            'NAME = "größe" , amount=-0.01,,seen="1970-01-01 00:00:00",'.encode(): ROWS[1],
            b'name="",amount=,other=x=y': ROWS[2],
            b'name=bob,"name"="a,""b"""': ('a,"b"', None, None),
        },
        bad={
            b"ann": Reason.DECODE,
            b'name="ann': Reason.DECODE,
            b'name=a"b': Reason.DECODE,
            b"name=\xff": Reason.DECODE,
            b"": Reason.MISSING_FIELD,
            b"name=": Reason.MISSING_FIELD,
            b"name=ann,amount=much": Reason.TYPE,
            b"name=longer than 8": Reason.TYPE,
        },
    )


def bson_case(_: FakeRegistry) -> FormatCase:
    def message(name: str, amount: object = None, seen: object = None, **others: object) -> bytes:
        return bson.encode({"name": name, "amount": amount, "meta": {"seen": seen}, **others})

    return FormatCase(
        "BSON",
        COLUMNS.replace("seen TIMESTAMP", "seen TIMESTAMP OPTIONS (path '$.meta.seen')"),
        good={
            message(
                "ann", bson.Decimal128("12.50"), bson.DatetimeMS(1_700_000_000_000), _id=bson.ObjectId()
            ): ROWS[0],
            message("größe", -0.01, 0): ROWS[1],
            bson.encode({"NAME": "", "other": [1, {}]}): ROWS[2],
        },
        bad={
            b"": Reason.DECODE,
            message("ann")[:-1]: Reason.DECODE,
            message("ann") + b"\0": Reason.DECODE,
            message("ann").replace(b"ann", b"\xffnn"): Reason.DECODE,
            bson.encode({"amount": 1}): Reason.MISSING_FIELD,
            message("longer than 8"): Reason.TYPE,
            message("ann", "much"): Reason.TYPE,
            message("ann", bson.Decimal128("NaN")): Reason.TYPE,
            message("ann", 1, bson.DatetimeMS(1 << 60)): Reason.TYPE,
            message("ann", 1, bson.ObjectId()): Reason.TYPE,
        },
        nested=nested_bson,
    )


def nested_bson(depth: int) -> bytes:
    """Return documents within each other; each begins with the number of its bytes."""
    sizes = (5 + 8 * (depth - at) for at in range(depth))
    return b"".join(struct.pack("<i3s", size, b"\x03a\0") for size in sizes) + b"\x05" + bytes(4 + depth)


def xml_case(_: FakeRegistry) -> FormatCase:
    return FormatCase(
        "XML",
        COLUMNS.replace("seen TIMESTAMP", "seen TIMESTAMP OPTIONS (path 'meta/@seen')"),
        good={
            b'<?xml version="1.0"?>\n<order><name>ann</name><amount> 12.50 </amount>'
            b'<meta seen="2023-11-14 22:13:20"/></order>': ROWS[0],
            (
                '<o xmlns="urn:o" NAME="größe"><amount>-0.01</amount><meta seen="1970-01-01T00:00:00Z"/></o>'
            ).encode(): ROWS[1],
            b"<o><name/><amount/><other>1</other><other><name>x</name></other></o>": ROWS[2],
            "<?xml version='1.0' encoding='utf-16'?><o><name><![CDATA[<b>]]></name></o>".encode("utf-16"): (
                "<b>",
                None,
                None,
            ),
        },
        bad={
            b"": Reason.DECODE,
            b"<o><name>ann</name>": Reason.DECODE,
            b"<o><name>\xff</name></o>": Reason.DECODE,
            b"<!DOCTYPE o [<!ENTITY e 'ann'>]><o><name>&e;</name></o>": Reason.DECODE,
            b"<o><amount>1</amount></o>": Reason.MISSING_FIELD,
            b"<o><name>longer than 8</name></o>": Reason.TYPE,
            b"<o><name>ann</name><amount>much</amount></o>": Reason.TYPE,
            b"<o><name>ann</name><name>bob</name></o>": Reason.TYPE,
            b"<o><name>ann</name><meta seen='2024-02-30 00:00:00'/></o>": Reason.TYPE,
        },
        nested=lambda depth: b"<o><name>" + b"<a>" * depth + b"</a>" * depth + b"</name></o>",
    )


def raw_case(_: FakeRegistry) -> FormatCase:
    return FormatCase(
        "RAW",
        "message VARCHAR(8)",
        good={b"one": ("one",), b"": ("",), "größe".encode(): ("größe",)},
        bad={b"\xff": Reason.DECODE, b"longer than 8": Reason.TYPE, b"a\0b": Reason.TYPE},
    )


def avro_case(registry: FakeRegistry) -> FormatCase:
    number = registry.register("orders", RECORD)
    records = [
        {"name": row[0], "amount": amount, "seen": seen}
        for row, (amount, seen) in zip(ROWS, TEXTS, strict=True)
    ]
    good = {written(RECORD, record, number): row for record, row in zip(records, ROWS, strict=True)}
    first = next(iter(good))
    return FormatCase(
        "AVRO",
        COLUMNS,
        good=good,
        bad={
            b"": Reason.DECODE,
            first[:-3]: Reason.DECODE,
            b"\x01" + first[1:]: Reason.DECODE,
            written(RECORD, records[0] | {"name": "longer than 8"}, number): Reason.TYPE,
            written(RECORD, records[0] | {"amount": "much"}, number): Reason.TYPE,
        },
        options={"registry_url": registry.url},
        nested=lambda depth: first[:5] + b"\x02a\0\0\x02" * depth + b"\x02a\0\0\0",
    )


def protobuf_case(_: FakeRegistry) -> FormatCase:
    def message(text: str, amount: str | None, seen: str | None) -> bytes:
        fields = {"w_string": amount, "at": None if seen is None else f"{seen.replace(' ', 'T')}Z"}
        given = {name: value for name, value in fields.items() if value is not None}
        return protobuf.written("shop.Everything", f_string=text, **given)

    first = message(str(ROWS[0][0]), *TEXTS[0])
    return FormatCase(
        "PROTOBUF",
        "f_string VARCHAR(8) NOT NULL, amount DECIMAL(9, 2) OPTIONS (path '$.w_string'), at TIMESTAMP",
        good={message(str(row[0]), *texts): row for row, texts in zip(ROWS, TEXTS, strict=True)},
        bad={
            b"\xff": Reason.DECODE,
            first[:-1]: Reason.DECODE,
            first.replace(b"ann", b"\xffnn"): Reason.DECODE,
            message("longer than 8", None, None): Reason.TYPE,
            message("ann", "much", None): Reason.TYPE,
        },
        options={"descriptor": str(protobuf.FILE), "message": "shop.Everything"},
        nested=lambda depth: message("ann", None, None) + nested_trees(depth),
    )


def varint(number: int) -> bytes:
    """Return a number in seven bits a byte, the lowest first."""
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


def nested_trees(depth: int) -> bytes:
    """Return the field ``tree`` with trees within each other; each begins with the number of its bytes."""
    parts: list[bytes] = []
    size = 0
    for at in range(depth + 1):
        tag = b"\x92\x02" if at == depth else b"\x12"
        parts.append(tag + varint(size))
        size += len(parts[-1])
    return b"".join(reversed(parts))


def debezium_json_case(_: FakeRegistry) -> FormatCase:
    return FormatCase(
        "DEBEZIUM_JSON",
        KEYED,
        good={
            b'{"op":"c","before":null,"after":{"id":1,"name":"ann"}}': (1, "ann", *UNMOVED),
            b'{"payload":{"op":"u","after":{"id":2,"name":null}},"schema":{}}': (2, None, *UNMOVED),
        },
        bad={
            b"": Reason.DECODE,
            b"{}": Reason.DECODE,
            b'{"op":"c","after":{"name":"ann"}}': Reason.MISSING_FIELD,
            b'{"op":"c","after":{"id":1,"name":"longer than 8"}}': Reason.TYPE,
        },
        written=False,
        nested=lambda depth: b'{"op":"c","after":{"id":1,"name":' + b'{"a":[' * depth + b"]}" * depth + b"}}",
    )


def debezium_avro_case(registry: FakeRegistry) -> FormatCase:
    value = {
        "type": "record",
        "name": "Value",
        "fields": [
            {"name": "id", "type": "int"},
            {"name": "name", "type": ["null", "string"]},
            {"name": "next", "type": ["null", "Value"], "default": None},
        ],
    }
    envelope = {
        "type": "record",
        "name": "Envelope",
        "fields": [
            {"name": "before", "type": ["null", value], "default": None},
            {"name": "after", "type": ["null", "Value"], "default": None},
            {"name": "op", "type": "string"},
        ],
    }
    number = registry.register("changes", envelope)

    def change(**after: object) -> bytes:
        return written(envelope, {"op": "c", "before": None, "after": after}, number)

    return FormatCase(
        "DEBEZIUM_AVRO",
        KEYED,
        good={change(id=1, name="ann"): (1, "ann", *UNMOVED), change(id=2, name=None): (2, None, *UNMOVED)},
        bad={b"": Reason.DECODE, change(id=1, name="longer than 8"): Reason.TYPE},
        options={"registry_url": registry.url},
        written=False,
        nested=lambda depth: change(id=1)[:5] + b"\0\x02" + b"\x02\0\x02" * depth + b"\x02\0\0\x02c",
    )


CASES: dict[str, Callable[[FakeRegistry], FormatCase]] = {
    "JSON": json_case,
    "CSV": csv_case,
    "KEY_VALUE": key_value_case,
    "BSON": bson_case,
    "XML": xml_case,
    "RAW": raw_case,
    "AVRO": avro_case,
    "PROTOBUF": protobuf_case,
    "DEBEZIUM_JSON": debezium_json_case,
    "DEBEZIUM_AVRO": debezium_avro_case,
}


PLACES = {"AVRO": "a fake Schema Registry over HTTP", "DEBEZIUM_AVRO": "a fake Schema Registry over HTTP"}
"""What formats are tested with, besides the messages."""


class TestFormats(FormatContract):
    @pytest.fixture(
        params=[
            pytest.param(
                name, marks=pytest.mark.covers(name, "format", PLACES.get(name, "messages in the test"))
            )
            for name in CASES
        ]
    )
    def case(self, request: pytest.FixtureRequest, registry: FakeRegistry) -> FormatCase:
        return CASES[request.param](registry)

    @pytest.mark.long
    def test_no_message_of_a_million_stops_a_decoder(self, case: FormatCase) -> None:
        for seed in range(100):
            check_mutations(case, seed, 10_000)


FLAT = {"CSV", "KEY_VALUE", "RAW"}
"""The formats whose values have none within them."""


def test_every_format_has_a_case_and_nests_values_if_it_can(registry: FakeRegistry) -> None:
    assert CASES.keys() == FORMATS.keys()
    assert {name for name, case in CASES.items() if case(registry).nested is None} == FLAT
