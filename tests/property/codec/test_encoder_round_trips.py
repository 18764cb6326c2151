"""What an encoder writes, the decoder of the same declaration reads back: every value of every type."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from decimal import Decimal
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rowtide.codec.message import MessageEncoder
from rowtide.codec.options import FormatOptionError
from rowtide.codec.registry import decoder_for, decoder_of
from rowtide.errors import Reason, RejectedRowError
from rowtide.plan.plan import ForeignStream
from rowtide.rows.arrays_as_text import as_element
from rowtide.rows.column import Column
from rowtide.rows.rowop import Opcode
from rowtide.rows.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INSTANT,
    INTEGER,
    JSON,
    MAX_TIMESTAMP_MS,
    MIN_TIMESTAMP_MS,
    TIME,
    TIMESTAMP,
    UUID,
    VARCHAR,
    Field,
    Kind,
    RowType,
    Type,
    array_of,
    decimal,
)
from support.protobuf import FILE, message
from support.registry import FakeRegistry

DAY_MS = 86_400_000
TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8)
REALS = st.floats(width=32, allow_nan=False, allow_infinity=False)
DOCUMENTS = st.one_of(
    st.dictionaries(
        TEXTS, st.none() | st.integers() | TEXTS | st.lists(st.booleans(), max_size=2), max_size=3
    ),
    st.lists(TEXTS | REALS, max_size=3),
    TEXTS,
    st.integers(),
).map(lambda value: json.dumps(value, ensure_ascii=False))
VALUES: list[tuple[Type, st.SearchStrategy[Any]]] = [
    (BOOLEAN, st.booleans()),
    (Type(Kind.TINYINT), st.integers(-128, 127)),
    (Type(Kind.SMALLINT), st.integers(-(2**15), 2**15 - 1)),
    (INTEGER, st.integers(-(2**31), 2**31 - 1)),
    (BIGINT, st.integers(-(2**63), 2**63 - 1)),
    (DOUBLE, st.floats(allow_nan=False, allow_infinity=False)),
    (Type(Kind.REAL), REALS),
    (decimal(9, 2), st.decimals(-9_999_999, 9_999_999, places=2)),
    (decimal(38, 10), st.decimals(-(10**27), 10**27, places=10)),
    (VARCHAR, TEXTS),
    (UUID, st.uuids().map(str)),
    (JSON, DOCUMENTS),
    (DATE, st.integers(MIN_TIMESTAMP_MS // DAY_MS, MAX_TIMESTAMP_MS // DAY_MS)),
    (TIME, st.integers(0, DAY_MS - 1)),
    (TIMESTAMP, st.integers(MIN_TIMESTAMP_MS, MAX_TIMESTAMP_MS)),
    (INSTANT, st.integers(MIN_TIMESTAMP_MS, MAX_TIMESTAMP_MS)),
]
BYTES = (Type(Kind.VARBINARY), st.binary(max_size=8))


def arrays(kind: Type, values: st.SearchStrategy[Any]) -> tuple[Type, st.SearchStrategy[Any]]:
    return array_of(kind), st.lists(st.none() | values.map(as_element), max_size=3).map(tuple)


ARRAYS = [arrays(kind, values) for kind, values in VALUES if kind.can_be_element]
NOT_WRITTEN = {Kind.INTERVAL_DAY, Kind.INTERVAL_MONTH}
PADDED = {Kind.CHAR, Kind.BINARY}
"""Written as VARCHAR and VARBINARY are."""


def test_every_kind_is_drawn() -> None:
    assert {kind.kind for kind, _ in [*VALUES, *ARRAYS, BYTES]} == set(Kind) - NOT_WRITTEN - PADDED


def stream(
    row_type: RowType, columns: dict[str, dict[str, str]] | None = None, **options: str
) -> ForeignStream:
    own = tuple((name, tuple(given.items())) for name, given in (columns or {}).items())
    return ForeignStream("S", row_type, "K", tuple(options.items()), column_options=own)


def read_back(declared: ForeignStream, rows: Sequence[Sequence[Any]]) -> list[tuple[object, ...]]:
    """Encode rows and decode their values; nothing may be rejected."""
    encoder, decoder = MessageEncoder(declared), decoder_of(declared)
    encoder.prepare()
    decoded = decoder.decode([encoder.encode(row).value for row in rows])
    assert decoded.faults == ()
    return list(zip(*(column.to_list() for column in decoded.columns), strict=True))


def stored(row_type: RowType, rows: Sequence[Sequence[Any]]) -> list[tuple[object, ...]]:
    """Return rows as columns of these types hold them."""
    columns = [Column.from_values(field.type, [row[at] for row in rows]) for at, field in enumerate(row_type)]
    return list(zip(*(column.to_list() for column in columns), strict=True))


def row_types(kinds: Sequence[tuple[Type, st.SearchStrategy[Any]]]) -> tuple[RowType, st.SearchStrategy[Any]]:
    row_type = RowType(tuple(Field(f"C{at}", kind) for at, (kind, _) in enumerate(kinds)))
    return row_type, st.lists(st.tuples(*(st.none() | values for _, values in kinds)), min_size=1, max_size=4)


JSON_TYPE, JSON_ROWS = row_types([*VALUES, *ARRAYS, BYTES, arrays(*BYTES)])
CSV_TYPE, CSV_ROWS = row_types([*VALUES, *ARRAYS])


@given(JSON_ROWS)
def test_json_reads_back_what_was_written(rows: list[tuple[Any, ...]]) -> None:
    assert read_back(stream(JSON_TYPE, format="JSON"), rows) == stored(JSON_TYPE, rows)


@given(CSV_ROWS)
def test_csv_reads_back_what_was_written(rows: list[tuple[Any, ...]]) -> None:
    assert read_back(stream(CSV_TYPE, format="CSV"), rows) == stored(CSV_TYPE, rows)


@given(CSV_ROWS)
def test_pairs_read_back_what_was_written(rows: list[tuple[Any, ...]]) -> None:
    assert read_back(stream(CSV_TYPE, format="KEY_VALUE"), rows) == stored(CSV_TYPE, rows)


BSON_TYPE, BSON_ROWS = row_types(
    [
        *(each for each in VALUES if each[0] not in (JSON, decimal(38, 10))),
        BYTES,
        (DOUBLE, st.floats(allow_nan=False)),
        (decimal(34, 10), st.decimals(-(10**23), 10**23, places=10)),
        (
            JSON,
            st.dictionaries(TEXTS, st.none() | st.integers(-(2**63), 2**63 - 1) | TEXTS | REALS).map(
                json.dumps
            ),
        ),
    ]
)


@given(BSON_ROWS)
def test_bson_reads_back_what_was_written(rows: list[tuple[Any, ...]]) -> None:
    declared = stream(BSON_TYPE, {"C1": {"path": "$.a.b"}, "C2": {"path": "$.a.c"}}, format="BSON")
    found = read_back(declared, rows)
    assert [row[:-1] for row in found] == [row[:-1] for row in stored(BSON_TYPE, rows)]
    documents = [[row[-1] and json.loads(str(row[-1])) for row in each] for each in (found, rows)]
    assert documents[0] == documents[1]


XML_TEXTS = st.text(
    st.characters(
        exclude_categories=["Cs", "Cc"], include_characters="\t\n\r<&", exclude_characters="\ufffe\uffff"
    ),
    max_size=8,
)
XML_TYPE, XML_ROWS = row_types(
    [
        *(each for each in VALUES if each[0] not in (VARCHAR, JSON)),
        BYTES,
        *[(VARCHAR, XML_TEXTS)] * 3,
        (JSON, XML_TEXTS.map(json.dumps)),
    ]
)


@given(XML_ROWS, st.booleans())
def test_xml_reads_back_what_was_written(rows: list[tuple[Any, ...]], in_attributes: bool) -> None:
    at = "@{}" if in_attributes else "a/{}/text"
    columns = {name: {"path": at.format(name)} for name in XML_TYPE.names[::2]}
    columns[XML_TYPE.names[1]] = {"path": "o:b"}
    columns[XML_TYPE.names[3]] = {"path": "o:b/@o:c"}
    declared = stream(XML_TYPE, columns, format="XML", namespaces="o=urn:o", root_element="o:row")
    assert read_back(declared, rows) == stored(XML_TYPE, rows)


MARKS = st.text(st.sampled_from("&-=>:;, \"'~\t\n\rab"), max_size=6)


@given(
    st.tuples(MARKS, MARKS).filter(lambda names: len({each.strip(" \t").lower() for each in names}) == 2),
    st.lists(st.tuples(MARKS, st.none() | MARKS), min_size=1, max_size=3),
    st.sampled_from([",", " ", "; ", "\\t", "\\n", "&&"]),
    st.sampled_from(["=", ":", "-->"]),
    st.sampled_from("\"'~"),
)
def test_pairs_of_any_notation_read_back(
    names: tuple[str, str], rows: list[tuple[Any, ...]], pairs: str, keys: str, quote: str
) -> None:
    row_type = RowType(tuple(Field(name, VARCHAR) for name in names))
    declared = stream(row_type, format="KEY_VALUE", pair_separator=pairs, key_separator=keys, quote=quote)
    assert read_back(declared, rows) == stored(row_type, rows)


CSV_MARKS = st.text(st.sampled_from("\\N,;|| \"'~\t\n\rab"), max_size=6)


@given(
    st.lists(st.tuples(CSV_MARKS, st.none() | CSV_MARKS, st.none() | CSV_MARKS), min_size=1, max_size=3),
    st.sampled_from([",", ";", "\\t", "|", "||", ";,", " "]),
    st.sampled_from(['"', "'", "~", ""]),
    st.sampled_from(["", "\\", "~"]),
    st.sampled_from(["", "N", "\\N", "~~"]),
    st.booleans(),
    st.sampled_from([{}, {"header": "true"}, {"fields": "c, A,b"}]),
    st.sampled_from(["UTF-8", "UTF-16", "ISO-8859-1"]),
)
@settings(max_examples=400)
def test_csv_of_any_notation_reads_back(
    rows: list[tuple[Any, ...]],
    separator: str,
    quote: str,
    escape: str,
    null_text: str,
    trim: bool,
    order: dict[str, str],
    encoding: str,
) -> None:
    row_type = RowType(tuple(Field(name, VARCHAR) for name in "ABC"))
    declared = stream(
        row_type,
        None,
        format="CSV",
        separator=separator,
        quote=quote,
        escape=escape,
        null_text=null_text,
        trim=str(trim).lower(),
        character_encoding=encoding,
        **order,
    )
    try:
        encoder, decoder = MessageEncoder(declared), decoder_of(declared)
    except FormatOptionError:
        # Marks that cannot be told apart.
        assert (quote and quote == escape) or (quote and quote in null_text)
        return
    for row in rows:
        try:
            message = encoder.encode(row).value
        except RejectedRowError:
            assert not quote
            continue
        decoded = decoder.decode([message])
        assert decoded.faults == ()
        assert tuple(column.to_list()[0] for column in decoded.columns) == row


@given(TEXTS | st.just(""), st.binary(max_size=20))
def test_raw_reads_back_what_was_written(text: str, content: bytes) -> None:
    of_text, of_bytes = (RowType((Field("LINE", kind),)) for kind in (VARCHAR, BYTES[0]))
    assert read_back(stream(of_text, format="RAW"), [(text,)]) == [(text,)]
    assert read_back(stream(of_bytes, format="RAW"), [(content,)]) == [(content,)]


AVRO_TYPE, AVRO_ROWS = row_types(
    [*VALUES, *ARRAYS, BYTES, arrays(*BYTES), (DOUBLE, st.floats(allow_nan=False))]
)
PROTOBUF_TYPE, PROTOBUF_ROWS = row_types([*VALUES, BYTES, (DOUBLE, st.floats(allow_nan=False))])
REPEATED = [*ARRAYS, arrays(*BYTES)]
REPEATED_TYPE = RowType(tuple(Field(f"C{at}", kind) for at, (kind, _) in enumerate(REPEATED)))
REPEATED_ROWS = st.lists(
    st.tuples(
        *(
            values.map(lambda array: tuple(each for each in array if each is not None))
            for _, values in REPEATED
        )
    ),
    min_size=1,
    max_size=4,
)


@pytest.fixture(scope="module")
def registry() -> Iterator[FakeRegistry]:
    with FakeRegistry() as found:
        yield found


@given(AVRO_ROWS)
def test_avro_reads_back_what_was_written(registry: FakeRegistry, rows: list[tuple[Any, ...]]) -> None:
    declared = stream(AVRO_TYPE, format="AVRO", topic="t", subject="all", registry_url=registry.url)
    assert read_back(declared, rows) == stored(AVRO_TYPE, rows)


@given(PROTOBUF_ROWS)
def test_protobuf_reads_back_what_was_written(registry: FakeRegistry, rows: list[tuple[Any, ...]]) -> None:
    declared = stream(PROTOBUF_TYPE, format="PROTOBUF", topic="t", subject="proto", registry_url=registry.url)
    assert read_back(declared, rows) == stored(PROTOBUF_TYPE, rows)


@given(REPEATED_ROWS)
def test_protobuf_reads_back_repeated_fields(registry: FakeRegistry, rows: list[tuple[Any, ...]]) -> None:
    declared = stream(
        REPEATED_TYPE, format="PROTOBUF", topic="t", subject="repeated", registry_url=registry.url
    )
    assert read_back(declared, rows) == stored(REPEATED_TYPE, rows)


def test_protobuf_refuses_a_null_element_and_reads_a_null_array_as_an_empty_one(
    registry: FakeRegistry,
) -> None:
    row_type = RowType((Field("A", array_of(INTEGER)),))
    declared = stream(row_type, format="PROTOBUF", topic="t", subject="nulls", registry_url=registry.url)
    assert read_back(declared, [(None,), ((),), ((1, 2),)]) == [((),), ((),), ((1, 2),)]
    encoder = MessageEncoder(declared)
    encoder.prepare()
    with pytest.raises(RejectedRowError, match='column "A" has a NULL element'):
        encoder.encode([(1, None)])


def objects(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.dictionaries(TEXTS, values).map(partial(json.dumps, ensure_ascii=False, sort_keys=True))


OWN_FIELDS: list[tuple[str, Type, st.SearchStrategy[Any]]] = [
    ("f_double", DOUBLE, st.floats(allow_nan=False)),
    ("f_double", INTEGER, st.integers(-(2**31), 2**31 - 1)),
    ("f_float", Type(Kind.REAL), REALS),
    ("f_int32", INTEGER, st.integers(-(2**31), 2**31 - 1)),
    ("f_sint32", Type(Kind.SMALLINT), st.integers(-(2**15), 2**15 - 1)),
    ("f_sfixed32", INTEGER, st.integers(-(2**31), 2**31 - 1)),
    ("f_int64", BIGINT, st.integers(-(2**63), 2**63 - 1)),
    ("f_sint64", BIGINT, st.integers(-(2**63), 2**63 - 1)),
    ("f_sfixed64", decimal(18, 0), st.integers(-(10**17), 10**17).map(Decimal)),
    ("f_uint32", BIGINT, st.integers(0, 2**32 - 1)),
    ("f_fixed32", BIGINT, st.integers(0, 2**32 - 1)),
    ("f_uint64", decimal(20, 0), st.integers(0, 2**64 - 1).map(Decimal)),
    ("f_fixed64", BIGINT, st.integers(0, 2**63 - 1)),
    ("f_bool", BOOLEAN, st.booleans()),
    ("f_string", VARCHAR, TEXTS),
    ("f_string", DATE, st.integers(MIN_TIMESTAMP_MS // DAY_MS, MAX_TIMESTAMP_MS // DAY_MS)),
    ("f_bytes", BYTES[0], BYTES[1]),
    ("color", VARCHAR, st.sampled_from(["COLOR_UNSPECIFIED", "RED", "BLUE"])),
    ("color", INTEGER, st.integers(0, 2)),
    ("at", TIMESTAMP, st.none() | st.integers(MIN_TIMESTAMP_MS, MAX_TIMESTAMP_MS)),
    ("at", INSTANT, st.none() | st.integers(MIN_TIMESTAMP_MS, MAX_TIMESTAMP_MS)),
    ("at", DATE, st.none() | st.integers(MIN_TIMESTAMP_MS // DAY_MS, MAX_TIMESTAMP_MS // DAY_MS)),
    ("lapse", decimal(12, 3), st.none() | st.decimals(-(10**8), 10**8, places=3)),
    ("w_string", VARCHAR, st.none() | TEXTS),
    ("w_int64", BIGINT, st.none() | st.integers(-(2**63), 2**63 - 1)),
    ("w_double", DOUBLE, st.none() | st.floats(allow_nan=False)),
    ("w_bool", BOOLEAN, st.none() | st.booleans()),
    ("w_bytes", BYTES[0], st.none() | BYTES[1]),
    ("numbers", JSON, st.lists(st.integers(-(2**31), 2**31 - 1)).map(json.dumps)),
    ("colors", JSON, st.lists(st.sampled_from(["RED", "BLUE"])).map(json.dumps)),
    ("color_of", JSON, objects(st.just("RED"))),
    ("struct", JSON, st.none() | objects(TEXTS)),
    ("tree", JSON, st.none() | st.integers(0, 9).map('{{"n": {}, "inside": []}}'.format)),
]
"""Fields of google's message with columns that they hold; those without presence take no NULL."""


@pytest.mark.parametrize(("name", "kind", "values"), OWN_FIELDS, ids=lambda each: str(each)[:20])
@given(data=st.data())
@settings(max_examples=20)
def test_protobuf_of_a_descriptor_is_what_googles_class_reads(
    name: str, kind: Type, values: st.SearchStrategy[Any], data: st.DataObject
) -> None:
    value = data.draw(values)
    declared = stream(
        RowType((Field("A", kind),)),
        {"A": {"path": f"$.{name}"}},
        format="PROTOBUF",
        descriptor=str(FILE),
        message="shop.Everything",
    )
    assert [row for (row,) in read_back(declared, [(value,)])] == [
        json.dumps(json.loads(value), ensure_ascii=False) if kind is JSON and value is not None else value
    ]
    encoded = MessageEncoder(declared).encode((value,)).value or b""
    found = message("shop.Everything")
    found.ParseFromString(encoded)
    assert found.SerializeToString(deterministic=True) == encoded
    assert [field.name for field, _ in found.ListFields()] in ([name], [])


TIMES = RowType((Field("AT", INSTANT), Field("DAY", DATE), Field("OF_DAY", TIME)))


@given(
    st.integers(MIN_TIMESTAMP_MS, MAX_TIMESTAMP_MS),
    st.integers(-700_000, 2_900_000),
    st.integers(0, DAY_MS - 1),
    st.sampled_from(["ms", "us", "ns"]),
)
def test_units_of_times_read_back(at: int, day: int, of_day: int, unit: str) -> None:
    columns = {"AT": {"time_unit": unit}, "DAY": {"time_unit": "d"}, "OF_DAY": {"time_unit": unit}}
    assert read_back(stream(TIMES, columns), [(at, day, of_day)]) == [(at, day, of_day)]


@given(st.integers(MIN_TIMESTAMP_MS, MAX_TIMESTAMP_MS), st.integers(-700_000, 2_900_000))
def test_patterns_of_times_read_back(at: int, day: int) -> None:
    row_type = RowType(tuple(TIMES)[:2])
    columns = {"AT": {"pattern": "dd.MM.yyyy HH:mm:ss.SSS"}, "DAY": {"pattern": "yyyyMMdd"}}
    assert read_back(stream(row_type, columns), [(at, day)]) == [(at, day)]


@given(st.none() | st.integers(0, 9), TEXTS, TEXTS)
def test_paths_read_back(number: int | None, name: str, city: str) -> None:
    row_type = RowType((Field("N", BIGINT), Field("NAME", VARCHAR), Field("CITY", VARCHAR)))
    columns = {"NAME": {"path": "$.user.name"}, "CITY": {"path": "$.user.address.city"}}
    row = (number, name, city)
    declared = stream(row_type, columns)
    assert read_back(declared, [row]) == [row]
    assert json.loads(MessageEncoder(declared).encode(row).value or b"") == {
        "n": number,
        "user": {"name": name, "address": {"city": city}},
    }


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("kind", [DOUBLE, Type(Kind.REAL)])
def test_numbers_that_json_lacks_are_rejected(kind: Type, value: float) -> None:
    encoder = MessageEncoder(stream(RowType((Field("A", kind),))))
    with pytest.raises(RejectedRowError, match="which JSON cannot carry") as caught:
        encoder.encode((value,))
    assert caught.value.reason is Reason.CONSTRAINT


CHANGED = RowType(
    (
        Field("ID", BIGINT, nullable=False),
        *(Field(f"C{at}", kind) for at, (kind, _) in enumerate([*VALUES, BYTES])),
    )
)
UNMOVED = (None,) * len(CHANGED)
"""The row before a change that leaves its key as it is."""
ROWS_OF_KEY = st.tuples(*(st.none() | values for _, values in [*VALUES, BYTES]))


@given(
    st.integers(-(2**63), 2**63 - 1),
    st.none() | ROWS_OF_KEY,
    st.none() | ROWS_OF_KEY,
    st.sampled_from(["DEBEZIUM_JSON", "DEBEZIUM_AVRO"]),
    st.booleans(),
)
def test_an_envelope_reads_back_as_the_change_that_was_written(
    registry: FakeRegistry,
    key: int,
    old: tuple[Any, ...] | None,
    new: tuple[Any, ...] | None,
    name: str,
    nested: bool,
) -> None:
    if old is None and new is None:
        return
    options = {"topic": "t", "format": name, "key": "ID", "changes": "upsert"}
    if name == "DEBEZIUM_AVRO":
        options |= {"registry_url": registry.url, "subject": f"envelopes-{nested}"}
    columns = {"C1": {"path": "$.a.b"}, "C3": {"path": "$.a.c"}} if nested else {}
    written = stream(CHANGED, columns, **options)
    encoder = MessageEncoder(written)
    encoder.prepare()
    before, after = (None if row is None else (key, *row) for row in (old, new))
    messages = encoder.encode_change(before, after, 1_700_000_000_000)
    assert len(messages) == (2 if after is None else 1)
    decoder = decoder_for(
        name,
        "S",
        CHANGED,
        options={each: text for each, text in options.items() if each.startswith("registry")},
        columns=columns,
        key=(0,),
        patched=True,
    )
    decoded = decoder.decode_changes([each.value for each in messages], [each.key for each in messages])  # type: ignore[attr-defined]
    assert decoded.faults == ()
    rows = list(zip(*(column.to_list() for column in decoded.columns), strict=True))
    if after is None:
        assert [row[0] for row in rows] == [key, key]
        assert decoded.opcodes.tolist() == [Opcode.DELETE] * 2
    else:
        assert rows == [(*stored(CHANGED, [after])[0], None, *UNMOVED)]
        assert decoded.opcodes.tolist() == [Opcode.INSERT]
