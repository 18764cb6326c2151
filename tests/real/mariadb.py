"""A real MariaDB server, from Debian's packages, unpacked by .ci/tools or installed."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from real.parts import missing
from real.unpacked import Unpacked
from rowtide.testing.processes import ENDS_WITH_PARENT, LOCAL, free_port

READY_S = 120
"""A loaded machine takes a minute where an idle one takes 2 s."""

_SYSTEM_TABLES = ("mysql_system_tables.sql", "mysql_performance_tables.sql", "mysql_system_tables_data.sql")


class MariaDbServer:
    """A running server; every test takes a database of its own."""

    def __init__(self, folder: Path) -> None:
        self._package = Unpacked("mariadbd")
        self._folder = folder
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        share = self._package.root / "usr/share/mysql"
        self._options = [
            "--no-defaults",
            f"--datadir={folder / 'data'}",
            f"--lc-messages-dir={share}",
            f"--socket={folder / 'socket'}",
            f"--pid-file={folder / 'pid'}",
            # A server that starts removes what it takes for left-overs there, those of its neighbours, too.
            f"--tmpdir={folder / 'tmp'}",
            # No one needs the data after the tests: kills of the server are not tested here.
            "--innodb-flush-log-at-trx-commit=0",
            "--innodb-flush-method=nosync",
            "--innodb-doublewrite=0",
            "--sync-frm=0",
            *(["--user=root"] if os.geteuid() == 0 else []),
        ]
        (folder / "data").mkdir()
        (folder / "tmp").mkdir()
        text = "create database mysql;\nuse mysql;\n" + "".join(
            (share / name).read_text(encoding="utf-8") for name in _SYSTEM_TABLES
        )
        made = subprocess.run(
            [self._package.command, *self._options, "--bootstrap", "--skip-networking"],
            input=text.encode(),
            env=self._package.environment,
            capture_output=True,
            check=False,
        )
        assert made.returncode == 0, made.stderr.decode(errors="replace")[-2_000:]

    def start(self) -> None:
        """Start the server; it answers when this returns."""
        with (self._folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *ENDS_WITH_PARENT,
                    self._package.command,
                    *self._options,
                    f"--port={self.port}",
                    f"--bind-address={LOCAL}",
                    "--skip-name-resolve",
                ],
                stdout=log,
                stderr=log,
                env=self._package.environment,
            )
        deadline = time.monotonic() + READY_S
        while True:
            try:
                self.execute("select 1")
                return
            except Exception:  # PyMySQL's, which is an optional package
                if time.monotonic() > deadline or self._process.poll() is not None:
                    raise
                time.sleep(0.1)

    def stop(self) -> None:
        """End the server without a shutdown."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def url(self, database: str, user: str = "root", password: str | None = None) -> str:
        """Return the address of a database, as SQLAlchemy spells it."""
        address = sa.URL.create("mariadb", user, password, LOCAL, self.port, database)
        return address.render_as_string(hide_password=False)

    def create_database(self, collation: str = "utf8mb4_nopad_bin") -> str:
        """Make an empty database; give its address."""
        name = f"d_{uuid.uuid4().hex[:12]}"
        self.execute(f"create database {name} character set utf8mb4 collate {collation}")
        return self.url(name)

    def drop_connections(self, url: str) -> None:
        """Break every connection to the database at ``url``, as a restart of the server does."""
        name = sa.make_url(url).database
        for (number,) in self.execute(f"select id from information_schema.processlist where db = '{name}'"):
            self.execute(f"kill {number}")

    def execute(self, statement: str) -> list[tuple[Any, ...]]:
        """Run a statement as root."""
        import pymysql

        with (
            contextlib.closing(
                pymysql.connect(host=LOCAL, port=self.port, user="root", autocommit=True)
            ) as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute(statement)
            return list(cursor.fetchall())


@pytest.fixture(scope="session")
def mariadb_server() -> Iterator[MariaDbServer]:
    """A running server, one for the whole test run."""
    try:
        import pymysql  # noqa: F401
    except ImportError as error:
        missing("MariaDB", f'{error}; install the driver with: pip install "rowtide[dev]"')
    # A socket's path has at most 107 characters, which pytest's own folders may exceed.
    folder = Path(tempfile.mkdtemp(prefix="rowtide-mariadb-"))
    server = MariaDbServer(folder)
    try:
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def mariadb_url(mariadb_server: MariaDbServer) -> str:
    """The address of an empty database of the test's own."""
    return mariadb_server.create_database()
