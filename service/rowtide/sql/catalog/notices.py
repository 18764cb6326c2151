"""The warnings of ``check`` about a valid plan that may not do what the user intends."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass

from rowtide.plan.frames import EdgeUnit
from rowtide.plan.nodes import (
    AsOfJoin,
    KeyedTable,
    Node,
    Source,
    TableSource,
    WindowAggregate,
    WindowsAbreast,
    nodes_below,
)
from rowtide.plan.plan import ForeignStream, Notice
from rowtide.sql.catalog.period_ends import rounded_again
from rowtide.sql.definitions.objects import (
    Catalog,
    PumpDefinition,
    Retention,
    TableDefinition,
    ViewDefinition,
    relation_name,
)
from rowtide.sql.grammar.syntax import (
    Binary,
    FunctionCall,
    NullLiteral,
    QuerySyntax,
    StringLiteral,
)

IDLE_TIMEOUT = "idle_timeout"
_MINUTES = (
    (("TO_CHAR", "TO_TIMESTAMP"), "MI", re.compile("HH(?:12|24)?:MM", re.IGNORECASE)),
    (("DATE_FORMAT", "FORMAT_TIMESTAMP", "PARSE_TIMESTAMP", "FROM_UNIXTIME"), "mm", re.compile("[HhKk]:MM")),
)
"""Functions with a format of times, how it names the minute, and the month behind the hour in it."""
COMPARISONS = frozenset({"=", "<>", "<", "<=", ">", ">="})


def notices(relations: Mapping[str, Node], streams: Mapping[str, ForeignStream]) -> tuple[Notice, ...]:
    """Return the distinct notices of a plan, in the order of their relations."""
    found = [notice for name, node in relations.items() for notice in _of(name, node, streams)]
    return tuple(dict.fromkeys(found))


def text_notices(catalog: Catalog, relations: Mapping[str, Node]) -> tuple[Notice, ...]:
    """Return the notices about definitions: windows without a limit, comparisons with NULL, indexes."""
    found: list[Notice] = []
    for key, definition in catalog.objects.items():
        if not isinstance(definition, ViewDefinition | PumpDefinition):
            continue
        name = relation_name(key)
        if name in relations:
            found += _endless_windows(name, relations[name], definition.retention)
        for syntax in _parts(definition.query):
            found += _comparison_with_null(name, syntax)
            found += _month_for_minute(name, syntax)
    return (*dict.fromkeys(found), *_index_notices(catalog))


def _endless_windows(name: str, node: Node, retention: Retention | None) -> Iterator[Notice]:
    """Yield a notice for each window by key without a start, whose state is never dropped."""
    for each in nodes_below(node):
        if not isinstance(each, WindowAggregate | WindowsAbreast) or each.relation != name:
            continue
        for window in [each] if isinstance(each, WindowAggregate) else each.each():
            if window.frame.start.unit is not EdgeUnit.UNBOUNDED or not window.partition or window.snap:
                continue
            keys = ", ".join(each.input.row_type[at].name for at in window.partition)
            kept = f"keeps running results of every {keys} forever"
            if retention is None:
                yield Notice(
                    name,
                    f"{kept}. Add a start to the window, or FLOOR(ROWTIME TO DAY) to PARTITION BY; if "
                    "this is intended, write CREATE .. OPTIONS (RETENTION 'UNBOUNDED') AS ..",
                )
            elif retention.length_ms is None:
                yield Notice(name, f"{kept}: RETENTION is UNBOUNDED")
            else:
                yield Notice(name, f"{kept}: RETENTION of a time does not limit windows")


def _parts(query: QuerySyntax) -> Iterator[object]:
    """Yield all nodes of a query's syntax, in the order of the text."""
    pending: list[object] = [query]
    while pending:
        syntax = pending.pop()
        if isinstance(syntax, tuple):
            pending += reversed(syntax)
        elif is_dataclass(syntax):
            pending += [getattr(syntax, field.name) for field in reversed(fields(syntax))]
            yield syntax


def _comparison_with_null(name: str, syntax: object) -> Iterator[Notice]:
    """Yield a notice for ``x = NULL`` and other comparisons with NULL, which are never TRUE."""
    if not isinstance(syntax, Binary) or syntax.operator not in COMPARISONS:
        return
    if isinstance(syntax.left, NullLiteral) or isinstance(syntax.right, NullLiteral):
        asks = "IS NOT NULL" if syntax.operator == "<>" else "IS NULL"
        line = syntax.place.line
        yield Notice(name, f"a comparison with NULL is never TRUE (line {line}): write x {asks}")


def _month_for_minute(name: str, syntax: object) -> Iterator[Notice]:
    """Yield a notice for the month behind the hour in a format of times, ``HH24:MM``."""
    if not isinstance(syntax, FunctionCall):
        return
    for functions, minute, month in _MINUTES:
        for arg in syntax.args if syntax.name in functions else ():
            if isinstance(arg, StringLiteral) and month.search(arg.text):
                line = arg.place.line
                yield Notice(name, f"MM in '{arg.text}' is the month (line {line}): the minute is {minute}")


def _index_notices(catalog: Catalog) -> tuple[Notice, ...]:
    """Return a notice for each declared index, because joins build their own indexes."""
    return tuple(
        Notice(
            relation_name(key),
            f'nothing uses index "{index.name}": readers of the table use their own keys',
        )
        for key, found in catalog.objects.items()
        if isinstance(found, TableDefinition)
        for index in found.indexes
        if not index.unique
    )


def _of(name: str, node: Node, streams: Mapping[str, ForeignStream]) -> Iterator[Notice]:
    for each in nodes_below(node):
        if each.relation == name:
            # A rounding in both a period and a column is reported once: the notices of a plan are distinct.
            yield from (Notice(name, text) for text in rounded_again(each))
        if isinstance(each, AsOfJoin) and each.relation == name:
            for table in nodes_below(each.table):
                if isinstance(table, KeyedTable):
                    yield from _silent(name, table, streams)
        unlimited = each.unlimited_state()
        if unlimited is not None and each.relation == name:
            yield Notice(name, unlimited)


def _silent(name: str, table: KeyedTable, streams: Mapping[str, ForeignStream]) -> Iterator[Notice]:
    """Yield a notice for each join that waits for a table whose source may be silent.

    See docs/sql/semantics.md#joins-of-a-stream-with-a-table.
    """
    for source in nodes_below(table):
        if isinstance(source, TableSource) and source.loaded_once and not source.rows:
            yield Notice(
                name,
                f'table "{table.relation}" is empty until a statement is sent with `rowtide execute`: '
                "no pump and no INSERT statement fills it",
            )
        if isinstance(source, Source) and source.relation in streams:
            options = dict(streams[source.relation].options)
            if IDLE_TIMEOUT not in options:
                waits = f', and so for "{source.relation}"' if source.relation != table.relation else ""
                yield Notice(
                    name,
                    f'rows wait for table "{table.relation}"{waits}: while it is '
                    f"silent, no rows are written. With {IDLE_TIMEOUT} '30 SECOND' in its OPTIONS it follows "
                    "the waiting rows once it has been silent for that long",
                )
