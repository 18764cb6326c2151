"""A message's fate depends on itself alone, and the fast way gives what the careful way gives."""

import json
from decimal import Decimal

from hypothesis import given, settings
from hypothesis import strategies as st

from rowtide.codec.contract import Decoded
from rowtide.codec.json.decoder import JsonDecoder
from rowtide.codec.registry import decoder_for
from rowtide.errors import Reason
from rowtide.rows.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INSTANT,
    INTEGER,
    JSON,
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

ROW_TYPE = RowType(
    (
        Field("A", INTEGER, nullable=False),
        Field("B", BIGINT),
        Field("C", DOUBLE),
        Field("D", decimal(9, 2)),
        Field("E", VARCHAR),
        Field("F", Type(Kind.VARCHAR, 3)),
        Field("G", TIMESTAMP),
        Field("H", BOOLEAN),
        Field("I", DATE),
        Field("J", TIME),
        Field("K", Type(Kind.REAL)),
        Field("L", decimal(30, 4)),
        Field("M", Type(Kind.TINYINT)),
        Field("N", Type(Kind.VARBINARY, 4)),
        Field("O", UUID),
        Field("P", JSON),
        Field("Q", array_of(INTEGER)),
        Field("R", array_of(decimal(5, 2))),
        Field("S", array_of(INSTANT)),
        Field("T", array_of(Type(Kind.VARCHAR, 3))),
        Field("U", INSTANT),
    )
)
DECODER = JsonDecoder("S", ROW_TYPE)

NUMBERS = st.one_of(
    st.integers(-300, 300),
    st.integers(-(2**65), 2**65),
    st.floats(allow_nan=False, allow_infinity=False),
    st.decimals(-(10**8), 10**8, allow_nan=False, allow_infinity=False, places=4),
    st.sampled_from(["1e3", "1.0", "-0.0", "0.005", "1.005", "2.675", "1e400", "9" * 5000, "1e39"]),
)
TEXTS = st.one_of(
    st.text(max_size=6),
    st.sampled_from(
        [
            "A0EEBC999C0B4EF8BB6D6BB9BD380A11",
            "{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}",
            "a0eebc99",
            "ab ",
            "abc  ",
            "a\0b",
            "1.5",
            "-0.005",
            "1e2",
            "12345678.9",
            "+1",
            " 1",
            "YWI=",
            "YWJj",
        ]
    ),
    st.datetimes().map(lambda t: t.isoformat()),
    st.datetimes().map(lambda t: t.isoformat(sep=" ", timespec="milliseconds") + "Z"),
    st.tuples(st.datetimes(), st.sampled_from(["Z", "+02:00", "-13:59", "+23:00", "+2"])).map(
        lambda parts: parts[0].isoformat() + parts[1]
    ),
    st.dates().map(str),
    st.times().map(str),
    st.sampled_from(["2024-02-30T00:00:00Z", "0000-01-01T00:00:00Z", "2024-01-01T00:00:60", "20240101T10"]),
)
SCALARS = st.one_of(
    NUMBERS.map(str), TEXTS.map(json.dumps), st.sampled_from(["null", "true", "false", "[]", '{"a":1}'])
)
ARRAYS = st.one_of(
    st.lists(st.integers(-9, 9).map(str) | st.just("null"), max_size=3),
    st.lists(NUMBERS.map(str), max_size=3),
    st.lists(TEXTS.map(json.dumps), max_size=2),
    st.lists(SCALARS, max_size=3),
).map(lambda elements: f"[{','.join(elements)}]")
VALUES = SCALARS | ARRAYS
MESSAGES = st.one_of(
    st.dictionaries(st.sampled_from([*"abcdefghijklmnopqrstz", "A", "B"]), VALUES, max_size=14).map(
        lambda fields: "{" + ",".join(f'"{name}":{value}' for name, value in fields.items()) + "}"
    ),
    # A fitting message, so that the interesting ones have good neighbours.
    st.integers(0, 99).map(lambda number: f'{{"a":{number},"e":"x","d":{number}.25}}'),
    st.sampled_from(
        ["1,2", '{"a":1},{"a":2}', "[{}]", "", "nul", '{"a":1', '"x"', '{"a":1}}', "]", ",", "{}"]
    ),
).map(str.encode) | st.one_of(
    st.none(),
    st.binary(max_size=8),
    st.sampled_from(
        [b'{"a":1,"e":"\xff"}', b'{"a":1,"x\xff":2}', b'{"A":1,"x":["\xe9"],"e":"\xef\xb7\x90"}']
    ),
)


def outcomes(decoded: Decoded, count: int) -> list[object]:
    """Return, for each message, its row, or reason and message of its fault."""
    given_rows = zip(*(column.to_list() for column in decoded.columns), strict=True)
    rows: dict[int, object] = dict(zip(decoded.accepted.tolist(), given_rows, strict=True))
    faults = {fault.index: (fault.reason, fault.message) for fault in decoded.faults}
    assert sorted([*rows, *(fault.index for fault in decoded.faults)]) == list(range(count))
    assert list(faults) == sorted(faults)
    return [rows.get(index, faults.get(index)) for index in range(count)]


@settings(max_examples=300)
@given(st.lists(MESSAGES, max_size=8))
def test_a_message_decodes_the_same_alone_and_among_others(messages: list[bytes | None]) -> None:
    together = outcomes(DECODER.decode(messages), len(messages))
    alone = [outcomes(DECODER.decode([message]), 1)[0] for message in messages]
    assert repr(together) == repr(alone)


@settings(max_examples=300)
@given(
    st.lists(
        st.fixed_dictionaries({name.lower(): VALUES for name in ("A", "B", "C", "D", "K", "L")}), max_size=3
    ),
    st.lists(st.fixed_dictionaries({name: VALUES for name in "aefghijmn"}), max_size=3),
)
def test_the_spelling_of_field_names_makes_no_difference(
    numbers: list[dict[str, str]], others: list[dict[str, str]]
) -> None:
    # Names in capitals are not the main spelling, so those messages go the careful way.
    def spelled(upper: bool) -> list[bytes | None]:
        return [
            ("{" + ",".join(f'"{k.upper() if upper else k}":{v}' for k, v in fields.items()) + "}").encode()
            for fields in numbers + others
        ]

    count = len(numbers) + len(others)
    fast = outcomes(DECODER.decode(spelled(upper=False)), count)
    careful = outcomes(DECODER.decode(spelled(upper=True)), count)
    assert repr(fast) == repr(careful)


@given(st.lists(st.decimals(-(10**7) + 1, 10**7 - 1, places=2), max_size=20), st.booleans())
def test_decimals_are_exact_as_numbers_and_as_text(amounts: list[Decimal], textual: bool) -> None:
    quote = '"' if textual else ""
    messages = [f'{{"a":1,"d":{quote}{amount:f}{quote}}}'.encode() for amount in amounts]
    decoded = DECODER.decode(messages)
    assert decoded.faults == ()
    assert decoded.columns[3].to_list() == amounts


@given(
    st.lists(st.datetimes().map(lambda t: t.replace(microsecond=t.microsecond // 1000 * 1000)), max_size=9)
)
def test_a_timestamp_is_the_same_as_text_and_as_milliseconds(times: list[object]) -> None:
    import datetime as dt

    epoch = dt.datetime(1970, 1, 1)
    numbers = [(time - epoch) // dt.timedelta(milliseconds=1) for time in times]  # type: ignore[operator]
    texts = DECODER.decode([f'{{"a":1,"g":"{time}Z"}}'.encode() for time in times])
    integers = DECODER.decode([f'{{"a":1,"g":{number}}}'.encode() for number in numbers])
    assert texts.columns[6].to_list() == integers.columns[6].to_list() == numbers


PIECES = st.lists(
    st.sampled_from(
        ["x", r"\ud83d", r"\uDC00", r"\ud83d\ude00", r"\\ud83d", r"\\", r"\n", r"\u0041", "\ufdd0", r"\ufdd0"]
    ),
    max_size=5,
).map("".join)


@given(PIECES, PIECES, PIECES, PIECES, st.booleans())
def test_text_that_no_column_reads_may_have_lone_surrogates(
    read: str, unread: str, name: str, key: str, of_debezium: bool
) -> None:
    message = f'{{"id":1,"b":{{"z{name}":["{unread}"]}},"a":"{read}","c{name}":"{unread}"}}'
    wanted = json.loads(message)["a"]
    options = {"key": (0,), "patched": True} if of_debezium else {}
    row_type = RowType((Field("ID", INTEGER, nullable=False), Field("A", VARCHAR)))
    decoder = decoder_for("DEBEZIUM_JSON" if of_debezium else "JSON", "S", row_type, **options)  # type: ignore[arg-type]
    if of_debezium:
        message = f'{{"source":"{unread}","op":"c","x{key}":1,"after":{message}}}'
        if "A" in key:
            message = f'{{"schema":"{unread}","payload":{message}}}'
    decoded = decoder.decode([message.encode()])
    try:
        wanted.encode()
    except UnicodeEncodeError:
        (fault,) = decoded.faults
        assert (fault.reason, fault.message) == (
            Reason.DECODE,
            'field "A": text has a surrogate without its pair',
        )
    else:
        assert decoded.faults == ()
        assert [column.to_list() for column in decoded.columns][:2] == [[1], [wanted]]
