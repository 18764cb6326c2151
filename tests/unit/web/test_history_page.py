"""``/history`` of a pipeline that has run."""

from __future__ import annotations

from typing import Any

import pytest

from rowtide.metrics import Metrics
from rowtide.runtime.progress.board import ProgressBoard
from rowtide.web import Handlers, build_app
from support.progress import ran
from support.web import Pipeline, StoppedClock, asked

PATH = "/api/v1/pipelines/orders_per_minute/history"


@pytest.fixture(scope="module")
def board() -> ProgressBoard:
    return ran()[1]


def got(board: ProgressBoard, query: str) -> Any:
    app = build_app(Pipeline(), Metrics(), StoppedClock(), version="1", handlers=Handlers(progress=board))
    return asked(app, "GET", PATH + query)


def test_the_last_row_has_the_counts_of_the_newest_progress(board: ProgressBoard) -> None:
    (*_, newest) = board.newest
    for at, node in enumerate(newest.graph.nodes):
        answer = got(board, f"?relation={node.id}").json()
        assert answer["resolution_ms"] == {"recent": 1000, "hour": 10000}
        assert answer["columns"][0] == "time_ms"
        counts = newest.by_node[at].tolist()
        assert answer["rows"][-1][1:-1] == counts[:-1]


def test_the_pipeline_as_a_whole_counts_what_is_read_and_written(board: ProgressBoard) -> None:
    (*_, newest) = board.newest
    by_node = {node.id: newest.by_node[at].tolist() for at, node in enumerate(newest.graph.nodes)}
    row = got(board, "").json()["rows"][-1]
    assert row[1] == by_node["READINGS"][0]
    assert row[2] == by_node["MINUTES"][1]
    assert row[6] == sum(each[5] for each in by_node.values())
    assert row[7] == by_node["MINUTES"][-1]


def test_since_leaves_out_what_is_older(board: ProgressBoard) -> None:
    assert got(board, "?since=9000-01-01T00:00:00Z").json()["rows"] == []
    assert got(board, "?since=1970-01-01T00:00:00%2B01:00").json()["rows"]


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("?since=yesterday", "invalid-parameter"),
        ("?since=2026-01-01T00:00:00", "invalid-parameter"),
        ("?relation=nothing", "unknown-relation"),
    ],
)
def test_what_is_invalid_is_a_problem(board: ProgressBoard, query: str, problem: str) -> None:
    assert got(board, query).json()["type"] == f"urn:rowtide:problem:{problem}"
