"""Lookups in a plan for the relations that a scenario names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rowtide.errors import StatementError
from rowtide.plan.nodes import KeyedTable, Node, Promote, Sort, Source, TableSource, nodes_below
from rowtide.plan.outputs import table_nodes
from rowtide.plan.plan import ForeignStream, ForeignTable, Plan
from rowtide.sql.catalog.written_names import relation_name
from rowtide.testing.error_rows import ERROR_ROW, ERRORS
from rowtide.testing.rows import RelationShape


class Relations:
    """The relations of one plan, by the names that scenarios give them."""

    def __init__(self, plan: Plan) -> None:
        self._nodes = dict(plan.relations)
        self._foreign_tables = {table.name: table for table in plan.foreign_tables}
        self._foreign_streams = {stream.name: stream for stream in plan.foreign_streams}
        self._table_nodes = {
            name: node for name, node in table_nodes(plan).items() if name in self._foreign_tables
        }
        self._streams = plan.streams

    def resolve(self, name: str) -> str:
        """Return the catalog name; the schema may be left out if only one schema has a relation of that name.

        Raises:
          StatementError: if the relation does not exist.
        """
        found = relation_name(name)
        if found == ERRORS or found in self._nodes or found in self._foreign_tables:
            return found
        elsewhere = [each for each in self.names() if each.endswith(f".{found}")]
        if len(elsewhere) == 1:
            return elsewhere[0]
        known = ", ".join(self.names())
        raise StatementError(f'relation "{found}" does not exist', hint=f"There are {known or 'none'}.")

    def shape(self, name: str) -> RelationShape:
        """Return the shape of a relation's rows.

        Raises:
          StatementError: if the relation does not exist.
        """
        found = self.resolve(name)
        if found == ERRORS:
            return RelationShape(ERRORS, ERROR_ROW)
        if found in self._foreign_tables:
            return RelationShape(found, self._foreign_tables[found].row_type, is_changes=True)
        node = self._nodes[found]
        return RelationShape(found, node.row_type, is_changes=node.shows_opcodes())

    def node(self, relation: str) -> Node | None:
        """Return the node of a catalog name; None for a foreign table or the error stream."""
        return self._nodes.get(relation)

    def entrance(self, relation: str) -> Source | TableSource | None:
        """Return the source at which rows of this relation enter; None if rows cannot be inserted."""
        node = self._nodes.get(relation)
        if node is None:
            return None
        return next((each for each in sources_of(node) if each.relation == relation), None)

    def key(self, relation: str) -> tuple[int, ...]:
        """Return the PRIMARY KEY of an engine table or foreign table; empty if it has none."""
        if relation in self._foreign_tables:
            return self._foreign_tables[relation].key
        node = self._nodes[relation]
        return node.key if isinstance(node, KeyedTable) else ()

    def foreign_stream(self, relation: str) -> ForeignStream | None:
        """Return the foreign stream of this catalog name."""
        return self._foreign_streams.get(relation)

    def foreign_streams(self) -> list[ForeignStream]:
        """Return all foreign streams, in the order of their definitions."""
        return list(self._foreign_streams.values())

    def streams(self) -> dict[str, Node]:
        """Return the streams of CREATE STREAM, whose producers can change between versions."""
        return {name: self._nodes[name] for name in self._streams if name in self._nodes}

    def foreign_table(self, relation: str) -> ForeignTable | None:
        """Return the foreign table of this catalog name."""
        return self._foreign_tables.get(relation)

    def wanted(self, named: Sequence[str], *, with_unread: bool) -> dict[str, Node]:
        """Return the nodes that a flow must compute, by output name.

        These are the ``named`` relations, every stream and table (they check and apply their rows even if
        no query reads them), and every foreign table that a pump writes to. ``with_unread`` adds the views
        that no query reads, so that their rejected rows are reported.
        """
        wanted = {name: self._nodes[name] for name in named if name in self._nodes}
        for name, node in self._nodes.items():
            is_table = isinstance(node, KeyedTable)
            if self.entrance(name) is not None and (is_table or name not in self._foreign_streams):
                wanted.setdefault(name, node)
        wanted |= self._table_nodes
        if with_unread:
            read = {each for node in wanted.values() for each in below(node)}
            # A view is defined after the relations that it reads: in reverse order, readers come first.
            for name in reversed(self._nodes):
                if self._nodes[name] not in read and name not in self._foreign_streams:
                    wanted[name] = self._nodes[name]
                    read.update(below(self._nodes[name]))
        return wanted

    def topics(self) -> dict[str, str]:
        """Return the topic of each foreign stream; without the option it is the stream's name."""
        return {
            name: dict(stream.options).get("topic", name) for name, stream in self._foreign_streams.items()
        }

    def names(self) -> list[str]:
        """Return the catalog names of all relations."""
        return [*self._nodes, *self._foreign_tables]

    def bounded_partitions(self, relation: str, partitions: Mapping[str, Sequence[int]]) -> tuple[int, ...]:
        """Return the partitions that an explicit bound of ``relation`` sets.

        Raises:
          StatementError: if the relation has no own clock.
        """
        if self.entrance(relation) is not None:
            return tuple(partitions[relation])
        node = self._nodes.get(relation)
        if node is None or not takes_bounds(node, relation):
            raise StatementError(
                f'relation "{relation}" takes no rowtime bound',
                hint="Set bounds on streams, tables, and views that promote or sort by time.",
            )
        numbers = {each for source in sources_of(node) for each in partitions[source.relation]}
        return tuple(sorted(numbers))

    def has_no_clock(self, relation: str) -> bool:
        """Return whether the relation of a catalog name accepts neither rows nor bounds."""
        node = self._nodes.get(relation)
        return node is not None and self.entrance(relation) is None and not takes_bounds(node, relation)

    def partitions(self, mentioned: Mapping[str, set[int]]) -> dict[str, tuple[int, ...]]:
        """Return the partitions of each source, from the partitions that the steps mention.

        A partition of a view counts for the one stream that the view reads. A stream without mentioned
        partitions has partition 0.
        """
        found = {name: {0} for name in self._nodes if self.entrance(name) is not None}
        for name, numbers in mentioned.items():
            if name not in self._nodes or not numbers:
                continue
            below_it = {each.relation for each in sources_of(self._nodes[name])}
            target = name if name in below_it else below_it.pop() if len(below_it) == 1 else None
            if target is not None:
                found[target] = numbers | (found[target] if target in mentioned and target != name else set())
        return {name: tuple(sorted(numbers)) for name, numbers in found.items()}


def below(node: Node) -> list[Node]:
    """Return a node and all nodes that it reads, each once."""
    found: dict[Node, None] = {}
    waiting = [node]
    while waiting:
        each = waiting.pop()
        if each not in found:
            found[each] = None
            waiting.extend(reversed(each.inputs))
    return list(found)


def sources_of(node: Node) -> list[Source | TableSource]:
    """Return the sources that a node reads, each once."""
    sources = (each for each in nodes_below(node) if isinstance(each, Source | TableSource))
    return list(dict.fromkeys(sources))


def takes_bounds(node: Node, relation: str) -> bool:
    """Return whether a relation has its own clock: its definition promotes or t-sorts."""
    return any(isinstance(each, Promote | Sort) and each.relation == relation for each in nodes_below(node))
