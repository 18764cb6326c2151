"""The grammar of queries: tokens -> syntax."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from rowtide.errors import SourceSpan, StatementError
from rowtide.sql.grammar.clauses.join_forms import as_of_kind, is_as_of, match_condition, within
from rowtide.sql.grammar.clauses.json_rows import is_json_rows, json_rows, on_of_json_rows, without_left
from rowtide.sql.grammar.clauses.select_forms import first_of_each, keys_of
from rowtide.sql.grammar.clauses.table_functions import is_table_function, table_function
from rowtide.sql.grammar.clauses.window_grammar import named_windows, with_named_ranges
from rowtide.sql.grammar.clauses.windowed_tables import (
    is_windowed_table,
    windowed_table,
    with_group_window,
    with_ranked_window,
)
from rowtide.sql.grammar.dialect import Token, TokenKind
from rowtide.sql.grammar.expression_grammar import ExpressionGrammar
from rowtide.sql.grammar.syntax import (
    Binary,
    BooleanLiteral,
    CommonTable,
    DerivedTable,
    Emit,
    Expression,
    FromItem,
    Join,
    LimitSyntax,
    Name,
    NumberLiteral,
    OrderItem,
    QuerySyntax,
    RangeWindow,
    RelationRef,
    Select,
    SelectItem,
    SetOperation,
    StarItem,
    TableSample,
    UnionAll,
    ValuesSyntax,
    With,
)

_TESTS = frozenset({"ISNULL", "NOTNULL"})
"""Tests of PostgreSQL that follow a value: as an alias they need AS."""
_JOINED = _TESTS | {"ASOF", "SEMI", "ANTI"}
"""Words before JOIN that are kinds of joins in other systems."""
_BEHIND_FROM = ("WHERE", "UNION", "EXCEPT", "MINUS", "INTERSECT", "ORDER", "LIMIT")
"""Words that can follow the select list of a query without FROM."""


class QueryGrammar(ExpressionGrammar):
    """Reads queries from a cursor."""

    def query(self) -> QuerySyntax:
        """Read [WITH ..] SELECT ..., or several that UNION ALL connects."""
        cursor = self.cursor
        cursor.enter()
        token = cursor.current
        tables = self._common_tables() if cursor.accept("WITH") else ()
        left = self._combined(self._intersection, "UNION", "EXCEPT", "MINUS")
        left = self._ordered(left)
        if cursor.is_word("EMIT"):
            emit = self._emit()
            if not isinstance(left, Select):
                raise StatementError(
                    "EMIT is allowed after a single query with GROUP BY only", span=emit.place
                )
            left = replace(left, emit=emit)
        cursor.leave()
        return With(tables, left, cursor.place_of(token)) if tables else left

    def _ordered(self, left: QuerySyntax) -> QuerySyntax:
        """Read ORDER BY and LIMIT after a whole query: after a UNION they do not belong to its last SELECT."""
        cursor = self.cursor
        first = cursor.current
        order_by = self._order_by() if cursor.is_word("ORDER") else ()
        limit = self._limit()
        if not order_by and limit is None:
            return left
        if any(map(cursor.is_word, ("UNION", "EXCEPT", "MINUS", "INTERSECT"))):
            raise cursor.fail("ORDER BY must come before the end of this query")
        if isinstance(left, UnionAll) and not left.order_by and limit is None:
            return UnionAll(left.left, left.right, order_by, left.place)
        if isinstance(left, Select) and not left.order_by and left.limit is None:
            return replace(left, order_by=order_by, limit=limit)
        raise cursor.fail(
            f"{first.text} is not allowed after this query",
            token=first,
            hint="Put the query into FROM (..) of another query, which has the ORDER BY.",
        )

    def _common_tables(self) -> tuple[CommonTable, ...]:
        """Read ``name [(columns)] AS (query), ...`` after WITH."""
        cursor = self.cursor
        if cursor.is_word("RECURSIVE") and cursor.is_name(1):
            raise cursor.unsupported("WITH RECURSIVE is", hint="Use a model for loops.")

        def table() -> CommonTable:
            name = cursor.name("the name of a query")
            columns = self._column_names()
            cursor.expect("AS")
            cursor.expect_symbol("(")
            query = self.query()
            cursor.expect_symbol(")")
            return CommonTable(name, columns, query)

        return cursor.comma_list(table)

    def _column_names(self) -> tuple[Name, ...]:
        """Read ``(name, ...)`` if it follows."""
        cursor = self.cursor
        if not cursor.is_symbol("("):
            return ()
        return cursor.wrapped(lambda: cursor.name("the name of a column"))

    def _intersection(self) -> QuerySyntax:
        return self._combined(self._term, "INTERSECT")

    def _combined(self, part: Callable[[], QuerySyntax], *words: str) -> QuerySyntax:
        """Read queries that UNION, EXCEPT or INTERSECT connects, from left to right."""
        cursor = self.cursor
        left = part()
        while True:
            token = cursor.current
            word = cursor.one_of(*words)
            if word is None:
                return left
            word = "EXCEPT" if word == "MINUS" else word
            every = cursor.accept("ALL")
            if every and word == "UNION":
                left = UnionAll(left, part(), (), cursor.place_of(token))
            else:
                if not every:
                    cursor.accept("DISTINCT")
                left = SetOperation(word, left, part(), every, cursor.place_of(token))

    def _term(self) -> QuerySyntax:
        cursor = self.cursor
        if cursor.accept_symbol("("):
            inner = self.query()
            cursor.expect_symbol(")")
            return inner
        if cursor.is_word("VALUES"):
            return self._values()
        return self._select()

    def _values(self) -> ValuesSyntax:
        """Read ``VALUES (a, b), (c, d)``, or ``VALUES a, b`` for rows of one column."""
        cursor = self.cursor
        first = cursor.expect("VALUES")

        def row() -> tuple[Expression, ...]:
            if cursor.is_word("ROW") and cursor.ahead(1).text == "(":
                cursor.advance()
            return cursor.wrapped(self.expression) if cursor.is_symbol("(") else (self.expression(),)

        return ValuesSyntax(cursor.comma_list(row), cursor.place_of(first))

    def _one_row(self, items: Sequence[SelectItem | StarItem], stream: bool, first: Token) -> DerivedTable:
        """Return the relation of a SELECT without FROM: one row, whose column has no name."""
        cursor = self.cursor
        ends = cursor.at_end or cursor.is_symbol(")") or any(map(cursor.is_word, _BEHIND_FROM))
        if stream or not ends or any(isinstance(each, StarItem) for each in items):
            raise cursor.unexpected('"," or "FROM"')
        place = cursor.place_of(first)
        row = ValuesSyntax(((NumberLiteral("0", place),),), place)
        return DerivedTable(row, Name("$ROW", place), place=place, columns=(Name("$0", place),))

    def _select(self) -> Select:
        cursor = self.cursor
        first = cursor.expect("SELECT")
        stream = cursor.accept("STREAM")
        distinct = cursor.accept("DISTINCT")
        on_place = cursor.place_of(cursor.current)
        each = cursor.wrapped(self.expression) if distinct and cursor.accept("ON") else ()
        if not distinct:
            cursor.accept("ALL")
        if not stream:
            stream = cursor.accept("STREAM")
        items = cursor.comma_list(self._item)
        source = self._sources() if cursor.accept("FROM") else self._one_row(items, stream, first)
        where = self.expression() if cursor.accept("WHERE") else None
        group_by: tuple[Expression, ...] = ()
        all_rows: SourceSpan | None = None
        if cursor.accept("GROUP", "BY"):
            if cursor.is_word("ROLLUP") or cursor.is_word("CUBE") or cursor.is_word("GROUPING", "SETS"):
                raise cursor.unsupported(f"GROUP BY {cursor.current.text} is")
            if cursor.is_symbol("(") and cursor.ahead(1).text == ")":
                all_rows = self._all_rows()
            elif cursor.accept("ALL"):
                group_by = keys_of(items)
            else:
                group_by = cursor.comma_list(self.expression)
        having = self.expression() if cursor.accept("HAVING") else None
        windows = named_windows(self) if cursor.accept("WINDOW") else ()
        source = with_named_ranges(source, windows)
        qualify = self.expression() if cursor.accept("QUALIFY") else None
        if qualify is not None and cursor.accept("WINDOW"):
            windows = (*windows, *named_windows(self))
            source = with_named_ranges(source, windows)
        place = cursor.place_of(first)
        select = Select(items, source, stream, where, group_by, having, (), place, windows, distinct)
        select = replace(select, qualify=qualify, all_rows=all_rows)
        if each:
            order = self._order_by() if cursor.is_word("ORDER") else ()
            select = first_of_each(select, each, order, on_place)
        return with_ranked_window(with_group_window(select))

    def _all_rows(self) -> SourceSpan:
        """Read (), one group of all rows, as for aggregates without GROUP BY; return its place."""
        first = self.cursor.expect_symbol("(")
        self.cursor.expect_symbol(")")
        return self.cursor.span(first)

    def _emit(self) -> Emit:
        """Read EMIT CHANGES [EVERY interval]."""
        cursor = self.cursor
        first = cursor.expect("EMIT")
        if cursor.is_word("FINAL"):
            raise cursor.fail(
                "EMIT FINAL is not supported: remove it, a group returns its final row by default"
            )
        cursor.expect("CHANGES")
        every = None
        if cursor.accept("EVERY"):
            length = self.interval()
            every = length.value
            if length.type.kind.name != "INTERVAL_DAY" or every <= 0:
                raise StatementError(
                    "EVERY takes an interval of days to seconds above zero", span=length.place
                )
        return Emit(every, cursor.span(first))

    def _limit(self) -> LimitSyntax | None:
        """Read LIMIT n [OFFSET m] or [OFFSET m ROWS] [FETCH FIRST n ROWS ONLY] if it follows."""
        cursor = self.cursor
        first = cursor.current
        count, offset = None, 0
        while True:
            if count is None and cursor.accept("LIMIT"):
                count = self._row_number("LIMIT")
            elif not offset and cursor.accept("OFFSET"):
                offset = self._row_number("OFFSET")
                cursor.one_of("ROW", "ROWS")
            elif count is None and cursor.accept("FETCH"):
                if cursor.one_of("FIRST", "NEXT") is None:
                    raise cursor.unexpected("FIRST")
                count = 1 if cursor.is_word("ROW") else self._row_number("FETCH FIRST")
                if cursor.one_of("ROW", "ROWS") is None:
                    raise cursor.unexpected("ROWS")
                if cursor.is_word("WITH", "TIES"):
                    raise cursor.unsupported("WITH TIES is")
                cursor.expect("ONLY")
            else:
                break
        return None if cursor.current is first else LimitSyntax(count, offset, cursor.span(first))

    def _row_number(self, clause: str) -> int:
        cursor = self.cursor
        token = cursor.current
        if token.kind is not TokenKind.NUMBER or not token.text.isdigit() or len(token.text) > 10:
            raise cursor.unexpected(f"a number of rows, as {clause} takes it")
        cursor.advance()
        return int(token.text)

    def _item(self) -> SelectItem | StarItem:
        cursor = self.cursor
        first = cursor.current
        if cursor.accept_symbol("*"):
            without = self._left_out()
            return StarItem((), cursor.span(first), without)
        ahead = 0
        while cursor.is_name(ahead) and cursor.ahead(ahead + 1).text == ".":
            ahead += 2
        if ahead and cursor.ahead(ahead).text == "*" and not cursor.is_name(ahead):
            qualifier = []
            while not cursor.accept_symbol("*"):
                qualifier.append(cursor.name("an alias"))
                cursor.expect_symbol(".")
            without = self._left_out()
            return StarItem(tuple(qualifier), cursor.span(first), without)
        expression = self.expression()
        return SelectItem(expression, self.alias("the alias of a column"), cursor.span(first))

    def _left_out(self) -> tuple[Name, ...]:
        """Read ``EXCEPT (column, ...)``, or the same with EXCLUDE, after *."""
        cursor = self.cursor
        listed = cursor.ahead(1).text == "(" and cursor.is_name(2)
        if not (listed and cursor.is_word("EXCEPT")) and not (
            cursor.is_word("EXCLUDE") and (listed or cursor.is_name(1))
        ):
            return ()
        cursor.advance()
        return self._column_names() or (cursor.name("the name of a column"),)

    def alias(self, what: str) -> Name | None:
        """Read ``[AS] name`` if it follows; words that begin the next clause are not names."""
        cursor = self.cursor
        # OPTIONS after the query of a view or pump is not an alias.
        options = cursor.is_word("OPTIONS") and cursor.ahead(1).text == "("
        description = cursor.is_word("DESCRIPTION") and cursor.ahead(1).kind is TokenKind.STRING
        if self._is_minus() or is_as_of(cursor):
            return None
        never = _JOINED if cursor.is_word("JOIN", ahead=1) else _TESTS
        if cursor.current.kind is TokenKind.WORD and cursor.current.text in never:
            raise cursor.unexpected("an alias")
        matches = cursor.is_word("MATCH_CONDITION") and cursor.ahead(1).text == "("
        if cursor.accept("AS") or (cursor.is_name() and not (options or description or matches)):
            return cursor.name(what)
        return None

    def _is_minus(self) -> bool:
        """Return whether MINUS and a query follow: as an alias, MINUS has no query after it."""
        cursor = self.cursor
        ahead = 2 if cursor.is_word("ALL", ahead=1) or cursor.is_word("DISTINCT", ahead=1) else 1
        while cursor.ahead(ahead).text == "(":
            ahead += 1
        begins = any(cursor.is_word(word, ahead=ahead) for word in ("SELECT", "VALUES", "WITH"))
        return cursor.is_word("MINUS") and begins

    # ----------------------------------------------------------------- FROM

    def _sources(self) -> FromItem:
        """Read relations and joins, separated by commas: each comma is a join without ON."""
        found: list[FromItem] = []

        def source() -> None:
            if found and is_json_rows(self.cursor):
                found.append(self._joined(json_rows(self, found.pop())))
                return
            other = self._joined(self._from_primary())
            if found:
                other = Join(found.pop(), other, "INNER", BooleanLiteral(True, other.place), other.place)
            found.append(other)

        self.cursor.comma_list(source)
        return found[0]

    def _joined(self, left: FromItem) -> FromItem:
        """Read the joins after a relation."""
        cursor = self.cursor
        while True:
            token = cursor.current
            if cursor.accept("CROSS", "JOIN"):
                place = cursor.place_of(token)
                if is_json_rows(cursor):
                    left = json_rows(self, left)
                else:
                    left = Join(left, self._from_primary(), "INNER", BooleanLiteral(True, place), place)
                continue
            if cursor.is_word("LATERAL"):
                raise cursor.unsupported("LATERAL JOIN is", hint="Write JOIN .. ON.")
            as_of = is_as_of(cursor)
            natural = cursor.accept("NATURAL")
            kind = as_of_kind(cursor) if as_of else cursor.one_of("LEFT", "RIGHT", "FULL", "INNER", "OUTER")
            if kind == "OUTER":
                kind = "FULL"
            elif kind not in (None, "INNER"):
                cursor.accept("OUTER")
            if kind is None and not natural and not as_of and not cursor.is_word("JOIN"):
                return left
            cursor.expect("JOIN")
            if is_json_rows(cursor) and not natural:
                left = on_of_json_rows(self, json_rows(self, left, kind))
                continue
            right = self._from_primary()
            place = cursor.place_of(token)
            matched = match_condition(self) if as_of else None
            window = within(cursor)
            using: tuple[Name, ...] | None = None
            if natural:
                using = ()
            elif cursor.accept("USING"):
                using = cursor.wrapped(lambda: cursor.name("the name of a column"))
            else:
                cursor.expect("ON")
            condition = self.expression() if using is None else BooleanLiteral(True, place)
            if matched is not None:
                # Snowflake keeps the left rows without a match.
                condition, kind = Binary("AND", matched, condition, matched.place), "LEFT"
            left = Join(left, right, kind or "INNER", condition, place, using, window, as_of)

    def _from_primary(self) -> FromItem:
        cursor = self.cursor
        first = cursor.current
        if cursor.accept_symbol("("):
            if cursor.is_query or cursor.is_symbol("("):
                query = self.query()
                cursor.expect_symbol(")")
                window, sample = self._window(), self._sample()
                alias, columns = self._relation_alias()
                window, sample = window or self._window(), sample or self._sample()
                return DerivedTable(query, alias, window, cursor.place_of(first), columns, sample)
            inner = self._joined(self._from_primary())
            cursor.expect_symbol(")")
            return inner
        if is_windowed_table(cursor):
            windowed = windowed_table(self)
            alias, columns = self._relation_alias()
            return replace(windowed, alias=alias, columns=columns)
        if is_table_function(cursor):
            rows = table_function(self)
            alias, columns = self._relation_alias()
            return DerivedTable(rows, alias, None, rows.place, columns)
        if is_json_rows(cursor):
            raise without_left(cursor)
        if cursor.is_word("SELECT"):
            raise cursor.fail("a query in FROM must be in parentheses")
        name = cursor.qualified_name("the name of a stream, view or table")
        window = self._window()
        if cursor.is_symbol("("):
            raise cursor.unsupported("a function in FROM is", token=first)
        as_of, sample = self._as_of(), self._sample()
        alias, columns = self._relation_alias()
        if as_of is None:
            as_of = self._as_of()
        window, sample = window or self._window(), sample or self._sample()
        return RelationRef(name, alias, as_of, window, cursor.place_of(first), columns, sample)

    def _relation_alias(self) -> tuple[Name | None, tuple[Name, ...]]:
        """Read ``[AS] alias [(column, ...)]`` if it follows."""
        alias = self.alias("the alias of a relation")
        return alias, () if alias is None else self._column_names()

    def _sample(self) -> TableSample | None:
        """Read TABLESAMPLE method (argument, ...) [REPEATABLE (seed)] of a relation, before its alias or after it."""
        cursor = self.cursor
        first = cursor.current
        if not cursor.is_word("TABLESAMPLE"):
            return None
        if cursor.ahead(1).text == "(" and cursor.ahead(2).kind is TokenKind.NUMBER:
            raise cursor.fail("TABLESAMPLE needs a method", hint="Write TABLESAMPLE HASH (10, column).")
        if not cursor.is_name(1):
            # An alias of that name.
            return None
        cursor.advance()
        method = cursor.name("the method of the sample")
        arguments = cursor.wrapped(self.expression)
        seed = None
        if cursor.accept("REPEATABLE"):
            cursor.expect_symbol("(")
            seed = self.expression()
            cursor.expect_symbol(")")
        return TableSample(method, arguments, seed, cursor.span(first))

    def _window(self) -> RangeWindow | None:
        """Read OVER ([ORDER BY ..] RANGE ..) of a relation that is joined, before its alias or after it."""
        cursor = self.cursor
        first = cursor.current
        if not cursor.accept("OVER"):
            return None
        if not cursor.is_symbol("("):
            name = cursor.name("the name of a window, or its definition in parentheses")
            return RangeWindow(0, 0, cursor.span(first), named=name)
        cursor.expect_symbol("(")
        if cursor.accept("PARTITION", "BY"):
            # PARTITION BY has no effect: ON decides which rows match.
            cursor.comma_list(self.expression)
        order = None
        if cursor.accept("ORDER", "BY"):
            order = self.expression()
            cursor.accept("ASC")
        if cursor.accept("ROWS", "CURRENT", "ROW"):
            # Only the row itself, as without a window.
            cursor.expect_symbol(")")
            return None
        if cursor.is_word("ROWS"):
            raise cursor.unsupported("ROWS on a joined relation is", hint="RANGE INTERVAL .. counts time.")
        cursor.expect("RANGE")
        if cursor.accept("BETWEEN"):
            start = self._window_edge()
            cursor.expect("AND")
            end = self._window_edge()
        else:
            edge = self._window_edge()
            start, end = min(edge, 0), max(edge, 0)
        cursor.expect_symbol(")")
        place = cursor.span(first)
        if start > end:
            raise StatementError("the window ends before it begins", span=place)
        return RangeWindow(start, end, place, order)

    def _window_edge(self) -> int:
        """Read one end of a window; return ms after the other side's row."""
        cursor = self.cursor
        if cursor.accept("CURRENT", "ROW"):
            return 0
        if cursor.is_word("UNBOUNDED"):
            raise cursor.fail(
                "a join of streams needs a limit: all rows would have to be kept forever",
                hint="Write RANGE INTERVAL '10' MINUTE PRECEDING.",
            )
        length = self.interval()
        if length.type.kind.name != "INTERVAL_DAY" or not isinstance(length.value, int) or length.value < 0:
            raise StatementError(
                "RANGE takes an interval of days to seconds, not below zero", span=length.place
            )
        if cursor.accept("PRECEDING"):
            return -length.value
        if cursor.accept("FOLLOWING"):
            return length.value
        raise cursor.unexpected('"PRECEDING" or "FOLLOWING"')

    def _as_of(self) -> Expression | None:
        cursor = self.cursor
        if not cursor.is_word("FOR"):
            return None
        if not cursor.accept("FOR", "SYSTEM_TIME", "AS", "OF"):
            cursor.advance()
            raise cursor.unexpected('"SYSTEM_TIME AS OF"')
        return self.expression()

    # ------------------------------------------------------------- ORDER BY

    def _order_by(self) -> tuple[OrderItem, ...]:
        self.cursor.expect("ORDER", "BY")
        return self.cursor.comma_list(self._order_item)

    def _order_item(self) -> OrderItem:
        cursor = self.cursor
        first: Token = cursor.current
        item = self.order_item()
        if not cursor.accept("WITHIN"):
            return item
        length = self.interval()
        if length.type.kind.name != "INTERVAL_DAY" or length.value < 0:
            raise StatementError(
                "WITHIN takes an interval of days to seconds, not below zero", span=length.place
            )
        return replace(item, within_ms=length.value, place=cursor.span(first))
