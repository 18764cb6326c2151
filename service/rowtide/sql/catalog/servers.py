"""Servers, wrappers and their options in the catalog. Pure: a catalog in, a catalog out.

A wrapper is a connector under another name, with initial options for its servers. If a server's wrapper is
not in the catalog, its name is that of the connector.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from rowtide.errors import SourceSpan, StatementError
from rowtide.plan.plan import Server
from rowtide.sql.definitions.objects import Catalog, StreamDefinition, TableDefinition, Wrapper, relation_name
from rowtide.sql.grammar.literals import interval_text_ms
from rowtide.sql.grammar.statements import (
    Alter,
    CreateRelation,
    CreateServer,
    CreateWrapper,
    ObjectKind,
    OptionChange,
    OptionItem,
)
from rowtide.sql.grammar.suggestions import did_you_mean, did_you_mean_or_all
from rowtide.sql.grammar.syntax import QualifiedName

MAX_AHEAD = "max_ahead"
DEFAULT_MAX_AHEAD = "1 DAY"
"""How far ahead of its message's timestamp a promoted rowtime can be; an option of the stream overrides it."""

OptionPairs = tuple[tuple[str, str], ...]


def single(name: QualifiedName, what: str) -> str:
    """Return a name without a schema; ``what`` names its object.

    Raises:
      StatementError: the name has a schema.
    """
    if len(name.parts) > 1:
        raise StatementError(f"{what} has one name, without a dot", span=name.place)
    return name.parts[0].text


def refuse_if_used(what: str, users: Sequence[str], span: SourceSpan) -> None:
    """Refuse to drop ``what`` while it has ``users``.

    Raises:
      StatementError: it has users; the message names them.
    """
    if users:
        shown = ", ".join(f'"{user}"' for user in sorted(users))
        raise StatementError(f"{what} is used by {shown}", span=span, hint="Drop these first.")


# ------------------------------------------------------------------- wrappers


def create_wrapper(catalog: Catalog, statement: CreateWrapper) -> Catalog:
    """Return the catalog after CREATE FOREIGN DATA WRAPPER."""
    name = single(statement.name, "a foreign data wrapper")
    _refuse_second("foreign data wrapper", name, catalog.wrappers, statement)
    library = name if statement.library is None else statement.library.upper()
    wrapper = Wrapper(library, options_of(statement.options))
    return replace(catalog, wrappers={**catalog.wrappers, name: wrapper})


def drop_wrapper(catalog: Catalog, name: QualifiedName, *, if_exists: bool) -> Catalog:
    """Return the catalog after DROP FOREIGN DATA WRAPPER. Its servers do not change."""
    wrapper = single(name, "a foreign data wrapper")
    if wrapper not in catalog.wrappers:
        if if_exists:
            return catalog
        raise _unknown_wrapper(catalog, wrapper, name.place)
    left = {other: kept for other, kept in catalog.wrappers.items() if other != wrapper}
    return replace(catalog, wrappers=left)


# -------------------------------------------------------------------- servers


def create_server(catalog: Catalog, statement: CreateServer) -> Catalog:
    """Return the catalog after CREATE SERVER."""
    name = single(statement.name, "a server")
    _refuse_second("server", name, catalog.servers, statement)
    named = statement.wrapper.text
    wrapper = catalog.wrappers.get(named, Wrapper(named.upper(), ()))
    options = dict(wrapper.options) | dict(options_of(statement.options))
    server = Server(name, wrapper.library, tuple(options.items()))
    return replace(catalog, servers={**catalog.servers, name: server})


def drop_server(catalog: Catalog, name: QualifiedName, *, if_exists: bool) -> Catalog:
    """Return the catalog after DROP SERVER."""
    server = single(name, "a server")
    if server not in catalog.servers:
        if if_exists:
            return catalog
        raise _unknown("server", server, catalog.servers, name.place)
    users = [
        relation_name(key)
        for key, found in catalog.objects.items()
        if (isinstance(found, StreamDefinition | TableDefinition) and found.server == server)
        or (isinstance(found, TableDefinition) and found.source == server)
    ]
    refuse_if_used(f'server "{server}"', users, name.place)
    left = {other: kept for other, kept in catalog.servers.items() if other != server}
    return replace(catalog, servers=left)


def server_for(catalog: Catalog, statement: CreateRelation) -> Server:
    """Return the server that a foreign stream or table names. Its connector checks whether the server supports it.

    Raises:
      StatementError: the server does not exist, or its database is not that of the other tables.
    """
    assert statement.server is not None
    name = single(statement.server, "a server")
    server = catalog.servers.get(name)
    place = statement.server.place
    if server is None:
        raise _unknown("server", name, catalog.servers, place)
    if statement.kind is ObjectKind.FOREIGN_TABLE:
        _one_database(catalog, server, place)
    return server


def _one_database(catalog: Catalog, server: Server, span: SourceSpan) -> None:
    """Check that the foreign tables of this connector are in the database of ``server``, too."""
    for table, other in _databases(catalog):
        if other.wrapper == server.wrapper and other.options != server.options:
            raise StatementError(
                f'foreign table "{table}" is in another database',
                span=span,
                hint="A pipeline writes to one database, so that one transaction commits everything.",
            )


def _databases(catalog: Catalog) -> Iterator[tuple[str, Server]]:
    for key, found in catalog.objects.items():
        if isinstance(found, TableDefinition) and found.server is not None:
            yield relation_name(key), catalog.servers[found.server]


def _refuse_second(
    kind: str, name: str, there: Mapping[str, object], statement: CreateServer | CreateWrapper
) -> None:
    if name in there and not statement.replace:
        raise StatementError(
            f'{kind} "{name}" already exists',
            span=statement.name.place,
            hint=f"CREATE OR REPLACE {kind.upper()} replaces it.",
        )


def _unknown(kind: str, name: str, there: Iterable[str], span: SourceSpan) -> StatementError:
    return StatementError(f'{kind} "{name}" does not exist', span=span, hint=did_you_mean_or_all(name, there))


def _unknown_wrapper(catalog: Catalog, name: str, span: SourceSpan) -> StatementError:
    error = _unknown("foreign data wrapper", name, catalog.wrappers, span)
    error.hint = error.hint or (
        "An installed connector is not an object of the pipeline. Create one with CREATE FOREIGN DATA WRAPPER."
    )
    return error


# -------------------------------------------------------------------- options


def options_of(items: Sequence[OptionItem]) -> OptionPairs:
    """Return options in the form of the plan."""
    return tuple((item.name, item.value) for item in items)


def max_ahead_ms(options: OptionPairs, items: Iterable[OptionItem]) -> int:
    """Return how far ahead promoted rowtimes can be; ``items`` are the options with their places.

    Raises:
      StatementError: the option is not a length of time.
    """
    text = dict(options).get(MAX_AHEAD, DEFAULT_MAX_AHEAD)
    try:
        return interval_text_ms(text)
    except ValueError as error:
        place = next((item.place for item in items if item.name == MAX_AHEAD), None)
        raise StatementError(f'option "{MAX_AHEAD}": {error}', span=place) from error


def altered(catalog: Catalog, statement: Alter) -> Catalog:
    """Return the catalog after ALTER .. OPTIONS or DESCRIPTION.

    Raises:
      StatementError: the object or an option to set or drop does not exist, or an option to add already
        exists.
    """
    kind, name = statement.kind, statement.name
    if kind is ObjectKind.SCHEMA:
        schema = single(name, "a schema")
        if schema not in catalog.schemas:
            raise _unknown("schema", schema, catalog.schemas, name.place)
        return catalog
    if kind is ObjectKind.WRAPPER:
        wrapper = catalog.wrappers.get(single(name, "a foreign data wrapper"))
        if wrapper is None:
            raise _unknown_wrapper(catalog, name.parts[0].text, name.place)
        wrapper = replace(wrapper, options=_changed(wrapper.options, statement))
        return replace(catalog, wrappers={**catalog.wrappers, name.parts[0].text: wrapper})
    if kind is ObjectKind.SERVER:
        return _altered_server(catalog, statement)
    if kind is ObjectKind.MODEL:
        if single(name, "a model") not in catalog.models:
            raise _unknown("model", name.parts[0].text, catalog.models, name.place)
        return catalog
    if kind is ObjectKind.FUNCTION:
        if single(name, "a function") not in catalog.functions:
            raise _unknown("function", name.parts[0].text, catalog.functions, name.place)
        return catalog
    key, found = catalog.find_of(name, kind)
    if not statement.changes or not isinstance(found, StreamDefinition | TableDefinition):
        return catalog
    options = _changed(found.options, statement)
    if isinstance(found, TableDefinition):
        return catalog.define(key, replace(found, options=options))
    ahead = max_ahead_ms(options, [item for _, item in statement.changes])
    return catalog.define(key, replace(found, options=options, max_ahead_ms=ahead))


def _altered_server(catalog: Catalog, statement: Alter) -> Catalog:
    name = single(statement.name, "a server")
    server = catalog.servers.get(name)
    if server is None:
        raise _unknown("server", name, catalog.servers, statement.name.place)
    server = replace(server, options=_changed(server.options, statement))
    after = replace(catalog, servers={**catalog.servers, name: server})
    if any(other is server for _, other in _databases(after)):
        _one_database(after, server, statement.name.place)
    return after


def _changed(options: OptionPairs, statement: Alter) -> OptionPairs:
    changed = dict(options)
    for change, item in statement.changes:
        there = item.name in changed
        if there and change is OptionChange.ADD:
            raise StatementError(
                f'option "{item.name}" already exists',
                span=item.place,
                hint=f"Change it with SET {item.name} '..'.",
            )
        if not there and change is not OptionChange.ADD:
            raise StatementError(
                f'option "{item.name}" does not exist',
                span=item.place,
                hint=did_you_mean(item.name, list(changed)) or f"Add it with ADD {item.name} '..'.",
            )
        if change is OptionChange.DROP:
            del changed[item.name]
        else:
            changed[item.name] = item.value
    return tuple(changed.items())
