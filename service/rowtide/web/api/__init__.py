"""The API of version 1, below ``/api/v1``: one module a resource, with its paths, its answers and its handlers.

To add a resource, write a module with ``PATHS`` and a function that returns its pages, and name both here.
"""

from __future__ import annotations

from rowtide.runtime.progress.board import ProgressBoard
from rowtide.web.access import Page
from rowtide.web.api import events, pipelines, relations
from rowtide.web.api.events import EventFeed
from rowtide.web.declared import ApiPath
from rowtide.web.status import Status

PATHS: tuple[ApiPath, ...] = (*pipelines.PATHS, *relations.PATHS, *events.PATHS)
"""Every path of this version, in the order of the reference page."""


def api_pages(
    status: Status, version: str, progress: ProgressBoard | None, feed: EventFeed | None
) -> list[Page]:
    """Return the pages of this version; ``version`` is the program's. Those of a part that is None do not exist."""
    found = pipelines.pages(status, version)
    if progress is not None:
        found += relations.pages(progress, status)
    if feed is not None:
        found += events.pages(feed)
    return found
