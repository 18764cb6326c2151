"""What ``check`` tells about a plan that runs, but may not do what was meant."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rowtide.plan.limits import FOR_EVER_MS, keeps_for_ever
from rowtide.plan.nodes import AsOfJoin, GroupChanges, KeyedTable, Node, Source, TableSource, WindowJoin
from rowtide.plan.plan import ForeignStream, Notice
from rowtide.plan.show import show_interval
from rowtide.plan.table_join import TableJoin
from rowtide.plan.top_changes import TopChanges
from rowtide.plan.walk import nodes_below, only_comes
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
        if (
            isinstance(each, GroupChanges | TableJoin | TopChanges | WindowJoin)
            and each.relation == name
            and keeps_for_ever(each)
        ):
            yield Notice(name, _kept(each))


def _kept(node: GroupChanges | TableJoin | TopChanges | WindowJoin) -> str:
    """Tell of state that has no limit but a declared one (sql-decisions 18)."""
    if isinstance(node, WindowJoin):
        if node.high_ms == FOR_EVER_MS:
            return "keeps all rows of two streams for ever: RETENTION is UNBOUNDED"
        return f"keeps the rows of two streams for {show_interval(node.high_ms)}, and joins no others"
    if isinstance(node, TopChanges) and node.limit is not None and only_comes(node.input):
        names = [node.input.row_type[at].name for at in node.partition]
        each = f"of every {', '.join(names)} " if names else ""
        return f"keeps the first rows {each}for ever: RETENTION is UNBOUNDED"
    if isinstance(node, TopChanges):
        return "keeps all rows for ever, to know the first ones: RETENTION is UNBOUNDED"
    if isinstance(node, TableJoin):
        return "keeps the rows of both sides of a join for ever: RETENTION is UNBOUNDED"
    names = [node.input.row_type[key].name for key in node.keys]
    of = f"a group for every {', '.join(names)}" if names else "its group"
    if node.retention_ms is None:
        return f"keeps {of} for ever: RETENTION is UNBOUNDED"
    return f"keeps {of} for {show_interval(node.retention_ms)} after its last row, then forgets it"


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
                    f"silent, nothing comes out. Its option {IDLE_TIMEOUT} '30 SECOND' limits that",
                )
