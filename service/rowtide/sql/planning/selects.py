"""SELECT -> nodes, up to the last projection, which depends on the use of the query.

A plain query becomes Filter, then Promote and Sort if it promotes or t-sorts.
A grouped query becomes Filter, Project (keys and arguments of aggregates),
GroupByPeriod, Filter (HAVING), then Promote.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from rowtide.errors import StatementError
from rowtide.expr.constant import fold
from rowtide.expr.functions.times.zones import FROM_UTC
from rowtide.expr.tree import Expr, FieldRef, Literal, RowtimeRef, calls_function
from rowtide.plan.nodes import Filter, Node, Sort
from rowtide.plan.questions import begins_with_window, reads_streams
from rowtide.rows.types import TIMESTAMP, RowType
from rowtide.rowtime.period import Cumulate, CumulateByMonths, Period, Session
from rowtide.sql.definitions.objects import Retention
from rowtide.sql.expressions.aggregate_list import GROUP_WINDOWS, AggregateList, star_of_groups
from rowtide.sql.expressions.conversions import UNTYPED_NULL
from rowtide.sql.expressions.expression_planner import ExpressionPlanner
from rowtide.sql.expressions.keys import check_key
from rowtide.sql.expressions.scope import ROWTIME, NameScope
from rowtide.sql.from_clause.joins import PlannedFrom
from rowtide.sql.grammar.suggestions import did_you_mean_or_all
from rowtide.sql.grammar.syntax import (
    ColumnRef,
    FunctionCall,
    NumberLiteral,
    OrderItem,
    Select,
    SelectItem,
    StarItem,
)
from rowtide.sql.group.changes import check_emit, check_rowtime, distinct_changes, limited, with_shown
from rowtide.sql.group.group_nodes import group_changes, group_rows
from rowtide.sql.group.group_windows import (
    OF_ZONE,
    Window,
    group_window,
    last_edge,
    of_group_end,
    period_call,
    period_of,
    period_of_clocks,
    rounded,
    window_edge,
)
from rowtide.sql.group.grouped_expressions import GroupedPlanner, has_aggregate
from rowtide.sql.group.rolled_up import rolled_up
from rowtide.sql.relations.relations import (
    Closed,
    QueryShape,
    SelectOutput,
    can_be_null,
    is_plain_rowtime,
    substitute,
    told_apart,
    unnamed,
)
from rowtide.sql.select.orders import OrderPlanner
from rowtide.sql.select.period_order import (
    PeriodOrder,
    first_of_changes,
    sorted_in_period,
    with_old_rowtime,
    with_order,
)
from rowtide.sql.select.promotion import Promotion, check_rowtime_type, promoted
from rowtide.sql.select.select_terms import at_position, meant_by_group_term
from rowtide.sql.select.set_operations import closed_by_period
from rowtide.sql.window.qualify import QualifiedRows, Qualify, kept_of_changes, with_names_of
from rowtide.sql.window.windows import WindowedPlanner, Windows
from rowtide.sql.window.windows_of_changes import WindowsOfChanges

_NO_PERIOD = (
    "Add FLOOR(ROWTIME TO MINUTE), or another unit, to GROUP BY; "
    "or EMIT CHANGES, for a result that keeps changing."
)
_OF_COLUMN = (
    "The period of a column works if the column is a period of ROWTIME that divides it, as minutes divide hours. "
    "Otherwise promote the column in a query in FROM: SELECT STREAM x AS ROWTIME, .."
)


@dataclass(frozen=True, slots=True)
class _Selected:
    """A planned select list over ``node``."""

    node: Node
    outputs: tuple[SelectOutput, ...]
    promotion: Promotion | None
    order: PeriodOrder | None
    closed: Closed | None = None
    kept: QualifiedRows | None = None


class SelectPlanner:
    """Plans one SELECT over its planned FROM, for the relation whose text contains it.

    ``max_ahead_ms`` is how far ahead each foreign stream allows a promoted rowtime to be. With ``lists``
    the rows of a table are listed, and ORDER BY without LIMIT sorts them.
    """

    def __init__(
        self,
        relation: str,
        select: Select,
        read: PlannedFrom,
        max_ahead_ms: dict[str, int],
        retention: Retention | None = None,
        *,
        lists: bool = False,
    ) -> None:
        self._relation = relation
        self._select = select
        self._read = read
        self._max_ahead_ms = max_ahead_ms
        self._retention = retention
        self._lists = lists
        self._tells_changes = read.changelog or select.emit is not None
        self._has_rows = True
        self._select = replace(select, order_by=tuple(map(self._ordered_by, select.order_by)))

    def plan(self) -> QueryShape:
        """Return the query's node and outputs.

        Raises:
          StatementError: a part of it does not exist, does not fit or is not supported on a stream; with its
            place.
        """
        select, read = self._select, self._read
        if select.stream and read.changelog and not reads_streams(read.node):
            raise StatementError(
                "SELECT STREAM cannot read a table",
                span=select.place,
                hint="SELECT without STREAM returns the changes of the table.",
            )
        node = read.node
        if select.where is not None:
            condition = ExpressionPlanner(read.scope, "WHERE", each_row=True).condition(select.where)
            self._has_rows = not isinstance(known := fold(condition), Literal) or known.value is True
            node = Filter(self._relation, node, condition)
        grouped = bool(select.group_by) or any(
            has_aggregate(item.expression) for item in select.items if isinstance(item, SelectItem)
        )
        if select.all_rows is not None and not grouped:
            raise StatementError("GROUP BY () needs an aggregate in the select list", span=select.all_rows)
        by_group = grouped or select.having is not None
        self._order = OrderPlanner(
            select, read.scope, tells_changes=self._tells_changes, of_rows=not by_group and not read.changelog
        )
        if select.emit is not None:
            follows = by_group or (select.qualify is not None and select.emit.every_ms is None)
            check_emit(select.emit, grouped=follows, changelog=read.changelog)
        selected = self._grouped(node) if by_group else self._plain(node)
        if selected.promotion is not None and self._tells_changes:
            raise StatementError("a table has no ROWTIME to promote", span=selected.promotion.syntax.place)
        order = self._limited(selected.order)
        within = None if order is not None else self._order.within(selected.promotion, grouped)
        shape = self._timed(selected, within)
        if selected.kept is not None:
            shape = self._followed(shape, selected.kept)
        if shape.changelog:
            return self._of_changes(shape, order)
        if select.distinct:
            distinct = closed_by_period(shape, self._relation, "DISTINCT")
            order = None if order is None else self._order.of_distinct(order, shape, distinct)
            shape = distinct
        return shape if order is None else sorted_in_period(self._relation, shape, order)

    def _followed(self, shape: QueryShape, kept: QualifiedRows) -> QueryShape:
        """Return the first rows of a table, which QUALIFY keeps."""
        if self._select.order_by or self._select.limit is not None:
            raise StatementError(
                "QUALIFY over changes cannot be combined with ORDER BY or LIMIT",
                span=self._select.place,
                hint="Put it into FROM (..) of another query.",
            )
        place = self._select.place if self._select.qualify is None else self._select.qualify.place
        if shape.node.is_changelog():
            for each in kept.conditions:
                check_rowtime((), each, place)
        # A row that goes has another ROWTIME than it had when it came: conditions, too, read the one that it had.
        conditions = (SelectOutput("$QUALIFY", each, True, place) for each in kept.conditions)
        node, read = with_old_rowtime(self._relation, shape.node, (*shape.outputs, *conditions))
        at = len(shape.outputs)
        kept = replace(kept, conditions=tuple(each.expr for each in read[at:]))
        shape = replace(shape, node=node, outputs=read[:at])
        return kept_of_changes(self._relation, shape, kept, self._retention)

    def _of_changes(self, shape: QueryShape, order: PeriodOrder | None) -> QueryShape:
        """Return DISTINCT, or the first rows, of changes."""
        select = self._select
        if select.distinct:
            distinct = distinct_changes(shape, self._relation, self._retention)
            order = None if order is None else self._order.of_distinct(order, shape, distinct)
            shape = distinct
        if order is None:
            return shape
        if self._lists:
            shape = with_order(shape, order)
        if select.limit is None:
            if self._lists:
                return shape
            raise StatementError(
                "changes have no order: ORDER BY needs LIMIT",
                span=select.order_by[0].place,
                hint="ORDER BY x DESC LIMIT 3 returns the changes of the three greatest.",
            )
        # The period is the first sort key, so a group's row is ranked only within its period.
        period = FieldRef(0, TIMESTAMP)
        by_period = begins_with_window(shape.node) and order.keys[:1] == ((period, False),)
        partition = (period,) if by_period else ()
        return first_of_changes(self._relation, shape, order, partition, self._retention)

    def _ordered_by(self, item: OrderItem) -> OrderItem:
        """Return a term of ORDER BY; a number is replaced by its column."""
        if not isinstance(item.expression, NumberLiteral):
            return item
        return replace(item, expression=at_position(self._select, item.expression, "ORDER BY"))

    # ------------------------------------------------------------ select list

    def _plain(self, node: Node) -> _Selected:
        """Plan a select list without groups, with the windows in it."""
        windows = self._windows(ExpressionPlanner(self._read.scope, "a window"), of_rows=True)
        planner = WindowedPlanner(self._read.scope, "the select list", windows, each_row=self._has_rows)
        qualify = self._qualify(planner, windows)
        # The positions of results are known after all windows: plan the list, then type it.
        for item in self._select.items:
            if isinstance(item, SelectItem):
                planner.plan_as(item.expression, UNTYPED_NULL.type)
        windows.check()
        node = qualify.over(self._relation, windows.over(node), windows.old_rowtime)
        outputs, promotion = self._outputs(planner, node.row_type, windows)
        return _Selected(
            node, outputs, promotion, self._order.period_order(planner, promotion), kept=qualify.kept()
        )

    def _windows(
        self, planner: ExpressionPlanner, named_by: FieldRef | None = None, *, of_rows: bool = False
    ) -> Windows:
        """Return the windows of the select list, over groups or ``of_rows``."""
        select = self._select
        if not self._tells_changes:
            return Windows(self._relation, planner, select.windows, named_by)
        return WindowsOfChanges(
            self._relation,
            planner,
            select.windows,
            self._retention,
            select.place,
            only_first=of_rows and not self._read.changelog,
        )

    def _qualify(self, planner: ExpressionPlanner, windows: Windows) -> Qualify:
        """Return the condition of QUALIFY over the rows of ``planner``."""
        return Qualify(
            with_names_of(self._select, self._read.scope),
            planner,
            partial(windows.follow, self._select.items) if isinstance(windows, WindowsOfChanges) else None,
            lambda items: self._order.sort_keys(planner, items, None),
        )

    def _outputs(
        self, planner: ExpressionPlanner, row_type: RowType, windows: Windows
    ) -> tuple[tuple[SelectOutput, ...], Promotion | None]:
        """Plan the select list; ``row_type`` is that of the rows that it is computed from."""
        outputs: list[SelectOutput] = []
        promotion = None
        for item in self._select.items:
            if isinstance(item, StarItem):
                outputs += self._star(item)
                continue
            expr = planner.plan_as(item.expression, UNTYPED_NULL.type)
            called = None if item.alias is None else item.alias.text
            # TUMBLE_END(..) is also the ROWTIME of a group's row, but an ordinary column.
            is_rowtime = is_plain_rowtime(expr) and (
                called == ROWTIME or (called is None and isinstance(item.expression, ColumnRef))
            )
            if item.alias is not None and item.alias.text == ROWTIME and not is_rowtime:
                if promotion is not None:
                    raise StatementError("two columns are promoted to ROWTIME", span=item.place)
                check_rowtime_type(expr, item.expression.place)
                promotion = Promotion(expr, item.expression)
                continue
            nullable = can_be_null(expr, row_type)
            name, named = _name(item, len(outputs)), item.alias is not None
            outputs.append(SelectOutput(name, expr, nullable, item.place, is_rowtime, named))
        if promotion is not None and any(output.is_rowtime for output in outputs):
            place = next(output.place for output in outputs if output.is_rowtime)
            raise StatementError(
                "ROWTIME appears twice in the select list",
                span=place,
                hint="Rename the old rowtime: ROWTIME AS arrived_at.",
            )
        outputs = list(told_apart(outputs))
        if windows.old_rowtime is None:
            return tuple(outputs), promotion
        if promotion is not None or self._select.order_by or self._select.distinct:
            raise StatementError(
                "a query that ranks by value cannot promote, sort or be DISTINCT",
                span=self._select.place,
                hint="Put it into FROM (..) of another query.",
            )
        # Ranked rows have the end of their period as ROWTIME; expressions are computed over the original
        # rows.
        old: dict[Expr, Expr] = {RowtimeRef(): windows.old_rowtime}
        return tuple(
            each if each.is_rowtime else replace(each, expr=substitute(each.expr, old)) for each in outputs
        ), None

    def _star(self, item: StarItem) -> list[SelectOutput]:
        scope = self._read.scope
        columns = scope.binding(item.qualifier, item.place).columns() if item.qualifier else scope.columns()
        found = [SelectOutput(name, expr, nullable, item.place) for name, expr, nullable in columns]
        names = [each.name for each in found]
        for each in item.without:
            if each.text not in names:
                raise StatementError(
                    f'column "{each.text}" of EXCEPT does not exist',
                    span=each.place,
                    hint=did_you_mean_or_all(each.text, names),
                )
        left_out = {each.text for each in item.without}
        return [each for each in found if each.name not in left_out]

    # ---------------------------------------------------------------- ROWTIME

    def _timed(self, selected: _Selected, within: int | None) -> QueryShape:
        """Add promotion and t-sort over the input of the select list."""
        node, outputs, promotion = selected.node, selected.outputs, selected.promotion
        place, changelog = self._select.place, self._tells_changes
        if promotion is None:
            if within is not None:
                node = Sort(self._relation, node, within)
            return QueryShape(node, outputs, changelog, place, selected.closed)
        node, outputs = promoted(self._relation, node, outputs, promotion.expr, self._max_ahead_ms)
        if within is not None:
            node = Sort(self._relation, node, within)
        return QueryShape(node, outputs, changelog, place)

    def _limited(self, order: PeriodOrder | None) -> PeriodOrder | None:
        """Return ``order`` with the query's LIMIT.

        Raises:
          StatementError: the query has LIMIT without an order in a period.
        """
        limit = self._select.limit
        if limit is None:
            return order
        if order is None:
            raise StatementError(
                "LIMIT and FETCH FIRST take the first rows of each period: add ORDER BY with the period",
                span=limit.place,
                hint="ORDER BY FLOOR(ROWTIME TO MINUTE), x DESC LIMIT 3 returns the three greatest a minute.",
            )
        return replace(order, limit=limit.count, offset=limit.offset)

    # ---------------------------------------------------------------- groups

    def _grouped(self, node: Node) -> _Selected:
        select, scope = self._select, self._read.scope
        window, window_expr, keys, period_value = self._group_terms(scope, node)
        # If GROUP BY has ROWTIME itself, it is also the group's rowtime, so it needs no field.
        exact = window_expr == RowtimeRef()
        groups: dict[Expr, Expr] = {}
        if window_expr is not None and not exact:
            groups[window_expr] = period_value
        first = 0 if window is None else 1
        for index, key in enumerate(keys):
            groups.setdefault(key, FieldRef(first + index, key.type))
        aggregates = AggregateList(first + len(keys))
        for item in select.items:
            if isinstance(item, StarItem):
                raise star_of_groups(item.place)
        end = partial(last_edge, window, aggregates) if self._tells_changes else RowtimeRef
        edges = partial(window_edge, ExpressionPlanner(scope, "the select list"), window, end)

        def planner_of(clause: str, windows: Windows | None = None) -> GroupedPlanner:
            over = None if windows is None else windows.reference
            return GroupedPlanner(
                scope, clause, groups, aggregates, exact=exact, edges=edges, over=over
            ).of_each_row(self._has_rows)

        # A group's window and its ROWTIME determine each other, except for a SESSION and CUMULATE, which have no
        # fixed length.
        named_by = (
            None
            if window is None or isinstance(window, Session | Cumulate | CumulateByMonths)
            else FieldRef(0, TIMESTAMP)
        )
        windows = self._windows(planner_of("a window"), named_by)
        planner = planner_of("the select list", windows)
        qualify = self._qualify(planner_of("QUALIFY", windows), windows)
        having = None if select.having is None else planner_of("HAVING").condition(select.having)
        written = next(
            (each for each in select.items if isinstance(each, SelectItem) and _promotes(each)), None
        )
        ordered = partial(
            self._order.period_order,
            planner_of("ORDER BY", windows),
            None if written is None else Promotion(RowtimeRef(), written.expression),
            window,
        )
        # The layout of the group's row is known once all aggregates and windows are: plan all, then type it.
        for item in select.items:
            if isinstance(item, SelectItem):
                planner.plan_as(item.expression, UNTYPED_NULL.type)
        windows.check()
        ordered()
        qualify.kept()
        grouped: Node
        if window is None or self._tells_changes:
            changes = group_changes(self._relation, node, window, keys, aggregates.calls)
            every_ms = None if select.emit is None else select.emit.every_ms
            changes = replace(changes, every_ms=every_ms, of_changes=self._read.changelog)
            grouped = limited(changes, self._retention, select.place)
        else:
            grouped = group_rows(self._relation, node, window, keys, aggregates.calls)
        if having is not None:
            grouped = Filter(self._relation, grouped, having)
        filtered = grouped
        grouped = qualify.over(self._relation, windows.over(grouped), windows.old_rowtime)
        outputs, promotion = self._outputs(planner, grouped.row_type, windows)
        if self._tells_changes:
            if not exact:
                check_rowtime(outputs, having, None if select.having is None else select.having.place)
            if promotion is not None:
                raise StatementError(
                    "a column of a changelog cannot be promoted to ROWTIME: a change has the ROWTIME of the row "
                    "that caused it",
                    span=promotion.syntax.place,
                )
            order = ordered()
            if grouped is filtered:
                grouped = with_shown(
                    grouped, outputs, having, () if order is None else order.keys, qualify.reads()
                )
            return _Selected(grouped, outputs, None, order, kept=qualify.kept())
        order = ordered()
        if promotion is not None and window is not None:
            promotion = replace(promotion, expr=of_group_end(promotion.expr, window))
            if is_plain_rowtime(promotion.expr):
                promotion = None
        closed = None
        if promotion is None and isinstance(window, Period) and window.zone is None:
            fields = [output.expr for output in outputs if not output.is_rowtime]
            if FieldRef(0, TIMESTAMP) in fields:
                closed = Closed(window, fields.index(FieldRef(0, TIMESTAMP)))
            elif len(fields) < len(outputs):
                closed = Closed(window, None)
        return _Selected(grouped, outputs, promotion, order, closed)

    def _group_terms(
        self, scope: NameScope, node: Node
    ) -> tuple[Window | None, Expr | None, list[Expr], Expr]:
        """Return the window of GROUP BY, its expression if it has one, the other terms, and its value.

        The value is that of the expression, over the group's row.

        Only groups with EMIT CHANGES or over tables can be without a window.
        """
        planner = ExpressionPlanner(scope, "GROUP BY", each_row=self._has_rows)
        window: Window | None = None
        window_expr: Expr | None = None
        keys: list[Expr] = []
        value: Expr = FieldRef(0, TIMESTAMP)
        for written in self._select.group_by:
            term = meant_by_group_term(self._select, written, scope)
            if isinstance(term, FunctionCall) and term.name in GROUP_WINDOWS:
                if window is not None:
                    raise StatementError("GROUP BY has a period already", span=term.place)
                window = group_window(planner, term, term.name)
                if isinstance(window, Cumulate | CumulateByMonths) and self._tells_changes:
                    raise StatementError(
                        "CUMULATE with changes is not supported",
                        span=term.place,
                        hint="GROUP BY TUMBLE(ROWTIME, size) EMIT CHANGES EVERY step shows a window as it grows.",
                    )
                if isinstance(window, Period):
                    window_expr = period_call(window, RowtimeRef())
                    value = _named(window)
                    if window.zone is not None and self._tells_changes:
                        raise StatementError(
                            "TUMBLE by the clocks of a zone has no changes",
                            span=term.place,
                            hint="GROUP BY FLOOR(ROWTIME AT TIME ZONE zone TO DAY) EMIT CHANGES needs RETENTION only.",
                        )
                continue
            typed = planner.plan(term)
            check_key(typed.type, "a grouping key", term.place)
            if isinstance(typed, Literal):
                raise StatementError("a constant is not a grouping key", span=term.place)
            # The other clauses look up folded expressions.
            typed = fold(typed)
            found = period_of(typed)
            if found is None and not self._tells_changes and window is None:
                found = period_of_clocks(typed, term.place)
            by_column = rolled_up(typed, node) if found is None and not self._tells_changes else None
            if by_column is not None and window is None:
                window, window_expr, value = by_column.period, typed, by_column.value
            elif found is not None and window is None:
                window, window_expr, value = found, typed, _named(found)
            elif typed != window_expr and typed not in keys:
                keys.append(typed)
        if window is None and not self._tells_changes:
            first = self._select.group_by[0].place if self._select.group_by else self._select.place
            raise StatementError(
                "an aggregate over a stream needs a period: without one no group would ever end",
                span=first,
                hint=_hint_of_period(keys),
            )
        return window, window_expr, keys, value


def _named(period: Period) -> Expr:
    """Return the value of a group's period over the group's row: local, if it has a zone."""
    name = FieldRef(0, TIMESTAMP)
    return name if period.zone is None else period_call(period, name)


def _promotes(item: SelectItem) -> bool:
    """Return whether a column of a grouped query replaces the group's own ROWTIME."""
    syntax = item.expression
    own = isinstance(syntax, ColumnRef) and syntax.parts[-1].text == ROWTIME
    return item.alias is not None and item.alias.text == ROWTIME and not own


def _name(item: SelectItem, position: int) -> str:
    """Return the name of a column: its alias, the column's own, or EXPR$ and its position."""
    if item.alias is not None:
        return item.alias.text
    if isinstance(item.expression, ColumnRef):
        return item.expression.parts[-1].text
    return unnamed(position)


def _hint_of_period(keys: Sequence[Expr]) -> str:
    """Return what to write where the terms of GROUP BY are no period."""
    found = [key for key in keys if rounded(key)]
    if not found:
        return _NO_PERIOD
    return OF_ZONE if any(calls_function(key, FROM_UTC) for key in found) else _OF_COLUMN
