"""The definitions of a catalog as they are shown: kind, text, columns and inputs of each relation and pump."""

from __future__ import annotations

from collections.abc import Mapping, Set
from functools import lru_cache

from rowtide.errors import without_secrets
from rowtide.plan.nodes import Node
from rowtide.plan.plan import Definition
from rowtide.sql.definitions.objects import Catalog, Key, TableDefinition, relation_name
from rowtide.sql.grammar.dialect import name_text
from rowtide.sql.grammar.statement_texts import statement_texts
from rowtide.sql.grammar.statements import ObjectKind
from rowtide.sql.planning.planner import PlannedPump


def definitions(
    catalog: Catalog,
    nodes: Mapping[str, Node],
    readers: Mapping[Key, Set[Key]],
    pumps: Mapping[Key, PlannedPump],
) -> tuple[Definition, ...]:
    """Return the definitions, in the order of their creation.

    ``nodes`` are those of relations and pumps, ``readers`` has the relations that each view and pump reads.
    """
    read = {key: set(each) for key, each in readers.items()}
    for key, pump in pumps.items():
        read.setdefault(pump.target, set()).add(key)
    found = []
    for key, each in catalog.objects.items():
        name, place = relation_name(key), each.origin.place
        if isinstance(each, TableDefinition):
            row_type, fields = each.row_type, each.key
        else:
            row_type, fields = nodes[name].row_type, nodes[name].key_fields() or ()
        text = _texts(each.origin.text).get((place.line, place.column), "")
        reads = tuple(sorted(relation_name(other) for other in read.get(key, ()) if other in catalog.objects))
        query = None
        if each.kind is not ObjectKind.PUMP:
            is_table = each.kind is ObjectKind.FOREIGN_TABLE or nodes[name].is_changelog()
            query = f"SELECT {'' if is_table else 'STREAM '}* FROM {_written(key, catalog.current)}"
        kind, shown = each.kind.value, without_secrets(text)
        found.append(Definition(name, kind, shown, place, row_type, fields, reads, query))
    return tuple(found)


def _written(key: Key, current: str) -> str:
    """Return the name of a relation as a query writes it, which ``current`` is the schema of."""
    return ".".join(map(name_text, key[1:] if key[0] == current else key))


@lru_cache(8)
def _texts(text: str) -> Mapping[tuple[int, int], str]:
    return statement_texts(text)
