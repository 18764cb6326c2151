"""``/events``: what happens to a pipeline, as server-sent events.

There is one newest event of each topic. It is encoded once, and all watchers get the same bytes. A watcher that reads
slowly gets the newest event of each topic next, and nothing waits for it. While anybody watches, one task looks what is
new; it never asks the main loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import msgspec
import structlog
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from rowtide.checkpoint.ledger import PendingErrors
from rowtide.clock import Clock
from rowtide.errors import TransientError
from rowtide.runtime.progress.board import CommitReport, ProgressBoard
from rowtide.runtime.progress.held_back import HoldingPartition
from rowtide.runtime.progress.layout import COUNTED
from rowtide.runtime.progress.progress import PipelineProgress, shown_bound
from rowtide.web.access import Page
from rowtide.web.api.answers import at_of, rfc3339
from rowtide.web.declared import OF_PIPELINE, PIPELINE, ApiPath, Parameter
from rowtide.web.handlers import Handlers
from rowtide.web.parameters import optional
from rowtide.web.problems import RETRY_AFTER_S, Problem, ProblemError
from rowtide.web.status import PipelineStatus, Status
from rowtide.web.tokens import Right
from rowtide_connectors.errors import UnavailableError
from rowtide_connectors.several import place_of

MOST_WATCHERS = 128
"""Half of the connections of a listener."""
LOOK_S = 0.2
"""How often the one task looks for what is new: people see no difference."""
COMMENT_S = 15.0
"""After this silence a watcher gets a comment, so that proxies keep the connection."""
RETRY_MS = 2000
"""When a browser connects again."""
ERRORS_S, ERRORS_SELDOM_S = 5.0, 30.0
"""How often error rows are counted at most, and while there are no new ones: others resubmit them."""
TOPICS = ("graph", "phase", "commit", "progress", "errors", "problem")
STEP_COLUMNS = ("step", *COUNTED, "bound_ms")
_LATE_AND_REJECTED = [COUNTED.index("late"), COUNTED.index("rejected")]
PARTITION_COLUMNS = ("relation", "topic", "partition", "next_offset", "end_offset", "bound_ms")
_log = structlog.get_logger("rowtide")

WANTED = Parameter("topics", f"topics, separated by commas, of {', '.join(TOPICS)}; empty: all", "")
EVENTS = ApiPath(
    f"{OF_PIPELINE}/events",
    Right.READ,
    "Watch a pipeline: the newest event of each topic, then each new one. `progress` has the counts of all steps at a "
    "commit, at most once a second, `problem` what holds rows back. There can be "
    f"{MOST_WATCHERS} watchers. The header Last-Event-ID continues after an event.",
    (PIPELINE, WANTED),
    media_type="text/event-stream",
)
PATHS = (EVENTS,)


@dataclass(frozen=True, slots=True)
class _Event:
    number: int
    sent: bytes


class EventFeed:
    """The events of one pipeline. Owned by the thread of the server, but for ``end``.

    ``pending`` counts the error rows that are not resubmitted; it may wait for the database.
    """

    def __init__(
        self, board: ProgressBoard, status: Status, clock: Clock, pending: Callable[[], PendingErrors]
    ) -> None:
        self._board = board
        self._status = status
        self._clock = clock
        self._pending = pending
        self._number = 0
        self._events: dict[str, _Event] = {}
        self._shown: dict[str, object] = {}
        self._changed = asyncio.Event()
        self._looking: asyncio.Task[None] | None = None
        self._counting: asyncio.Task[None] | None = None
        self._counted_at = float("-inf")
        self._errors: PendingErrors | None = None
        self._errors_of = 0
        self.watchers = 0
        self.is_over = False

    def end(self) -> None:
        """End all streams soon: the service stops. Called by any thread."""
        self.is_over = True

    def count_errors_soon(self) -> None:
        """Let the error rows be counted at the next look: some were resubmitted. Called by any thread."""
        self._counted_at = float("-inf")

    def look(self) -> None:
        """Make the events of what is new."""
        now, board = self._status.status(), self._board
        board.watch()
        self._show("graph", board.layout.graph.digest, _graph)
        self._show("phase", _phase(now), lambda shown: shown)
        if board.commits:
            self._show("commit", board.commits[-1], _commit)
        if board.newest:
            self._show("progress", board.newest[-1], _progress)
        if self._errors is not None:
            self._show("errors", self._errors, _errors)
        if (held_back := board.held_back) is not None:
            self._show("problem", held_back, _problem)

    def next(self, after: int, topics: frozenset[str]) -> _Event | None:
        """Return the oldest of the newest events that a watcher has not got; None: it has all."""
        fresh = (each for topic, each in self._events.items() if topic in topics and each.number > after)
        return min(fresh, key=lambda each: each.number, default=None)

    def after(self, last_id: str) -> int:
        """Return the number of the event with an id; 0 if it is not one of this process."""
        epoch, _, number = last_id.partition(".")
        is_ours = epoch == str(self._status.status().epoch) and number.isascii() and number.isdigit()
        return int(number) if is_ours and len(number) < 16 and int(number) <= self._number else 0

    async def stream(self, after: int, topics: frozenset[str]) -> AsyncIterator[bytes]:
        """Yield events as bytes, from the newest of each topic on."""
        if self._looking is None or self._looking.done():
            self.look()
            self._looking = asyncio.create_task(self._keep_looking())
        yield f"retry: {RETRY_MS}\n\n".encode()
        while True:
            changed = self._changed
            event = self.next(after, topics)
            if event is not None:
                after = event.number
                yield event.sent
            elif self.is_over:
                return
            else:
                try:
                    await asyncio.wait_for(changed.wait(), COMMENT_S)
                except TimeoutError:
                    yield b": \n\n"

    async def _keep_looking(self) -> None:
        while self.watchers and not self.is_over:
            self._count_errors()
            number = self._number
            self.look()
            if self._number != number:
                self._wake()
            await asyncio.sleep(LOOK_S)
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def _show(self, topic: str, what: Any, encoded: Callable[[Any], Mapping[str, object]]) -> None:
        if topic in self._shown and (self._shown[topic] is what or self._shown[topic] == what):
            return
        self._shown[topic] = what
        self._number += 1
        epoch = self._status.status().epoch or 0
        data = msgspec.json.encode(encoded(what))
        head = f"id: {epoch}.{self._number}\nevent: {topic}\ndata: ".encode()
        self._events[topic] = _Event(self._number, head + data + b"\n\n")

    def _count_errors(self) -> None:
        """Let the error rows be counted, if it is time."""
        now, newest = self._clock.monotonic(), self._board.newest
        seen = int(newest[-1].numbers[:, _LATE_AND_REJECTED].sum()) if newest else 0
        every = ERRORS_SELDOM_S if seen == self._errors_of else ERRORS_S
        if now >= self._counted_at + every and (self._counting is None or self._counting.done()):
            self._counted_at, self._errors_of = now, seen
            self._counting = asyncio.create_task(self._counted())

    async def _counted(self) -> None:
        try:
            self._errors = await run_in_threadpool(self._pending)
        except (TransientError, UnavailableError) as error:
            _log.warning("errors_not_counted", reason=error.message)


class _Stream(StreamingResponse):
    """The answer to one watcher, who counts as long as it lasts."""

    def __init__(self, feed: EventFeed, after: int, topics: frozenset[str]) -> None:
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        super().__init__(feed.stream(after, topics), headers=headers, media_type=EVENTS.media_type)
        self._feed = feed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._feed.watchers += 1
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._feed.watchers -= 1


def pages(handlers: Handlers) -> list[Page]:
    """Return the page."""
    feed = handlers.events
    if feed is None:
        return []

    async def events(request: Request) -> StreamingResponse:
        named = [each.strip() for each in (optional(request, WANTED) or "").split(",") if each.strip()]
        for each in named:
            if each not in TOPICS:
                raise ProblemError(
                    Problem.INVALID_PARAMETER,
                    f'topic "{each[:40]}" does not exist',
                    hint=f"Topics are {', '.join(TOPICS)}.",
                )
        if feed.watchers >= MOST_WATCHERS:
            raise ProblemError(
                Problem.UNAVAILABLE,
                f"{MOST_WATCHERS} watch the pipeline, and that is the limit",
                hint="Close a page that is not looked at.",
                retry_after_s=RETRY_AFTER_S,
            )
        after = feed.after(request.headers.get("last-event-id", ""))
        return _Stream(feed, after, frozenset(named or TOPICS))

    return [Page(EVENTS, events)]


def _graph(digest: str) -> Mapping[str, object]:
    return {"digest": digest}


def _phase(now: PipelineStatus) -> Mapping[str, object]:
    return {
        "phase": now.phase,
        "since": rfc3339(now.since_ms),
        "waits_for": now.waits_for,
        "role": None if now.replica is None else now.replica.role,
        "epoch": now.epoch,
    }


def _commit(commit: CommitReport) -> Mapping[str, object]:
    return {
        "number": commit.number,
        "epoch": commit.epoch,
        "at": rfc3339(commit.at_ms),
        "seconds": commit.seconds,
        "messages": commit.messages,
        "rows": commit.rows,
        "late": commit.late,
        "rejected": commit.rejected,
    }


def _progress(progress: PipelineProgress) -> Mapping[str, object]:
    partitions = [
        (
            each.relation,
            each.topic,
            place_of(each.topic, each.partition)[1],
            each.next_offset,
            each.end_offset,
            None if each.bound is None else shown_bound(each.bound),
        )
        for each in progress.partitions
    ]
    return {
        "at": at_of(progress.status),
        "digest": progress.graph.digest,
        "columns": STEP_COLUMNS,
        "steps": progress.steps,
        "partition_columns": PARTITION_COLUMNS,
        "partitions": partitions,
    }


def _errors(errors: PendingErrors) -> Mapping[str, object]:
    return {"pending": errors.by_relation, "newest": errors.newest}


def _problem(held_back: tuple[HoldingPartition, ...]) -> Mapping[str, object]:
    times = [{"has": rfc3339(each.has), "needs": rfc3339(each.needs)} for each in held_back]
    return {"causes": [asdict(each) | time for each, time in zip(held_back, times, strict=True)]}
