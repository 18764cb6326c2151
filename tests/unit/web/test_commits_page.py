"""``/commits`` of a pipeline that has run, and of one that does not run yet."""

from __future__ import annotations

from typing import Any

import pytest

from rowtide.metrics import Metrics
from rowtide.runtime.pace import Pace
from rowtide.runtime.progress.board import ProgressBoard
from rowtide.web import Handlers, build_app
from rowtide.web.api.answers import rfc3339
from support.progress import ran
from support.web import Pipeline, StoppedClock, asked, progress_of_orders

PATH = "/api/v1/pipelines/orders_per_minute/commits"


@pytest.fixture(scope="module")
def board() -> ProgressBoard:
    return ran(pace=Pace(100, 20, 50, None), poll_messages=10)[1]


def got(board: ProgressBoard, query: str = "") -> Any:
    app = build_app(Pipeline(), Metrics(), StoppedClock(), version="1", handlers=Handlers(progress=board))
    return asked(app, "GET", PATH + query).json()


def test_a_commit_has_what_it_read_wrote_and_refused(board: ProgressBoard) -> None:
    answer, kept = got(board), board.commits
    assert [each["number"] for each in answer["commits"]] == [each.number for each in reversed(kept)]
    newest = kept[-1]
    assert answer["commits"][0] == {
        "number": newest.number,
        "epoch": newest.epoch,
        "at": rfc3339(newest.at_ms),
        "seconds": newest.seconds,
        "messages": newest.messages,
        "rows": newest.rows,
        "late": newest.late,
        "rejected": newest.rejected,
        "snapshot": newest.snapshot_bytes,
    }
    assert (answer["begun"], answer["not_shown"]) == (rfc3339(board.began_ms), kept[0].number - 1)
    assert answer["at"]["epoch"] == 3


@pytest.mark.parametrize("limit", [1, 2, 3, 1_000])
def test_the_pages_have_each_commit_once_the_newest_first(board: ProgressBoard, limit: int) -> None:
    numbers: list[int] = []
    after: str | None = "0"
    while after is not None:
        page = got(board, f"?limit={limit}&after={after}")
        assert len(page["commits"]) <= limit
        numbers += [each["number"] for each in page["commits"]]
        after = page["next"]
    assert numbers == [each.number for each in reversed(board.commits)]


def test_a_page_without_commits_ends_and_a_limit_is_checked(board: ProgressBoard) -> None:
    for query in ("?limit=0", f"?after={board.commits[0].number}"):
        page = got(board, query)
        assert (page["commits"], page["next"]) == ([], None)
    for query in ("?limit=10001", "?after=-1", "?after=x"):
        assert got(board, query)["type"] == "urn:rowtide:problem:invalid-parameter"


def test_before_the_pipeline_runs_all_its_commits_are_not_shown() -> None:
    answer = got(progress_of_orders())
    assert (answer["commits"], answer["next"], answer["begun"]) == ([], None, None)
    assert answer["not_shown"] == answer["at"]["commit"] == 12
