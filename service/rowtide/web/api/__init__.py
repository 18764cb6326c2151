"""The API of version 1, below ``/api/v1``: one module a resource, with its paths, its answers and its handlers.

To add a resource, write a module with ``PATHS`` and a function that returns its pages, and name both here.
"""

from __future__ import annotations

from rowtide.web.access import Access, Page
from rowtide.web.api import (
    commits,
    error_rows,
    events,
    explanations,
    graph,
    history,
    latest_rows,
    pipelines,
    positions,
    queries,
    relations,
    resubmissions,
    session,
    snapshots,
    statements,
)
from rowtide.web.declared import ApiPath
from rowtide.web.handlers import Handlers
from rowtide.web.status import Status

PATHS: tuple[ApiPath, ...] = (
    *pipelines.PATHS,
    *positions.PATHS,
    *commits.PATHS,
    *graph.PATHS,
    *events.PATHS,
    *history.PATHS,
    *relations.PATHS,
    *latest_rows.PATHS,
    *explanations.PATHS,
    *queries.PATHS,
    *statements.PATHS,
    *snapshots.PATHS,
    *error_rows.PATHS,
    *resubmissions.PATHS,
    *session.PATHS,
)
"""Every path of this version, in the order of the reference page."""


def api_pages(status: Status, version: str, handlers: Handlers, access: Access) -> list[Page]:
    """Return the pages of this version; ``version`` is the program's."""
    return [
        *pipelines.pages(status, version),
        *positions.pages(handlers, status),
        *commits.pages(handlers, status),
        *graph.pages(handlers, status),
        *events.pages(handlers),
        *history.pages(handlers),
        *relations.pages(handlers, status),
        *latest_rows.pages(handlers, status),
        *explanations.pages(handlers),
        *queries.pages(handlers),
        *statements.pages(handlers),
        *snapshots.pages(handlers),
        *error_rows.pages(handlers),
        *resubmissions.pages(handlers),
        *session.pages(access),
    ]
