"""Scenarios come to the same through a real broker as on the live engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from real.kafka import Broker
from rowtide.clock import SystemClock
from rowtide.testing.on_kafka import KafkaRunners
from rowtide.testing.reading import find_scenarios
from rowtide.testing.session import ScenarioOutcome, ScenarioRun, Verdict

pytestmark = pytest.mark.kafka

SCENARIOS = Path(__file__).parents[2] / "scenarios"
EVERY_TIME = (
    "rows/messages.yaml",
    "statements/new-view.yaml",
    "tables/as-of-join.yaml",
    "time/bounds.yaml",
    "time/foreign-stream.yaml",
    "time/late-by-partition.yaml",
)
"""Messages that do not decode, statements in between, changes of tables, bounds, partitions."""


def cases() -> list[object]:
    """Return all scenarios; a few are run every time."""
    names = {path: path.relative_to(SCENARIOS).as_posix() for path in find_scenarios([SCENARIOS])}
    return [
        pytest.param(path, id=name, marks=[] if name in EVERY_TIME else [pytest.mark.long])
        for path, name in names.items()
    ]


@pytest.fixture(scope="module")
def runners(kafka: Broker) -> Iterator[KafkaRunners]:
    with KafkaRunners(kafka.bootstrap_servers) as found:
        yield found


def played(runners: KafkaRunners, path: Path) -> ScenarioOutcome:
    (outcome,) = ScenarioRun(runners, SystemClock()).run([path])
    return outcome


@pytest.mark.parametrize("path", cases())
def test_a_scenario_comes_to_the_same_through_a_broker(runners: KafkaRunners, path: Path) -> None:
    outcome = played(runners, path)
    wanted = Verdict.SKIPPED if "restart:" in path.read_text() else Verdict.PASSED
    assert outcome.verdict is wanted, outcome.report()


def test_a_scenario_with_a_restart_is_skipped_and_says_why(runners: KafkaRunners) -> None:
    outcome = played(runners, SCENARIOS / "recovery" / "ties.yaml")
    assert outcome.verdict is Verdict.SKIPPED
    assert "(it has a restart, which is not played on Kafka)" in outcome.headline()


def test_a_row_too_few_is_a_difference_and_no_topic_is_left(
    runners: KafkaRunners, kafka: Broker, tmp_path: Path
) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text(
        "sql: CREATE STREAM s (a INTEGER);\n"
        "steps:\n"
        "  - {insert: s, rows: [[1, 1], [2, 2]]}\n"
        "  - {expect: s, rows: [[1, 1]]}\n"
    )
    outcome = played(runners, path)
    assert outcome.verdict is Verdict.FAILED
    assert "output of s differs: 1 row expected, 2 rows came out" in outcome.report()
    topics = AdminClient({"bootstrap.servers": kafka.bootstrap_servers}).list_topics(timeout=10).topics
    assert not [name for name in topics if name.startswith("rowtide-test-")]
