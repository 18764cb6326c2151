"""Fixtures and settings that all tests share."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["rowtide.testing.pytest_plugin", "pytester", "real.kafka", "real.postgres", "real.spark"]

# A loaded machine must not fail a property: no deadlines, and the same examples in every run.
settings.register_profile(
    "fast",
    deadline=None,
    derandomize=True,
    max_examples=50,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile("long", parent=settings.get_profile("fast"), derandomize=False, max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))


SERVERS = ("kafka", "postgres", "spark")
"""The marks of tests that need a real server, or Spark."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let ``pytest --rewrite`` write golden files anew; a person reads the difference."""
    parser.addoption("--rewrite", action="store_true", help="write golden files from what comes out now")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let one process run all tests of real servers, from the start: each server is started once."""
    real = [item for item in items if any(map(item.get_closest_marker, SERVERS))]
    for item in real:
        item.add_marker(pytest.mark.xdist_group("servers"))
    others = [item for item in items if not any(map(item.get_closest_marker, SERVERS))]
    items[:] = real + others
