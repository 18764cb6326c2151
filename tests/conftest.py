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


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let ``pytest --rewrite`` write golden files anew; a person reads the difference."""
    parser.addoption("--rewrite", action="store_true", help="write golden files from what comes out now")
