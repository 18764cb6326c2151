"""What ``check`` tells about a plan that runs, but may not do what was meant."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rowtide.plan.nodes import AsOfJoin, KeyedTable, Node, Source, TableSource, nodes_below
from rowtide.plan.plan import ForeignStream, Notice
from rowtide.sql.objects import Catalog, TableDefinition, relation_name

IDLE_TIMEOUT = "idle_timeout"


def notices(relations: Mapping[str, Node], streams: Mapping[str, ForeignStream]) -> tuple[Notice, ...]:
    """Give the notices of a plan: each once, in the order of the relations that they are about."""
    found = [notice for name, node in relations.items() for notice in _of(name, node, streams)]
    return tuple(dict.fromkeys(found))


def index_notices(catalog: Catalog) -> tuple[Notice, ...]:
    """Give a notice for each declared index: joins keep what they look up by their own keys."""
    return tuple(
        Notice(
            relation_name(key),
            f'nothing uses index "{index.name}": what looks into the table keeps its rows by its own keys',
        )
        for key, found in catalog.objects.items()
        if isinstance(found, TableDefinition)
        for index in found.indexes
        if not index.unique
    )


def _of(name: str, node: Node, streams: Mapping[str, ForeignStream]) -> Iterator[Notice]:
    for each in nodes_below(node):
        if isinstance(each, AsOfJoin) and each.relation == name:
            for table in nodes_below(each.table):
                if isinstance(table, KeyedTable):
                    yield from _silent(name, table, streams)
        unlimited = each.unlimited_state()
        if unlimited is not None and each.relation == name:
            yield Notice(name, unlimited)


def _silent(name: str, table: KeyedTable, streams: Mapping[str, ForeignStream]) -> Iterator[Notice]:
    """Tell that a join waits for a table whose source may be silent (sql-decisions 17)."""
    for source in nodes_below(table):
        if isinstance(source, TableSource) and not source.loaded_once:
            yield Notice(
                name,
                f'rows wait until table "{table.relation}" has a rowtime bound past them; '
                "no pump and no INSERT statement fills it",
            )
        if isinstance(source, Source) and source.relation in streams:
            options = dict(streams[source.relation].options)
            if IDLE_TIMEOUT not in options:
                yield Notice(
                    name,
                    f'rows wait for table "{table.relation}", and so for "{source.relation}": while it is '
                    f"silent, nothing comes out. With {IDLE_TIMEOUT} '30 SECOND' in its OPTIONS it follows "
                    "the rows that wait once it has been silent for so long",
                )
