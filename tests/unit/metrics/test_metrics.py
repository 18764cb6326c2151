"""Metrics: declared once, named by Prometheus' rules, documented, and never shared."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from prometheus_client import generate_latest
from prometheus_client.exposition import choose_encoder

from rowtide.metrics import Declaration, Metrics
from rowtide.metrics.reference import metrics_page

PAGE = Path(__file__).parents[3] / "docs/reference/metrics.md"
DECLARED = Metrics().declared


def test_the_reference_page_is_current() -> None:
    assert PAGE.read_text() == metrics_page(), "python -m rowtide.metrics > docs/reference/metrics.md"


def test_every_metric_that_is_served_is_declared() -> None:
    served = {
        family.name.removesuffix("_total")
        for family in Metrics().registry.collect()
        if not family.name.startswith("process_")
    }
    assert served == {metric.name.removesuffix("_total") for metric in DECLARED}


@pytest.mark.parametrize("accept", ["text/plain", "application/openmetrics-text; version=1.0.0"])
def test_a_scraper_gets_no_series_that_says_when_another_one_began(accept: str) -> None:
    metrics = Metrics()
    metrics.commits.inc()
    metrics.rows_late.labels("R").inc()
    metrics.commit_seconds.observe(0.1)
    served = choose_encoder(accept)[0](metrics.registry).decode()
    assert 'rowtide_rows_late_total{relation="R"} 1.0' in served
    assert "rowtide_commit_duration_seconds_count 1.0" in served
    assert "_created" not in served


@pytest.mark.parametrize("metric", DECLARED, ids=lambda metric: metric.name)
def test_a_metric_is_named_by_the_rules_and_says_what_it_means(metric: Declaration) -> None:
    assert re.fullmatch(r"rowtide(_[a-z]+)+", metric.name)
    assert metric.name.endswith("_total") == (metric.kind == "counter")
    assert metric.meaning.endswith(".")
    assert metric.unit
    if "since the Unix epoch" in metric.unit:
        assert metric.name.endswith("_timestamp_seconds")
    elif metric.unit in ("seconds", "bytes"):
        assert metric.name.removesuffix("_total").endswith(metric.unit) or "bytes" in metric.name


def test_two_services_in_one_process_do_not_share_metrics() -> None:
    first, second = Metrics(), Metrics()
    first.commits.inc()
    assert b"rowtide_commits_total 1.0" in generate_latest(first.registry)
    assert b"rowtide_commits_total 0.0" in generate_latest(second.registry)
