"""``/snapshots``: the stored snapshots, and a new one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from starlette.requests import Request

from rowtide.runtime.query.contents import SnapshotTaken
from rowtide.web.access import Page
from rowtide.web.api.answers import rfc3339
from rowtide.web.declared import OF_PIPELINE, PIPELINE, ApiPath
from rowtide.web.handlers import Handlers
from rowtide.web.problems import Problem
from rowtide.web.tokens import Right


@dataclass(frozen=True, slots=True)
class SnapshotAnswer:
    """A stored snapshot; ``commit`` is the one that stored it."""

    number: int
    epoch: int
    commit: int
    bytes: int
    stored_at: str | None


@dataclass(frozen=True, slots=True)
class SnapshotsAnswer:
    """The stored snapshots, the newest first."""

    snapshots: list[SnapshotAnswer]


LIST = ApiPath(
    f"{OF_PIPELINE}/snapshots", Right.READ, "List the stored snapshots.", (PIPELINE,), answer=SnapshotsAnswer
)
TAKE = ApiPath(
    f"{OF_PIPELINE}/snapshots",
    Right.OPERATE,
    "Commit with a snapshot.",
    (PIPELINE,),
    problems=(Problem.NOT_POSSIBLE,),
    refused=Problem.NOT_POSSIBLE,
    method="POST",
    answer=SnapshotTaken,
)
PATHS = (LIST, TAKE)


def pages(handlers: Handlers) -> list[Page]:
    """Return the pages. They wait for the database, or for the main loop."""
    found = []
    if (snapshots := handlers.snapshots) is not None:

        def listed(_request: Request) -> SnapshotsAnswer:
            return SnapshotsAnswer(
                [
                    SnapshotAnswer(
                        each.snapshot_id, each.epoch, each.commits, each.bytes, rfc3339(each.stored_at_ms)
                    )
                    for each in snapshots()
                ]
            )

        found.append(Page(LIST, listed))
    if (take := handlers.snapshot) is not None:

        def taken(_request: Request) -> Mapping[str, object]:
            return take().to_json()

        found.append(Page(TAKE, taken))
    return found
