"""Fixtures and settings that all tests share."""

from __future__ import annotations

import atexit
import gc
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from rowtide.checkpoint import migrate
from support import migrated

# A run makes millions of objects that stay: Python would look for garbage among them thousands of times.
gc.set_threshold(20_000, *gc.get_threshold()[1:])

pytest_plugins = [
    "rowtide.testing.pytest_plugin",
    "pytester",
    "real.chromium",
    "real.kafka",
    "real.mariadb",
    "real.npm",
    "real.postgres",
    # Its module imports that of the line before.
    "real.pgbouncer",
    "real.spark",
    "support.registry",
    "times",
    "unsteady",
]

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


GROUPS = {
    "spark": "spark",
    "kafka": "servers",
    "postgres": "servers",
    "mariadb": "servers",
    "browser": "browser",
}
"""The marks of tests that need something real, and the process that runs them; the first one counts."""

SERVICES = Path(__file__).with_name("integration") / "runtime"
"""The folder whose tests run services on real servers: they take as long as all others on servers together."""


@pytest.fixture(scope="session", autouse=True)
def _new_checkpoints_are_made_at_once() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(migrate, "_upgrade", migrated.at_once)
        yield


def group_of(item: pytest.Item) -> str | None:
    """Return the process that runs a test; None: any one does."""
    group = next((name for mark, name in GROUPS.items() if item.get_closest_marker(mark)), None)
    return "services" if group == "servers" and SERVICES in item.path.parents else group


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let ``pytest --rewrite`` write golden files again, ``--pictures`` pictures; a person looks at the difference."""
    parser.addoption("--rewrite", action="store_true", help="write golden files from what comes out now")
    parser.addoption("--pictures", action="store_true", help="write the pictures of the documentation")


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """Let one process begin with services on real servers, one with the other tests on these, one with those on Spark.

    Before anything else, as xdist makes its groups of marks that it finds then. Each process starts what its
    tests need once; those that hand over from Spark to the service need a broker and a database too.
    """
    grouped: dict[str | None, list[pytest.Item]] = {
        "services": [],
        "servers": [],
        "spark": [],
        "browser": [],
        None: [],
    }
    for item in items:
        group = group_of(item)
        if group is not None:
            item.add_marker(pytest.mark.xdist_group(group))
        grouped[group].append(item)
    items[:] = [item for each in grouped.values() for item in each]
    yield


def pytest_collection_finish() -> None:
    """Let the garbage collector leave out all that was imported and collected, up to the end of the process.

    Then some packages report objects that are left, so all end as usual.
    """
    gc.collect()
    gc.freeze()
    atexit.register(gc.unfreeze)
