"""A real pgbouncer in transaction mode before the PostgreSQL server of the tests."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from real.parts import missing
from real.postgres import PostgresServer
from real.unpacked import Unpacked
from rowtide.testing.processes import ENDS_WITH_PARENT, LOCAL, answers, free_port

READY_S = 60

_SETTINGS = """\
[databases]
* = host={host} port={port} user={user}

[pgbouncer]
listen_addr = {local}
listen_port = {own}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 2
"""


class Pgbouncer:
    """A running pgbouncer: its sessions share two connections to the server."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self.port = free_port()

    def url(self, address: str) -> str:
        """Return the address of a database of the server, through pgbouncer."""
        url = sa.make_url(address).set(host=LOCAL, port=self.port, password=None, query={})
        return url.render_as_string(hide_password=False)

    def settings(self) -> str:
        """Return the configuration."""
        url = sa.make_url(self._server.url())
        host = url.query.get("host", url.host)
        return _SETTINGS.format(
            host=host, port=url.port or 5432, user=url.username, local=LOCAL, own=self.port
        )


@pytest.fixture(scope="session")
def pgbouncer(postgres_server: PostgresServer) -> Iterator[Pgbouncer]:
    """A running pgbouncer, one for the whole test run."""
    package = Unpacked("pgbouncer")
    made = Pgbouncer(postgres_server)
    folder = Path(tempfile.mkdtemp(prefix="rowtide-pgbouncer-"))
    folder.chmod(0o755)
    file = folder / "pgbouncer.ini"
    file.write_text(made.settings(), encoding="utf-8")
    command = [package.command, str(file)]
    host = sa.make_url(postgres_server.url()).query.get("host")
    if os.geteuid() == 0 and isinstance(host, str):
        # It refuses root, and only the server's own user may open the folder of its socket.
        command[1:1] = ["-u", Path(host).owner()]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [*ENDS_WITH_PARENT, *command], stdout=log, stderr=log, env=package.environment
        )
    try:
        deadline = time.monotonic() + READY_S
        while not answers(made.port):
            if process.poll() is not None or time.monotonic() > deadline:
                missing("pgbouncer", f"it does not start: {(folder / 'log').read_text()[-500:]}")
            time.sleep(0.05)
        yield made
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)
