"""EXISTS, IN and scalar sub-queries -> joins, and expressions over the joined rows.

``stream_subqueries`` plans sub-queries over a stream with a window.

A sub-query over tables becomes a table of its result for each key, which is joined with the outer query: with
a stream as of each row's ROWTIME, with a table as changes. An EXISTS or IN that is the WHERE, or connected to
the rest of it by AND, is an inner join, which keeps the rows with a match. Every other sub-query is an outer
join; its columns show whether a row matches, and any expression can use them.

A sub-query can name columns of the outer query if its WHERE compares them with its own expressions by ``=``:
these equalities become the keys of the join. Queries cannot name the columns that such a join adds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace

from rowtide.errors import SourceSpan, StatementError
from rowtide.expr.failing import can_fail
from rowtide.plan.nodes import JoinKind
from rowtide.rows.types import BOOLEAN
from rowtide.sql.expressions.expression_planner import ExpressionPlanner
from rowtide.sql.expressions.scope import Binding
from rowtide.sql.from_clause.joins import FromPlanner, PlannedFrom
from rowtide.sql.grammar.syntax import (
    Binary,
    BooleanLiteral,
    Case,
    ColumnRef,
    DerivedTable,
    Exists,
    Expression,
    FromItem,
    FunctionCall,
    InQuery,
    IsTest,
    Name,
    NumberLiteral,
    Quantified,
    QuerySyntax,
    ScalarQuery,
    Select,
    SelectItem,
    SubQuery,
    Unary,
    is_aggregate,
)
from rowtide.sql.grammar.syntax_walk import columns_in, conjuncts, connected, holds_query, replaced
from rowtide.sql.relations.relations import Planned, QueryShape, can_be_null, projected
from rowtide.sql.select.select_terms import meant_by_group_term
from rowtide.sql.subquery.lazy_parts import after, is_of_row, visited
from rowtide.sql.subquery.refusals import (
    exists_of_aggregate,
    of_a_stream,
    of_first_rows,
    of_outer_column,
    value_with_having,
)
from rowtide.sql.subquery.stream_subqueries import Windowed, looked_at_where, windowed, with_aggregates
from rowtide.sql.subquery.subquery_syntax import (
    COUNT,
    KNOWN,
    VALUE,
    Inner,
    Pair,
    asked_for,
    column_in,
    count_of_rows,
    decisive,
    each_once,
    grouped_by,
    is_aggregated,
    is_global,
    key_name,
    only_column,
    over_aggregates,
    own_column,
    pair_of,
    plain_select,
    several_columns,
    unlimited,
    unordered,
    with_outer_in_where,
)

SINGLE = "$SINGLE"
"""The function that rejects a row for which a scalar sub-query returns more than one value."""


@dataclass(frozen=True, slots=True)
class Filtered:
    """A WHERE without sub-queries, and the object that removes them from the rest of the SELECT."""

    where: Expression | None
    rest: SubqueryPlanner


class SubqueryPlanner:
    """Removes the sub-queries from one SELECT that reads ``read``.

    ``plan`` returns the shape of a query, ``read_from`` its FROM, both in the context of the SELECT.
    """

    def __init__(
        self,
        relation: str,
        from_planner: FromPlanner,
        read: PlannedFrom,
        plan: Callable[[QuerySyntax], QueryShape],
        read_from: Callable[[FromItem], PlannedFrom],
    ) -> None:
        self._relation = relation
        self._from = from_planner
        self._read = read
        self._plan = plan
        self._read_from = read_from
        self._known: dict[tuple[Expression, tuple[Expression, ...]], Expression] = {}
        self._guards: tuple[Expression, ...] = ()
        self._guarded = False

    def filtered(self, where: Expression | None, span: SourceSpan) -> Filtered:
        """Remove the sub-queries from the WHERE of a SELECT at ``place``.

        Raises:
          StatementError: a sub-query reads a stream, or names the outer query in another way; with its place.
        """
        if holds_query(where):
            with _not_too_deep(span):
                rest: list[Expression] = []
                for each in conjuncts(where):
                    if not self._kept(each, rest):
                        rest.append(each)
                where = None if not rest else replaced(connected(rest), self._replacement)
        return Filtered(where, self)

    def listed(self, select: Select) -> tuple[Select, PlannedFrom]:
        """Remove the sub-queries from select list, GROUP BY and ORDER BY; return the input rows.

        Raises:
          StatementError: as ``filtered``.
        """
        if not holds_query((select.items, select.group_by, select.order_by)):
            return select, self._read
        # The join with the rows of a sub-query comes before WHERE.
        with _not_too_deep(select.place), self._where(conjuncts(select.where)):
            terms = (self._meant(select, term) for term in select.group_by)
            group_by = replaced(tuple(terms), self._replacement)
            grouped = bool(group_by) or any(map(is_aggregated, select.items))
            rule = self._in_aggregate if grouped else self._replacement
            items, order_by = replaced(select.items, rule), replaced(select.order_by, rule)
        return replace(select, items=items, group_by=group_by, order_by=order_by), self._read

    def condition(
        self, syntax: Expression, *, filters: bool, guards: Sequence[Expression]
    ) -> tuple[Expression | None, PlannedFrom]:
        """Return one condition without sub-queries, and its input rows.

        With ``filters`` only rows for which it is TRUE are needed; the condition is None if the input rows
        are exactly these. ``guards`` are the conditions before it, on the same rows.

        Raises:
          StatementError: as ``filtered``.
        """
        if filters and self._kept(syntax, guards):
            return None, self._read
        with self._where(after(guards)):
            return replaced(syntax, self._replacement), self._read

    def __copy__(self) -> SubqueryPlanner:
        """Return an independent copy of the current state."""
        given = SubqueryPlanner(self._relation, copy(self._from), self._read, self._plan, self._read_from)
        given._known = dict(self._known)
        return given

    def _meant(self, select: Select, term: Expression) -> Expression:
        """Return the sub-query of the select list that a term of GROUP BY refers to, or the term itself."""
        meant = meant_by_group_term(select, term, self._read.scope)
        return meant if holds_query(meant) else term

    def _in_aggregate(self, syntax: object) -> object | None:
        """Return the replacement of a part of a grouped query's list: sub-queries are inside aggregates."""
        if isinstance(syntax, SubQuery):
            return self._known.get((syntax, ())) or self._known.get((syntax, self._guards))
        if is_aggregate(syntax):
            condition = syntax.condition
            if condition is not None and holds_query(syntax.args):
                condition = replaced(condition, self._replacement)
            with self._where(() if condition is None else [condition]):
                args = replaced(syntax.args, self._replacement)
            return replace(syntax, args=args, condition=replaced(condition, self._replacement))
        return self._visited(syntax, self._in_aggregate)

    def _replacement(self, syntax: object) -> Expression | None:
        """Return the replacement of a sub-query, over a row joined with its result."""
        if not isinstance(syntax, SubQuery):
            return self._visited(syntax, self._replacement)
        known = next((at for at in ((syntax, ()), (syntax, self._guards)) if at in self._known), None)
        if known is not None:
            self._guarded |= bool(known[1])
            return self._known[known]
        around, self._guarded = self._guarded, False
        match syntax:
            case Exists():
                found = self._exists(syntax)
            case InQuery():
                found = self._in(syntax)
            case Quantified():
                found = self._quantified(syntax)
            case ScalarQuery():
                found = self._value(syntax)
        self._known[syntax, self._guards if self._guarded else ()] = found
        self._guarded |= around
        return found

    # ---------------------------------------------------------------- guards

    @contextmanager
    def _where(self, conditions: Iterable[Expression]) -> Iterator[None]:
        """Add the guards ``conditions``: rows are used only if all guards are TRUE."""
        before = self._guards
        self._guards = (*before, *filter(is_of_row, conditions))
        try:
            yield
        finally:
            self._guards = before

    def _visited(self, syntax: object, rule: Callable[[object], object | None]) -> Expression | None:
        """Apply ``rule`` to an expression that does not compute all of its parts."""
        if not holds_query(syntax):
            return None

        def visit(part: Expression, guards: Iterable[Expression]) -> Expression:
            if not holds_query(part):
                return part
            with self._where(guards):
                return replaced(part, rule)

        return visited(syntax, visit)

    def _looked_at(self, outer: Expression) -> Expression:
        """Return the key of rows: NULL, which matches nothing, if the guards do not hold."""
        guard = connected(self._guards)
        if guard is None or not self._can_fail(outer):
            return outer
        self._guarded = True
        return Case(None, ((guard, outer),), None, outer.place)

    def _can_fail(self, outer: Expression) -> bool:
        return can_fail(ExpressionPlanner(self._read.scope, "ON").plan_as(outer, BOOLEAN))

    # ---------------------------------------------------------------- EXISTS

    def _kept(self, condition: Expression, guards: Sequence[Expression]) -> bool:
        """Keep only the rows with a match, if this is the meaning of a condition; return whether it is.

        ``guards`` are the conditions before it.
        """
        if not isinstance(condition, Exists | InQuery) or windowed(condition.query) is not None:
            return False
        place = condition.place
        with self._where(after([each for each in guards if not holds_query(each)])):
            pairs: tuple[Pair, ...] = ()
            if isinstance(condition, Exists):
                inner = self._inner(unlimited(condition.query))
            elif condition.negated:
                return False
            else:
                inner = self._inner(unordered(condition.query))
                if inner.aggregated is not None:
                    return False
                operand = replaced(condition.operand, self._replacement)
                pairs = ((own_column(VALUE, place), operand),)
            pairs = (*inner.pairs, *pairs)
            of_row = isinstance(condition, Exists) and condition.of_row
            if not of_row and holds_query(tuple(guards)) and any(self._can_fail(outer) for _, outer in pairs):
                # The guards have sub-queries, so their results exist only after those joins.
                return False
            if isinstance(condition, Exists):
                values = self._matches(inner, place)
            else:
                values = each_once(self._values(inner, place), place)
            self._attach(values, pairs, place, JoinKind.INNER)
            return True

    def _exists(self, syntax: Exists) -> Expression:
        place = syntax.place
        if syntax.of_row:
            raise StatementError(
                "a row of values is allowed only before IN with a query in WHERE, alone or with AND",
                span=place,
                hint="Write [NOT] EXISTS (SELECT * FROM .. WHERE a = x AND b = y).",
            )
        window = self._window(unlimited(syntax.query))
        if window is not None:
            return Binary(
                ">", self._of_window(window, [count_of_rows(place)], place)[0], NumberLiteral("0"), place
            )
        inner = self._inner(unlimited(syntax.query))
        name = self._attach(self._matches(inner, place), inner.pairs, place, JoinKind.LEFT)
        found = column_in(name, key_name(0) if inner.pairs else COUNT, place)
        return IsTest(found, "NULL", True, place)

    def _matches(self, inner: Inner, span: SourceSpan) -> QuerySyntax:
        """Return the distinct keys for which a sub-query has rows; without keys, one row if it has rows."""
        select = inner.select
        if inner.aggregated is not None:
            raise exists_of_aggregate(inner.aggregated, span)
        if inner.pairs and select is not None:
            return each_once(asked_for(select, inner.pairs, ()), span)
        # MIN(1) is the same for any number of rows: only the first and the last row change it.
        any_row = FunctionCall("MIN", (NumberLiteral("1", span),), span)
        any_rows = grouped_by(inner.query, (), [(COUNT, any_row)], span)
        # A group of all rows stays, with NULL, when all rows are deleted.
        return replace(any_rows, having=IsTest(any_row, "NULL", True, span))

    # -------------------------------------------------------------------- IN

    def _in(self, syntax: InQuery) -> Expression:
        """Return IN with three-valued logic: UNKNOWN if no value matches and one is NULL."""
        place = syntax.place
        operand = replaced(syntax.operand, self._replacement)
        window = self._window(unordered(syntax.query))
        if window is not None:
            any_of = Quantified("=", operand, syntax.query, False, place)
            found = self._quantified_in_window(window, any_of, operand)
            return Unary("NOT", found, place) if syntax.negated else found
        inner = self._inner(unordered(syntax.query))
        if inner.aggregated is not None:
            value = self._aggregate(inner.aggregated, inner.pairs, place)
            return Binary("<>" if syntax.negated else "=", operand, value, place)
        every = self._values(inner, place)
        values = each_once(every, place)
        pairs = (*inner.pairs, (own_column(VALUE, place), operand))
        matched = self._attach(values, pairs, place, JoinKind.LEFT)
        found = IsTest(column_in(matched, VALUE, place), "NULL", True, place)
        typed = ExpressionPlanner(self._read.scope, "IN").plan(operand)
        if self._plan(every).fields[-1].nullable or can_be_null(typed, self._read.node.row_type):
            keys = [key_name(at) for at in range(len(inner.pairs))]
            known = FunctionCall("EVERY", (IsTest(own_column(VALUE, place), "NULL", True, place),), place)
            knowing = grouped_by(every, keys, [(KNOWN, known)], place)
            name = self._attach(knowing, inner.pairs, place, JoinKind.LEFT)
            all_known = column_in(name, KNOWN, place)
            missing = Unary("NOT", all_known, place)
            unknown = Binary("OR", IsTest(operand, "NULL", False, place), missing, place)
            branches = (
                (found, BooleanLiteral(True, place)),
                (IsTest(all_known, "NULL", False, place), BooleanLiteral(False, place)),
                (unknown, BooleanLiteral(None, place)),
            )
            found = Case(None, branches, BooleanLiteral(False, place), place)
        return Unary("NOT", found, place) if syntax.negated else found

    def _values(self, inner: Inner, span: SourceSpan) -> Select:
        """Return the keys and values of a sub-query of one column.

        Raises:
          StatementError: it has more columns.
        """
        select = inner.select
        if select is None:
            return self._one_column(inner.query, span)
        if len(select.items) != 1:
            raise several_columns(len(select.items), span)
        (item,) = select.items
        if isinstance(item, SelectItem):
            return asked_for(select, inner.pairs, [(VALUE, item.expression)])
        if inner.pairs:
            raise StatementError("the column of a correlated sub-query must be named", span=span)
        return self._one_column(select, span)

    def _one_column(self, query: QuerySyntax, span: SourceSpan) -> Select:
        """Return a query of one column, renamed to the name of the value."""
        fields = self._plan(query).fields
        if len(fields) != 1:
            raise several_columns(len(fields), span)
        name = Name(VALUE, span)
        source = DerivedTable(query, None, None, span, (name,))
        return plain_select((SelectItem(ColumnRef((name,), span), name, span),), source, span)

    # --------------------------------------------------------- ANY and ALL

    def _quantified(self, syntax: Quantified) -> Expression:
        """Return a comparison with all rows of a query, decided by the least or greatest value.

        It is UNKNOWN if the result depends on a NULL.
        """
        place, operator, every = syntax.place, syntax.operator, syntax.every
        operand = replaced(syntax.operand, self._replacement)
        window = self._window(unordered(syntax.query))
        if window is not None:
            return self._quantified_in_window(window, syntax, operand)
        inner = self._inner(unordered(syntax.query))
        if inner.aggregated is not None:
            return Binary(operator, operand, self._aggregate(inner.aggregated, inner.pairs, place), place)
        values = self._values(inner, place)
        value = (own_column(VALUE, place),)
        edges = ("MIN", "MAX") if operator in ("=", "<>") else (decisive(operator, every=every),)
        calls = [(edge, FunctionCall(edge, value, place)) for edge in edges]
        calls += [(COUNT, count_of_rows(place)), (KNOWN, FunctionCall("COUNT", value, place))]
        keys = [key_name(at) for at in range(len(inner.pairs))]
        name = self._attach(grouped_by(values, keys, calls, place), inner.pairs, place, JoinKind.LEFT)
        count, known = (column_in(name, each, place) for each in (COUNT, KNOWN))
        sides: list[Expression] = [
            Binary(operator, operand, column_in(name, edge, place), place) for edge in edges
        ]
        decided = sides[0]
        for side in sides[1:]:
            decided = Binary("AND" if every else "OR", decided, side, place)
        missing = Binary("<", known, count, place)
        return Case(
            None,
            (
                (IsTest(column_in(name, COUNT, place), "NULL", False, place), BooleanLiteral(every, place)),
                (Binary("=", count, NumberLiteral("0", place), place), BooleanLiteral(every, place)),
                (Unary("NOT", decided, place) if every else decided, BooleanLiteral(not every, place)),
                (IsTest(operand, "NULL", False, place), BooleanLiteral(None, place)),
                (missing, BooleanLiteral(None, place)),
            ),
            BooleanLiteral(every, place),
            place,
        )

    def _quantified_in_window(self, window: Windowed, syntax: Quantified, operand: Expression) -> Expression:
        place, every = syntax.place, syntax.every
        if is_global(window.select):
            return Binary(syntax.operator, operand, self._value_of_window(window, place), place)
        compared = Binary(syntax.operator, operand, only_column(window.select, place), place)
        found, known, rows = self._compared_in_window(window, compared, "EVERY" if every else "BOOL_OR")
        branches = (
            (Unary("NOT", found, place) if every else found, BooleanLiteral(not every, place)),
            (Binary("<", known, rows, place), BooleanLiteral(None, place)),
        )
        return Case(None, branches, BooleanLiteral(every, place), place)

    # ---------------------------------------------------------------- values

    def _value(self, syntax: ScalarQuery) -> Expression:
        """Return the value of a scalar sub-query: NULL if it has no row."""
        place = syntax.place
        window = self._window(syntax.query)
        if window is not None:
            return self._value_of_window(window, place)
        inner = self._inner(syntax.query)
        if inner.aggregated is not None:
            return self._aggregate(inner.aggregated, inner.pairs, place)
        values = self._values(inner, place)
        width = len(inner.pairs)
        keys = projected(self._plan(values), self._relation).key_fields()
        if keys is not None and inner.pairs and set(keys) <= set(range(width)):
            return column_in(self._attach(values, inner.pairs, place, JoinKind.LEFT), VALUE, place)
        one = FunctionCall("ANY_VALUE", (own_column(VALUE, place),), place)
        names = [key_name(at) for at in range(width)]
        counted = grouped_by(values, names, [(COUNT, count_of_rows(place)), (VALUE, one)], place)
        name = self._attach(counted, inner.pairs, place, JoinKind.LEFT)
        single = FunctionCall(SINGLE, (column_in(name, COUNT, place),), place)
        return Case(None, ((single, column_in(name, VALUE, place)),), None, place)

    def _aggregate(self, select: Select, pairs: tuple[Pair, ...], span: SourceSpan) -> Expression:
        """Return an expression over a table's aggregates: without rows they are NULL, and COUNT is 0."""
        if select.having is not None:
            raise value_with_having(span)
        expression = only_column(select, span)
        name = self._from.next_name
        value, calls = over_aggregates(expression, name, span)
        own = self._read_from(select.source).scope
        for column in columns_in(value):
            if column.parts[0].text != name and own.resolves(column):
                shown = column.parts[-1].text
                raise StatementError(f'column "{shown}" must be in an aggregate', span=column.place)
        items = [(f"$A{at}", call) for at, call in enumerate(calls)]
        grouped = replace(asked_for(select, pairs, items), group_by=tuple(own for own, _ in pairs))
        self._attach(grouped, pairs, span, JoinKind.LEFT)
        return value

    # --------------------------------------------------- streams with windows

    def _window(self, query: QuerySyntax) -> Windowed | None:
        """Return a sub-query over a stream with a window, with its own columns qualified."""
        found = windowed(query)
        if found is None:
            return None
        scope = self._from.scope_of(found.source)
        alias = Name(scope.bindings[0].alias)

        def owned(syntax: object) -> ColumnRef | None:
            if isinstance(syntax, ColumnRef) and len(syntax.parts) == 1 and scope.resolves(syntax):
                return replace(syntax, parts=(alias, *syntax.parts))
            return None

        select = found.select
        where = None if select.where is None else replaced(select.where, owned)
        items = replaced(select.items, owned)
        return replace(found, select=replace(select, where=where, items=items))

    def _of_window(
        self, window: Windowed, calls: Sequence[FunctionCall], span: SourceSpan
    ) -> list[ColumnRef]:
        """Join the rows with aggregates of their windows; return their columns."""
        looked_at = looked_at_where(window, calls, self._guards, self._read.scope)
        self._guarded |= looked_at is not window
        window = looked_at
        name = self._from.next_name
        self._read = with_aggregates(self._relation, self._from, self._read, window, calls, name, span)
        return [column_in(name, f"$A{at}", span) for at in range(len(calls))]

    def _compared_in_window(self, window: Windowed, compared: Expression, whole: str) -> list[ColumnRef]:
        """Return the aggregate ``whole`` of a comparison, the number of rows where it is not NULL, and of all rows."""
        place = compared.place
        calls = [FunctionCall(whole, (compared,), place), FunctionCall("COUNT", (compared,), place)]
        return self._of_window(window, [*calls, count_of_rows(place)], place)

    def _value_of_window(self, window: Windowed, span: SourceSpan) -> Expression:
        column = only_column(window.select, span)
        if not is_global(window.select):
            calls = [count_of_rows(span), FunctionCall("ANY_VALUE", (column,), span)]
            count, value = self._of_window(window, calls, span)
            return Case(None, ((FunctionCall(SINGLE, (count,), span), value),), None, span)
        whole, calls = over_aggregates(column, self._from.next_name, span)
        self._of_window(window, calls, span)
        return whole

    # ----------------------------------------------------------------- joins

    def _attach(self, query: QuerySyntax, pairs: Sequence[Pair], span: SourceSpan, kind: JoinKind) -> str:
        """Join the rows with the rows of a query on equal ``pairs``; return the qualifier of its columns.

        Raises:
          StatementError: the query reads a stream.
        """
        shape = self._plan(query)
        if not shape.changelog:
            raise of_a_stream(span)
        name = self._from.next_name
        values = Planned(projected(shape, self._relation), changelog=True)
        row_type = values.node.row_type
        binding = Binding((name,), row_type, 0, has_rowtime=False, hidden=len(row_type))
        condition = connected(
            Binary(
                "=",
                outer,
                column_in(name, VALUE if own == own_column(VALUE, span) else key_name(at), span),
                span,
            )
            for at, (own, outer) in enumerate((own, self._looked_at(outer)) for own, outer in pairs)
        )
        condition = BooleanLiteral(True, span) if condition is None else condition
        self._read = self._from.attached(self._read, condition, binding, values, kind, span)
        return name

    def _inner(self, query: QuerySyntax) -> Inner:
        """Remove the equalities with the outer query from a sub-query's WHERE.

        Raises:
          StatementError: it names the outer query in another way.
        """
        query = with_outer_in_where(query) if isinstance(query, Select) else query
        try:
            read = self._read_from(query.source) if isinstance(query, Select) else None
        except StatementError as error:
            raise of_outer_column(query, self._read.scope, error) from error
        if read is not None and not read.changelog:
            raise of_a_stream(query.place)
        if read is None or not isinstance(query, Select) or query.where is None:
            return Inner(query, ())
        own, outer = read.scope, self._read.scope
        pairs: list[Pair] = []
        rest: list[Expression] = []
        for each in conjuncts(query.where):
            outside = [ref for ref in columns_in(each) if not own.resolves(ref)]
            for ref in outside:
                if not outer.resolves(ref):
                    own.resolve(ref)
            if not outside:
                rest.append(each)
                continue
            pair = pair_of(each, own)
            if pair is None:
                raise StatementError(
                    "a correlated sub-query can refer to the outer query in equalities only",
                    span=outside[0].place,
                    hint="Write WHERE own_column = outer.column, alone or with AND; or JOIN the table.",
                )
            pairs.append(pair)
        inner = Inner(replace(query, where=connected(rest)), tuple(pairs))
        if pairs and inner.select is None:
            raise of_first_rows(query.place)
        return inner


@contextmanager
def _not_too_deep(span: SourceSpan) -> Iterator[None]:
    try:
        yield
    except RecursionError as error:
        raise StatementError("the query is nested too deeply", span=span) from error
