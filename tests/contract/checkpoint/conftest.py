"""The databases of the suites of parts of the checkpoint."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rowtide.testing.in_memory_database import InMemoryDatabase
from rowtide_connectors.api import Database
from rowtide_connectors.registry import find_sink


@pytest.fixture(
    params=[
        "in-memory",
        "sqlite-file",
        pytest.param("postgres", marks=pytest.mark.postgres),
        pytest.param("mariadb", marks=pytest.mark.mariadb),
    ]
)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    if request.param == "in-memory":
        yield InMemoryDatabase()
        return
    url = f"sqlite:///{tmp_path / 'sink.db'}"
    if request.param in ("postgres", "mariadb"):
        url = request.getfixturevalue(f"{request.param}_url")
    opened = find_sink("rdbms").open({"url": url})
    yield opened
    opened.close()
