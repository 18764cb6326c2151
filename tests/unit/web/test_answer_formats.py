"""Formats of answers by the header Accept."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Sequence

import httpx
import pytest

from rowtide.metrics import Metrics
from rowtide.runtime.query.contents import TableContents
from rowtide.web import Handlers, build_app
from rowtide.web.formats import chosen, csv_of
from support.web import Pipeline, StoppedClock, asked

JSON, LINES, CSV = "application/json", "application/x-ndjson", "text/csv"
ROWS: Sequence[tuple[object, ...]] = [
    (1, 'a"b,\r\n', None, True),
    (2, "", (1, 2), False),
    (3, "é", (-math.inf, None, math.nan), True),
]


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ("", JSON),
        ("*/*", JSON),
        ("application/*", JSON),
        ("text/*", CSV),
        ("TEXT/CSV", CSV),
        ("text/csv, */*;q=0.1", CSV),
        ("application/json;q=0.5, text/csv;q=0.9", CSV),
        ("application/json;q=0.9, text/csv;q=0.9", JSON),
        ("*/*, application/json;q=0", LINES),
        ("text/html, application/xhtml+xml, */*;q=0.8", JSON),
        ("application/json; charset=utf-8", JSON),
        ("text/html", None),
        ("text/csv;q=0", None),
        ("text/csv;q=x", None),
        ("text/csv;q=" + "9" * 5_000, None),
        (",", JSON),
    ],
)
def test_the_format_is_the_one_that_the_client_prefers(accept: str, expected: str | None) -> None:
    assert chosen(accept, (JSON, LINES, CSV)) == expected


def answer(accept: str, query: str = "", *, allow_export: bool = True) -> httpx.Response:
    def contents(relation: str, limit: int, after: int) -> TableContents:
        types = ("BIGINT", "VARCHAR", "DOUBLE ARRAY", "BOOLEAN")
        return TableContents(relation, ("N", "S", "A", "B"), types, ROWS[after : after + limit], len(ROWS))

    handlers = Handlers(contents=contents, allow_export=allow_export)
    app = build_app(Pipeline(), Metrics(), StoppedClock(), version="1", handlers=handlers)
    path = f"/api/v1/pipelines/orders_per_minute/relations/T/rows{query}"
    return asked(app, "GET", path, accept=accept)


def test_rows_are_the_same_in_every_format() -> None:
    as_json = answer(JSON).json()
    first, *others = answer(LINES).text.splitlines()
    assert json.loads(first) == {name: value for name, value in as_json.items() if name != "rows"}
    assert [json.loads(each)["row"] for each in others] == as_json["rows"]
    found = answer(CSV)
    assert found.headers["content-type"] == "text/csv; charset=utf-8"
    names, *rows = csv.reader(io.StringIO(found.text, newline=""))
    assert names == ["N", "S", "A", "B"]
    assert rows == [
        ["1", 'a"b,\r\n', "", "true"],
        ["2", "", "[1,2]", "false"],
        ["3", "é", '["-Infinity",null,"NaN"]', "true"],
    ]


def test_null_is_no_empty_text_in_csv() -> None:
    assert csv_of(["A", "B"], [(None, "")]) == b'"A","B"\r\n,""\r\n'


@pytest.mark.parametrize(
    "text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", '=HYPERLINK("http://x","y")', "'=1"]
)
def test_texts_that_a_spreadsheet_takes_for_formulas_are_not_changed(text: str) -> None:
    """docs/threat-model.md, Formulas in CSV: it is left to the reader, who gets the rows as they are."""
    written = csv_of([text], [(text, -5), (None, 1)])
    names, *rows = csv.reader(io.StringIO(written.decode(), newline=""))
    assert (names, rows) == ([text], [[text, "-5"], ["", "1"]])
    quoted = text.replace('"', '""')
    assert written.startswith(f'"{quoted}"\r\n"{quoted}",-5\r\n'.encode())


@pytest.mark.parametrize("accept", [LINES, CSV])
def test_the_header_link_leads_to_the_next_page(accept: str) -> None:
    assert answer(accept, "?limit=2").headers["link"] == '<?limit=2&after=2>; rel="next"'
    assert "link" not in answer(accept, "?limit=2&after=2").headers


def test_a_service_that_allows_no_export_has_no_csv() -> None:
    refused = answer(CSV, allow_export=False)
    assert (refused.status_code, refused.json()["type"]) == (406, "urn:rowtide:problem:not-acceptable")
    assert refused.json()["hint"] == f"Send the header Accept with {JSON} or {LINES}, or without it."
    assert answer(f"{CSV}, {JSON};q=0.1", allow_export=False).headers["content-type"] == JSON


def test_a_document_that_the_client_has_is_not_sent_again() -> None:
    app = build_app(Pipeline(), Metrics(), StoppedClock(), version="1")
    first = asked(app, "GET", "/api/v1/openapi.json")
    etag = first.headers["etag"]
    for given in (etag, f'"other", {etag}'):
        again = asked(app, "GET", "/api/v1/openapi.json", if_none_match=given)
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", etag)
    assert asked(app, "GET", "/api/v1/openapi.json", if_none_match='"other"').status_code == 200
