"""CSV as a stream declares it: separators, quotes, NULL, the order of fields, encodings (docs/sql/streams.md#csv)."""

from __future__ import annotations

import pytest

from rowtide.codec.message import MessageEncoder
from rowtide.codec.registry import decoder_of
from rowtide.errors import Reason, RejectedRowError, StatementError
from rowtide.plan.plan import ForeignStream
from rowtide.rows.types import INTEGER, VARCHAR, Field, Kind, RowType, Type

ROW_TYPE = RowType((Field("NAME", VARCHAR), Field("N", INTEGER), Field("TOWN", VARCHAR)))


def stream(row_type: RowType = ROW_TYPE, /, **options: str) -> ForeignStream:
    return ForeignStream("S", row_type, "K", (("format", "CSV"), *options.items()))


def decoded(message: str | bytes, **options: str) -> object:
    """Return the row of a message, or the reason and the text of its fault."""
    found = decoder_of(stream(**options)).decode([message.encode() if isinstance(message, str) else message])
    if found.faults:
        return found.faults[0].reason, found.faults[0].message
    return tuple(column.to_list()[0] for column in found.columns)


@pytest.mark.parametrize(
    ("message", "options", "row"),
    [
        ("ann;1;rome", {"separator": ";"}, ("ann", 1, "rome")),
        ("ann\t1\trome", {"separator": "\\t"}, ("ann", 1, "rome")),
        ("a|b||1||rome", {"separator": "||"}, ("a|b", 1, "rome")),
        ("'a,''b''',1,rome", {"quote": "'"}, ("a,'b'", 1, "rome")),
        ('a"b,1,"rome"', {"quote": ""}, ('a"b', 1, '"rome"')),
        (r'a\,b,1,"r\"o""me\\"', {"escape": "\\"}, ("a,b", 1, 'r"o"me\\')),
        ("a\\\nb,1,", {"escape": "\\"}, ("a\nb", 1, None)),
        (r"\N,\N,\\N", {"escape": "\\", "null_text": r"\N"}, (None, None, r"\N")),
        ('NULL,1,"NULL"', {"null_text": "NULL"}, (None, 1, "NULL")),
        (",1,x", {"null_text": "NULL"}, ("", 1, "x")),
        (' ann , 1 ,\t"ro ""me " ', {"trim": "true"}, ("ann", 1, 'ro "me ')),
        (" ,1,x", {"trim": "true"}, (None, 1, "x")),
        ("\\ a\\ \t,1,b\\\\ ", {"trim": "true", "escape": "\\"}, (" a ", 1, "b\\")),
        (" ann ,1,x", {}, (" ann ", 1, "x")),
        ("ann\t 1\tx ", {"trim": "true", "separator": "\\t"}, ("ann", 1, "x")),
        ("rome,x,1,ann", {"fields": "town,,n,name"}, ("ann", 1, "rome")),
        ("Town,other,name\nrome,x,ann\n", {"header": "true"}, ("ann", None, "rome")),
        ('"N";town\r\n7;"a\nb"\r\n', {"header": "true", "separator": ";"}, (None, 7, "a\nb")),
        ("größe,1,x".encode("iso-8859-1"), {"character_encoding": "ISO-8859-1"}, ("größe", 1, "x")),
        ("größe,1,x".encode("utf-16"), {"character_encoding": "UTF-16"}, ("größe", 1, "x")),
        (b"\xef\xbb\xbfann,1,x", {"character_encoding": "utf-8-sig"}, ("ann", 1, "x")),
    ],
)
def test_records_are_read_as_declared(
    message: str | bytes, options: dict[str, str], row: tuple[object, ...]
) -> None:
    assert decoded(message, **options) == row


@pytest.mark.parametrize(
    ("message", "options", "reason", "said"),
    [
        ("a,b,1,c", {}, Reason.DECODE, "the record has 4 fields, not 3"),
        ("a,1", {"fields": "name,n,town"}, Reason.DECODE, "the record has 2 fields, not 3"),
        ("name,n\nann", {"header": "true"}, Reason.DECODE, "the record has 1 fields, not 2"),
        ("name,NAME\na,b", {"header": "true"}, Reason.DECODE, "the header names a field twice"),
        ("a\\", {"escape": "\\"}, Reason.DECODE, "a quote or an escape does not match (character 0)"),
        ('a,"b,1', {}, Reason.DECODE, "a quote does not match (character 2)"),
        (",,x", {"null_text": "NULL"}, Reason.TYPE, 'field "N"'),
        (
            "\xff",
            {"character_encoding": "ascii"},
            Reason.DECODE,
            "text is not ascii: ordinal not in range(128)",
        ),
        (b"\0", {"character_encoding": "UTF-16"}, Reason.DECODE, "text is not UTF-16: truncated data"),
    ],
)
def test_what_does_not_fit_is_rejected(
    message: str | bytes, options: dict[str, str], reason: Reason, said: str
) -> None:
    found = decoded(message, **options)
    assert isinstance(found, tuple)
    assert found[0] is reason
    assert said in found[1]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"separator": ""}, "it is empty or has a line end"),
        ({"separator": "\n"}, "it is empty or has a line end"),
        ({"quote": "ab"}, '"ab" is not one character that is visible'),
        ({"quote": " "}, '" " is not one character'),
        ({"quote": ","}, '"," is part of separator ","'),
        ({"escape": '"'}, "it is the quote"),
        ({"null_text": "a,b"}, "has a separator, a quote or a line end"),
        ({"null_text": " ", "trim": "true"}, "has blanks around it"),
        ({"trim": "yes"}, '"yes" is neither true nor false'),
        ({"fields": "name,n"}, 'column "TOWN" is not among them'),
        ({"fields": "name,n,town,N"}, "it names a field twice"),
        ({"fields": "name,n,town", "header": "true"}, "messages have the names of their fields"),
        ({"character_encoding": "klingon"}, '"klingon" is not a character encoding'),
        ({"character_encoding": "base64"}, '"base64" is not a character encoding'),
    ],
)
def test_wrong_options_are_refused(options: dict[str, str], said: str) -> None:
    with pytest.raises(StatementError) as caught:
        decoder_of(stream(**options))
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, '"a,b",1,'),
        ({"separator": ";", "null_text": "NULL"}, "a,b;1;NULL"),
        ({"quote": "", "escape": "\\", "null_text": r"\N"}, r"a\,b,1,\N"),
        ({"fields": "town,name,n"}, ',"a,b",1'),
        ({"header": "true"}, 'name,n,town\n"a,b",1,'),
    ],
)
def test_rows_are_written_as_declared(options: dict[str, str], message: str) -> None:
    encoder = MessageEncoder(stream(**options))
    assert encoder.encode(("a,b", 1, None)).value == message.encode()


@pytest.mark.parametrize(
    ("options", "row", "said"),
    [
        ({"quote": ""}, ("a,b", 1, None), "CSV without quotes cannot carry"),
        ({"quote": "", "trim": "true"}, ("a ", 1, None), "CSV without quotes cannot carry"),
        ({"quote": ""}, ("", 1, None), "CSV without quotes cannot carry"),
        ({"quote": "", "escape": "\\"}, ("a\nb", 1, None), "CSV without quotes cannot carry"),
        ({"character_encoding": "idna"}, ("a" * 99, 1, None), "the text cannot be written as idna"),
        ({"character_encoding": "ISO-8859-1"}, ("€", 1, None), "character U\\+20AC is not one of ISO-8859-1"),
    ],
)
def test_what_a_notation_cannot_carry_is_rejected(
    options: dict[str, str], row: tuple[object, ...], said: str
) -> None:
    with pytest.raises(RejectedRowError, match=said) as caught:
        MessageEncoder(stream(**options)).encode(row)
    assert caught.value.reason is Reason.CONSTRAINT


def test_fields_of_a_written_stream_are_its_columns() -> None:
    with pytest.raises(StatementError, match="they are not the columns of the value"):
        MessageEncoder(stream(fields="name,n,town,other"))


def test_raw_and_pairs_have_an_encoding() -> None:
    text = RowType((Field("A", VARCHAR),))
    for form, message in (("RAW", "ö"), ("KEY_VALUE", "a=ö")):
        options = (("format", form), ("character_encoding", "ISO-8859-1"))
        declared = ForeignStream("S", text, "K", options)
        found = decoder_of(declared).decode([message.encode("iso-8859-1")])
        assert found.columns[0].to_list() == ["ö"]
        assert MessageEncoder(declared).encode(("ö",)).value == message.encode("iso-8859-1")
    of_bytes = RowType((Field("A", Type(Kind.VARBINARY)),))
    options = (("format", "RAW"), ("character_encoding", "ISO-8859-1"))
    for make in (decoder_of, MessageEncoder):
        with pytest.raises(StatementError, match="VARBINARY, not text"):
            make(ForeignStream("S", of_bytes, "K", options))
