"""docs/reference/metrics.md, generated from the declarations."""

from __future__ import annotations

from rowtide.metrics.metrics import Metrics

HEAD = """\
# Metrics

The service publishes these metrics at `/metrics` in the Prometheus text format, together with `process_*`
(CPU, memory, open files). `python -m rowtide.metrics` writes this page, and a test checks that it is current.

* A relation may take several steps, such as a filter and a group. `rows_in` and `rows_done` count the rows of the
  first, `rows_out` those of the last, the others those of all. A join with a sub-query counts the sub-query's rows as
  input, too.
* At every commit the service checks for each step: rows in = done + filtered + late + rejected + held. The table
  [`accounts`](checkpoint.md#accounts) has the sums over the steps of each relation.
* Counters start at 0 when the process starts.
* The lag of a relation behind real time is `time() - rowtide_bound_timestamp_seconds`.

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
