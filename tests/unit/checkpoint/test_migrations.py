"""The migrations and what the program knows of them without alembic."""

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.script import ScriptDirectory

from rowtide.checkpoint import migrate as module
from rowtide.checkpoint.migrate import HEAD, MIGRATIONS, migrate, stored_version
from support.migrated import at_once, step_by_step


@pytest.fixture(autouse=True)
def _each_migration_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_upgrade", step_by_step)


def test_the_version_that_needs_no_migration_is_the_newest_one() -> None:
    assert ScriptDirectory(str(MIGRATIONS)).get_current_head() == HEAD


def test_alembic_is_not_imported_before_it_is_needed() -> None:
    script = "import sys, rowtide.checkpoint.database; print('alembic' in sys.modules)"
    environment = {"PYTHONPATH": ":".join(sys.path)}
    run = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == "False"


def migrated(before: Callable[[str], object] = lambda _: None) -> list[tuple[Any, ...]]:
    """Return the tables of a new database; ``before`` is called with each statement."""
    engine = sa.create_engine("sqlite://")
    sa.event.listen(engine, "before_cursor_execute", lambda *called: before(called[2].strip()))
    with engine.begin() as connection:
        migrate(connection)
        assert stored_version(connection) == HEAD
        rows = connection.exec_driver_sql("select name, sql from sqlite_master order by name")
        return [tuple(row) for row in rows]


@pytest.mark.parametrize(
    "change",
    [
        "CREATE TABLE rowtide_version",
        "CREATE TABLE rowtide_positions",
        "CREATE INDEX rowtide_errors_resubmitted",
        "ALTER TABLE rowtide_pipelines ADD",
        "ALTER TABLE _alembic_tmp_rowtide_outbox",
        "UPDATE rowtide_version",
    ],
)
def test_a_migration_goes_on_where_it_was_after_another_one_of_the_process(change: str) -> None:
    others: list[list[tuple[Any, ...]]] = []

    def before(statement: str) -> None:
        if statement.startswith(change) and not others:
            others.append(migrated())

    assert [migrated(before)] == others


def test_checkpoints_of_tests_are_those_of_all_migrations(monkeypatch: pytest.MonkeyPatch) -> None:
    made = migrated()
    monkeypatch.setattr(module, "_upgrade", at_once)
    assert migrated() == made
