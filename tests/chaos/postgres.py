"""PostgreSQL with a standby that streams from it: killed, suspended, restarted, promoted."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import psycopg

from real.postgres import wheel
from rowtide.testing.processes import ENDS_WITH_PARENT, LOCAL, free_port

READY_S = 60

_SETTINGS = """
listen_addresses = '{host}'
unix_socket_directories = ''
fsync = on
wal_keep_size = '512MB'
max_connections = 40
wal_receiver_status_interval = 1
"""


class PostgresNode:
    """One server in a folder of its own, at a port of its own."""

    def __init__(self, folder: Path, binaries: Path, user: str | None) -> None:
        self.folder = folder
        self.port = free_port()
        self._binaries, self._user = binaries, user
        self._process: subprocess.Popen[bytes] | None = None

    def initialize(self) -> None:
        """Make an empty server."""
        self.run("initdb", "--auth=trust", "--encoding=UTF8", "--locale=C", "--username=postgres")
        with (self.folder / "postgresql.conf").open("a") as file:
            file.write(_SETTINGS.format(host=LOCAL))

    def copy(self, primary: PostgresNode) -> None:
        """Make a standby of ``primary``, which streams from it."""
        place = f"--host={LOCAL}", f"--port={primary.port}", "--username=postgres"
        self.run("pg_basebackup", *place, "--wal-method=stream", "--write-recovery-conf", "--checkpoint=fast")

    def start(self) -> None:
        """Start it, and wait until it answers."""
        with (self.folder.parent / f"{self.folder.name}.log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *ENDS_WITH_PARENT,
                    str(self._binaries / "postgres"),
                    "-D",
                    self.folder,
                    "-p",
                    str(self.port),
                ],
                stdout=log,
                stderr=log,
                user=self._user,
            )
        deadline = time.monotonic() + READY_S
        while True:
            try:
                self.ask("select 1")
                return
            except psycopg.OperationalError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop it: SIGINT is the fast shutdown, SIGQUIT the immediate one, and SIGKILL takes its processes, too."""
        if self._process is None:
            return
        others = self._processes() if how is signal.SIGKILL else []
        for each in [*others, self._process]:
            with contextlib.suppress(psutil.NoSuchProcess):
                each.send_signal(how)
        self._process.wait(READY_S)
        psutil.wait_procs(others, READY_S)
        self._process = None

    def suspend(self, part: str = "") -> None:
        """Suspend its processes whose title has ``part``."""
        for each in self._processes(part):
            each.suspend()

    def resume(self, part: str = "") -> None:
        """Let them continue."""
        for each in self._processes(part):
            each.resume()

    def stop_receiving(self) -> None:
        """End a suspended receiver of a standby before it takes what has been sent to it meanwhile."""
        for each in self._processes("walreceiver"):
            each.terminate()
            each.resume()

    def promote(self) -> None:
        """Make a standby the primary."""
        assert self.ask("select pg_promote(true, 60)") == [(True,)]

    def ask(self, query: str, database: str = "postgres") -> list[tuple[object, ...]]:
        """Return the rows of a query."""
        with psycopg.connect(self.url(database), autocommit=True, connect_timeout=10) as connection:
            cursor = connection.execute(query.encode())
            return cursor.fetchall() if cursor.description else []

    def url(self, database: str) -> str:
        """Return the address of a database."""
        return f"postgresql://postgres@{LOCAL}:{self.port}/{database}"

    def run(self, command: str, *arguments: str) -> None:
        """Run a program of PostgreSQL on the folder."""
        subprocess.run(
            [str(self._binaries / command), *arguments, "-D", str(self.folder)],
            user=self._user,
            cwd=self.folder.parent,
            capture_output=True,
            check=True,
        )

    def _processes(self, part: str = "") -> list[psutil.Process]:
        assert self._process is not None
        own = psutil.Process(self._process.pid)
        found = []
        for each in [own, *own.children(recursive=True)]:
            with contextlib.suppress(psutil.NoSuchProcess):
                if part in " ".join(each.cmdline()):
                    found.append(each)
        return found


class Replicated:
    """A primary and a standby. After a failover, the standby is the primary, and a new standby streams from it."""

    def __init__(self, folder: Path, binaries: Path, user: str | None) -> None:
        self._folder, self._binaries, self._user = folder, binaries, user
        self._made = 0
        self.primary = self._node()
        self.primary.initialize()
        self.primary.start()
        self.standby: PostgresNode | None = None

    def add_standby(self, *, waits: bool) -> None:
        """Add a standby. If the primary ``waits`` for it, no acknowledged commit is lost by a failover."""
        assert self.standby is None
        self.standby = self._node()
        self.standby.copy(self.primary)
        self.standby.start()
        self.wait_for_standby()
        names = "*" if waits else ""
        self.primary.ask(f"alter system set synchronous_standby_names = '{names}'")
        self.primary.ask("select pg_reload_conf()")

    def wait_for_standby(self) -> None:
        """Wait until the standby streams."""
        deadline = time.monotonic() + READY_S
        while not self.primary.ask("select 1 from pg_stat_replication where state = 'streaming'"):
            assert time.monotonic() < deadline, "the standby does not stream"
            time.sleep(0.05)

    def fail_over(self) -> None:
        """Kill the primary and promote the standby."""
        assert self.standby is not None
        self.primary.stop(signal.SIGKILL)
        shutil.rmtree(self.primary.folder)
        self.primary, self.standby = self.standby, None
        self.primary.stop_receiving()
        self.primary.ask("alter system set synchronous_standby_names = ''")
        self.primary.promote()

    def stop(self) -> None:
        """Stop both."""
        for each in (self.primary, self.standby):
            if each is not None:
                each.resume()
                each.stop(signal.SIGQUIT)

    def _node(self) -> PostgresNode:
        self._made += 1
        return PostgresNode(self._folder / f"node-{self._made}", self._binaries, self._user)


@contextlib.contextmanager
def replicated() -> Iterator[Replicated]:
    """Start a primary without a standby for the length of a block."""
    programs = wheel().utils
    binaries = Path(programs.POSTGRES_VERSIONS[programs.TARGET_POSTGRES_VERSION])
    folder = Path(tempfile.mkdtemp(prefix="rowtide-chaos-"))
    user = None
    if os.geteuid() == 0:
        # PostgreSQL refuses root.
        user = "pgserver"
        programs.ensure_user_exists(user)
        programs.ensure_prefix_permissions(binaries)
        shutil.chown(folder, user)
    made = Replicated(folder, binaries, user)
    try:
        yield made
    finally:
        made.stop()
        shutil.rmtree(folder, ignore_errors=True)
