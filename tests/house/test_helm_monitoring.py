"""Alerts and the dashboard: of metrics that exist, and the same files for the chart and for compose."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
import yaml

from house.chart import CHART, VALUES, helm_program, of_kind, rendered
from house.machine import ROOT
from rowtide.metrics import Metrics


@pytest.fixture(scope="module")
def helm() -> str:
    return helm_program()


def test_alerts_are_of_metrics_that_the_service_has(helm: str) -> None:
    """They are the same for the chart and for compose, and each can say what to do."""
    manifests = rendered(helm, VALUES / "good/everything.yaml")
    (rule,) = of_kind(manifests, "PrometheusRule")
    assert rule["spec"] == yaml.safe_load((CHART / "files/alerts.yaml").read_text())
    known = set(re.findall(r"`(rowtide_\w+)`", (ROOT / "docs/reference/metrics.md").read_text()))
    (group,) = rule["spec"]["groups"]
    for alert in group["rules"]:
        named = set(re.findall(r"rowtide_\w+", alert["expr"]))
        assert named
        assert named <= known
        assert alert["annotations"].keys() == {"summary", "description"}
    work = (ROOT / "docs/howto/daily-work.md").read_text()
    assert re.findall(r"^\| (Rowtide\w+) \|", work, re.MULTILINE) == [
        each["alert"] for each in group["rules"]
    ]


def queries() -> Iterator[tuple[str, str]]:
    """Yield the title of each panel of the dashboard, with each of its expressions."""
    for panel in json.loads((CHART / "files/dashboard.json").read_text())["panels"]:
        for each in panel.get("targets", ()):
            yield panel["title"], each["expr"]


@pytest.mark.parametrize(("title", "query"), list(queries()), ids=lambda text: text.replace(" ", "-"))
def test_a_panel_shows_metrics_that_the_service_has_by_labels_that_they_have(title: str, query: str) -> None:
    metrics = Metrics()
    declared = {each.name: each for each in metrics.declared}
    # Of the process, under names of the client library.
    own = {sample.name for family in metrics.registry.collect() for sample in family.samples}
    named = set(re.findall(r"\b((?:rowtide|process)_\w+)\{", query))
    assert named
    for name in named:
        if name.startswith("process_"):
            assert name in own
            continue
        each = declared[name.removesuffix("_bucket")]
        assert name.endswith("_bucket") == (each.kind == "histogram")
        # A counter is shown as a rate, and nothing else is.
        assert (f"rate({name}{{" in query) == (each.kind in ("counter", "histogram"))
        for labels in re.findall(r"by \(([^)]*)\)", query):
            known = {"instance", *each.labels, *(["le"] if each.kind == "histogram" else [])}
            assert set(labels.split(", ")) <= known
    # Every series of a panel can be told from the others of several pipelines.
    assert query.count("{") == query.count('{instance=~"$instance"')


def test_the_dashboard_shows_what_is_watched_first() -> None:
    shown = " ".join(query for _, query in queries())
    for name in (
        "rowtide_rows_in_total",
        "rowtide_rows_out_total",
        "rowtide_bound_timestamp_seconds",
        "rowtide_lag_offsets",
        "rowtide_rows_late_total",
        "rowtide_rows_rejected_total",
        "rowtide_commit_duration_seconds_bucket",
        "rowtide_last_commit_timestamp_seconds",
        "process_resident_memory_bytes",
        "rowtide_rows_held",
    ):
        assert name in shown
    board = json.loads((CHART / "files/dashboard.json").read_text())
    assert [panel["id"] for panel in board["panels"]] == list(range(1, len(board["panels"]) + 1))
    for panel in board["panels"]:
        if panel["type"] != "row":
            assert panel["description"].endswith(".")
            assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
            assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24


def test_the_dashboard_reaches_grafana_as_it_is(helm: str) -> None:
    manifests = rendered(helm, VALUES / "good/everything.yaml")
    (found,) = (each for each in of_kind(manifests, "ConfigMap") if "rowtide.json" in each["data"])
    assert found["data"] == {"rowtide.json": (CHART / "files/dashboard.json").read_text()}
    # By this label the sidecar of Grafana's chart finds it.
    assert found["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert found["metadata"]["annotations"] == {"grafana_folder": "Streams"}
    assert len(of_kind(rendered(helm, VALUES / "good/minimal.yaml"), "ConfigMap")) == 1
