"""Window table functions: ``FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(ROWTIME), INTERVAL '1' MINUTE))``.

See docs/sql/group-by.md#window-table-functions.

A query that groups by WINDOW_START or WINDOW_END is written with the window in GROUP BY instead. Any other query
reads the rows with the edges of their window as further columns, which only TUMBLE has: in the other windows a
row is not in exactly one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Protocol

from rowtide.errors import StatementError
from rowtide.rows.types import INTERVAL_DAY, INTERVAL_MONTH, TIMESTAMP
from rowtide.rowtime.period import CalendarUnit
from rowtide.sql.grammar.cursor import Cursor
from rowtide.sql.grammar.syntax import (
    Binary,
    ColumnRef,
    DerivedTable,
    Expression,
    FromItem,
    FunctionCall,
    Join,
    JsonRows,
    Name,
    QuerySyntax,
    RelationRef,
    Rounded,
    Select,
    SelectItem,
    StarItem,
    Stepped,
    TypedLiteral,
    WindowSpec,
    WindowTableFunction,
)
from rowtide.sql.grammar.syntax_walk import replaced

FUNCTIONS = ("TUMBLE", "HOP", "CUMULATE", "SESSION")
_START, _END, _TIME = "WINDOW_START", "WINDOW_END", "WINDOW_TIME"
_ROWTIME = "ROWTIME"
_USAGE = "TABLE(TUMBLE(TABLE s, DESCRIPTOR(ROWTIME), INTERVAL '1' MINUTE))"
_MONTHS = {1: CalendarUnit.MONTH, 3: CalendarUnit.QUARTER, 12: CalendarUnit.YEAR}


class WindowedGrammar(Protocol):
    """The parts of a window table function."""

    cursor: Cursor

    def expression(self) -> Expression:
        """Read one expression."""

    def query(self) -> QuerySyntax:
        """Read a query."""


def is_windowed_table(cursor: Cursor) -> bool:
    """Return whether ``TABLE (TUMBLE (`` or another window comes next."""
    named = any(cursor.is_word(name, ahead=2) for name in FUNCTIONS)
    return cursor.is_word("TABLE") and cursor.ahead(1).text == "(" and named and cursor.ahead(3).text == "("


def windowed_table(grammar: WindowedGrammar) -> DerivedTable:
    """Read ``TABLE(window(TABLE relation, DESCRIPTOR(ROWTIME), length, ..))`` without the alias after it."""
    cursor = grammar.cursor
    first = cursor.expect("TABLE")
    cursor.expect_symbol("(")
    token = cursor.current
    name = cursor.name("the name of a window").text
    cursor.expect_symbol("(")
    source = _source(grammar)
    cursor.expect_symbol(",")
    time = _descriptor(grammar, name)
    lengths = []
    while cursor.accept_symbol(","):
        lengths.append(grammar.expression())
    cursor.expect_symbol(")")
    cursor.expect_symbol(")")
    place = cursor.span(token)
    if not lengths:
        raise StatementError(f"{name} needs the length of its windows", span=place, hint=f"Write {_USAGE}.")
    window = FunctionCall(name, (time, *lengths), place)
    rows = Select((StarItem((), place), *_edges(window)), source, True, None, (), None, (), place)
    return DerivedTable(rows, None, place=cursor.span(first), windowed=WindowTableFunction(source, window))


def _source(grammar: WindowedGrammar) -> FromItem:
    cursor = grammar.cursor
    token = cursor.current
    if cursor.accept_symbol("("):
        query = grammar.query()
        cursor.expect_symbol(")")
        return DerivedTable(query, None, place=cursor.place_of(token))
    if not cursor.accept("TABLE"):
        raise cursor.unexpected('"TABLE"', hint=f"Write {_USAGE}.")
    name = cursor.qualified_name("the name of a stream or view")
    if cursor.is_word("PARTITION"):
        raise cursor.unsupported(
            "PARTITION BY here is", hint="The other terms of GROUP BY are the keys of sessions."
        )
    return RelationRef(name, None, None, place=name.place)


def _descriptor(grammar: WindowedGrammar, name: str) -> ColumnRef:
    cursor = grammar.cursor
    cursor.expect("DESCRIPTOR")
    (column,) = cursor.wrapped(lambda: cursor.name("the name of a column"))[:1]
    if column.text != _ROWTIME:
        raise StatementError(
            f"{name} takes ROWTIME only",
            span=column.place,
            hint="Promote another column in a query: SELECT STREAM x AS ROWTIME, ..",
        )
    return ColumnRef((column,), column.place)


def _edges(window: FunctionCall) -> Iterator[SelectItem]:
    """Yield the columns of a row's window; those of other windows than TUMBLE are never planned."""
    place, (time, size, *offset) = window.place, window.args
    start: Expression = Stepped(time, size, place)
    if isinstance(size, TypedLiteral) and size.type == INTERVAL_MONTH and size.value in _MONTHS:
        start = Rounded("FLOOR", time, _MONTHS[size.value], place)
    elif offset:
        origin = Binary("+", TypedLiteral(0, TIMESTAMP, place), offset[0], place)
        start = FunctionCall("DATE_BIN", (size, time, origin), place)
    end = Binary("+", start, size, place)
    millisecond = TypedLiteral(1, INTERVAL_DAY, place)
    for name, edge in ((_START, start), (_END, end), (_TIME, Binary("-", end, millisecond, place))):
        yield SelectItem(edge, Name(name, place), place)


def with_group_window(select: Select) -> Select:
    """Return a query that groups by the edges of a window table function with the window in GROUP BY.

    Raises:
      StatementError: a window other than TUMBLE is read without such a GROUP BY.
    """
    source = select.source
    edges = [each for each in select.group_by if _edge_of(each) is not None]
    if isinstance(source, DerivedTable) and source.windowed is not None and edges:
        return _grouped(select, source, source.windowed)
    for each in _windowed(source):
        window = each.window
        if window.name != "TUMBLE":
            raise StatementError(
                f"a row is not in exactly one window of {window.name}: the query must group by its edges",
                span=window.place,
                hint="Add GROUP BY WINDOW_START, WINDOW_END.",
            )
    return select


def with_ranked_window(select: Select) -> Select:
    """Return a query whose OVER has the edges of a window in PARTITION BY with the period of ROWTIME there instead.

    They are those of a TUMBLE in FROM, or of the groups of a query in FROM, whose ROWTIME is the end of their window.
    """
    source = select.source
    if not isinstance(source, DerivedTable) or source.columns:
        return select
    qualifier = None if source.alias is None else source.alias.text
    if source.windowed is not None and source.windowed.window.name == "TUMBLE":
        period = next(_edges(source.windowed.window)).expression
        edges = {_START, _END, _TIME}
    else:
        period = ColumnRef((Name(_ROWTIME, source.place),), source.place)
        edges = set(_edges_of_groups(source.query))

    def is_edge(syntax: Expression) -> bool:
        names = [part.text for part in syntax.parts] if isinstance(syntax, ColumnRef) else []
        return bool(names) and names[-1] in edges and names[:-1] in ([], [qualifier])

    def ranked(syntax: object) -> object | None:
        if not isinstance(syntax, WindowSpec) or not any(map(is_edge, syntax.partition)):
            return None
        others = tuple(each for each in syntax.partition if not is_edge(each))
        return replace(syntax, partition=(period, *others))

    return replace(
        select,
        items=replaced(select.items, ranked),
        order_by=replaced(select.order_by, ranked),
        qualify=replaced(select.qualify, ranked),
        windows=replaced(select.windows, ranked),
    )


def _edges_of_groups(query: QuerySyntax) -> Iterator[str]:
    """Yield the names under which a query selects edges of the windows of its groups: one window ends at a time."""
    if not isinstance(query, Select) or not query.group_by:
        return
    window = query.group_by[0]
    if not isinstance(window, FunctionCall) or window.name not in ("TUMBLE", "HOP"):
        return
    edges = {FunctionCall(f"{window.name}_{edge}", window.args) for edge in ("START", "END")}
    for item in query.items:
        if isinstance(item, SelectItem) and item.alias is not None and item.expression in edges:
            yield item.alias.text


def _grouped(select: Select, source: DerivedTable, function: WindowTableFunction) -> Select:
    window = function.window
    named = source.alias.text if source.alias is not None else None

    def own(syntax: object) -> str | None:
        qualifiers = syntax.parts[:-1] if isinstance(syntax, ColumnRef) else ()
        if qualifiers and named is not None and qualifiers[-1].text != named:
            return None
        return _edge_of(syntax)

    def of_row(syntax: object) -> object | None:
        return of_rows.get(own(syntax) or "") if window.name == "TUMBLE" else None

    of_rows = {each.alias.text: each.expression for each in _edges(window) if each.alias is not None}

    def edge(syntax: object) -> object | None:
        name = own(syntax)
        if name is None or not isinstance(syntax, ColumnRef):
            return None
        called = FunctionCall(
            f"{window.name}_{'START' if name == _START else 'END'}", window.args, syntax.place
        )
        if name != _TIME:
            return called
        return Binary("-", called, TypedLiteral(1, INTERVAL_DAY, syntax.place), syntax.place)

    items = tuple(
        replace(item, alias=item.expression.parts[-1])
        if isinstance(item, SelectItem) and item.alias is None and isinstance(item.expression, ColumnRef)
        else item
        for item in select.items
    )
    keys = tuple(each for each in select.group_by if _edge_of(each) is None)
    read = function.source
    if isinstance(read, RelationRef | DerivedTable):
        read = replace(read, alias=source.alias, columns=source.columns)
    grouped = replace(
        select,
        items=replaced(items, edge),
        where=replaced(select.where, of_row),
        having=replaced(select.having, edge),
        order_by=replaced(select.order_by, edge),
        qualify=replaced(select.qualify, edge),
        windows=replaced(select.windows, edge),
    )
    return replace(grouped, source=read, group_by=(window, *keys))


def _edge_of(syntax: object) -> str | None:
    """Return which edge of a window a column is; None for any other syntax."""
    name = syntax.parts[-1].text if isinstance(syntax, ColumnRef) else None
    return name if name in (_START, _END, _TIME) else None


def _windowed(source: FromItem) -> Iterator[WindowTableFunction]:
    if isinstance(source, Join):
        yield from _windowed(source.left)
        yield from _windowed(source.right)
    elif isinstance(source, JsonRows):
        yield from _windowed(source.left)
    elif isinstance(source, DerivedTable) and source.windowed is not None:
        yield source.windowed
