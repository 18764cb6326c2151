"""The resources of a pipeline below /api/v1: what each answers, and that the aliases of before name them."""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from dataclasses import asdict, fields
from decimal import Decimal
from typing import Any

import httpx
import msgspec
import pytest

from rowtide.checkpoint.error_stream import ErrorFilter
from rowtide.checkpoint.ledger import (
    RESET,
    Decision,
    ErrorRow,
    Resubmission,
    SnapshotEntry,
    StoredDecision,
    StoredError,
)
from rowtide.checkpoint.statement_log import SentText, StatementOutcome
from rowtide.flow.why_not import Fate, Holder, Wait
from rowtide.metrics import Metrics
from rowtide.operators.contract import Account
from rowtide.plan.nodes.node import BY_CONDITION
from rowtide.rows.rowop import Row
from rowtide.runtime.inspect.sending import StatementAnswer
from rowtide.runtime.inspect.why_answer import ExplanationAnswer, InputAnswer
from rowtide.runtime.inspect.why_not import Cause, SilenceExplanation
from rowtide.runtime.query.contents import LatestRow, LatestRows, TableContents
from rowtide.web import Handlers, build_app
from rowtide.web.access import Access
from rowtide.web.api.relations import AccountAnswer, CauseAnswer, WhyNotAnswer
from rowtide.web.api.statements import StatementOutcomeAnswer
from rowtide.web.declared import OF_PIPELINE, UNVERSIONED, ApiPath
from rowtide.web.described import ALL
from support.web import Pipeline, StoppedClock, address, asked, whole_app

HERE = "/api/v1/pipelines/orders_per_minute"


def answer(handlers: Handlers, path: str, status: int = 200) -> Any:
    app = build_app(Pipeline(), Metrics(), StoppedClock(), version="1", handlers=handlers)
    found: httpx.Response = asked(app, "GET", f"{HERE}{path}")
    assert found.status_code == status, found.text
    return found.json()


def test_positions_have_their_ends_their_lag_and_their_bounds() -> None:
    found = answer(Handlers(), "/positions")
    assert found["at"]["commit"] == 12
    assert found["positions"] == [
        {
            "relation": "ORDERS",
            "topic": "orders",
            "partition": 0,
            "next_offset": 42,
            "start_offset": 2,
            "end_offset": 50,
            "lag": 8,
            "bound": "1970-01-01T00:00:01.000Z",
            "bound_from": "row",
        }
    ]


def test_snapshots_are_listed() -> None:
    stored = SnapshotEntry(snapshot_id=4, epoch=2, commits=9, bytes=1_000, stored_at_ms=5_000)
    assert answer(Handlers(snapshots=lambda: [stored]), "/snapshots") == {
        "snapshots": [
            {"number": 4, "epoch": 2, "commit": 9, "bytes": 1_000, "stored_at": "1970-01-01T00:00:05.000Z"}
        ]
    }


class Decisions:
    def __init__(self, *decisions: Decision) -> None:
        self.rows = [StoredDecision(at, each, 3, 9_000) for at, each in enumerate(decisions, 5)]

    def last(self, limit: int, before: int | None) -> Sequence[StoredDecision]:
        found = [each for each in reversed(self.rows) if before is None or each.number < before]
        return found[:limit]


def decided(number: int, kind: str, relation: str, **fields: object) -> dict[str, object]:
    """Return what is answered of a decision; all other fields are null."""
    names = ("topic", "partition", "resubmission", "offset", "jumped_from", "bound", "reader")
    head = {"number": number, "kind": kind, "relation": relation}
    tail = {"epoch": 3, "committed_at": "1970-01-01T00:00:09.000Z"}
    return {**head, **dict.fromkeys(names), **fields, **tail}


def test_a_decision_has_its_place_or_the_jump_of_a_model_or_its_resubmission() -> None:
    again = Resubmission(4, "ORDERS", "ORDERS", entered=True).place
    decisions = Decisions(
        Decision("IDLE", "ORDERS", 1, 7, 1_000, "judge"),
        Decision("SKIP", "GONE", 0, 8, None),
        Decision(RESET, "MODEL", 0, 2_000, 3_000),
        Decision("JOIN", *again, 0, 4_000),
    )
    idle = {"topic": "orders", "partition": 1, "offset": 7, "reader": "judge"}
    jump = {"jumped_from": "1970-01-01T00:00:02.000Z", "bound": "1970-01-01T00:00:03.000Z"}
    assert answer(Handlers(decisions=decisions.last), "/decisions") == {
        "decisions": [
            decided(8, "JOIN", "ORDERS", resubmission=4, offset=0, bound="1970-01-01T00:00:04.000Z"),
            decided(7, "RESET", "MODEL", **jump),
            decided(6, "SKIP", "GONE", partition=0, offset=8),
            decided(5, "IDLE", "ORDERS", bound="1970-01-01T00:00:01.000Z", **idle),
        ],
        "next": None,
    }


TABLE = [(number, Decimal(number) / 4, "é") for number in range(5)]


def contents(relation: str, limit: int, after: int) -> TableContents:
    types = ("BIGINT", "DECIMAL(9,2)", "VARCHAR")
    return TableContents(relation, ("n", "d", "s"), types, TABLE[after : after + limit], len(TABLE))


def latest(relation: str, limit: int) -> LatestRows:
    types = ("BIGINT", "DOUBLE", "VARBINARY(2)", "DOUBLE ARRAY")
    values: list[Row] = [(2**63 - 1, math.nan, b"\x00\xff", (-math.inf, None)), (None, 0.5, None, None)]
    rows = [LatestRow("+", None, values[0]), LatestRow("-", 1_500, values[1])]
    return LatestRows(("n", "d", "b", relation), types, rows[-limit:] if limit else [], 9, 5_000)


def test_the_last_rows_have_their_op_their_time_and_exact_values() -> None:
    handlers = Handlers(latest_rows=latest)
    found = answer(handlers, "/relations/%22a%2Fb%22/rows/latest")
    assert found["columns"][0] == {"name": "n", "type": "BIGINT"}
    assert found["columns"][3]["name"] == '"a/b"'
    assert found["rows"] == [
        {"op": "+", "rowtime": None, "row": [str(2**63 - 1), "NaN", "AP8=", ["-Infinity", None]]},
        {"op": "-", "rowtime": 1_500, "row": [None, 0.5, None, None]},
    ]
    assert (found["total"], found["since"], found["at"]["commit"]) == (9, "1970-01-01T00:00:05.000Z", 12)
    assert len(answer(handlers, "/relations/R/rows/latest?limit=1")["rows"]) == 1
    assert answer(handlers, "/relations/R/rows/latest?limit=0")["rows"] == []


@pytest.mark.parametrize("limit", ["101", "-1", "1.5", "x", ""])
def test_a_limit_of_last_rows_is_checked(limit: str) -> None:
    refused = answer(Handlers(latest_rows=latest), f"/relations/R/rows/latest?limit={limit}", 400)
    assert (refused["type"], "limit" in refused["detail"]) == ("urn:rowtide:problem:invalid-parameter", True)
    assert refused["hint"] == "It is a whole number of 0 to 100."


def test_a_page_without_rows_ends_and_a_limit_is_checked() -> None:
    handlers = Handlers(contents=contents)
    for query in ("limit=0", "after=5", "after=99"):
        page = answer(handlers, f"/relations/T/rows?{query}")
        assert (page["rows"], page["next"]) == ([], None)
    for query in ("limit=10001", "after=-1", "after=x", f"after={2**63}"):
        assert answer(handlers, f"/relations/T/rows?{query}", 400)["type"].endswith(":invalid-parameter")


def test_a_name_in_a_path_is_the_relation_that_is_asked_for() -> None:
    asked_for: list[str] = []

    def held(relation: str, _limit: int, _after: int) -> TableContents:
        asked_for.append(relation)
        return TableContents(relation, (), (), (), 0)

    names = ["ORDERS", "a/b", "ü b", "100%", "a%2Fb", "a?b#c"]
    for name in names:
        answer(Handlers(contents=held), address("/relations/{relation}/rows", relation=name))
    assert asked_for == names


def stored(number: int, again: int | None = None) -> StoredError:
    row = ErrorRow(
        "LATE",
        "ORDERS",
        "LATE: 7 ms below the rowtime bound",
        topic="orders",
        partition=1,
        offset=8812,
        rowtime=993,
        bound=1_000,
        raw=b"\xff{",
        row='{"n": 1}',
        stream="ORDERS",
        message_time=None,
        key=None,
        headers='[["a", "YQ=="]]',
    )
    return StoredError(number, row, 3, 9_000, again, None if again is None else 9_500)


class Errors:
    def __init__(self, count: int) -> None:
        self.rows = [stored(number) for number in range(1, count + 1)]
        self.wanted: list[ErrorFilter] = []

    def errors(self, wanted: ErrorFilter, limit: int | None) -> Sequence[StoredError]:
        self.wanted.append(wanted)
        found = [each for each in self.rows if each.error_id > wanted.after]
        return [each for each in found if not wanted.numbers or each.error_id in wanted.numbers][:limit]


def test_an_error_row_has_its_place_its_bytes_and_its_resubmission() -> None:
    errors = Errors(1)
    errors.rows = [stored(17, 4)]
    found = answer(Handlers(errors=errors.errors), "/errors/17")
    assert found == {
        "number": 17,
        "kind": "LATE",
        "relation": "ORDERS",
        "reason": "LATE",
        "detail": "7 ms below the rowtime bound",
        "stream": "ORDERS",
        "topic": "orders",
        "partition": 1,
        "offset": 8812,
        "message_time": None,
        "rowtime": "1970-01-01T00:00:00.993Z",
        "bound": "1970-01-01T00:00:01.000Z",
        "late_by_ms": 7,
        "row": {"n": 1},
        "raw_base64": base64.b64encode(b"\xff{").decode(),
        "key_base64": None,
        "headers": [["a", "YQ=="]],
        "epoch": 3,
        "committed_at": "1970-01-01T00:00:09.000Z",
        "resubmission": {"number": 4, "at": "1970-01-01T00:00:09.500Z"},
    }


@pytest.mark.parametrize("number", ["18", "0", "x", "-1", "%D9%A3", "9" * 19, "9" * 5_000])
def test_an_error_row_that_does_not_exist_is_not_found(number: str) -> None:
    found = answer(Handlers(errors=Errors(3).errors), f"/errors/{number}", 404)
    assert found["type"] == "urn:rowtide:problem:unknown-error-row"


FOUR_DECISIONS = Decisions(*(Decision("IDLE", "ORDERS", 0, offset, offset) for offset in range(4)))


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 6, 10_000])
@pytest.mark.parametrize(
    ("handlers", "path", "of", "entries"),
    [
        (Handlers(decisions=FOUR_DECISIONS.last), "/decisions", "decisions", [8, 7, 6, 5]),
        (Handlers(errors=Errors(3).errors), "/errors", "errors", [1, 2, 3]),
        (
            Handlers(contents=contents),
            "/relations/%22a%2Fb%22/rows",
            "rows",
            [[str(n), str(d), s] for n, d, s in TABLE],
        ),
    ],
    ids=["decisions", "errors", "rows"],
)
def test_the_pages_of_a_list_have_each_entry_once(
    handlers: Handlers, path: str, of: str, entries: list[object], limit: int
) -> None:
    pages: list[Any] = []
    after = "0"
    while after is not None:
        pages.append(answer(handlers, f"{path}?limit={limit}&after={after}"))
        after = pages[-1]["next"]
    found = [each for page in pages for each in page[of]]
    assert [each["number"] if isinstance(each, dict) else each for each in found] == entries
    assert len(pages) == -(-len(entries) // limit)
    if of == "rows":
        assert {page["total"] for page in pages} == {len(TABLE)}
        assert all(page["columns"][0] == {"name": "n", "type": "BIGINT"} for page in pages)


def test_error_rows_are_chosen_by_every_filter() -> None:
    errors = Errors(0)
    query = "kind=late&relation=ORDERS&reason=decode&pending=true&after=5"
    answer(Handlers(errors=errors.errors), f"/errors?{query}")
    answer(Handlers(errors=errors.errors), "/errors?kind=&relation=")
    assert errors.wanted == [
        ErrorFilter(kind="LATE", relation="ORDERS", reason="DECODE", pending=True, after=5),
        ErrorFilter(),
    ]


def test_refused_statements_are_a_problem_and_queued_ones_are_not() -> None:
    class Sent:
        def __init__(self, outcome: str) -> None:
            self.outcome = outcome

        def to_json(self) -> dict[str, object]:
            return {"outcome": self.outcome, "error": "no"}

    for outcome, status in (("applied", 200), ("queued", 202), ("refused", 400)):
        sent = Sent(outcome)

        def execute(_sql: str, _wait: bool, sent: Sent = sent) -> Sent:
            return sent

        handlers = Handlers(execute=execute)
        app = build_app(Pipeline(), Metrics(), StoppedClock(), version="1", handlers=handlers)
        found = asked(app, "POST", f"{HERE}/statements", body={"sql": "DELETE FROM t"})
        assert found.status_code == status
        old = asked(app, "POST", "/execute?sql=DELETE")
        assert (old.status_code, old.json()["outcome"]) == (status, outcome)


ALIASES = [each for each in UNVERSIONED if each.successor is not None]


@pytest.mark.parametrize("alias", ALIASES, ids=lambda each: each.path)
def test_an_alias_names_the_path_that_replaces_it(alias: ApiPath) -> None:
    assert alias.successor is not None
    assert alias.successor in {each.path for each in ALL if each.path.startswith(OF_PIPELINE)}
    found = asked(whole_app(Access()), alias.method, f"{alias.path}?relation=a%2Fb")
    assert found.headers["deprecation"] == "@1795824000"
    successor = address(alias.successor, relation="a/b").lstrip("/")
    assert found.headers["link"] == f'<{successor}>; rel="successor-version"'
    assert "deprecation" not in asked(whole_app(Access()), "GET", HERE).headers


def test_why_not_has_the_declared_type() -> None:
    account = Account(rows_in=9, done=7, filtered=1, late=1, rejected=0, rows_out=3)
    silence = SilenceExplanation(
        "orders_per_minute",
        "T",
        "running",
        (Cause("BOUND", "T", "why", "released", "change", topic="orders", partition=1, has=None, needs=7),),
        (Holder("T", "Group", None, 4, 5, (Wait("ORDERS", 1, None, 7),)),),
        (Fate("T", "Filter", 2, account, 0, False, BY_CONDITION),),
        3,
    )
    found = answer(Handlers(why_not=lambda _: silence), "/relations/T/why-not")
    assert msgspec.convert(found, WhyNotAnswer)
    assert found.keys() == {each.name for each in fields(WhyNotAnswer)}
    assert found["accounts"][0].keys() == {each.name for each in fields(AccountAnswer)}
    assert found["causes"][0] == asdict(silence.causes[0])
    assert found["causes"][0].keys() == {each.name for each in fields(CauseAnswer)}


def test_an_explanation_has_the_declared_type() -> None:
    made = ExplanationAnswer(
        "p", "T", {"N": 1}, 5, 1, ("Group",), (), (InputAnswer("S", "t", 0, 7, 5, {}),), (), (), 9, (), ()
    )
    handlers = Handlers(why=lambda _relation, _row: made)
    app = build_app(Pipeline(), Metrics(), StoppedClock(), version="1", handlers=handlers)
    found = asked(app, "POST", f"{HERE}/explanations", body={"relation": "T", "row": "n=1"})
    assert msgspec.json.decode(found.content, type=ExplanationAnswer)
    assert found.json().keys() == {each.name for each in fields(ExplanationAnswer)}
    assert found.json()["inputs"][0].keys() == {each.name for each in fields(InputAnswer)}


def test_a_statement_that_was_sent_has_the_declared_type() -> None:
    for sent in (
        SentText(4, "DELETE FROM t", StatementOutcome.APPLIED, 5_000, 6_000, 7_000, 2, "deleted 2 rows"),
        SentText(4, "DELETE FROM t", StatementOutcome.QUEUED, 5_000),
    ):
        answered = StatementAnswer(sent).to_json()
        assert msgspec.convert(answered, StatementOutcomeAnswer)
        assert answered.keys() == {each.name for each in fields(StatementOutcomeAnswer)}
