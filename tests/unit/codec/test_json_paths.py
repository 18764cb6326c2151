"""Columns of JSON that are read from a path, as JSON text, in a unit or by a pattern.

See docs/sql/streams.md#json.
"""

from __future__ import annotations

from typing import Any

import pytest

from rowtide.codec.json.decoder import JsonDecoder
from rowtide.codec.options import FormatOptionError
from rowtide.codec.registry import decoder_for
from rowtide.errors import Reason, StatementError
from rowtide.expr.json_path import JsonPathError, parse_path, show_path
from rowtide.rows.types import BIGINT, DATE, TIME, TIMESTAMP, VARCHAR, Field, Kind, RowType, Type
from rowtide.runtime.option_check import check_options
from rowtide.sql.pipeline import plan_pipeline

Columns = dict[str, tuple[Type, dict[str, str]]]


def decoder(columns: Columns, *, not_null: bool = False) -> JsonDecoder:
    fields = tuple(Field(name, kind, nullable=not not_null) for name, (kind, _) in columns.items())
    return JsonDecoder("S", RowType(fields), {name: options for name, (_, options) in columns.items()})


def value(kind: Type, text: str, **options: str) -> object:
    decoded = decoder({"A": (kind, options)}).decode([f'{{"a":{text}}}'.encode()])
    assert not decoded.faults, decoded.faults
    return decoded.columns[0].to_list()[0]


def fault(kind: Type, message: str, *, not_null: bool = False, **options: str) -> tuple[Reason, str]:
    (found,) = decoder({"A": (kind, options)}, not_null=not_null).decode([message.encode()]).faults
    return found.reason, found.message


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("$", ()),
        ("$.a.b[0].c", ("a", "b", 0, "c")),
        ("$['a b'][\"c\"]", ("a b", "c")),
        (' $ . "x.y" [ 12 ] ', ("x.y", 12)),
        (r"$['it\'s \\']", ("it's \\",)),
        ("$.größe", ("größe",)),
        ("$['']", ("",)),
    ],
)
def test_a_path_is_read_and_shown_as_it_is_read(text: str, steps: tuple[str | int, ...]) -> None:
    assert parse_path(text) == steps
    assert parse_path(show_path(steps)) == steps


@pytest.mark.parametrize("text", ["$.items[*].id", "$.*", "$..id", "$[0, 1]", "$[0 to 2]", "$.a?(@ > 1)"])
def test_a_path_to_several_places_is_refused_with_what_to_do(text: str) -> None:
    with pytest.raises(JsonPathError, match="may name several places") as caught:
        parse_path(text)
    assert "$.items[0]" in caught.value.hint


@pytest.mark.parametrize(
    "text", ["", "a.b", "$.", "$a", "$[", "$[-1]", "$[a]", "$.a-b", "$['a]", "$.1", "$[last]"]
)
def test_what_is_no_path_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(JsonPathError) as caught:
        parse_path(text)
    assert caught.value.hint is not None


def test_an_object_or_array_is_text_as_the_message_has_it() -> None:
    decoded = decoder({"A": (VARCHAR, {}), "B": (VARCHAR, {"path": "$.x[1]"})}).decode(
        [
            b'{"A" : { "n": 1.00, "s":"\\u00e9"} ,"x":[0, [1, {"y": 1e2}]]}',
            b'{"a":[],"a":[ ]}',
            b'{"a":"[1]"}',
        ]
    )
    assert [column.to_list() for column in decoded.columns] == [
        ['{ "n": 1.00, "s":"\\u00e9"}', "[ ]", "[1]"],
        ['[1, {"y": 1e2}]', None, None],
    ]
    assert value(VARCHAR, "{}", path="$") == '{"a":{}}'
    assert fault(Type(Kind.VARCHAR, 4), '{"a":[1,2]}') == (
        Reason.TYPE,
        'field "A": text "[1,2]" is not a valid VARCHAR(4): it has 5 characters',
    )
    assert fault(VARCHAR, '{"a":5}')[0] is Reason.TYPE


@pytest.mark.parametrize(
    ("message", "reason", "words"),
    [
        ('{"u":{"n":"x"}}', Reason.TYPE, 'field "A" ($.u.n): text "x" is not a valid BIGINT'),
        ('{"u":[1]}', Reason.TYPE, 'field "A" ($.u.n): $.u is an array, not an object'),
        ('{"u":"x"}', Reason.TYPE, '$.u is text "x", not an object'),
        ('{"u":{"n":null}}', Reason.MISSING_FIELD, 'field "A" ($.u.n) is null'),
        ('{"u":null}', Reason.MISSING_FIELD, 'field "A" ($.u.n) is null'),
        ('{"u":{"N":1}}', Reason.MISSING_FIELD, 'field "A" ($.u.n) is absent'),
        ('{"U":{"n":1}}', Reason.MISSING_FIELD, 'field "A" ($.u.n) is absent'),
    ],
)
def test_an_error_names_the_path(message: str, reason: Reason, words: str) -> None:
    found, text = fault(BIGINT, message, not_null=True, path="$.u.n")
    assert found is reason
    assert words in text


@pytest.mark.parametrize(
    ("kind", "text", "options", "wanted"),
    [
        (TIMESTAMP, "1767225600", {"time_unit": "s"}, 1_767_225_600_000),
        (TIMESTAMP, "1767225600.9999", {"time_unit": "s"}, 1_767_225_600_999),
        (TIMESTAMP, "-1.5e0", {"time_unit": "s"}, -1500),
        (TIMESTAMP, "1", {"time_unit": "ms"}, 1),
        (TIMESTAMP, "1.9", {"time_unit": "ms"}, 1),
        (TIMESTAMP, "-1", {"time_unit": "us"}, -1),
        (TIMESTAMP, "-1e-999999999", {"time_unit": "us"}, -1),
        (TIMESTAMP, "0e-999999999", {"time_unit": "us"}, 0),
        (TIMESTAMP, "1767225600123456789", {"time_unit": "ns"}, 1_767_225_600_123),
        (TIMESTAMP, '"1970-01-01T00:00:01Z"', {"time_unit": "s"}, 1000),
        (DATE, "20454", {"time_unit": "d"}, 20_454),
        (DATE, "-1", {"time_unit": "s"}, -1),
        (TIME, "86399999999", {"time_unit": "us"}, 86_399_999),
        (TIMESTAMP, '"31.12.2025 23:59"', {"pattern": "dd.MM.yyyy HH:mm"}, 1_767_225_540_000),
        (TIMESTAMP, "5", {"pattern": "dd.MM.yyyy HH:mm"}, 5),
        (DATE, '"31 Dec 2025"', {"pattern": "dd MMM yyyy"}, 20_453),
        (TIME, '"11:30 PM"', {"pattern": "hh:mm a"}, 84_600_000),
    ],
)
def test_times_have_the_unit_or_the_pattern_that_is_declared(
    kind: Type, text: str, options: dict[str, str], wanted: int
) -> None:
    assert value(kind, text, **options) == wanted


@pytest.mark.parametrize(
    ("kind", "text", "options"),
    [
        (TIMESTAMP, "1e400", {"time_unit": "s"}),
        (TIMESTAMP, "253402300800", {"time_unit": "s"}),
        (TIMESTAMP, "true", {"time_unit": "s"}),
        (TIME, "86400", {"time_unit": "s"}),
        (TIME, "-1", {"time_unit": "ns"}),
        (DATE, "9999999", {"time_unit": "d"}),
        (DATE, "1", {"pattern": "yyyy"}),
        (DATE, '"2025-12-31"', {"pattern": "dd.MM.yyyy"}),
        (DATE, '"31.02.2025"', {"pattern": "dd.MM.yyyy"}),
    ],
)
def test_what_is_not_such_a_time_is_rejected(kind: Type, text: str, options: dict[str, Any]) -> None:
    assert fault(kind, f'{{"a":{text}}}', **options)[0] is Reason.TYPE


@pytest.mark.parametrize(
    ("column", "wanted", "hint"),
    [
        ("a BIGINT OPTIONS (path '$.x[*]')", 'option "path" of column "A"', "a whole array as JSON text"),
        ("a BIGINT OPTIONS (time_unit 's')", "the column is BIGINT, not TIMESTAMP", "Declare the column as"),
        ("a TIMESTAMP OPTIONS (time_unit 'd')", '"d" is not a unit of TIMESTAMP', "s, ms, us, ns"),
        ("a DATE OPTIONS (pattern 'yyyy-qq')", '"q" is not a time field', "yyyy-MM-dd HH:mm:ss"),
        ("a VARCHAR OPTIONS (pattern 'yyyy')", "the column is VARCHAR", "Declare the column as"),
        ("a DATE OPTIONS (patern 'yyyy')", "format JSON does not take it", "path, time_unit, pattern"),
    ],
)
def test_a_wrong_option_of_a_column_is_shown_where_it_is(column: str, wanted: str, hint: str) -> None:
    server = "CREATE SERVER k FOREIGN DATA WRAPPER MEMORY OPTIONS (broker 'b');\n"
    text = f"{server}CREATE FOREIGN STREAM s ({column}) SERVER k OPTIONS (topic 't');"
    with pytest.raises(StatementError) as caught:
        check_options(plan_pipeline(text), text, file="p.sql")
    assert wanted in caught.value.message
    assert hint in (caught.value.hint or "")
    assert caught.value.place is not None
    assert caught.value.place.line == 2


def test_options_of_columns_are_for_foreign_streams_and_for_formats_that_take_them() -> None:
    with pytest.raises(StatementError, match="a column of a stream cannot have OPTIONS"):
        plan_pipeline("CREATE STREAM s (a INTEGER OPTIONS (path '$.a'));")
    with pytest.raises(FormatOptionError, match="a column of format CSV does not take it"):
        decoder_for("CSV", "S", RowType((Field("A", BIGINT),)), columns={"A": {"path": "$.a"}})


def test_options_of_columns_follow_alter() -> None:
    server = "CREATE SERVER k FOREIGN DATA WRAPPER MEMORY OPTIONS (broker 'b');\n"
    text = f"""{server}CREATE FOREIGN STREAM s (a INTEGER OPTIONS (path '$.x'), b DATE) SERVER k OPTIONS (topic 't');
    ALTER FOREIGN STREAM s ADD COLUMN c DATE OPTIONS (time_unit 'd');
    ALTER FOREIGN STREAM s RENAME COLUMN a TO z;"""
    (stream,) = plan_pipeline(text).foreign_streams
    assert stream.column_options == (("Z", (("path", "$.x"),)), ("C", (("time_unit", "d"),)))
    (stream,) = plan_pipeline(f"{text}ALTER FOREIGN STREAM s DROP COLUMN z;").foreign_streams
    assert stream.column_options == (("C", (("time_unit", "d"),)),)


@pytest.mark.parametrize("name", ['say "x"', "back\\slash", "tab\t", "a", ""])
def test_a_field_may_have_any_name(name: str) -> None:
    import json

    row_type = RowType((Field(name, BIGINT), Field("A", BIGINT)))
    decoded = JsonDecoder("S", row_type).decode([json.dumps({name: 1}).encode()])
    assert decoded.columns[0].to_list() == [1]
    assert not decoded.faults
