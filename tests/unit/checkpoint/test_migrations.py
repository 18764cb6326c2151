"""The migrations and what the program knows of them without alembic."""

import subprocess
import sys

from alembic.script import ScriptDirectory

from rowtide.checkpoint.migrate import HEAD, MIGRATIONS


def test_the_version_that_needs_no_migration_is_the_newest_one() -> None:
    assert ScriptDirectory(str(MIGRATIONS)).get_current_head() == HEAD


def test_alembic_is_not_imported_before_it_is_needed() -> None:
    script = "import sys, rowtide.checkpoint.database; print('alembic' in sys.modules)"
    environment = {"PYTHONPATH": ":".join(sys.path)}
    run = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == "False"
