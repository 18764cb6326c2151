"""The API of a pipeline that runs: its answers have their declared types, also those of resources that do not exist."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import msgspec
import pytest

from rowtide.web.declared import OF_PIPELINE, ApiPath
from rowtide.web.described import ALL
from rowtide.web.problems import API, Problem, ProblemAnswer
from support.served import LARGE, ReadingsPipeline
from support.waiting import wait_until

HERE = f"{API}/pipelines/readings"
TABLE = f"{HERE}/relations/a%2Fb"


@pytest.fixture(scope="module")
def readings(tmp_path_factory: pytest.TempPathFactory) -> ReadingsPipeline:
    return ReadingsPipeline(tmp_path_factory.mktemp("served"))


@pytest.fixture(scope="module")
def url(readings: ReadingsPipeline) -> Iterator[str]:
    readings.send("s1", LARGE, 0)
    readings.send_bytes(b"{broken", 1_000)
    readings.send("s2", 2, 2_000)
    with readings.served(2) as found:
        yield found


def call(url: str, method: str, path: str, **more: Any) -> httpx.Response:
    return httpx.request(method, url + path, trust_env=False, timeout=60, **more)


EVENT_STREAM = "text/event-stream"
NOT_FOUND = {
    # This service explains nothing, and has no query of this id.
    ("POST", f"{OF_PIPELINE}/explanations"): Problem.UNKNOWN_PATH,
    ("GET", f"{OF_PIPELINE}/queries/{{query}}/rows"): Problem.UNKNOWN_QUERY,
    ("DELETE", f"{OF_PIPELINE}/queries/{{query}}"): Problem.UNKNOWN_QUERY,
}
"""The paths that are not found, with their problems."""
NAMES = {"pipeline": "readings", "relation": "a%2Fb", "number": "1", "query": "1"}


@pytest.mark.parametrize(
    "declared",
    [each for each in ALL if each.path.startswith(API)],
    ids=lambda each: f"{each.method} {each.path}",
)
def test_an_answer_has_its_declared_type(declared: ApiPath, url: str) -> None:
    path = declared.path.format_map(NAMES)
    if declared.media_type == EVENT_STREAM:
        # It has no end.
        with httpx.stream(declared.method, url + path, trust_env=False, timeout=60) as stream:
            assert stream.status_code in declared.all_answers()
            assert stream.headers["content-type"].startswith(EVENT_STREAM)
            assert next(stream.iter_lines()).startswith("retry: ")
        return
    answer = call(url, declared.method, path)
    not_found = NOT_FOUND.get((declared.method, declared.path))
    assert (answer.status_code == 404) == (not_found is not None)
    if answer.status_code >= 400:
        problem = msgspec.json.decode(answer.content, type=ProblemAnswer)
        expected = declared.all_problems() if not_found is None else (not_found,)
        assert problem.type in {each.urn for each in expected}
        assert problem.status == answer.status_code
        return
    assert answer.status_code in declared.all_answers()
    if declared.answer is not None:
        assert msgspec.json.decode(answer.content, type=declared.answer)


def test_the_table_and_the_error_row_of_a_pipeline_that_runs(url: str) -> None:
    page = call(url, "GET", f"{TABLE}/rows?limit=1").json()
    rest = call(url, "GET", f"{TABLE}/rows?limit=1&after={page['next']}").json()
    assert sorted(page["rows"] + rest["rows"]) == [["s1", str(LARGE)], ["s2", "2"]]
    (row,) = call(url, "GET", f"{HERE}/errors?kind=rejected&pending=true").json()["errors"]
    assert (row["reason"], row["offset"], row["relation"]) == ("DECODE", 1, "READINGS")
    assert call(url, "GET", f"{HERE}/errors/{row['number']}").json() == row
    assert call(url, "GET", f"{HERE}/errors?after={row['number']}").json() == {"errors": [], "next": None}


def test_a_snapshot_is_taken_and_listed(url: str) -> None:
    taken = call(url, "POST", f"{HERE}/snapshots").json()
    listed = call(url, "GET", f"{HERE}/snapshots").json()["snapshots"]
    assert taken["commits"] in [each["commit"] for each in listed]
    positions = call(url, "GET", f"{HERE}/positions").json()
    assert positions["at"]["commit"] >= taken["commits"]
    assert [each["bound_from"] for each in positions["positions"]] == ["row"]
    commits = call(url, "GET", f"{HERE}/commits").json()["commits"]
    sizes = {each["number"]: each["snapshot"] for each in commits}
    assert sizes[taken["commits"]] == taken["bytes"]
    assert sum(each["messages"] for each in commits) == 3
    assert call(url, "GET", f"{HERE}/decisions").json() == {"decisions": [], "next": None}


def test_a_query_is_started_and_read(url: str) -> None:
    asked = {"sql": 'SELECT sensor, amount AS n FROM "a/b" ORDER BY sensor', "once": True}
    started = call(url, "POST", f"{HERE}/queries", json=asked).json()
    assert started["columns"] == [{"name": "SENSOR", "type": "VARCHAR(8)"}, {"name": "N", "type": "BIGINT"}]
    lines = call(url, "GET", f"{HERE}/queries/{started['id']}/rows").text.splitlines()
    rows = [msgspec.json.decode(each)["row"] for each in lines if '"row"' in each]
    assert rows == [["s1", LARGE], ["s2", 2]]


def test_a_refused_query_has_its_place(url: str) -> None:
    refused = call(url, "POST", f"{HERE}/queries", json={"sql": 'SELECT\n nope FROM "a/b"'})
    assert (refused.status_code, refused.json()["type"]) == (400, Problem.STATEMENT_REFUSED.urn)
    assert refused.json()["place"] == {"line": 2, "column": 2, "length": 4}


def test_late_rows_are_resubmitted_once_by_two_requests_at_once(url: str, readings: ReadingsPipeline) -> None:
    """The last test of the service: it adds rows."""
    for number in (3, 4):
        readings.send(f"s{number}", number, 500)

    def late(query: str = "") -> list[Any]:
        found: list[Any] = call(url, "GET", f"{HERE}/errors?kind=late{query}").json()["errors"]
        return found

    def resubmit(**body: object) -> Any:
        answer = call(url, "POST", f"{HERE}/errors/resubmissions", json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    wait_until(lambda: len(late()) == 2)
    numbers = [each["number"] for each in late()]
    would = resubmit(pending=True, dry_run=True)
    assert (would["taken"], would["relations"]) == (numbers, [{"relation": "READINGS", "rows": 2}])
    assert {each["rowtime"] for each in would["counts"]} == {"1970-01-01T00:00:02.000Z"}
    (stays,) = would["refused"]
    assert "cannot be decoded" in stays["why"]
    assert late("&pending=true") == late()
    with ThreadPoolExecutor(2) as both:
        done = list(both.map(lambda _: resubmit(numbers=numbers), range(2)))
    assert sorted(each for answer in done for each in answer["taken"]) == numbers
    again = [{"number": each, "why": "already resubmitted"} for each in numbers]
    assert sorted([*done[0]["refused"], *done[1]["refused"]], key=lambda each: int(each["number"])) == again
    assert resubmit(numbers=numbers) == would | {
        "dry_run": False,
        "taken": [],
        "relations": [],
        "counts": [],
        "refused": again,
    }
    assert late("&pending=true") == []
    at = iter(range(10_000, 1_000_000, 1_000))

    def are_in_the_table() -> bool:
        # They enter at the bound of the stream, and come out once it moves.
        readings.send("s5", 5, next(at))
        return bool(call(url, "GET", f"{TABLE}/rows").json()["total"] == 5)

    wait_until(are_in_the_table, every_s=0.2)
