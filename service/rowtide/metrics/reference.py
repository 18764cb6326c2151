"""docs/reference/metrics.md, written from the declarations."""

from __future__ import annotations

from rowtide.metrics.metrics import Metrics

HEAD = """\
# Metrics

Served at `/metrics` in the Prometheus text format, together with `process_*` (CPU, memory, open files).
This page is written by `python -m rowtide.metrics`; a test checks that it is current.

At every commit, for each relation:
`rows_in = rows_done + rows_filtered + rows_late + rows_rejected + rows_held`.
Counters count what this process saw since it started. How far behind real time a relation is:
`time() - rowtide_bound_timestamp_seconds`.

| metric | kind | unit | labels | meaning |
|---|---|---|---|---|
"""


def metrics_page() -> str:
    """Return the page as Markdown."""
    lines = []
    for metric in Metrics().declared:
        labels = ", ".join(f"`{label}`" for label in metric.labels) or "-"
        lines.append(f"| `{metric.name}` | {metric.kind} | {metric.unit} | {labels} | {metric.meaning} |\n")
    return HEAD + "".join(lines)
