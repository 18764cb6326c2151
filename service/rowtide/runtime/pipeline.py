"""A planned pipeline with its sources, its database, and the ledger in the database.

Nothing connects here: sources and databases connect on first use.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from rowtide.checkpoint.database import DatabaseLedger
from rowtide.checkpoint.file_list import FileList
from rowtide.checkpoint.polled_log import PolledLog
from rowtide.clock import SystemClock
from rowtide.plan.nodes import Node
from rowtide.plan.nodes import Source as SourceNode
from rowtide.plan.outputs import table_nodes
from rowtide.plan.plan import ForeignStream, Plan, Server
from rowtide.rows.types import JSON
from rowtide.runtime.configured import connector_options
from rowtide.runtime.polling.once import read_once
from rowtide.runtime.polling.options import changeable_options, poll_times, poller_of, table_options
from rowtide.runtime.polling.poller import TableShape
from rowtide.runtime.polling.topic import PolledTopic
from rowtide.runtime.runnable import database_server
from rowtide.runtime.state.topic_sinks import SinkOfStream, sink_of
from rowtide.runtime.topics import refuse_own_topics
from rowtide_connectors.api import Database, PolledTable, TableColumn, TargetTable, TopicSource
from rowtide_connectors.errors import OptionError
from rowtide_connectors.listed import ListedSource
from rowtide_connectors.registry import find_sink, find_source


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A plan, its name, and its external parts."""

    name: str
    plan: Plan
    sources: Mapping[str, TopicSource]
    sinks: Mapping[str, SinkOfStream]
    database: Database
    ledger: DatabaseLedger
    text: str | None = None
    """The text of its file as the checkpoint keeps it: without secrets."""

    def close(self) -> None:
        """Release every connection."""
        self.database.close()
        for source in self.sources.values():
            source.close()


@contextmanager
def open_pipeline(
    plan: Plan, name: str, checkpoint_url: str | None = None, *, text: str | None = None
) -> Iterator[Pipeline]:
    """Build a pipeline, and close it at the end of the block.

    Args:
      plan: the plan with its effective options (``configured``).
      name: the name under which its positions are stored.
      checkpoint_url: the database of a pipeline without foreign tables.
      text: the text of its file as the checkpoint keeps it.

    Raises:
      StatementError: it has no database, or two; or a stream would read what the pipeline writes.
      OptionError: an option of a server or stream is wrong.
    """
    refuse_own_topics(plan)
    database = open_database(database_server(plan, checkpoint_url))
    sources = {stream.name: _source(plan, stream, database, name) for stream in streams_read(plan)}
    sinks = {stream.name: sink_of(plan, stream) for stream in plan.written_streams}
    pipeline = Pipeline(name, plan, sources, sinks, database, DatabaseLedger(database, name), text)
    try:
        yield pipeline
    finally:
        pipeline.close()


def streams_read(plan: Plan) -> list[ForeignStream]:
    """Return the foreign streams that a pump into a foreign table or stream reads. Only these are opened."""
    found: set[str] = set()
    seen: set[int] = set()

    def visit(node: Node) -> None:
        if id(node) in seen:
            return
        seen.add(id(node))
        if isinstance(node, SourceNode):
            found.add(node.relation)
        for each in node.inputs:
            visit(each)

    for node in table_nodes(plan).values():
        visit(node)
    return [stream for stream in plan.foreign_streams if stream.name in found]


def _source(plan: Plan, stream: ForeignStream, database: Database, name: str) -> TopicSource:
    """Return the source of a foreign stream, or the log of the table of a database; both read the checkpoint's."""
    if poller_of(plan, stream) is None:
        source = open_source(plan, stream)
        if isinstance(source, ListedSource):
            # Files are listed once the process has an epoch: ``PipelineIO.list_files``.
            clock = SystemClock()
            source.keep(FileList(database, name, stream.name), monotonic=clock.monotonic, sleep=clock.sleep)
        return source
    return PolledTopic(
        shape_of(plan, stream),
        open_polled(plan, stream),
        PolledLog(database, name, stream.name),
        poll_times(stream),
    )


def open_source(plan: Plan, stream: ForeignStream) -> TopicSource:
    """Return the source of a foreign stream.

    Raises:
      OptionError: its server's connector has no source, or an option of its server or its own is wrong.
    """
    server = _server(plan, stream)
    return find_source(server.wrapper).open(dict(server.options), connector_options(stream))


def open_for_query(plan: Plan, stream: ForeignStream) -> TopicSource:
    """Return the source of a foreign stream for a query without a checkpoint, which reads a table once.

    Raises:
      OptionError: as ``open_source`` and ``open_polled``.
    """
    if poller_of(plan, stream) is None:
        return open_source(plan, stream)
    return read_once(shape_of(plan, stream), open_polled(plan, stream), poll_times(stream), SystemClock())


def open_polled(plan: Plan, stream: ForeignStream) -> PolledTable:
    """Return the table of a database that fills a table of the pipeline.

    Raises:
      OptionError: its server's connector has no tables to poll, or an option is wrong.
    """
    server, connector = _server(plan, stream), poller_of(plan, stream)
    if connector is None:
        raise OptionError(f'"{stream.name}" is not a table of a database')
    columns = tuple(TableColumn(field.name, str(field.type), field.nullable) for field in stream.row_type)
    key = tuple(stream.row_type[at].name for at in stream.key)
    return connector.open(dict(server.options), TargetTable(stream.name, columns, key, table_options(stream)))


def shape_of(plan: Plan, stream: ForeignStream) -> TableShape:
    """Return the columns of a table of a database, and the options that decide what a poll reads."""
    columns = tuple(field.name for field in stream.row_type)
    changeable = changeable_options(plan, stream)
    deciding = sorted(
        (name, value) for name, value in table_options(stream).items() if name not in changeable
    )
    jsons = tuple(at for at, field in enumerate(stream.row_type) if field.type == JSON)
    return TableShape(stream.name, columns, stream.key, json.dumps([deciding, columns]), jsons)


def _server(plan: Plan, stream: ForeignStream) -> Server:
    return next(each for each in plan.servers if each.name == stream.server)


def open_database(server: Server) -> Database:
    """Return the database of a server that has foreign tables.

    Raises:
      OptionError: its connector has no sink, or an option is wrong.
    """
    return find_sink(server.wrapper).open(dict(server.options))
