"""Pipelines over the broker in memory and SQLite: run by commands, or by a service made of its parts."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from rowtide.cli.main import app
from rowtide.plan.plan import Plan
from rowtide.runtime.crashpoints import CrashPoints, NoCrash
from rowtide.runtime.pace import Pace
from rowtide.runtime.pipeline import Pipeline, open_pipeline
from rowtide.runtime.service import Service
from rowtide.runtime.state.context import PipelineContext
from rowtide.testing.virtual_clock import VirtualClock
from rowtide_connectors.memory import memory_broker


class PipelineFiles:
    """A pipeline file and its configuration, for commands; ``{file}`` in the SQL is broker and database."""

    def __init__(self, folder: Path, sql: str, config: str, name: str = "readings") -> None:
        self.database = folder / "out.db"
        self.sql, self.config = folder / f"{name}.sql", folder / "config.toml"
        self.text = sql.format(file=self.database)
        self.sql.write_text(self.text)
        self.config.write_text(config)
        self.broker = memory_broker(str(self.database))

    def call(self, name: str, *arguments: str, code: int = 0) -> str:
        """Return what a command says of the pipeline; it must exit with ``code``."""
        command = [*name.split(), str(self.sql), *arguments, "--config", str(self.config)]
        result = CliRunner().invoke(app, command)
        assert result.exit_code == code, (result.output, result.exception)
        return result.output

    def run(self) -> None:
        """Work off what the broker holds."""
        self.call("run", "--until-end")

    def rows(self, table: str) -> list[tuple[object, ...]]:
        """Return the rows of a foreign table."""
        connection = sqlite3.connect(self.database)
        try:
            return connection.execute(f"select * from {table}").fetchall()
        finally:
            connection.close()


class FilesWithModule(PipelineFiles):
    """A pipeline in a new folder with modules of its own; it reads ``readings`` of a sensor and an amount."""

    def __init__(self, folder: Path, sql: str, config: str, modules: Mapping[str, str]) -> None:
        folder.mkdir()
        for name, text in modules.items():
            (folder / name).write_text(text)
        super().__init__(folder, sql, config)
        self.broker.ensure_topic("readings", 1)
        self.sent = 0

    def produce(self, count: int) -> None:
        """Produce the next messages, a second apart."""
        for number in range(self.sent, self.sent + count):
            value = b'{"sensor":"s","amount":%d}' % number
            self.broker.produce("readings", [value], timestamps=[1_000 * number], partition=0)
        self.sent += count


def process_of(pipeline: Pipeline, pace: Pace, **changes: Any) -> PipelineContext:
    """Return the context of a process with a virtual clock and one thread; ``changes`` are further fields of it."""
    given: dict[str, Any] = {
        "name": pipeline.name,
        "plan": pipeline.plan,
        "sources": pipeline.sources,
        "sinks": pipeline.sinks,
        "database": pipeline.database,
        "ledger": pipeline.ledger,
        "clock": VirtualClock(),
        "pace": pace,
        "stopping": lambda: False,
        "rng": random.Random(1),
        "threads": False,
    }
    return PipelineContext(**(given | changes))


def work_off(plan: Plan, name: str, pace: Pace, crash_points: CrashPoints | None = None) -> None:
    """Work off what the broker holds, in one thread and few messages at a time."""
    with open_pipeline(plan, name) as pipeline:
        context = process_of(pipeline, pace, poll_messages=17, crash_points=crash_points or NoCrash())
        Service(context).run(until_end=True)
