"""Windows of a select list over a table, or over groups with changes: WindowChanges nodes, one for each order.

See docs/sql/windows.md#windows-over-tables. As in PostgreSQL, a window is ordered by values, its frame ends with the
last peer of the row, and without ORDER BY it is the whole partition.
"""

from __future__ import annotations

from collections.abc import Sequence

from rowtide.errors import SourceSpan, StatementError
from rowtide.expr.constant import fold
from rowtide.expr.tree import Expr, FieldRef, uses_rowtime
from rowtide.plan.frames import CURRENT_ROW, UNBOUNDED_PRECEDING, EdgeUnit, Frame, FramedCall, WindowCall
from rowtide.plan.nodes import Node
from rowtide.plan.nodes.changes.window_changes import SO_FAR, WindowChanges
from rowtide.rowtime.period import Period, PeriodEdge
from rowtide.sql.definitions.objects import Retention
from rowtide.sql.expressions.expression_planner import ExpressionPlanner
from rowtide.sql.expressions.keys import check_key
from rowtide.sql.grammar.syntax import (
    Expression,
    FunctionCall,
    NamedWindow,
    SelectItem,
    StarItem,
    WindowSpec,
)
from rowtide.sql.grammar.syntax_walk import calls_in
from rowtide.sql.window.qualify import RANK, Top, is_row_number
from rowtide.sql.window.ranking import SHARES
from rowtide.sql.window.windows import PlannedWindow, Windows, placed_at, placed_calls, with_results


class WindowsOfChanges(Windows):
    """The windows that a select list over changes uses.

    ``only_first``: the rows are those of a stream with EMIT CHANGES, of which only the first ones can be selected.
    ``retention`` is that of the view, ``span`` the query.
    """

    def __init__(
        self,
        relation: str,
        planner: ExpressionPlanner,
        named: Sequence[NamedWindow],
        retention: Retention | None,
        span: SourceSpan,
        *,
        only_first: bool = False,
    ) -> None:
        super().__init__(relation, planner, named)
        self._retention = retention
        self._span = span
        self._only_first = only_first
        self._followed: WindowSpec | None = None

    def follow(self, items: Sequence[SelectItem | StarItem], top: Top) -> WindowSpec | None:
        """Register the ROW_NUMBER that selects the first rows, and return its window.

        None if the number of each row has to be computed: ``items`` have it, and it is not that of a few first rows.

        Raises:
          StatementError: its window does not exist, or has a frame.
        """
        spec = self._spec(top.call)
        if not self._only_first and not top.can_be_numbered and self._is_selected(spec, items):
            return None
        self._check_rank(top.call)
        if spec.frame is not None:
            raise StatementError("a rank cannot have a frame", span=spec.place)
        self._followed = spec
        return spec

    def _is_selected(self, spec: WindowSpec, items: Sequence[SelectItem | StarItem]) -> bool:
        """Return whether items have the ROW_NUMBER of a window."""
        listed = (each.expression for each in items if isinstance(each, SelectItem))
        calls = (call for each in listed for call in calls_in(each) if is_row_number(call))
        return any(self._spec(call) == spec for call in calls)

    def check(self) -> None:
        """Plan the named windows, including unused ones.

        Raises:
          StatementError: one cannot be planned.
        """
        for spec in () if self._only_first else self._named.values():
            if spec != self._followed:
                self._window(spec)

    def reference(self, syntax: FunctionCall) -> Expr:
        """Return the field of the result of a call; register the call if it is new.

        Raises:
          StatementError: the function or its window does not exist, or does not fit.
        """
        whole = self._spec(syntax)
        if syntax.name == "ROW_NUMBER" and whole == self._followed:
            return RANK
        if self._only_first:
            raise StatementError(
                "a stream with EMIT CHANGES has no window (OVER) but the ROW_NUMBER of its first rows",
                span=syntax.place,
                hint="QUALIFY ROW_NUMBER() OVER (PARTITION BY .. ORDER BY ..) <= 3 EMIT CHANGES keeps them. Put other "
                "windows into a query over a view of it.",
            )
        if syntax.name in SHARES:
            raise StatementError(
                f"{syntax.name} over a table is not supported",
                span=syntax.place,
                hint="RANK() and COUNT(*) OVER (PARTITION BY ..) give the place of a row and the number of rows.",
            )
        return self._registered(syntax, self._window(whole))

    def _window(self, spec: WindowSpec) -> PlannedWindow:
        partition = tuple(dict.fromkeys(map(self._of_row, spec.partition)))
        return PlannedWindow(partition, Period(PeriodEdge.EXACT), _frame(spec), self._sort_keys(spec.terms))

    def _of_row(self, syntax: Expression) -> Expr:
        typed = fold(self._planner.plan(syntax))
        check_key(typed.type, "a term of PARTITION BY or ORDER BY", syntax.place)
        _refuse_rowtime((typed,), syntax.place)
        return typed

    def _call(self, syntax: FunctionCall, frame: Frame) -> tuple[WindowCall, Frame]:
        call, frame = super()._call(syntax, frame)
        _refuse_rowtime((call.argument, call.condition, call.default), syntax.place)
        return call, frame

    def _in_turn(self) -> Sequence[tuple[PlannedWindow, list[WindowCall]]]:
        """Return the windows, those with one order together."""
        orders = list(dict.fromkeys((window.partition, window.keys) for window in self._calls))
        return sorted(self._calls.items(), key=lambda each: orders.index((each[0].partition, each[0].keys)))

    def _nodes(self, node: Node, where: dict[Expr, FieldRef]) -> Node:
        together: dict[tuple[tuple[int, ...], tuple[tuple[int, bool], ...]], list[FramedCall]] = {}
        for window, calls in self._calls.items():
            partition = tuple(placed_at(key, where) for key in window.partition)
            keys = tuple((placed_at(key, where), descending) for key, descending in window.keys)
            framed = (FramedCall(call, window.frame) for call in placed_calls(calls, where))
            together.setdefault((partition, keys), []).extend(framed)
        for (partition, keys), of_order in together.items():
            row_type = with_results(node.row_type, [each.call for each in of_order])
            found = WindowChanges(self._relation, node, partition, keys, tuple(of_order), row_type)
            endless = self._retention is None or self._retention.length_ms is not None
            if found.unlimited_state() is not None and endless:
                raise StatementError(
                    "the rows of this window never end: all of them would have to be kept forever",
                    span=self._span,
                    hint="CREATE VIEW name OPTIONS (RETENTION 'UNBOUNDED') AS .. keeps them, if that is intended.",
                )
            node = found
        return node


def _frame(spec: WindowSpec) -> Frame:
    """Return the frame of a window over a table.

    Raises:
      StatementError: it is a frame of values.
    """
    if spec.frame is None:
        return SO_FAR
    if spec.unit is EdgeUnit.ROWS:
        return spec.frame
    if spec.frame == Frame(UNBOUNDED_PRECEDING, CURRENT_ROW):
        # The current row of RANGE is the last of its peers.
        return SO_FAR
    raise StatementError(
        "RANGE over a table goes from UNBOUNDED PRECEDING to CURRENT ROW only",
        span=spec.place,
        hint="ROWS BETWEEN 3 PRECEDING AND CURRENT ROW counts rows. For a length of time, group by FLOOR(x TO HOUR).",
    )


def _refuse_rowtime(exprs: Sequence[Expr | None], span: SourceSpan) -> None:
    """Refuse ROWTIME in a window over changes: a DELETE has another one than the INSERT that it takes back.

    Raises:
      StatementError: an expression reads ROWTIME.
    """
    if any(each is not None and uses_rowtime(each) for each in exprs):
        raise StatementError(
            "ROWTIME of a changelog is that of each change: no window can be computed from it",
            span=span,
            hint="MAX(ROWTIME) is the time of the group's last row.",
        )
