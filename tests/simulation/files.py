"""Database files in memory: none outlives the run, and a migrated checkpoint is copied and not migrated again."""

from __future__ import annotations

import atexit
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from rowtide.checkpoint.database import DatabaseLedger
from rowtide_connectors.rdbms.database import open_database
from simulation.workloads import Workload

_SHARED = Path("/dev/shm")


@contextmanager
def database_file(workload: Workload) -> Iterator[Path]:
    """Return a file with the database as the first process of a workload finds it."""
    with _folder() as folder:
        file = Path(folder) / "sink.db"
        if not workload.is_first:
            shutil.copy(_migrated(), file)
        with closing(sqlite3.connect(file)) as connection:
            connection.execute("pragma journal_mode = wal")
            for statement in workload.ddl:
                connection.execute(statement)
        yield file


def _folder() -> TemporaryDirectory[str]:
    return TemporaryDirectory(prefix="rowtide-simulation-", dir=_SHARED if _SHARED.exists() else None)


@cache
def _migrated() -> Path:
    """Return a database with an empty checkpoint."""
    folder = _folder()
    atexit.register(folder.cleanup)
    file = Path(folder.name) / "migrated.db"
    database = open_database(f"sqlite:///{file}")
    ledger = DatabaseLedger(database, "first")
    ledger.claim("", "")
    ledger.drop()
    database.close()
    return file
