"""``/commits``: the last commits of this process, from memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from starlette.requests import Request

from rowtide.runtime.progress.board import MOST_COMMITS, CommitReport
from rowtide.web.access import Page
from rowtide.web.api.answers import At, at_of, rfc3339
from rowtide.web.declared import AFTER, OF_PIPELINE, PAGE_ROWS, PIPELINE, ApiPath
from rowtide.web.handlers import Handlers
from rowtide.web.parameters import number
from rowtide.web.status import Status
from rowtide.web.tokens import Right


@dataclass(frozen=True, slots=True)
class CommitAnswer:
    """A commit. ``rows`` are those that it wrote, by table or stream.

    ``snapshot`` is the size in bytes of the snapshot that is complete with it, null if there is none.
    """

    number: int
    epoch: int
    at: str | None
    seconds: float
    messages: int
    rows: Mapping[str, int]
    late: int
    rejected: int
    snapshot: int | None


@dataclass(frozen=True, slots=True)
class CommitsAnswer:
    """Commits of this process, the newest first. ``next`` is ``after`` of those that follow, null at the end.

    ``begun`` is when this process began to run the pipeline, null if it does not run it yet. ``not_shown`` counts the
    commits of the pipeline before the oldest one that is kept: those of before this start, and those beyond the limit.
    """

    commits: list[CommitAnswer]
    next: str | None
    begun: str | None
    not_shown: int
    at: At


LIST = ApiPath(
    f"{OF_PIPELINE}/commits",
    Right.READ,
    f"List the last {MOST_COMMITS:,} commits, the newest first. They are in memory: commits of before the start of "
    "this process are not listed, and `not_shown` counts them.",
    (PIPELINE, PAGE_ROWS, AFTER),
    answer=CommitsAnswer,
)
PATHS = (LIST,)


def pages(handlers: Handlers, status: Status) -> list[Page]:
    """Return the page. It never waits for the main loop."""
    board = handlers.progress
    if board is None:
        return []

    async def listed(request: Request) -> CommitsAnswer:
        kept, after, limit = board.commits, number(request, AFTER), number(request, PAGE_ROWS)
        now = status.status()
        following = [each for each in reversed(kept) if after == 0 or each.number < after]
        shown = following[:limit]
        return CommitsAnswer(
            [_answer(each) for each in shown],
            str(shown[-1].number) if shown and len(following) > limit else None,
            rfc3339(board.began_ms),
            kept[0].number - 1 if kept else now.commits or 0,
            at_of(now),
        )

    return [Page(LIST, listed)]


def _answer(commit: CommitReport) -> CommitAnswer:
    return CommitAnswer(
        commit.number,
        commit.epoch,
        rfc3339(commit.at_ms),
        commit.seconds,
        commit.messages,
        commit.rows,
        commit.late,
        commit.rejected,
        commit.snapshot_bytes,
    )
