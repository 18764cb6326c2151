"""Programs of the engine that ``.ci/deploy`` starts, and what the sample orders come to."""

from __future__ import annotations

import collections
import decimal
import importlib.util
import json
import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from rowtide.testing.processes import free_port

ROOT = Path(__file__).parents[2]
DEPLOY = "ROWTIDE_DEPLOY"
"""What ``.ci/deploy`` has started, by commas: engine, spark, cluster, node."""

log = logging.getLogger("rowtide.deploy")
"""What ``.ci/deploy`` shows beside the names of the tests: totals, sizes, times."""

SERVICE_IMAGE = "rowtide:0.1.0"
SPARK_IMAGE = "rowtide-spark:0.1.0"


def needs(part: str) -> None:
    """Skip a test whose part ``.ci/deploy`` has not started: it says why it could not."""
    if part not in os.environ.get(DEPLOY, "").split(","):
        pytest.skip(f"{part} is not started; run: bash .ci/deploy")


def run(
    *command: str, variables: Mapping[str, str] | None = None, check: bool = True
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end; with ``check`` its failure is the failure of the test."""
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        env={**os.environ, **(variables or {})},
    )
    if check and done.returncode:
        pytest.fail(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done


def docker(*arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    return run("docker", *arguments, check=check)


def within(seconds: float, what: Callable[[], Any], wanted: Any = True) -> Any:
    """Return what is there as soon as it is as wanted, or after so many seconds what is there then."""
    deadline = time.monotonic() + seconds
    while (found := what()) != wanted and time.monotonic() < deadline:
        time.sleep(1)
    return found


class Compose:
    """The services of docker/compose.yaml, under a name and at ports of their own."""

    def __init__(self, project: str, changes: Path) -> None:
        names = ("ROWTIDE_PORT", "ROWTIDE_MONITORING_PORT", "ROWTIDE_POSTGRES_PORT", "ROWTIDE_KAFKA_PORT")
        self.ports = {name: free_port() for name in names}
        self._variables = {
            "POSTGRES_PASSWORD": "correct horse",
            **{name: str(port) for name, port in self.ports.items()},
        }
        # The sample sends for a hundred seconds; here for twenty.
        changes.write_text(json.dumps({"services": {"producer": {"command": ["--per-second=5000"]}}}))
        files = ("--file", str(ROOT / "docker/compose.yaml"), "--file", str(changes))
        self._command = ("docker", "compose", "--progress", "quiet", "--project-name", project, *files)

    def __call__(
        self, *arguments: str, check: bool = True, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        return run(*self._command, *arguments, variables={**self._variables, **variables}, check=check)

    def sql(self, statement: str) -> str:
        """Return what psql answers, without a heading."""
        psql = ("psql", "--username=rowtide", "--no-align", "--tuples-only", "--command", statement)
        return self("exec", "--no-TTY", "postgres", *psql).stdout.strip()

    def psql(self, statement: str) -> str:
        """Return what psql writes for people."""
        return self("exec", "--no-TTY", "postgres", "psql", "-U", "rowtide", "-c", statement).stdout

    def rows(self) -> int:
        """Return the number of rows of the table; none before the service has made it."""
        exists = self.sql(
            "SELECT count(*) FROM information_schema.tables WHERE table_name = 'orders_per_minute'"
        )
        return int(self.sql("SELECT count(*) FROM orders_per_minute")) if exists == "1" else 0

    def sent_everything(self) -> bool:
        return "sent 100000 orders" in self("logs", "producer").stdout

    def totals(self) -> str:
        """Return rows, orders, quantity and amount of the table, once the producer has sent everything."""
        assert within(240, self.sent_everything), self("logs", "--tail=20").stdout
        found = str(within(90, lambda: self.sql(TOTALS), expected_totals()))
        log.info("rows|orders|quantity|amount: %s, expected: %s", found, expected_totals())
        return found

    def explain(self) -> str:
        """Return the states and the last lines of the logs, for a failure."""
        return self("ps", "--all").stdout + self("logs", "--tail=30").stdout


TOTALS = "SELECT count(*), sum(orders), sum(quantity), sum(amount) FROM orders_per_minute"


def produce() -> ModuleType:
    """Return the module of the sample's producer."""
    spec = importlib.util.spec_from_file_location("sample_orders", ROOT / "docker/orders/produce.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def expected_rows(count: int = 100_000) -> dict[tuple[int, str], list[Any]]:
    """Return orders, quantity and amount by minute and product. The last minute stays open, so it is not there."""
    sample = produce()
    rows: dict[tuple[int, str], list[Any]] = collections.defaultdict(lambda: [0, 0, decimal.Decimal(0)])
    for order in sample.orders(count):
        row = rows[order.ordered_at // 60_000, order.product]
        row[0] += 1
        row[1] += order.quantity
        row[2] += order.quantity * decimal.Decimal(sample.PRICES[order.product])
    last = max(minute for minute, _ in rows)
    return {key: row for key, row in rows.items() if key[0] < last}


def expected_totals(count: int = 100_000) -> str:
    """Return the totals of the sample orders as psql shows them."""
    closed = list(expected_rows(count).values())
    return "|".join(str(each) for each in (len(closed), *(sum(row[i] for row in closed) for i in range(3))))
