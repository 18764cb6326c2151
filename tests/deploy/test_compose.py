"""docker/compose.yaml on a real engine: it becomes healthy, and the totals are exact whatever is killed."""

from __future__ import annotations

import contextlib
import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.kit import ROOT, Compose, expected_totals, log, needs, within

pytestmark = [pytest.mark.deploy, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def compose(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Compose]:
    """The services, with no orders yet."""
    needs("engine")
    with started("rowtide-test", tmp_path_factory.mktemp("compose")) as services:
        services("up", "--detach", "--wait", "--no-build", "service")
        yield services


@contextlib.contextmanager
def started(project: str, folder: Path) -> Iterator[Compose]:
    """The services, removed with their volumes at the end."""
    services = Compose(project, folder / "changes.yaml")
    down = ("--profile", "*", "down", "--volumes", "--remove-orphans", "--timeout=2")
    services(*down)
    try:
        yield services
    finally:
        services(*down)


FIRST_ROWS = "SELECT * FROM orders_per_minute ORDER BY minute_end, product LIMIT 5"


def shown(text: str) -> str:
    """Return what psql writes as the how-to has it: without spaces at the ends of lines."""
    return "\n".join(line.rstrip() for line in text.splitlines()).strip("\n")


TABLES = "SELECT table_schema FROM information_schema.tables WHERE table_name = 'orders_per_minute'"


def answer(port: int, path: str, token: str | None = None) -> tuple[int, str]:
    """Return the status and body that a port of this machine answers."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}")
    if token is not None:
        request.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, timeout=10) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_it_becomes_healthy_and_only_its_monitoring_answers_without_a_token(compose: Compose) -> None:
    api, monitoring = compose.ports["ROWTIDE_PORT"], compose.ports["ROWTIDE_MONITORING_PORT"]
    assert answer(monitoring, "/readyz") == (200, '{"status":"ready"}')
    assert "rowtide_up 1.0" in answer(monitoring, "/metrics")[1]
    assert answer(monitoring, "/")[0] == 404
    assert answer(api, "/")[0] == 401
    token = compose("exec", "--no-TTY", "service", "cat", "/var/lib/rowtide/token").stdout.strip()
    status, body = answer(api, "/", token)
    assert status == 200
    assert json.loads(body)["pipeline"] == "orders"


def test_compose_understands_every_profile_and_the_example_settings(compose: Compose) -> None:
    """The images of Prometheus, Grafana and the registry are not to be had here, so they are not started."""
    example = ("--env-file", str(ROOT / "docker/.env.example"))
    read = json.loads(compose(*example, "--profile", "*", "config", "--format", "json").stdout)
    services = read["services"]
    assert {"prometheus", "grafana", "registry", "backfill"} <= services.keys()
    published = [port["published"] for each in services.values() for port in each.get("ports", ())]
    assert len(published) == len(set(published)) == 7
    for each in services.values():
        for volume in each.get("volumes", ()):
            assert volume["type"] == "volume" or Path(volume["source"]).exists()
    one = json.loads(compose("config", "--format", "json").stdout)["services"]
    assert one.keys() == {"kafka", "topics", "postgres", "service", "producer"}


def test_the_totals_are_exact_after_a_kill(compose: Compose) -> None:
    token = compose("exec", "--no-TTY", "service", "cat", "/var/lib/rowtide/token").stdout
    compose("up", "--detach", "--no-build", "--no-deps", "producer")
    started = time.monotonic()
    assert within(60, lambda: compose.rows() > 0), compose.explain()
    log.info("first rows %.0f s after the producer has started", time.monotonic() - started)
    compose("kill", "--signal", "KILL", "service")
    postgres("pg_dump --username=rowtide --format=custom --file=/tmp/rowtide.dump", compose)
    assert 0 < compose.rows() < int(expected_totals().split("|")[0])
    compose("up", "--detach", "--wait", "--no-build", "service")
    assert compose.totals() == expected_totals(), compose.explain()
    assert shown(compose.psql(FIRST_ROWS)) in (ROOT / "docs/howto/deploy-compose.md").read_text()
    # One table has all rows, although the role has the name of the checkpoint's schema.
    assert compose.sql(TABLES) == "public"

    # Commands in the container take the token from its environment.
    files = ("/etc/rowtide/pipeline.sql", "--config", "/etc/rowtide/config.toml")
    compose("exec", "--no-TTY", "service", "rowtide", "snapshot", *files)
    # The volume keeps the token.
    assert compose("exec", "--no-TTY", "service", "cat", "/var/lib/rowtide/token").stdout == token


def postgres(command: str, compose: Compose) -> None:
    """Run a command beside PostgreSQL, which the how-to has as it is."""
    assert command in (ROOT / "docs/howto/run-and-recover.md").read_text()
    compose("exec", "--no-TTY", "postgres", "sh", "-c", command)


def test_a_restored_backup_continues_where_it_was_made(compose: Compose) -> None:
    """The backup is of the moment of the kill: what the service has committed since is computed again."""
    compose("stop", "service")
    postgres("dropdb --username=rowtide --force rowtide --maintenance-db=postgres", compose)
    postgres("createdb --username=rowtide --maintenance-db=postgres rowtide", compose)
    postgres("pg_restore --username=rowtide --exit-on-error --dbname=rowtide /tmp/rowtide.dump", compose)
    assert 0 < compose.rows() < int(expected_totals().split("|")[0])
    compose("up", "--detach", "--wait", "--no-build", "service")
    assert compose.totals() == expected_totals(), compose.explain()


def test_a_changed_pipeline_is_seen_before_an_upgrade(compose: Compose) -> None:
    """What the hook of the chart runs: exit code 0 for the pipeline that runs, 1 for another plan."""
    change = (
        "sed 's/FLOOR(ROWTIME TO MINUTE)/FLOOR(ROWTIME TO HOUR)/' /etc/rowtide/pipeline.sql >/tmp/changed.sql"
    )
    for file, code in (("/etc/rowtide/pipeline.sql", 0), ("/tmp/changed.sql", 1)):
        command = f"{change}; exec rowtide plan {file} --config /etc/rowtide/config.toml"
        done = compose("exec", "--no-TTY", "service", "sh", "-c", command, check=False)
        assert done.returncode == code, done.stdout + done.stderr


def test_a_database_that_cannot_hold_every_text_is_refused_with_a_hint(compose: Compose) -> None:
    compose.sql("CREATE DATABASE ascii TEMPLATE template0 ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C'")
    url = "postgresql+psycopg://rowtide@postgres:5432/ascii"
    done = compose(
        *(
            "run",
            "--rm",
            "--no-deps",
            "--no-TTY",
            "--env",
            f"ROWTIDE_SERVERS__WAREHOUSE__URL={url}",
            "service",
        ),
        *("run", "/etc/rowtide/pipeline.sql", "--config", "/etc/rowtide/config.toml"),
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert "SQL_ASCII" in done.stderr
    assert "Traceback" not in done.stderr


def test_one_command_starts_everything_and_waits_until_it_is_healthy(compose: Compose) -> None:
    """Last, as it sends the orders once more."""
    compose("stop", "service")
    compose("up", "--detach", "--wait", "--no-build")
    assert answer(compose.ports["ROWTIDE_MONITORING_PORT"], "/readyz")[0] == 200


def test_the_service_continues_where_spark_has_stopped(tmp_path: Path) -> None:
    needs("spark")
    with started("rowtide-history", tmp_path) as compose:
        compose("up", "--detach", "--no-build", "producer")
        assert within(240, compose.sent_everything), compose.explain()
        compose("run", "--rm", "backfill", UNTIL="2024-01-02 10:00:00")
        # 60 minutes of five products, the last of which is open at the cut.
        assert compose.sql("SELECT count(*) FROM orders_per_minute") == "295"
        compose("up", "--detach", "--wait", "--no-build", "service")
        assert compose.totals() == expected_totals(), compose.explain()
