"""A refusal below /api/v1 is a problem of RFC 9457: each declared type is provoked once."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from structlog.testing import capture_logs

from rowtide.errors import (
    FaultError,
    LimitReachedError,
    LostCommitsError,
    SourceSpan,
    StatementError,
    SupersededError,
    TransientError,
    UnknownRelationError,
)
from rowtide.web.access import Access, Page
from rowtide.web.app import application
from rowtide.web.declared import OF_PIPELINE, ONCE, PIPELINE, QUERY, WAIT, ApiPath
from rowtide.web.parameters import flag
from rowtide.web.problems import API, PROBLEM_JSON, Problem, ProblemError
from rowtide.web.tokens import Right, TokenFile
from rowtide_connectors.errors import UnavailableError
from support.web import asked

SENT = f"{API}/tried"
TAKING = f"{API}/taking"
FIELDS = (replace(QUERY, where="body"), replace(ONCE, where="body"))
NAMED = f"{OF_PIPELINE}/tried"


@dataclass(frozen=True)
class Provoked:
    """A request, or an error of the runtime, that has this problem."""

    raised: Exception | None = None
    refused: Problem = Problem.STATEMENT_REFUSED
    method: str = "GET"
    path: str = SENT
    headers: dict[str, str] = field(default_factory=dict)
    body_bytes: int = 0
    body: object = None
    token: bool = True


PROVOKED = {
    Problem.INVALID_PARAMETER: Provoked(path=f"{SENT}?wait=maybe"),
    Problem.INVALID_BODY: Provoked(path=TAKING, method="POST", body=["no", "object"]),
    Problem.BODY_TYPE: Provoked(path=TAKING, method="POST"),
    Problem.UNKNOWN_QUERY: Provoked(ProblemError(Problem.UNKNOWN_QUERY, "no such query")),
    Problem.UNKNOWN_ERROR_ROW: Provoked(ProblemError(Problem.UNKNOWN_ERROR_ROW, "no such row")),
    Problem.STATEMENT_REFUSED: Provoked(StatementError("no", span=SourceSpan(2, 3, 4), text="A\nB CD")),
    Problem.UNAUTHENTICATED: Provoked(token=False),
    Problem.RIGHT_MISSING: Provoked(method="POST"),
    Problem.OTHER_SITE: Provoked(headers={"sec-fetch-site": "cross-site"}),
    Problem.HOST_NOT_ALLOWED: Provoked(headers={"host": "evil.example"}),
    Problem.UNKNOWN_PATH: Provoked(path=f"{API}/nothing"),
    Problem.UNKNOWN_PIPELINE: Provoked(path=f"{API}/pipelines/other/tried"),
    Problem.UNKNOWN_RELATION: Provoked(UnknownRelationError("no such relation")),
    Problem.METHOD_NOT_ALLOWED: Provoked(method="DELETE"),
    Problem.NOT_ACCEPTABLE: Provoked(headers={"accept": "text/html"}),
    Problem.NOT_POSSIBLE: Provoked(StatementError("not now"), refused=Problem.NOT_POSSIBLE),
    Problem.LENGTH_REQUIRED: Provoked(headers={"transfer-encoding": "chunked"}, body_bytes=8),
    Problem.BODY_TOO_LARGE: Provoked(headers={"content-length": "9"}, body_bytes=8),
    Problem.NOT_EXPLAINED: Provoked(StatementError("no such row"), refused=Problem.NOT_EXPLAINED),
    Problem.TOO_MANY_QUERIES: Provoked(LimitReachedError("8 queries run")),
    Problem.TOO_MANY_LOGINS: Provoked(
        ProblemError(Problem.TOO_MANY_LOGINS, "too many have failed", retry_after_s=60)
    ),
    Problem.HEAD_TOO_LARGE: Provoked(headers={"x": "a" * 33_000}),
    Problem.FAULT: Provoked(ZeroDivisionError("secret")),
    Problem.UNAVAILABLE: Provoked(TransientError("broker down")),
    Problem.SUPERSEDED: Provoked(SupersededError("taken")),
}


def answer(tried: Provoked, folder: Path) -> httpx.Response:
    tokens = folder / "tokens"
    tokens.write_text("looker read looker-looker-looker\n")
    tokens.chmod(0o600)

    def handler(request: Request) -> dict[str, bool]:
        if tried.raised is not None:
            raise tried.raised
        return {"waits": flag(request, WAIT)}

    paths = [
        ApiPath(SENT, Right.READ, "Try.", (WAIT,), refused=tried.refused, body_bytes=tried.body_bytes),
        ApiPath(SENT, Right.OPERATE, "Try.", method="POST"),
        ApiPath(NAMED, Right.READ, "Try.", (PIPELINE,)),
        ApiPath(TAKING, Right.READ, "Try.", FIELDS, method="POST", body_bytes=99),
    ]
    app: Starlette = application(
        [Page(each, handler) for each in paths], Access(TokenFile(tokens), frozenset()), "shop"
    )
    token = "looker-looker-looker" if tried.token else None
    return asked(app, tried.method, tried.path, token, tried.body, **tried.headers)


@pytest.mark.parametrize("problem", Problem, ids=lambda each: each.word)
def test_each_type_of_problem_is_answered_as_declared(problem: Problem, tmp_path: Path) -> None:
    with capture_logs() as logs:
        found = answer(PROVOKED[problem], tmp_path)
    body = found.json()
    assert (found.status_code, found.headers["content-type"]) == (problem.value.status, PROBLEM_JSON)
    again = body.pop("retry_after_s")
    assert found.headers.get("retry-after") == (None if again is None else str(again))
    assert (again is not None) == (problem.value.status in (429, 503))
    assert body.pop("detail")
    assert body.pop("hint", "") != ""
    place = {"line": 2, "column": 3, "length": 4} if problem is Problem.STATEMENT_REFUSED else None
    assert body == {
        "type": f"urn:rowtide:problem:{problem.name.lower().replace('_', '-')}",
        "title": problem.value.title,
        "status": problem.value.status,
        "place": place,
        "instance": found.headers["x-request-id"],
    }
    faults = [each for each in logs if each["event"] == "request_failed"]
    assert [each["request"] for each in faults] == [body["instance"]] * (problem is Problem.FAULT)


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        (FaultError("broken"), Problem.FAULT),
        (LostCommitsError("lost"), Problem.SUPERSEDED),
        (UnavailableError("database down"), Problem.UNAVAILABLE),
    ],
)
def test_errors_have_the_problem_of_their_class(error: Exception, problem: Problem, tmp_path: Path) -> None:
    assert answer(Provoked(error), tmp_path).json()["type"] == problem.urn


def test_a_fault_is_in_the_log_and_not_in_the_answer(tmp_path: Path) -> None:
    with capture_logs() as logs:
        found = answer(PROVOKED[Problem.FAULT], tmp_path)
    assert "secret" not in found.text
    assert [str(each["exc_info"]) for each in logs if each["event"] == "request_failed"] == ["secret"]


def test_a_method_that_a_path_does_not_have_is_refused_with_those_that_it_has(tmp_path: Path) -> None:
    found = answer(PROVOKED[Problem.METHOD_NOT_ALLOWED], tmp_path)
    assert found.headers["allow"] == "GET, HEAD, POST"


@pytest.mark.parametrize(
    ("given", "is_kept"),
    [
        ("7f3a", True),
        ("A.b_c-9" * 9, True),
        ("a" * 65, False),
        ("", False),
        ("a b", False),
        ("a\tevent=x", False),
        ('a"b', False),
    ],
)
def test_an_answer_has_the_id_that_the_client_gave_or_one_of_its_own(
    given: str, is_kept: bool, tmp_path: Path
) -> None:
    tried = Provoked(headers={"x-request-id": given})
    found = answer(tried, tmp_path)
    assert found.status_code == 200
    sent = found.headers["x-request-id"]
    assert (sent == given) == is_kept
    assert is_kept or re.fullmatch("[0-9a-f]{32}", sent)
    assert answer(Provoked(), tmp_path).headers["x-request-id"] != sent


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ([], "the body is not a JSON object"),
        ({}, 'field "sql" of the body is missing'),
        ({"sql": ""}, 'field "sql" of the body is missing'),
        ({"sql": None}, 'field "sql" of the body is missing'),
        ({"sql": 1}, 'field "sql" of the body is not a string'),
        ({"sql": "SELECT", "once": 1}, 'field "once" of the body is not a boolean'),
        ({"sql": "SELECT", "twice": True}, 'the body has an unknown field "twice"'),
        ({"sql": "SELECT"}, None),
        ({"sql": "SELECT", "once": True}, None),
    ],
)
def test_a_body_has_the_declared_fields(body: object, said: str | None, tmp_path: Path) -> None:
    found = answer(Provoked(path=TAKING, method="POST", body=body), tmp_path)
    if said is None:
        assert found.status_code == 200
        return
    assert (found.status_code, found.json()["detail"]) == (400, said)
    assert found.json()["hint"] == "It is a JSON object with sql (string), once (boolean)."
