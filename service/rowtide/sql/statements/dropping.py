"""Dependencies: DROP refuses objects that others use, DROP .. CASCADE drops these, too."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rowtide.sql.catalog.foreign_keys import referring
from rowtide.sql.catalog.models import ports_of, refuse_port
from rowtide.sql.definitions.objects import Catalog, Key, PumpDefinition, StreamDefinition, TableDefinition
from rowtide.sql.grammar.statements import Drop, ObjectKind, Rename
from rowtide.sql.planning.planner import PlannedPump, Planner
from rowtide.sql.statements.define import refuse_drop_of_used

_USED_BY_NAME = (
    *(ObjectKind.SCHEMA, ObjectKind.WRAPPER, ObjectKind.SERVER, ObjectKind.INDEX),
    ObjectKind.FUNCTION,
)
"""Kinds that are dropped without a check of queries, because their users are found in another way."""


def pumps_of(catalog: Catalog, planner: Planner) -> dict[Key, PlannedPump]:
    """Plan all pumps, including stopped ones.

    Raises:
      StatementError: one of them cannot be planned.
    """
    return {key: planner.pump(key) for key, _ in catalog.pumps()}


def is_dropped(catalog: Catalog, statement: Drop) -> bool:
    """Return whether DROP IF EXISTS names a schema that does not exist."""
    schema = statement.name.parts[0].text
    in_schema = statement.if_exists and len(statement.name.parts) > 1
    return in_schema and schema not in catalog.schemas and schema not in catalog.models


def prepared_drop(catalog: Catalog, statement: Drop) -> Catalog:
    """Return the catalog for a DROP; with CASCADE, the users of the object are dropped, too.

    Raises:
      StatementError: other objects use it, and the statement has no CASCADE; nothing has changed.
    """
    if statement.cascade:
        held = _held(catalog, statement)
        gone = [*_users(catalog, held), *(held if statement.kind in _USED_BY_NAME else ())]
        for key in gone:
            catalog = catalog.without(key)
        if statement.kind is ObjectKind.FUNCTION:
            from rowtide.sql.statements.defining import without_functions_calling

            catalog = without_functions_calling(catalog, statement.name.parts[-1].text)
        return catalog
    if statement.kind in (*_USED_BY_NAME, ObjectKind.PUMP):
        return catalog
    keys = _held(catalog, statement)
    if keys and keys[0] in catalog.objects and statement.kind is not ObjectKind.MODEL:
        catalog.find_of(statement.name, statement.kind)
    if statement.kind is not ObjectKind.MODEL:
        refuse_port(catalog, keys[0], statement.name.place)
    for key in keys:
        if key in catalog.objects:
            refuse_drop_of_used(catalog, key, _readers(catalog, [key], but=keys), statement.name.place)
    return catalog


def refuse_renaming_of_used(catalog: Catalog, statement: Rename) -> None:
    """Refuse to rename an object that queries name.

    Raises:
      StatementError: queries name it; the message names their definitions.
    """
    key = catalog.key(statement.name)
    if key in catalog.objects:
        refuse_drop_of_used(catalog, key, _readers(catalog, [key], but=[key]), statement.name.place)


def _held(catalog: Catalog, statement: Drop) -> list[Key]:
    """Return the objects that a statement drops, and those that need them."""
    match statement.kind:
        case ObjectKind.MODEL:
            return list(ports_of(catalog, statement.name))
        case ObjectKind.SCHEMA:
            return [key for key in catalog.objects if key[0] == statement.name.parts[-1].text]
        case ObjectKind.SERVER:
            name = statement.name.parts[-1].text
            return [
                key
                for key, found in catalog.objects.items()
                if isinstance(found, StreamDefinition | TableDefinition) and found.server == name
            ]
        case ObjectKind.FUNCTION:
            from rowtide.sql.statements.defining import objects_calling

            return objects_calling(catalog, statement.name.parts[-1].text)
        case ObjectKind.WRAPPER | ObjectKind.INDEX:
            return []
        case _:
            return [catalog.key(statement.name)]


def _readers(catalog: Catalog, keys: Sequence[Key], but: Iterable[Key]) -> list[Key]:
    """Return the views and pumps that read, the pumps that write, and the tables that refer to one of these objects."""
    planner = Planner(catalog).prepared()
    pumps = pumps_of(catalog, planner)
    for each, found in catalog.objects.items():
        if not isinstance(found, PumpDefinition):
            planner.relation(each)
    users = [reader for reader, read in planner.readers.items() if not read.isdisjoint(keys)]
    users += [pump for pump, planned in pumps.items() if planned.target in keys]
    users += referring(catalog, keys)
    left_out = set(but)
    return [user for user in dict.fromkeys(users) if user not in left_out]


def _users(catalog: Catalog, keys: Sequence[Key]) -> list[Key]:
    """Return all direct and indirect users of these objects."""
    found: list[Key] = []
    while users := _readers(catalog, [*keys, *found], but=[*keys, *found]):
        found += users
    return found
