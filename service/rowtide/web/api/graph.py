"""``/graph`` and ``/relations``: the running plan, and what each relation has done by the last commit."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from rowtide.errors import UnknownRelationError
from rowtide.plan.plan import Definition
from rowtide.rows.types import MAX_TIMESTAMP_MS
from rowtide.runtime.progress.board import ProgressBoard
from rowtide.runtime.progress.graph import GraphNode, PlanGraph
from rowtide.runtime.progress.held_back import HoldingPartition
from rowtide.runtime.progress.layout import BOUND, COUNTED
from rowtide.runtime.progress.progress import PipelineProgress, shown_bound
from rowtide.web.access import Page
from rowtide.web.api.answers import AnswerColumn, At, at_of, rfc3339
from rowtide.web.declared import OF_PIPELINE, PIPELINE, RELATION_NAME, ApiPath
from rowtide.web.handlers import Handlers
from rowtide.web.parameters import named
from rowtide.web.problems import Problem
from rowtide.web.status import PipelineStatus, Status
from rowtide.web.tokens import Right
from rowtide_connectors.several import place_of


class GraphEdge(msgspec.Struct, frozen=True, rename={"read": "from", "reader": "to"}):
    """A relation, and one that reads it."""

    read: str
    reader: str


@dataclass(frozen=True, slots=True)
class GraphAnswer:
    """The graph of the running plan."""

    digest: str
    nodes: tuple[GraphNode, ...]
    edges: list[GraphEdge]


@dataclass(frozen=True, slots=True)
class ColumnAnswer(AnswerColumn):
    """A column. ``key``: it is part of the primary key."""

    nullable: bool
    key: bool


@dataclass(frozen=True, slots=True)
class StatementPlace:
    """Where the statement begins in the pipeline's file."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class PartitionAnswer:
    """A partition of a source, and how far it is read."""

    topic: str
    partition: int
    next_offset: int
    end_offset: int | None
    bound: str | None


@dataclass(frozen=True, slots=True)
class CountsAnswer:
    """The rows of a relation since the pipeline began; ``held`` are those now. The rates are of the last seconds."""

    rows_in: int
    rows_out: int
    filtered: int
    late: int
    rejected: int
    held: int
    rows_in_per_s: float | None
    rows_out_per_s: float | None


@dataclass(frozen=True, slots=True)
class HolderAnswer:
    """The partition that holds rows of a relation back, and the bound that releases the first of them."""

    relation: str
    topic: str | None
    partition: int | None
    needs: str | None


@dataclass(frozen=True, slots=True)
class RelationAnswer:
    """A relation or pump. ``counts`` is null while nothing that runs reads it, or before the pipeline runs.

    ``query`` is SQL text that reads all its rows; null: a pump has none. ``held_back_by`` is found out while
    somebody watches: it is null also in the first seconds.
    """

    name: str
    kind: str
    columns: list[ColumnAnswer]
    sql: str
    query: str | None
    place: StatementPlace
    reads: tuple[str, ...]
    read_by: list[str]
    partitions: list[PartitionAnswer]
    counts: CountsAnswer | None
    bound: str | None
    behind_ms: int | None
    held_back_by: HolderAnswer | None
    at: At


@dataclass(frozen=True, slots=True)
class RelationsAnswer:
    """All relations and pumps, in the order of their creation."""

    at: At
    relations: list[RelationAnswer]


GRAPH = ApiPath(
    f"{OF_PIPELINE}/graph",
    Right.READ,
    "Return the graph of the running plan: its relations with their operators, and which reads which. It has an ETag.",
    (PIPELINE,),
    {304: "The graph is the one of the header If-None-Match."},
    answer=GraphAnswer,
)
LIST = ApiPath(
    f"{OF_PIPELINE}/relations",
    Right.READ,
    "List the relations and pumps, with their counts as of the last commit.",
    (PIPELINE,),
    answer=RelationsAnswer,
)
ONE = ApiPath(
    f"{OF_PIPELINE}/relations/{{relation}}",
    Right.READ,
    "Return a relation or pump, with its counts as of the last commit.",
    (PIPELINE, RELATION_NAME),
    problems=(Problem.UNKNOWN_RELATION,),
    answer=RelationAnswer,
)
PATHS = (GRAPH, LIST, ONE)


def pages(handlers: Handlers, status: Status) -> list[Page]:
    """Return the pages. They never wait for the main loop."""
    board, graphs = handlers.progress, _Graphs()
    if board is None:
        return []

    async def graph(request: Request) -> Response:
        now = board.layout.graph
        headers = {"etag": f'"{now.digest}"', "cache-control": "no-cache"}
        if now.digest in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        return Response(graphs.encoded(now), headers=headers, media_type=GRAPH.media_type)

    async def listed(_request: Request) -> RelationsAnswer:
        answers = _Answers(board, status)
        return RelationsAnswer(answers.at, [answers.of(each) for each in board.plan.definitions])

    async def one(request: Request) -> RelationAnswer:
        name = named(request, RELATION_NAME)
        for each in board.plan.definitions:
            if each.name == name:
                return _Answers(board, status).of(each)
        raise UnknownRelationError(
            f'relation "{name[:80]}" does not exist',
            hint="Write the name as in the catalog: upper case unless quoted.",
        )

    return [Page(GRAPH, graph), Page(LIST, listed), Page(ONE, one)]


class _Graphs:
    """Keeps the newest graph encoded: it changes only when partitions join."""

    def __init__(self) -> None:
        self._held: tuple[PlanGraph, bytes] | None = None

    def encoded(self, graph: PlanGraph) -> bytes:
        if self._held is None or self._held[0] is not graph:
            answer = GraphAnswer(graph.digest, graph.nodes, [GraphEdge(*edge) for edge in graph.edges])
            self._held = graph, msgspec.json.encode(answer)
        return self._held[1]


class _Answers:
    """The answers as of one progress."""

    def __init__(self, board: ProgressBoard, status: Status) -> None:
        board.watch()
        newest = board.newest
        self._held_back = board.held_back or ()
        self._progress: PipelineProgress | None = newest[-1] if newest else None
        self._before = newest[0] if len(newest) > 1 else None
        graph = board.layout.graph if self._progress is None else self._progress.graph
        self._readers = graph.readers
        self._nodes = {node.id: at for at, node in enumerate(graph.nodes)}
        self._graph = graph
        self._now: PipelineStatus = status.status() if self._progress is None else self._progress.status
        self.at = at_of(self._now)

    def of(self, defined: Definition) -> RelationAnswer:
        """Return the answer for one relation."""
        at, name = self._nodes[defined.name], defined.name
        bound = counts = None
        if self._progress is not None and self._graph.nodes[at].last:
            counts = self._counts(self._progress, at)
            bound = shown_bound(int(self._progress.by_node[at, BOUND]))
        time = self._now.last_commit_ms
        is_behind = bound is not None and bound != MAX_TIMESTAMP_MS
        return RelationAnswer(
            name,
            defined.kind,
            [
                ColumnAnswer(field.name, str(field.type), field.nullable, number in defined.key)
                for number, field in enumerate(defined.row_type)
            ],
            defined.text,
            defined.query,
            StatementPlace(defined.place.line, defined.place.column),
            defined.reads,
            self._readers.get(name, []),
            [
                PartitionAnswer(
                    each.topic,
                    place_of(each.topic, each.partition)[1],
                    each.next_offset,
                    each.end_offset,
                    rfc3339(each.bound),
                )
                for each in self._now.positions
                if each.relation == name
            ],
            counts,
            rfc3339(bound),
            time - bound if is_behind and bound is not None and time is not None else None,
            next((_holder(each) for each in self._held_back if name in each.holds), None),
            self.at,
        )

    def _counts(self, progress: PipelineProgress, at: int) -> CountsAnswer:
        counts = dict(zip(COUNTED, progress.by_node[at].tolist(), strict=False))
        return CountsAnswer(
            **counts, rows_in_per_s=self._rate(progress, at, 0), rows_out_per_s=self._rate(progress, at, 1)
        )

    def _rate(self, progress: PipelineProgress, at: int, column: int) -> float | None:
        """Return the growth of a count by second since the progress before."""
        before = self._before
        if before is None or before.status.last_commit_ms is None or progress.status.last_commit_ms is None:
            return None
        passed_ms = progress.status.last_commit_ms - before.status.last_commit_ms
        if passed_ms <= 0:
            return None
        grown = int(progress.by_node[at, column] - before.by_node[at, column])
        return round(grown * 1000 / passed_ms, 3)


def _holder(cause: HoldingPartition) -> HolderAnswer:
    return HolderAnswer(cause.relation, cause.topic, cause.partition, rfc3339(cause.needs))
