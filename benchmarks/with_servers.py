"""Run a command with a real Kafka broker and a real PostgreSQL, started here and stopped at its end.

    python benchmarks/with_servers.py rowtide bench kafka-json --repeat 3

The servers are those of the tests (tests/real); the command finds them in ROWTIDE_BENCH_BROKER and
ROWTIDE_BENCH_DATABASE.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from real.kafka import JavaBroker
from real.postgres import running_server


def main() -> int:
    """Run the command and give its exit code."""
    with tempfile.TemporaryDirectory() as folder, running_server() as database:
        broker = JavaBroker(Path(folder))
        broker.start()
        try:
            servers = {
                "ROWTIDE_BENCH_BROKER": broker.bootstrap_servers,
                "ROWTIDE_BENCH_DATABASE": database.create_database(),
            }
            return subprocess.run(sys.argv[1:], env=os.environ | servers, check=False).returncode
        finally:
            broker.stop()


if __name__ == "__main__":
    sys.exit(main())
