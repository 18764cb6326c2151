"""What the service answers at each phase of its life."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import httpx
import pytest

from rowtide.metrics import Metrics
from rowtide.runtime.query.contents import TableContents
from rowtide.runtime.state.status import Phase, ReplicaStatus
from rowtide.web import Handlers, build_app, build_monitoring_app
from support.web import Pipeline, StoppedClock


class Served:
    """An app with the pipeline, clock and metrics after it in reach."""

    def __init__(self) -> None:
        self.pipeline, self.clock, self.metrics = Pipeline(), StoppedClock(), Metrics()
        self.app = build_app(self.pipeline, self.metrics, self.clock, version="1.2.3", beat_limit_s=30)

    def get(self, path: str, **headers: str) -> httpx.Response:
        return asyncio.run(self.ask("GET", path, headers))

    async def ask(self, method: str, path: str, headers: Mapping[str, str]) -> httpx.Response:
        transport = httpx.ASGITransport(self.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://rowtide") as client:
            return await client.request(method, path, headers=headers)


@pytest.fixture
def served() -> Served:
    return Served()


def test_a_pipeline_whose_loop_hangs_is_not_alive_and_says_for_how_long(served: Served) -> None:
    served.clock.sleep(30)
    assert served.get("/healthz").status_code == 200
    served.clock.sleep(1)
    answer = served.get("/healthz")
    assert answer.status_code == 503
    assert answer.json()["reason"] == "the main loop has not completed a turn for 31 s"


@pytest.mark.parametrize("phase", ["starting", "recovering", "stopping"])
def test_a_pipeline_is_ready_only_while_it_runs(served: Served, phase: Phase) -> None:
    assert served.get("/readyz").status_code == 200
    served.pipeline.now = replace(served.pipeline.now, phase=phase)
    answer = served.get("/readyz")
    assert answer.status_code == 503
    assert answer.json() == {"status": phase, "reason": f"the pipeline is {phase}", "since_ms": 5_000}


def test_a_follower_is_ready_while_it_keeps_up(served: Served) -> None:
    behind = ReplicaStatus("follower", takeovers=2, lag_commits=7, lag_s=9.5, keeps_up=False)
    served.pipeline.now = replace(served.pipeline.now, phase="following", replica=behind)
    answer = served.get("/readyz")
    assert (answer.status_code, answer.json()["reason"]) == (
        503,
        "the follower is 7 commits and 9.5 s behind the leader",
    )
    served.pipeline.now = replace(served.pipeline.now, replica=replace(behind, keeps_up=True))
    answer = served.get("/readyz")
    assert (answer.status_code, answer.json()) == (200, {"status": "ready", "role": "follower"})
    assert served.get("/").json()["replica"] == {
        "role": "follower",
        "takeovers": 2,
        "lag_commits": 7,
        "lag_s": 9.5,
        "keeps_up": True,
    }


def test_a_pipeline_whose_broker_is_down_is_alive_and_not_ready_and_names_it(served: Served) -> None:
    served.pipeline.now = replace(served.pipeline.now, phase="waiting", waits_for="broker kafka:9092")
    assert served.get("/healthz").status_code == 200
    answer = served.get("/readyz")
    assert (answer.status_code, answer.json()["reason"]) == (503, "broker kafka:9092")


def test_the_root_says_what_runs_here_and_where_it_stands(served: Served) -> None:
    assert served.get("/").json() == {
        "name": "rowtide",
        "version": "1.2.3",
        "pipeline": "orders_per_minute",
        "phase": "running",
        "since_ms": 5_000,
        "waits_for": None,
        "epoch": 3,
        "replica": None,
        "last_commit_ms": 9_000,
        "positions": [
            {
                "relation": "ORDERS",
                "topic": "orders",
                "partition": 0,
                "next_offset": 42,
                "end_offset": 50,
                "bound": 1_000,
            }
        ],
        "pending_messages": {"ALERTS": 7},
        "this_run": None,
    }


def test_metrics_are_served_in_the_format_that_is_asked_for(served: Served) -> None:
    served.metrics.commits.inc(7)
    plain = served.get("/metrics")
    assert plain.headers["content-type"].startswith("text/plain")
    assert "rowtide_commits_total 7.0" in plain.text
    open_metrics = served.get("/metrics", accept="application/openmetrics-text")
    assert open_metrics.headers["content-type"].startswith("application/openmetrics-text")
    assert open_metrics.text.endswith("# EOF\n")


def test_the_monitoring_listener_has_health_and_metrics_and_nothing_else(served: Served) -> None:
    served.app = build_monitoring_app(served.pipeline, served.metrics, served.clock, beat_limit_s=30)
    for path in ("/healthz", "/readyz", "/metrics"):
        assert served.get(path).status_code == 200
    for path in ("/", "/table?relation=T", "/query?sql=SELECT", "/why-not?relation=T", "/snapshot"):
        assert served.get(path).status_code == 404


def test_nothing_can_be_written(served: Served) -> None:
    for path in ("/", "/healthz", "/readyz", "/metrics"):
        assert asyncio.run(served.ask("POST", path, {})).status_code == 405


class Told:
    def to_json(self) -> Mapping[str, object]:
        return {"rows": []}


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/table?relation=T&limit=99999999999999999999", 'parameter "limit"'),
        ("/table?relation=T&limit=1000001", 'parameter "limit"'),
        ("/table?relation=T&limit=" + "9" * 5000, 'parameter "limit"'),
        ("/table?relation=T&limit=-1", 'parameter "limit"'),
        ("/table?relation=T&limit=", 'parameter "limit"'),
        ("/table?relation=T&limit=%D9%A3", 'parameter "limit"'),
        ("/table", 'parameter "relation" is missing'),
        ("/why-not", 'parameter "relation" is missing'),
        ("/why?relation=T", 'parameter "row" is missing'),
        ("/query?sql=SELECT&once=maybe", 'parameter "once"'),
    ],
)
def test_a_parameter_that_is_missing_or_invalid_is_a_bad_request_that_says_so(path: str, why: str) -> None:
    asked: list[int] = []

    def contents(relation: str, limit: int, _after: int) -> TableContents:
        asked.append(limit)
        return TableContents(relation, (), (), (), 0)

    def query(_sql: str, _once: bool) -> Any:
        raise AssertionError("it was planned")

    served = Served()
    served.app = build_app(
        served.pipeline,
        served.metrics,
        served.clock,
        version="1.2.3",
        handlers=Handlers(
            why_not=lambda _: Told(),
            why=lambda _relation, _row: Told(),
            contents=contents,
            query=query,
        ),
    )
    answer = served.get(path)
    assert answer.status_code == 400
    assert why in answer.json()["error"]
    assert served.get("/table?relation=T&limit=1000000").json()["rows"] == []
    assert asked == [1_000_000]
