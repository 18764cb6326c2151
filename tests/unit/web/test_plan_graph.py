"""``/graph`` and ``/relations`` of a pipeline that has run, and of one that does not run yet."""

from __future__ import annotations

from typing import Any

import pytest

from rowtide.metrics import Metrics
from rowtide.runtime.progress.board import ProgressBoard
from rowtide.runtime.progress.held_back import HeldBack
from rowtide.runtime.progress.layout import BOUND, COUNTED
from rowtide.web import Handlers, build_app
from support.progress import ran
from support.web import Pipeline, StoppedClock, asked, progress_of_orders

BASE = "/api/v1/pipelines/orders_per_minute"


@pytest.fixture(scope="module")
def board() -> ProgressBoard:
    return ran()[1]


def got(board: ProgressBoard, path: str, **headers: str) -> Any:
    app = build_app(Pipeline(), Metrics(), StoppedClock(), version="1", handlers=Handlers(progress=board))
    return asked(app, "GET", f"{BASE}/{path}", **headers)


def test_the_graph_has_an_etag_and_is_sent_once(board: ProgressBoard) -> None:
    answer = got(board, "graph")
    graph = answer.json()
    assert answer.headers["etag"] == f'"{graph["digest"]}"'
    assert {"from": "FOUND", "to": "UNREAD"} in graph["edges"]
    assert graph["nodes"][0]["operators"][0] == {
        "step": 0,
        "operator": "Source",
        "detail": "messages in log order, by partition",
        "keeps": None,
        "partition": None,
    }
    again = got(board, "graph", if_none_match=answer.headers["etag"])
    assert (again.status_code, again.content) == (304, b"")


def test_relations_have_the_counts_of_the_newest_progress(board: ProgressBoard) -> None:
    answer = got(board, "relations").json()
    (*_, newest) = board.newest
    assert answer["at"]["commit"] == newest.status.commits
    assert [each["name"] for each in answer["relations"]] == [node.id for node in newest.graph.nodes]
    for each, counts in zip(answer["relations"], newest.by_node.tolist(), strict=True):
        assert each == got(board, f"relations/{each['name']}").json()
        if each["counts"] is not None:
            assert [each["counts"][name] for name in COUNTED] == counts[:BOUND]
    found = {each["name"]: each for each in answer["relations"]}
    assert (found["UNREAD"]["counts"], found["UNREAD"]["bound"]) == (None, None)
    minutes = found["MINUTES"]
    assert minutes["kind"] == "foreign table"
    assert minutes["columns"][0] == {
        "name": "MINUTE_BEGIN",
        "type": "TIMESTAMP",
        "nullable": False,
        "key": True,
    }
    assert (minutes["reads"], minutes["read_by"]) == (["COUNTS"], [])
    assert [each["next_offset"] for each in found["READINGS"]["partitions"]] == [
        each.next_offset for each in newest.partitions
    ]
    assert found["READINGS"]["bound"].startswith("1970-01-01T00:0")


def test_a_relation_names_the_partition_that_holds_its_rows_back() -> None:
    board = ran(partitions=1)[1]
    board.held_back = (
        HeldBack(
            "IDLE", "READINGS", "readings", 1, 61_000, 62_000, "w", "r", "c", 19, ("SAME",), (1,), ("SAME",)
        ),
    )
    assert got(board, "relations/SAME").json()["held_back_by"] == {
        "relation": "READINGS",
        "topic": "readings",
        "partition": 1,
        "needs": "1970-01-01T00:01:02.000Z",
    }
    assert got(board, "relations/MINUTES").json()["held_back_by"] is None


def test_before_the_pipeline_runs_there_is_a_graph_and_no_counts() -> None:
    board = progress_of_orders()
    assert [node["id"] for node in got(board, "graph").json()["nodes"]] == ["ORDERS"]
    orders = got(board, "relations/ORDERS").json()
    assert (orders["counts"], orders["at"]["commit"]) == (None, 12)


def test_an_unknown_relation_is_a_problem(board: ProgressBoard) -> None:
    answer = got(board, "relations/minutes")
    assert (answer.status_code, answer.json()["type"]) == (404, "urn:rowtide:problem:unknown-relation")
