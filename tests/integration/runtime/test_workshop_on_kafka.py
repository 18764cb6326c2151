"""The workshop example on a real broker and a real PostgreSQL: history, then today, killed in between."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import sqlalchemy as sa

from real.kafka import Broker
from real.postgres import PostgresServer
from support.waiting import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.postgres]

EXAMPLE = Path(__file__).parents[3] / "examples" / "workshop" / "workshop.sql"
WEEK_MS = 7 * 24 * 3_600_000
Rows = list[tuple[object, ...]]


class Pipeline:
    def __init__(self, folder: Path, broker: Broker, topic: str, database: str) -> None:
        self._folder = folder
        self._database = sa.create_engine(database)
        # The pipeline's file finds the model beside it.
        sql = EXAMPLE.read_text().replace("topic 'orders'", f"topic '{topic}'")
        (folder / "workshop.sql").write_text(sql)
        (folder / "workshop.py").write_text(EXAMPLE.with_suffix(".py").read_text())
        (folder / "config.toml").write_text(
            '[service]\nlisten = "127.0.0.1:0"\n'
            f'[servers.broker]\nbootstrap_servers = "{broker.bootstrap_servers}"\n'
            f'[servers.db]\nurl = "{database}"\n'
            "[commit]\ninterval_ms = 50\n"
        )

    def command(self, *arguments: str) -> list[str]:
        files = [str(self._folder / "workshop.sql"), "--config", str(self._folder / "config.toml")]
        return [sys.executable, "-m", "rowtide", arguments[0], *files, *arguments[1:]]

    @property
    def environment(self) -> dict[str, str]:
        return os.environ | {"PYTHONPATH": os.pathsep.join(each for each in sys.path if each)}

    @contextlib.contextmanager
    def live(self) -> Iterator[subprocess.Popen[bytes]]:
        with (self._folder / "log").open("ab") as log:
            process = subprocess.Popen(self.command("run"), env=self.environment, stdout=log, stderr=log)
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    def rows(self, query: str) -> Rows:
        with self._database.connect() as connection:
            try:
                return [tuple(row) for row in connection.execute(sa.text(query))]
            except sa.exc.ProgrammingError:
                # The tables are not there yet.
                return []

    def wait_for(self, query: str, wanted: Rows) -> None:
        wait_until(
            lambda: self.rows(query) == wanted,
            lambda: f"{query}: {self.rows(query)}\n{(self._folder / 'log').read_text()[-2_000:]}",
        )

    def close(self) -> None:
        self._database.dispose()


def orders(items: Sequence[str]) -> list[bytes]:
    return [b'{"item": "%s", "pieces": 1}' % item.encode() for item in items]


def test_a_loop_that_kafka_drives_fills_tables_through_kills_and_the_end_of_history(
    kafka: Broker, postgres_server: PostgresServer, tmp_path: Path
) -> None:
    topic = kafka.create_topic(1)
    pipeline = Pipeline(tmp_path, kafka, topic, postgres_server.create_database())
    began = int(time.time() * 1000) - 3 * WEEK_MS
    items = ["bike", "wheel", "frame", "wheel", "bike"] * 8
    kafka.produce(topic, orders(items), timestamps=[began + 3_600_000 * at for at in range(len(items))])
    jumps = "SELECT relation, bound > next_offset FROM rowtide.decisions WHERE kind = 'RESET'"
    with pipeline.live() as process:
        pipeline.wait_for(jumps, [("WORKSHOP", True)])
        process.kill()
    answer = "SELECT item FROM notes WHERE note = 'not ordered before history ended' ORDER BY item"
    assert pipeline.rows(answer) == []
    # Today: the first order ends the stretch of time in which no one looked.
    now = int(time.time() * 1000)
    kafka.produce(topic, orders(["bike"]), timestamps=[now + 10_000])
    with pipeline.live():
        pipeline.wait_for(answer, [("bike",), ("frame",), ("wheel",)])
        kafka.produce(topic, orders(["wheel"]), timestamps=[now + 20_000])
        made = "SELECT count(*) FROM movements WHERE why = 'made' AND item = 'wheel'"
        pipeline.wait_for(made, [(34,)])
    assert len(pipeline.rows(jumps)) == 1
    moved = pipeline.rows("SELECT pieces FROM movements WHERE item = 'spoke'")
    spokes = [int(str(pieces)) for (pieces,) in moved]
    assert spokes.count(200) > 1, "what is bought is delivered"
    levels = {str(item): level for item, level in pipeline.rows("SELECT item, level FROM levels")}
    assert levels["spoke"] == 100 + sum(spokes)
    done = subprocess.run(
        pipeline.command("replay", "--compare"),
        env=pipeline.environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Equal: 42 messages" in done.stdout
    pipeline.close()
