"""A planned pipeline with what it reads and writes: sources, the one database, the ledger in it.

Nothing is connected here: sources and databases do that when they are first used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from rowtide.checkpoint.database import DatabaseLedger
from rowtide.checkpoint.ledger import Ledger
from rowtide.errors import StatementError
from rowtide.plan.nodes import Node
from rowtide.plan.nodes import Source as SourceNode
from rowtide.plan.outputs import table_nodes
from rowtide.plan.plan import ForeignStream, Plan, Server
from rowtide_connectors.api import Database, Source
from rowtide_connectors.registry import find_connector

SERVICE_OPTIONS = frozenset({"format", "max_ahead"})
"""Options of a foreign stream that are Rowtide's own; all others are the connector's."""


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where the servers of a plan are, once configuration has overridden what the SQL says.

    ``servers`` has the options of each server by name. ``checkpoint_url`` names the database of a
    pipeline without foreign tables.
    """

    servers: Mapping[str, Mapping[str, str]]
    checkpoint_url: str | None = None

    @classmethod
    def as_written(cls, plan: Plan) -> Addresses:
        """Give what the SQL itself says."""
        return cls({server.name: dict(server.options) for server in plan.servers})


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A plan, its name, and its parts outside the process."""

    name: str
    plan: Plan
    sources: Mapping[str, Source]
    database: Database
    ledger: Ledger

    def close(self) -> None:
        """Give every connection back."""
        self.database.close()
        for source in self.sources.values():
            close = getattr(source, "close", None)
            if close is not None:
                close()


@contextmanager
def open_pipeline(plan: Plan, name: str, addresses: Addresses) -> Iterator[Pipeline]:
    """Put a pipeline together, and close it at the end of the block.

    Raises:
      StatementError: it has no database, or two.
      OptionError: an option of a server or stream is wrong.
    """
    database = _database(plan, addresses)
    pipeline = Pipeline(name, plan, _sources(plan, addresses), database, DatabaseLedger(database, name))
    try:
        yield pipeline
    finally:
        pipeline.close()


def streams_read(plan: Plan) -> list[ForeignStream]:
    """Give the foreign streams that a pump into a foreign table reads; no other one is opened."""
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


def _sources(plan: Plan, addresses: Addresses) -> dict[str, Source]:
    servers = {server.name: server for server in plan.servers}
    found = {}
    for stream in streams_read(plan):
        options = {name: value for name, value in stream.options if name not in SERVICE_OPTIONS}
        connector = find_connector(servers[stream.server].wrapper)
        found[stream.name] = connector.source(addresses.servers[stream.server], options)
    return found


def _database(plan: Plan, addresses: Addresses) -> Database:
    servers = {server.name: server for server in plan.servers}
    used: list[Server] = []
    for table in plan.foreign_tables:
        server = servers[table.server]
        if all(addresses.servers[server.name] != addresses.servers[each.name] for each in used):
            used.append(server)
    if len(used) > 1:
        raise StatementError(
            f'foreign tables are in two databases: of server "{used[0].name}" and of server "{used[1].name}"',
            hint="Output and positions commit in one transaction, so all tables of a pipeline must be in "
            "one database.",
        )
    if used:
        return find_connector(used[0].wrapper).database(addresses.servers[used[0].name])
    if addresses.checkpoint_url is None:
        raise StatementError(
            "the pipeline has no foreign table, so there is no database to keep its positions in",
            hint="Set checkpoint.url in the configuration.",
        )
    return find_connector("rdbms").database({"url": addresses.checkpoint_url})
