"""``/errors/resubmissions``: which rows a body chooses, what the answer says, and that the log has the effect."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import httpx
import pytest
from structlog.testing import capture_logs

from rowtide.checkpoint.error_stream import RESUBMITTED_ROWS, ErrorFilter
from rowtide.checkpoint.ledger import ErrorRow, StoredError
from rowtide.errors import StatementError
from rowtide.metrics import Metrics
from rowtide.runtime.resubmitting.resubmit import ResubmittedRows
from rowtide.runtime.resubmitting.where_counts import Counting
from rowtide.web import Handlers, build_app
from rowtide.web.access import access_of
from rowtide.web.problems import Problem
from support.web import Pipeline, StoppedClock, asked

PATH = "/api/v1/pipelines/orders_per_minute/errors/resubmissions"
TOKENS = {"looker": "looker-looker-looker", "ops": "operations-operations"}
LATE = ErrorRow(
    "LATE", "TIMED", "LATE: 7 ms", "orders", 1, 8812, rowtime=993, bound=1_000, raw=b"{}", stream="ORDERS"
)
DONE = ResubmittedRows(
    [
        StoredError(17, LATE, 3, 9_000),
        StoredError(18, replace(LATE, relation="ORDERS"), 3, 9_000),
        StoredError(19, LATE, 3, 9_000),
    ],
    {16: "the message has no bytes, or they are unknown"},
    {17: Counting(1_000, (("PER_MINUTE", 60_000),)), 19: Counting(2_000, ())},
    last=19,
    left=996,
)


@dataclass
class Resubmitting:
    """What resubmits, and what it was asked for."""

    done: ResubmittedRows | StatementError = DONE
    asked: list[tuple[ErrorFilter, bool, int]] = field(default_factory=list)

    def __call__(self, wanted: ErrorFilter, dry_run: bool, most: int) -> ResubmittedRows:
        self.asked.append((wanted, dry_run, most))
        if isinstance(self.done, StatementError):
            raise self.done
        return self.done

    def answer(
        self, body: object, folder: Path, token: str | None = TOKENS["ops"], **headers: str
    ) -> httpx.Response:
        file = folder / "tokens"
        file.write_text(f"looker read {TOKENS['looker']}\nops operate {TOKENS['ops']}\n")
        file.chmod(0o600)
        access = access_of("127.0.0.1:0", str(file), allow_anonymous=False)
        handlers = Handlers(resubmit=self)
        app = build_app(Pipeline(), Metrics(), StoppedClock(), version="1", handlers=handlers, access=access)
        return asked(app, "POST", PATH, token, body, **headers)


@pytest.mark.parametrize(
    ("body", "wanted", "dry_run"),
    [
        ({"numbers": [17]}, ErrorFilter(numbers=(17,)), False),
        ({"numbers": [17, 3], "dry_run": True}, ErrorFilter(numbers=(17, 3)), True),
        ({"pending": True}, ErrorFilter(pending=True), False),
        ({"kind": "late", "after": 4}, ErrorFilter(kind="LATE", after=4), False),
        ({"relation": "a b", "reason": ""}, ErrorFilter(relation="a b"), False),
        ({"reason": "decode", "numbers": []}, ErrorFilter(reason="DECODE"), False),
    ],
)
def test_a_body_chooses_rows(body: object, wanted: ErrorFilter, dry_run: bool, tmp_path: Path) -> None:
    made = Resubmitting()
    assert made.answer(body, tmp_path).status_code == 200
    assert made.asked == [(wanted, dry_run, RESUBMITTED_ROWS)]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({}, "no error rows are selected"),
        ({"dry_run": True, "after": 3, "numbers": [], "kind": ""}, "no error rows are selected"),
        ({"numbers": 17}, 'field "numbers" of the body is not an array of integers'),
        ({"numbers": ["17"]}, 'field "numbers" of the body is not an array of integers'),
        ({"numbers": [True]}, 'field "numbers" of the body is not an array of integers'),
        ({"numbers": [1.5]}, 'field "numbers" of the body is not an array of integers'),
        ({"numbers": [-1]}, f'field "numbers" of the body is not within 0 to {2**63 - 1}'),
        ({"numbers": [2**63]}, f'field "numbers" of the body is not within 0 to {2**63 - 1}'),
        ({"numbers": list(range(10_001))}, 'field "numbers" of the body has more than 10000 numbers'),
        ({"numbers": None}, 'field "numbers" of the body is missing'),
        ({"pending": True, "after": -1}, f'field "after" of the body is not within 0 to {2**63 - 1}'),
        ({"pending": True, "after": "3"}, 'field "after" of the body is not an integer'),
        ({"pending": 1}, 'field "pending" of the body is not a boolean'),
        ({"number": 17}, 'the body has an unknown field "number"'),
    ],
)
def test_a_body_that_chooses_no_rows_is_refused(body: object, said: str, tmp_path: Path) -> None:
    made = Resubmitting()
    refused = made.answer(body, tmp_path)
    assert (refused.status_code, refused.json()["type"]) == (400, Problem.INVALID_BODY.urn)
    assert refused.json()["detail"] == said
    assert made.asked == []


@pytest.mark.parametrize("dry_run", [False, True])
def test_the_answer_has_what_is_taken_where_it_counts_and_what_stays(dry_run: bool, tmp_path: Path) -> None:
    answer = Resubmitting().answer({"pending": True, "dry_run": dry_run}, tmp_path).json()
    assert answer == {
        "dry_run": dry_run,
        "taken": [17, 18, 19],
        "relations": [{"relation": "ORDERS", "rows": 1}, {"relation": "TIMED", "rows": 2}],
        "counts": [
            {
                "number": 17,
                "rowtime": "1970-01-01T00:00:01.000Z",
                "windows": [{"relation": "PER_MINUTE", "ends": "1970-01-01T00:01:00.000Z"}],
            },
            {"number": 19, "rowtime": "1970-01-01T00:00:02.000Z", "windows": []},
        ],
        "refused": [{"number": 16, "why": "the message has no bytes, or they are unknown"}],
        "next": 19,
        "left": 996,
    }


def test_what_the_pipeline_refuses_is_a_conflict(tmp_path: Path) -> None:
    refused = Resubmitting(StatementError("the pipeline has 1000 resubmissions")).answer(
        {"numbers": [17]}, tmp_path
    )
    assert (refused.status_code, refused.json()["type"]) == (409, Problem.NOT_POSSIBLE.urn)


def test_the_log_has_who_resubmitted_how_many_rows_and_who_was_refused(tmp_path: Path) -> None:
    made = Resubmitting()
    with capture_logs() as logs:
        made.answer({"numbers": [17]}, tmp_path)
        made.answer({"numbers": [17], "dry_run": True}, tmp_path)
        made.answer({"numbers": [17]}, tmp_path, TOKENS["looker"])
    assert len(made.asked) == 2
    said = [
        (each["caller"], each["status"], each.get("resubmitted"), each.get("dry_run"))
        for each in logs
        if each["event"] == "audit"
    ]
    assert said[:2] == [("ops", 200, 3, False), ("ops", 200, 0, True)]
    assert [each[1:] for each in said[2:]] == [(403, None, None)]


@pytest.mark.parametrize(
    "headers",
    [{"origin": "http://evil.example"}, {"sec_fetch_site": "cross-site"}, {"sec_fetch_site": "same-site"}],
)
def test_a_page_of_another_site_resubmits_nothing(headers: dict[str, str], tmp_path: Path) -> None:
    made = Resubmitting()
    refused = made.answer({"numbers": [17]}, tmp_path, **headers)
    assert (refused.status_code, refused.json()["type"]) == (403, Problem.OTHER_SITE.urn)
    assert made.asked == []
