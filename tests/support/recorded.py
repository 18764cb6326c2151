"""The page before a service with recorded answers, which a test changes: states that a real pipeline shows rarely."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from rowtide.testing.processes import LOCAL, free_port
from rowtide.web.access import Access
from rowtide.web.page import page_files, page_redirects
from rowtide.web.server import WebServer

SECOND_MS = 1_000
BOUND_MS = 1_767_260_369_520
"""2026-01-01 09:39:29.520."""
COLUMNS = ["step", "rows_in", "rows_out", "filtered", "late", "rejected", "held", "bound_ms"]
PARTITION_COLUMNS = ["relation", "topic", "partition", "next_offset", "end_offset", "bound_ms"]
P = "/api/v1/pipelines/orders"


def node(relation: str, kind: str, first: list[int], last: list[int], steps: list[int]) -> dict[str, Any]:
    operators = [
        {"step": each, "operator": "Sort", "detail": "", "keeps": None, "partition": None} for each in steps
    ]
    return {
        "id": relation,
        "relation": relation,
        "kind": kind,
        "first": first,
        "last": last,
        "operators": operators,
    }


def orders() -> dict[str, Any]:
    """Return the graph of the orders pipeline."""
    names = ["ORDERS", "ORDERS_IN_TIME", "FILL_ORDERS_PER_MINUTE", "ORDERS_PER_MINUTE"]
    return {
        "digest": "orders-1",
        "nodes": [
            node("ORDERS", "foreign stream", [0], [0], [0]),
            node("ORDERS_IN_TIME", "view", [1], [2], [1, 2]),
            node("FILL_ORDERS_PER_MINUTE", "pump", [3], [3], [3]),
            node("ORDERS_PER_MINUTE", "foreign table", [4], [4], [4]),
            node("UNREAD", "view", [], [], []),
        ],
        "edges": [{"from": one, "to": other} for one, other in [*pairwise(names), ("ORDERS", "UNREAD")]],
    }


def large(relations: int) -> dict[str, Any]:
    """Return a graph of a chain of relations."""
    names = [f"RELATION_{number:03}" for number in range(relations)]
    nodes = [
        node(name, "foreign stream" if at == 0 else "view", [at], [at], [at]) for at, name in enumerate(names)
    ]
    edges = [{"from": one, "to": other} for one, other in pairwise(names)]
    return {"digest": f"large-{relations}", "nodes": nodes, "edges": edges}


def time_of(second: int) -> str:
    return f"2026-01-01T09:40:{second:02}.000Z"


def progress(second: int, read: int = 2_000, digest: str = "orders-1") -> dict[str, Any]:
    """Return the progress of the orders pipeline; partition 0 is silent."""
    ahead = BOUND_MS + 30 * SECOND_MS
    return {
        "at": {
            "epoch": 3,
            "commit": 1_200 + second,
            "rowtime": "2026-01-01T09:39:29.520Z",
            "time": time_of(second),
        },
        "digest": digest,
        "columns": COLUMNS,
        "steps": [
            [0, read, read, 0, 0, 3, 0, BOUND_MS],
            [1, read, read - 248, 0, 2, 0, 246, BOUND_MS],
            [2, read - 248, read - 248, 0, 0, 0, 0, BOUND_MS],
            [3, read - 248, 195, 0, 0, 0, 249, BOUND_MS],
            [4, 195, 195, 0, 0, 0, 0, BOUND_MS],
        ],
        "partition_columns": PARTITION_COLUMNS,
        "partitions": [
            ["ORDERS", "orders", 0, 1_000, 1_000, BOUND_MS],
            ["ORDERS", "orders", 1, read - 1_000, read - 988, ahead],
        ],
    }


IDLE = {
    "cause": "IDLE",
    "relation": "ORDERS",
    "topic": "orders",
    "partition": 0,
    "has": "2026-01-01T09:39:29.520Z",
    "needs": "2026-01-01T09:40:00.000Z",
    "why": 'Partition 0 of topic "orders" is read to its end.',
    "released": "They come out when it has a message from 09:40:30 on.",
    "change": "Set idle_timeout of ORDERS, so that a silent partition does not keep the others back.",
    "path": [0, 1, 2, 3],
    "rows": 249,
    "holds": ["FILL_ORDERS_PER_MINUTE"],
}
"""Why rows of the orders pipeline wait."""
RELATION = {
    "name": "ORDERS_IN_TIME",
    "kind": "view",
    "columns": [{"name": "PRODUCT", "type": "VARCHAR(20)", "nullable": False, "key": False}],
    "sql": "CREATE VIEW orders_in_time AS\n  SELECT STREAM * FROM orders",
    "query": "SELECT STREAM * FROM ORDERS_IN_TIME",
    "place": {"line": 12, "column": 1},
    "reads": ["ORDERS"],
    "read_by": ["FILL_ORDERS_PER_MINUTE"],
}


LATEST = {
    "columns": [{"name": "PRODUCT", "type": "VARCHAR(20)"}, {"name": "ORDER_ID", "type": "BIGINT"}],
    "rows": [
        {"op": op, "rowtime": BOUND_MS + at * SECOND_MS, "row": [product, str(2**53 + at)]}
        for at, (op, product) in enumerate([("+", "rope"), ("-", "rope"), ("+", None)])
    ],
    "total": 12_431,
    "since": "2026-01-01T09:40:00.000Z",
    "at": {
        "epoch": 3,
        "commit": 1_202,
        "rowtime": "2026-01-01T09:39:29.520Z",
        "time": "2026-01-01T09:40:02.000Z",
    },
}
"""The last rows of a relation of the orders pipeline."""
LATEST_PATH = "relations/ORDERS_IN_TIME/rows/latest"


def error_row(number: int, **parts: Any) -> dict[str, Any]:
    """Return an error row: a message of partition 1 that is malformed at its last byte."""
    raw = b'{"order_id": %d!' % number
    return {
        "number": number,
        "kind": "REJECTED",
        "relation": "ORDERS",
        "reason": "DECODE",
        "detail": f"JSON is malformed: invalid character (byte {len(raw) - 1})",
        "stream": "ORDERS",
        "topic": "orders",
        "partition": 1,
        "offset": 800 + number,
        "message_time": "2026-01-01T09:39:00.000Z",
        "rowtime": None,
        "bound": None,
        "late_by_ms": None,
        "row": None,
        "raw_base64": base64.b64encode(raw).decode(),
        "key_base64": None,
        "headers": [["origin", base64.b64encode(b"shop").decode()]],
        "epoch": 3,
        "committed_at": time_of(1),
        "resubmission": None,
        **parts,
    }


ERRORS = [
    error_row(15, resubmission={"number": 1, "at": time_of(2)}),
    error_row(16),
    error_row(
        17,
        kind="LATE",
        relation="ORDERS_IN_TIME",
        reason="LATE",
        detail="5000 ms behind the bound",
        rowtime="2026-01-01T09:38:00.000Z",
        bound="2026-01-01T09:38:05.000Z",
        late_by_ms=5_000,
        row={"ORDER_ID": 17},
    ),
]
"""The error rows of the orders pipeline."""
POSITIONS = [
    {
        "relation": "ORDERS",
        "topic": "orders",
        "partition": partition,
        "next_offset": next_offset,
        "start_offset": 0,
        "end_offset": end,
        "lag": end - next_offset,
        "bound": bound,
        "bound_from": origin,
    }
    for partition, next_offset, end, bound, origin in [
        (0, 1_000, 1_000, "2026-01-01T09:39:29.520Z", "idle"),
        (1, 2_998, 3_010, "2026-01-01T09:39:59.520Z", "row"),
        (2, 0, 0, None, None),
    ]
]
COMMITS = [
    {
        "number": number,
        "epoch": 3,
        "at": time_of(number - 1_200),
        "seconds": 0.25,
        "messages": 1_998,
        "rows": {"ORDERS_PER_MINUTE": 3} if number > 1_200 else {},
        "late": 2,
        "rejected": 0,
        "snapshot": 81_920 if number == 1_201 else None,
    }
    for number in (1_202, 1_201, 1_200)
]
SNAPSHOTS = [{"number": 7, "epoch": 3, "commit": 1_201, "bytes": 81_920, "stored_at": time_of(1)}]
DECISIONS = [
    {
        "number": number,
        "kind": kind,
        "relation": "ORDERS",
        "topic": "orders" if partition is not None else None,
        "partition": partition,
        "resubmission": resubmission,
        "offset": 0 if partition is None else 1_000,
        "jumped_from": None,
        "bound": "2026-01-01T09:39:29.520Z",
        "reader": None,
        "epoch": 3,
        "committed_at": time_of(2),
    }
    for number, kind, partition, resubmission in [(5, "IDLE", 0, None), (4, "JOIN", None, 1)]
]
"""How far the orders pipeline got: its partitions, commits, snapshots and decisions."""
BROKEN = "the message does not change, and cannot be decoded: invalid character"
"""Why rejected rows of the orders pipeline cannot be resubmitted."""
RESUBMISSIONS = f"{P}/errors/resubmissions"


@dataclass
class Recorded:
    """What a service answers and sends. It can be stopped, and started again at the same address."""

    graph: dict[str, Any] = field(default_factory=orders)
    token: str | None = None
    refusals: dict[str, int] = field(default_factory=dict)
    """The status of answers that are refused, by path."""
    rights: tuple[str, ...] = ("read", "post", "operate", "admin")
    most: int = 10_000
    """How many error rows a request that resubmits looks at."""

    def __post_init__(self) -> None:
        self.errors = [dict(each) for each in ERRORS]
        self.kept: dict[str, Any] = {
            "positions": {"positions": POSITIONS},
            "commits": {"commits": COMMITS, "next": None, "begun": time_of(0), "not_shown": 1_199},
            "snapshots": {"snapshots": SNAPSHOTS},
            "decisions": {"decisions": DECISIONS, "next": None},
            LATEST_PATH: LATEST,
        }
        """The answers that say how far the pipeline got, and the last rows of a relation."""
        self.asked: list[dict[str, Any]] = []
        """The bodies of requests that resubmit."""
        self.port = free_port()
        self._sent: list[str] = []
        self._server: WebServer | None = None
        self._stopping = False
        self.watchers = 0
        self.send("graph", {"digest": self.graph["digest"]})
        self.phase("running")

    @property
    def url(self) -> str:
        return f"http://{LOCAL}:{self.port}/ui/"

    def send(self, topic: str, data: Mapping[str, Any], epoch: int = 3) -> None:
        """Send an event to all that watch; those that come later get all that were sent."""
        number = len(self._sent) + 1
        self._sent.append(f"id: {epoch}.{number}\nevent: {topic}\ndata: {json.dumps(data)}\n\n")

    def phase(self, phase: str, waits_for: str | None = None, epoch: int = 3) -> None:
        shown = {"phase": phase, "since": time_of(0), "waits_for": waits_for, "role": None, "epoch": epoch}
        self.send("phase", shown, epoch)

    def runs(self) -> None:
        """Send what a pipeline sends that runs, and whose partition 0 is silent."""
        self.send("progress", progress(1, 2_000))
        self.send("progress", progress(2, 3_998))
        self.send("errors", {"pending": {"ORDERS": 12}, "newest": 17})
        self.send("problem", {"causes": [IDLE]})

    def start(self) -> None:
        self._stopping = False
        self._server = WebServer(self._app(), f"{LOCAL}:{self.port}")
        self._server.start()

    def stop(self) -> None:
        if self._server is not None:
            self._stopping = True
            self._server.stop()
            self._server = None

    def _app(self) -> Starlette:
        return Starlette(
            routes=[
                *page_redirects(),
                *(each.route(Access()) for each in page_files()),
                Route("/api/v1/session", self._session, methods=["POST"]),
                Route(RESUBMISSIONS, self._resubmissions, methods=["POST"]),
                *(
                    Route(path, self._answering(path, answer))
                    for path, answer in {
                        "/api/v1/pipelines": lambda: {"pipelines": [{"name": "orders", "version": "1"}]},
                        "/api/v1/session": lambda: {"caller": "ann", "rights": self.rights},
                        f"{P}/graph": lambda: self.graph,
                        f"{P}/relations/ORDERS_IN_TIME": lambda: RELATION,
                        f"{P}/relations/ORDERS_IN_TIME/why-not": lambda: {"causes": [IDLE]},
                        **{f"{P}/{name}": partial(self._answer_of, name) for name in self.kept},
                        f"{P}/errors/16": lambda: self.errors[1],
                        f"{P}/errors/17": lambda: self.errors[2],
                    }.items()
                ),
                Route(f"{P}/errors", self._errors),
                Route(f"{P}/events", self._events),
            ]
        )

    def _answering(self, path: str, answer: Any) -> Any:
        async def answered(request: Request) -> Response:
            if self.token is not None and request.cookies.get("rowtide") != self.token:
                return self._refused(401, "a token is missing")
            if (status := self.refusals.get(path)) is not None:
                return self._refused(status, '"looker" has no rights, and this path needs read')
            return JSONResponse(answer())

        return answered

    def _answer_of(self, name: str) -> Any:
        return self.kept[name]

    async def _errors(self, request: Request) -> Response:
        """Answer with the error rows that are chosen, two at a time."""
        if (status := self.refusals.get(f"{P}/errors")) is not None:
            return self._refused(status, "the database is down")
        chosen = {name: request.query_params.get(name) for name in ("kind", "relation", "reason")}
        found = [
            each
            for each in self.errors
            if all(value is None or each[name] == value for name, value in chosen.items())
            and not (request.query_params.get("pending") == "true" and each["resubmission"])
            and each["number"] > int(request.query_params.get("after", "0"))
        ]
        return JSONResponse({"errors": found[:2], "next": str(found[1]["number"]) if found[2:] else None})

    async def _resubmissions(self, request: Request) -> Response:
        """Resubmit the late rows that are chosen; rejected ones stay."""
        asked = await request.json()
        self.asked.append(asked)
        if (status := self.refusals.get(RESUBMISSIONS)) is not None:
            return self._refused(status, "the pipeline has 1000 resubmissions, and 1000 is the limit")
        if "numbers" in asked:
            found = [each for each in self.errors if each["number"] in asked["numbers"]]
        else:
            chosen = {name: asked[name] for name in ("kind", "relation", "reason")}
            found = [
                each
                for each in self.errors
                if all(value in ("", each[name]) for name, value in chosen.items())
                and each["number"] > asked["after"]
                and each["resubmission"] is None
            ]
        found, others = found[: self.most], found[self.most :]
        taken = [each for each in found if each["kind"] == "LATE" and each["resubmission"] is None]
        if not asked.get("dry_run", False):
            for each in taken:
                each["resubmission"] = {"number": 2, "at": time_of(3)}
        return JSONResponse(
            {
                "dry_run": asked.get("dry_run", False),
                "taken": [each["number"] for each in taken],
                "relations": [{"relation": "ORDERS_IN_TIME", "rows": len(taken)}] if taken else [],
                "counts": [
                    {
                        "number": each["number"],
                        "rowtime": "2026-01-01T09:39:29.520Z",
                        "windows": [{"relation": "ORDERS_PER_MINUTE", "ends": "2026-01-01T09:40:00.000Z"}],
                    }
                    for each in taken
                ],
                "refused": [{"number": each["number"], "why": BROKEN} for each in found if each not in taken],
                "next": found[-1]["number"] if others else None,
                "left": 1_000 - 2 if taken else 1_000 - 1,
            }
        )

    def _refused(self, status: int, message: str) -> Response:
        return JSONResponse(
            {"detail": message, "hint": "Use a token with the right read."}, status_code=status
        )

    async def _session(self, request: Request) -> Response:
        if (await request.json())["token"] != self.token:
            return self._refused(401, "the token is invalid")
        answer = Response(status_code=204)
        answer.set_cookie("rowtide", self.token or "", httponly=True, samesite="strict")
        return answer

    async def _events(self, _request: Request) -> Response:
        return StreamingResponse(self._stream(), media_type="text/event-stream")

    async def _stream(self) -> AsyncIterator[str]:
        self.watchers += 1
        sent = 0
        try:
            while not self._stopping:
                for event in self._sent[sent:]:
                    sent += 1
                    yield event
                await asyncio.sleep(0.01)
        finally:
            self.watchers -= 1


@contextmanager
def recorded(**settings: Any) -> Iterator[Recorded]:
    """Serve the page with recorded answers."""
    made = Recorded(**settings)
    made.start()
    try:
        yield made
    finally:
        made.stop()
