"""Messages of pairs: their notations, and what is refused (docs/sql/streams.md#key-value)."""

from __future__ import annotations

import pytest

from rowtide.codec.message import MessageEncoder
from rowtide.codec.registry import decoder_of
from rowtide.errors import Reason, StatementError
from rowtide.plan.plan import ForeignStream
from rowtide.rows.types import INTEGER, VARCHAR, Field, Kind, RowType, Type

ROW_TYPE = RowType((Field("LEVEL", VARCHAR), Field("ms", INTEGER), Field("a b", VARCHAR)))


def stream(row_type: RowType = ROW_TYPE, /, **options: str) -> ForeignStream:
    return ForeignStream("S", row_type, "K", (("format", "KEY_VALUE"), *options.items()))


def decoded(message: str, **options: str) -> object:
    """Return the row of a message, or the reason and the text of its fault."""
    found = decoder_of(stream(**options)).decode([message.encode()])
    if found.faults:
        return found.faults[0].reason, found.faults[0].message
    return tuple(column.to_list()[0] for column in found.columns)


@pytest.mark.parametrize(
    ("message", "options", "row"),
    [
        ("level=info,ms=12,a b=x", {}, ("info", 12, "x")),
        ("Level=info,MS=12", {}, ("info", 12, None)),
        ('level="a=1, ""b""",ms= 12 ', {}, ('a=1, "b"', 12, None)),
        ("level=a=b", {}, ("a=b", None, None)),
        ("level=x,level=y", {}, ("y", None, None)),
        ('level="",ms=', {}, ("", None, None)),
        ("other=1", {}, (None, None, None)),
        ("", {}, (None, None, None)),
        (" , ", {}, (None, None, None)),
        ('level=info  ms=12 "a b"="x y"', {"pair_separator": " "}, ("info", 12, "x y")),
        ("level:info;ms:12", {"pair_separator": ";", "key_separator": ":"}, ("info", 12, None)),
        ("level=info\tms=12\n", {"pair_separator": r"\t"}, ("info", 12, None)),
        ("level=info\nms=12\n", {"pair_separator": r"\n"}, ("info", 12, None)),
        ("level='a,b'", {"quote": "'"}, ("a,b", None, None)),
        ("level->info&&ms->1", {"pair_separator": "&&", "key_separator": "->"}, ("info", 1, None)),
    ],
)
def test_pairs_are_read_in_the_declared_notation(message: str, options: dict[str, str], row: object) -> None:
    assert decoded(message, **options) == row


@pytest.mark.parametrize(
    ("message", "reason", "text"),
    [
        ("level=info,ms", Reason.DECODE, 'not a pair at character 11: "ms"'),
        ('level="info', Reason.DECODE, 'not a pair at character 0: "level="info"'),
        ('level=in"fo', Reason.DECODE, "not a pair at character 0"),
        ("level=a\0b", Reason.TYPE, 'field "LEVEL" has a NUL character'),
        ("ms=x", Reason.TYPE, 'field "ms": '),
    ],
)
def test_what_is_not_a_pair_or_does_not_fit_is_rejected(message: str, reason: Reason, text: str) -> None:
    found = decoded(message)
    assert isinstance(found, tuple)
    assert found[0] is reason
    assert text in found[1]


def test_a_long_message_that_is_not_made_of_pairs_is_rejected_at_once() -> None:
    for message in ("a" * 100_000, '"' * 100_001, " " * 100_000 + "x", "=" + '"' * 99_999):
        assert decoded(message)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"pair_separator": ""}, "it is empty"),
        ({"pair_separator": "="}, '"=" is part of key_separator "="'),
        ({"key_separator": ",="}, '"," is part of key_separator ",="'),
        ({"quote": "''"}, "is not one character"),
        ({"quote": " "}, "is not one character"),
        ({"schema": "x"}, "format KEY_VALUE does not take it"),
    ],
)
def test_a_wrong_notation_is_refused(options: dict[str, str], problem: str) -> None:
    with pytest.raises(StatementError) as caught:
        decoder_of(stream(**options))
    assert problem in caught.value.message


def test_a_row_is_pairs_without_those_that_are_null() -> None:
    made = MessageEncoder(stream())
    assert made.encode(("a, b", 7, None)).value == b'level="a, b",ms=7'
    assert made.encode((None, None, None)).value == b""
    assert made.encode(("", None, ' "')).value == b'level="",a b=" """'
    spaced = MessageEncoder(stream(pair_separator=" "))
    assert spaced.encode(("a=b", None, "x")).value == b'level=a=b "a b"=x'
    with pytest.raises(StatementError, match="cannot be written as text"):
        MessageEncoder(stream(RowType((Field("A", Type(Kind.VARBINARY)),))))
