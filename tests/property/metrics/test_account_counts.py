"""Row counters follow accounts: what a process counted is what its accounts grew by."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowtide.metrics import AccountCounts, Metrics
from rowtide.metrics.accounts import FATES

SAMPLES = dict(
    zip(
        FATES,
        ("rows_in", "rows_done", "rows_filtered", "rows_late", "rows_rejected", "rows_out"),
        strict=True,
    )
)
growths = st.lists(st.fixed_dictionaries({fate: st.integers(0, 1000) for fate in FATES}), max_size=5)


def counted(metrics: Metrics, fate: str, relation: str) -> float:
    value = metrics.registry.get_sample_value(f"rowtide_{SAMPLES[fate]}_total", {"relation": relation})
    return 0.0 if value is None else value


@given(base=st.fixed_dictionaries({fate: st.integers(0, 1000) for fate in FATES}), grown=growths)
def test_counters_hold_what_the_account_grew_by_since_the_start(
    base: dict[str, int], grown: list[dict[str, int]]
) -> None:
    metrics = Metrics()
    counts = AccountCounts(metrics)
    counts.start_at("ORDERS", (*(base[fate] for fate in FATES), 0))
    totals = dict(base)
    for step in grown:
        totals = {fate: totals[fate] + step[fate] for fate in FATES}
        counts.follow("ORDERS", (*(totals[fate] for fate in FATES), step["rows_in"]))
    for fate in FATES:
        assert counted(metrics, fate, "ORDERS") == totals[fate] - base[fate]
    if grown:
        held = metrics.registry.get_sample_value("rowtide_rows_held", {"relation": "ORDERS"})
        assert held == grown[-1]["rows_in"]


def test_an_account_that_goes_back_is_refused_and_counts_nothing() -> None:
    metrics = Metrics()
    counts = AccountCounts(metrics)
    counts.follow("ORDERS", (5, 5, 5, 5, 5, 5, 0))
    with pytest.raises(ValueError, match='done of "ORDERS" went back by 2'):
        counts.follow("ORDERS", (9, 3, 9, 9, 9, 9, 0))
    assert counted(metrics, "rows_in", "ORDERS") == 5
