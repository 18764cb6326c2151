"""Run a command with a real Kafka broker and a real PostgreSQL, started here and stopped at its end.

    python benchmarks/with_servers.py rowtide bench kafka-json --repeat 3

With ``--mariadb`` before the command, the database is a MariaDB.

The servers are those of the tests (tests/real); the command finds them in ROWTIDE_BENCH_BROKER and
ROWTIDE_BENCH_DATABASE.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from real.kafka import JavaBroker
from real.mariadb import MariaDbServer
from real.postgres import running_server


@contextmanager
def database(*, is_mariadb: bool) -> Iterator[str]:
    """Start a server, and return the address of an empty database."""
    if not is_mariadb:
        with running_server() as server:
            yield server.create_database()
        return
    with tempfile.TemporaryDirectory() as folder:
        mariadb = MariaDbServer(Path(folder))
        try:
            mariadb.start()
            yield mariadb.create_database()
        finally:
            mariadb.stop()


def main() -> int:
    """Run the command and give its exit code."""
    command = sys.argv[1:]
    is_mariadb = command[:1] == ["--mariadb"]
    with tempfile.TemporaryDirectory() as folder, database(is_mariadb=is_mariadb) as url:
        broker = JavaBroker(Path(folder))
        broker.start()
        try:
            servers = {"ROWTIDE_BENCH_BROKER": broker.bootstrap_servers, "ROWTIDE_BENCH_DATABASE": url}
            return subprocess.run(command[is_mariadb:], env=os.environ | servers, check=False).returncode
        finally:
            broker.stop()


if __name__ == "__main__":
    sys.exit(main())
