"""``/pipelines``: the phase and the progress of the pipeline, without the main loop."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rowtide.metrics import Metrics
from rowtide.rowtime.text import time_text
from rowtide.runtime.state.tally import RunSummary
from rowtide.web import build_app
from rowtide.web.api.answers import rfc3339
from support.web import AtPartition, Now, Pipeline, StoppedClock, asked


def answered(now: Now, path: str = "/api/v1/pipelines/orders_per_minute") -> dict[str, object]:
    pipeline = Pipeline()
    pipeline.now = now
    answer = asked(build_app(pipeline, Metrics(), StoppedClock(), version="1.2.3"), "GET", path)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    found: dict[str, object] = answer.json()
    return found


def test_a_pipeline_tells_its_phase_its_commit_and_its_lag() -> None:
    now = Now(summary=RunSummary(10, 1, {"OUT": 3}, {"ORDERS": 1}, {}, ("OUT",)))
    expected = {
        "name": "orders_per_minute",
        "version": "1.2.3",
        "phase": "running",
        "since": "1970-01-01T00:00:05.000Z",
        "waits_for": None,
        "at": {
            "epoch": 3,
            "commit": 12,
            "rowtime": "1970-01-01T00:00:01.000Z",
            "time": "1970-01-01T00:00:09.000Z",
        },
        "lag": 8,
        "pending_messages": {"ALERTS": 7},
        "replica": None,
        "this_run": {
            "read": 10,
            "held": 1,
            "written": {"OUT": 3},
            "late": {"ORDERS": 1},
            "rejected": {},
            "created_tables": ["OUT"],
        },
    }
    assert answered(now) == expected
    assert answered(now, "/api/v1/pipelines") == {"pipelines": [expected]}


@pytest.mark.parametrize(
    ("positions", "rowtime", "lag"),
    [
        ((), None, 0),
        ((AtPartition(), AtPartition(partition=1, bound=500)), "1970-01-01T00:00:00.500Z", 16),
        ((AtPartition(), AtPartition(partition=1, bound=None)), None, 16),
        ((AtPartition(end_offset=None), AtPartition(partition=1)), "1970-01-01T00:00:01.000Z", None),
        ((AtPartition(end_offset=40),), "1970-01-01T00:00:01.000Z", 0),
    ],
)
def test_what_one_partition_does_not_know_the_pipeline_does_not_know(
    positions: tuple[AtPartition, ...], rowtime: str | None, lag: int | None
) -> None:
    found = answered(replace(Now(), positions=positions))
    at = found["at"]
    assert isinstance(at, dict)
    assert (at["rowtime"], found["lag"]) == (rowtime, lag)


@pytest.mark.parametrize("millis", [-62_135_596_800_000, -1, 0, 1, 253_402_300_799_999])
def test_a_time_is_written_as_rfc_3339_has_it(millis: int) -> None:
    assert rfc3339(millis) == f"{time_text(millis).replace(' ', 'T')}Z"


def test_a_time_beyond_the_calendar_is_none() -> None:
    assert (rfc3339(None), rfc3339(-(2**62)), rfc3339(253_402_300_800_000)) == (None, None, None)
