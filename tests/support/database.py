"""Databases of each kind, and pipelines over topics in memory that write to them again and again."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from typer.testing import CliRunner

from rowtide.checkpoint.error_stream import ErrorFilter
from rowtide.checkpoint.ledger import StoredError
from rowtide.cli.main import app
from rowtide.runtime.inspect.replay import Range, compare
from rowtide.runtime.pace import Pace
from rowtide.runtime.pipeline import Pipeline, open_pipeline
from rowtide.runtime.service import Service
from rowtide.runtime.state.context import PipelineContext
from rowtide.sql.pipeline import plan_pipeline
from rowtide_connectors.memory import memory_broker
from support.pipeline import process_of

SERVERS = (
    pytest.param("postgres", marks=pytest.mark.postgres),
    pytest.param("mariadb", marks=pytest.mark.mariadb),
)
"""Parameters: the databases on servers, by their names for ``url_of``."""
DATABASES = ("sqlite", *SERVERS)
NUMBERS = """
CREATE SERVER k FOREIGN DATA WRAPPER MEMORY OPTIONS (broker '{broker}');
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url '{url}');
CREATE FOREIGN STREAM readings (number BIGINT) SERVER k OPTIONS (topic 'readings', format 'JSON');
CREATE FOREIGN TABLE log (number BIGINT) SERVER d;
CREATE PUMP p STARTED AS INSERT INTO log SELECT STREAM number FROM readings;
"""
"""A pipeline of one topic and one table."""
Topics = Mapping[str, Sequence[tuple[int, Mapping[str, object]]]]
"""By topic, the rowtimes of its messages (ms) and their rows."""
_brokers = itertools.count()


def marks(database: str) -> Any:
    """Return the marks of a test that uses a database."""
    return () if database == "sqlite" else getattr(pytest.mark, database)


def url_of(request: pytest.FixtureRequest, database: str) -> str:
    """Return the address of an empty database of the test's own."""
    if database == "sqlite":
        return f"sqlite:///{request.getfixturevalue('tmp_path')}/o.db"
    return str(request.getfixturevalue(f"{database}_url"))


def execute(url: str, statements: Sequence[str]) -> list[Any]:
    """Execute statements in one transaction; return the rows of the last one, sorted."""
    engine = sa.create_engine(url.replace("mariadb://", "mariadb+pymysql://"))
    rows: list[Any] = []
    with engine.begin() as connection:
        for statement in statements:
            found = connection.exec_driver_sql(statement)
            rows = sorted(tuple(row) for row in found) if found.returns_rows else []
    engine.dispose()
    return rows


@contextmanager
def opened(sql: str, url: str, topics: Topics, **parts: str) -> Iterator[Pipeline]:
    """Open a pipeline, whose text has ``{broker}`` and ``{url}``, over topics of one partition in a new broker."""
    broker = f"of a test {next(_brokers)}"
    for topic, messages in topics.items():
        memory_broker(broker).ensure_topic(topic, 1)
        for rowtime, row in messages:
            memory_broker(broker).produce(topic, [json.dumps(row).encode()], timestamps=[rowtime])
    with open_pipeline(plan_pipeline(sql.format(broker=broker, url=url, **parts)), "p") as pipeline:
        yield pipeline


def committing(pipeline: Pipeline, rows: int) -> PipelineContext:
    """Return the context of a process that commits every so many rows, and ends if it has to wait."""
    return process_of(pipeline, Pace(10**9, rows, None, None), wait=False, poll_messages=min(rows, 50))


def run_again(pipeline: Pipeline, rows: int) -> list[StoredError]:
    """Run a pipeline from its first messages to the last, with a commit every so many rows; return its error rows.

    Its tables must be what a replay computes.
    """
    context = committing(pipeline, rows)
    pipeline.ledger.drop()
    Service(context).run(until_end=True)
    compared = compare(context, Range())
    assert (compared.count, compared.differences) == (0, ())
    return list(pipeline.ledger.errors(ErrorFilter(), None))


def refused_start(url: str, folder: Path) -> str:
    """Return what is said at a start that ends because the server of the database refuses it."""
    memory_broker(str(folder)).ensure_topic("readings", 1)
    file = folder / "p.sql"
    file.write_text(NUMBERS.format(broker=folder, url=url))
    result = CliRunner().invoke(app, ["run", str(file), "--until-end", "--listen", "127.0.0.1:0"])
    assert result.exit_code == 3, result.output
    return result.output
