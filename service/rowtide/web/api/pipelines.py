"""``/pipelines``: the pipeline of this process, with its phase and its progress."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from starlette.requests import Request

from rowtide.runtime.state.status import Phase, Role, lag_of
from rowtide.web.access import Page
from rowtide.web.api.answers import At, at_of, rfc3339
from rowtide.web.declared import OF_PIPELINE, PIPELINE, ApiPath
from rowtide.web.problems import API
from rowtide.web.status import PipelineStatus, ReplicaProgress, Status, Summary
from rowtide.web.tokens import Right


@dataclass(frozen=True, slots=True)
class Replica:
    """The role of one of several replicas, and how far it is behind."""

    role: Role
    takeovers: int
    lag_commits: int
    lag_s: float
    keeps_up: bool


@dataclass(frozen=True, slots=True)
class Run:
    """The counts of this process, by table and by relation."""

    read: int
    held: int
    written: Mapping[str, int]
    late: Mapping[str, int]
    rejected: Mapping[str, int]
    created_tables: list[str]


@dataclass(frozen=True, slots=True)
class PipelineAnswer:
    """A pipeline as of now.

    ``lag`` is the upper limit of unread messages, null while an end is not known. ``this_run`` is null before the
    pipeline runs, ``replica`` if the process is the only one.
    """

    name: str
    version: str
    phase: Phase
    since: str | None
    waits_for: str | None
    at: At
    lag: int | None
    pending_messages: Mapping[str, int]
    replica: Replica | None
    this_run: Run | None


@dataclass(frozen=True, slots=True)
class PipelinesAnswer:
    """The pipelines of a service."""

    pipelines: list[PipelineAnswer]


LIST = ApiPath(
    f"{API}/pipelines",
    Right.READ,
    "List the pipelines of this service. A process has one.",
    answer=PipelinesAnswer,
)
ONE = ApiPath(
    OF_PIPELINE,
    Right.READ,
    "Return the phase and the progress of a pipeline.",
    (PIPELINE,),
    answer=PipelineAnswer,
)
PATHS = (LIST, ONE)


def pages(status: Status, version: str) -> list[Page]:
    """Return the pages; ``version`` is the program's. They never wait for the main loop."""

    async def listed(_request: Request) -> PipelinesAnswer:
        return PipelinesAnswer([_answer(status.status(), version)])

    async def one(_request: Request) -> PipelineAnswer:
        return _answer(status.status(), version)

    return [Page(LIST, listed), Page(ONE, one)]


def _answer(now: PipelineStatus, version: str) -> PipelineAnswer:
    return PipelineAnswer(
        now.pipeline,
        version,
        now.phase,
        rfc3339(now.since_ms),
        now.waits_for,
        at_of(now),
        lag_of(now.positions),
        dict(now.pending),
        None if now.replica is None else _replica(now.replica),
        None if now.summary is None else _run(now.summary),
    )


def _replica(replica: ReplicaProgress) -> Replica:
    return Replica(replica.role, replica.takeovers, replica.lag_commits, replica.lag_s, replica.keeps_up)


def _run(summary: Summary) -> Run:
    return Run(
        summary.read,
        summary.held,
        dict(summary.written),
        dict(summary.late),
        dict(summary.rejected),
        list(summary.created),
    )
