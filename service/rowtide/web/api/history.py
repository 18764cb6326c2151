"""``/history``: what a relation, or the whole pipeline, has done over the last hour."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import numpy as np
from starlette.requests import Request

from rowtide.errors import UnknownRelationError
from rowtide.runtime.progress.board import ProgressBoard
from rowtide.runtime.progress.graph import PlanGraph
from rowtide.runtime.progress.layout import BOUND, COUNTED, Integers
from rowtide.runtime.progress.progress import shown_bound
from rowtide.web.access import Page
from rowtide.web.declared import OF_PIPELINE, PIPELINE, ApiPath, Parameter
from rowtide.web.handlers import Handlers
from rowtide.web.parameters import optional
from rowtide.web.problems import Problem, ProblemError
from rowtide.web.tokens import Right

COLUMNS = ("time_ms", *COUNTED, "bound_ms")
NAME = Parameter("relation", "catalog name of a relation or pump; empty: the pipeline as a whole", "")
SINCE = Parameter("since", "the earliest time, such as 2026-01-31T12:00:00Z; empty: the last hour", "")


@dataclass(frozen=True, slots=True)
class Resolution:
    """The least time between two rows: of the last five minutes, and of the last hour."""

    recent: int
    hour: int


@dataclass(frozen=True, slots=True)
class HistoryAnswer:
    """Totals by time, the oldest first. A time at which nothing was committed has no row."""

    relation: str | None
    resolution_ms: Resolution
    columns: tuple[str, ...]
    rows: list[list[int | None]]


HISTORY = ApiPath(
    f"{OF_PIPELINE}/history",
    Right.READ,
    "Return the counts of a relation over the last hour: five minutes by the second, before that by ten seconds; both "
    "are coarser with more than 450 relations. Of the pipeline as a whole: rows of messages that were read, rows that "
    "were written, and other counts of all relations.",
    (PIPELINE, NAME, SINCE),
    problems=(Problem.UNKNOWN_RELATION,),
    answer=HistoryAnswer,
)
PATHS = (HISTORY,)


def pages(handlers: Handlers) -> list[Page]:
    """Return the page. It never waits for the main loop."""
    board = handlers.progress
    if board is None:
        return []

    async def history(request: Request) -> HistoryAnswer:
        return _answer(board, optional(request, NAME), _since(request))

    return [Page(HISTORY, history)]


def _since(request: Request) -> int:
    """Return the earliest time, ms since 1970.

    Raises:
      ProblemError: it is not a time with its zone.
    """
    text = optional(request, SINCE)
    if text is None:
        return 0
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        at = None
    if at is None or at.tzinfo is None:
        raise ProblemError(
            Problem.INVALID_PARAMETER,
            f'invalid time in parameter "{SINCE.name}": "{text[:40]}"',
            hint="Write it with its zone, such as 2026-01-31T12:00:00Z.",
        )
    return int(at.timestamp() * 1000)


def _answer(board: ProgressBoard, relation: str | None, since_ms: int) -> HistoryAnswer:
    graph, kept = board.layout.graph, board.history
    places = [at for at, node in enumerate(graph.nodes) if relation in (None, node.id)]
    if not places:
        raise UnknownRelationError(
            f'relation "{(relation or "")[:80]}" does not exist',
            hint="Write the name as in the catalog: upper case unless quoted.",
        )
    rows: list[list[int | None]] = []
    for time_ms, counts in kept.rows(since_ms):
        *numbers, bound = counts[places[0]].tolist() if relation is not None else _whole(graph, counts)
        rows.append([time_ms, *numbers, shown_bound(bound)])
    return HistoryAnswer(relation, Resolution(kept.recent.each_ms, kept.hour.each_ms), COLUMNS, rows)


def _whole(graph: PlanGraph, counts: Integers) -> list[int]:
    """Return the counts of the pipeline: rows in of what it reads, rows out and least bound of what it writes."""
    read = {reader for _, reader in graph.edges}
    sources = [at for at, node in enumerate(graph.nodes) if node.last and node.id not in read]
    targets = [at for at, node in enumerate(graph.nodes) if node.last and node.id not in graph.readers]
    totals = counts.sum(axis=0)
    totals[0] = counts[sources, 0].sum()
    totals[1] = counts[targets, 1].sum()
    totals[BOUND] = np.min(counts[targets, BOUND], initial=np.iinfo(np.int64).max)
    return [int(each) for each in totals]
