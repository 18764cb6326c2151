"""Windows of a select list: OVER and WINDOW -> WindowAggregate nodes, one for each frame, stacked.

Several windows with waiting rows are parallel (WindowsAbreast), above the others. The
input's fields keep their positions; after them a Project adds the expressions of windows,
and then each node adds the results of its calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from rowtide.errors import StatementError
from rowtide.expr.aggregates import AGGREGATES, SPELLED, Family, aggregate_of, spelled
from rowtide.expr.constant import fold
from rowtide.expr.functions import common_type
from rowtide.expr.functions.arguments import PACKED
from rowtide.expr.tree import Call, Expr, FieldRef, Literal, PythonAggregate, RowtimeRef
from rowtide.plan.frames import CURRENT_ROW, Edge, EdgeUnit, Frame, WindowCall
from rowtide.plan.nodes import Node, WaitingWindow, WindowAggregate, WindowsAbreast
from rowtide.rows.types import BIGINT, BOOLEAN, DOUBLE, Field, RowType
from rowtide.rowtime.period import Period, PeriodEdge
from rowtide.sql.expressions.aggregate_list import listed_argument, number_of, paired, result_type, unpaired
from rowtide.sql.expressions.conversions import UNTYPED_NULL, assign
from rowtide.sql.expressions.declared_aggregates import declared_argument, declared_result
from rowtide.sql.expressions.expression_planner import ExpressionPlanner
from rowtide.sql.expressions.keys import check_key, check_order
from rowtide.sql.expressions.scope import NameScope
from rowtide.sql.grammar import habits
from rowtide.sql.grammar.clauses.window_grammar import MAX_FRAME_ROWS
from rowtide.sql.grammar.suggestions import did_you_mean
from rowtide.sql.grammar.syntax import (
    DeclaredFunction,
    Expression,
    FunctionCall,
    Name,
    NamedWindow,
    NumberLiteral,
    OrderItem,
    WindowSpec,
)
from rowtide.sql.group.group_windows import period_of
from rowtide.sql.group.grouped_expressions import fraction_of
from rowtide.sql.relations.guards import filtered_first
from rowtide.sql.relations.relations import can_be_null, project, unique_names
from rowtide.sql.window.ranking import SHARES, RankCall, Ranked, Ranking, ranked

RANKS = spelled(Family.RANK)


@dataclass(frozen=True, slots=True)
class PlannedWindow:
    """A resolved window: ordered by time, or by ``keys``, each with True if it descends."""

    partition: tuple[Expr, ...]
    order: Period
    frame: Frame
    keys: tuple[tuple[Expr, bool], ...] = ()


@dataclass(frozen=True, slots=True)
class _ByValue:
    """The rankings by value of a select list, and their ranks, in order of use."""

    ranking: Ranking
    wanted: tuple[RankCall, ...] = ()


class Windows:
    """The windows that a select list uses, each with its calls, in the order of their first use.

    ``planner`` plans their expressions. In a grouped query, ``named_by`` is the field of the group's row for
    its period, which ROWTIME determines, too.
    """

    def __init__(
        self,
        relation: str,
        planner: ExpressionPlanner,
        named: Sequence[NamedWindow],
        named_by: FieldRef | None = None,
    ) -> None:
        self._relation = relation
        self._planner = planner
        self._named_by = named_by
        self._named: dict[str, WindowSpec] = {}
        for each in named:
            if each.name.text in self._named:
                raise StatementError(f'window "{each.name.text}" appears twice', span=each.name.place)
            # A window can extend an earlier one.
            self._named[each.name.text] = self._whole(each.window)
        self._calls: dict[PlannedWindow, list[WindowCall]] = {}
        self._first: int | None = None
        self._by_value: _ByValue | None = None
        self._ranked: Ranked | None = None

    @property
    def old_rowtime(self) -> FieldRef | None:
        """Return the field of the rows' original ROWTIME, if ranking has changed it."""
        return None if self._ranked is None else self._ranked.rowtime

    def check(self) -> None:
        """Plan the named windows, including unused ones.

        Raises:
          StatementError: one cannot be planned.
        """
        for spec in self._named.values():
            if self._ranking(spec) is None:
                self._window(spec)

    def _spec(self, syntax: FunctionCall) -> WindowSpec:
        spec = syntax.over
        if spec is None:
            raise ValueError("this call needs a window")
        return self._find(spec) if isinstance(spec, Name) else self._whole(spec)

    def reference(self, syntax: FunctionCall) -> Expr:
        """Return the field of the result of a call; register the call if it is new.

        Raises:
          StatementError: the function or its window does not exist, or does not fit.
        """
        whole = self._spec(syntax)
        if syntax.name in SHARES and self._ranking(whole) is None:
            raise StatementError(
                f"{syntax.name} needs a period in PARTITION BY: only then are all rows of a partition known",
                span=syntax.place,
                hint="Write OVER (PARTITION BY FLOOR(ROWTIME TO MINUTE), .. ORDER BY x).",
            )
        if syntax.name in RANKS | SHARES and (ranking := self._ranking(whole)) is not None:
            return self._rank(syntax, ranking)
        return self._registered(syntax, self._window(whole))

    def _registered(self, syntax: FunctionCall, window: PlannedWindow) -> Expr:
        """Return the field of the result of a call over a window; register the call if it is new."""
        call, frame = self._call(syntax, window.frame)
        window = replace(window, frame=frame)
        calls = self._calls.setdefault(window, [])
        if call not in calls:
            if self._first is not None:
                raise StatementError(
                    "ORDER BY has a window (OVER) that is not in the select list",
                    span=syntax.place,
                    hint="Select it under an alias and sort by the alias.",
                )
            calls.append(call)
        before = 0
        for each, others in self._calls.items():
            if each == window:
                break
            before += len(others)
        found = FieldRef((self._first or 0) + before + calls.index(call), call.type)
        if call.of is not None:
            return declared_result(found, call.of)
        declared = SPELLED.get(syntax.name)
        if declared is not None and declared.name == "LISTAGG":
            return listed_argument(self._planner, syntax).result(found)
        if declared is None or declared.pair_of is None:
            return found
        return unpaired(found, paired(self._planner, syntax)[1], declared)

    def over(self, node: Node) -> Node:
        """Return the nodes of all registered windows, over ``node``."""
        node = self._over(node)
        if self._by_value is not None:
            self._ranked = ranked(self._relation, node, self._by_value.ranking, self._by_value.wanted)
            node = self._ranked.node
        return node

    def _over(self, node: Node) -> Node:
        self._first = len(node.row_type)
        if not self._calls:
            return node
        self._calls = dict(self._in_turn())
        node, where = self._with_computed(node)
        self._first = len(node.row_type)
        return self._nodes(node, where)

    @property
    def _are_abreast(self) -> bool:
        """Whether several windows hold rows back."""
        return sum(window.frame.waits for window in self._calls) > 1

    def _in_turn(self) -> Sequence[tuple[PlannedWindow, list[WindowCall]]]:
        """Return the windows in the order of their nodes.

        Windows that hold rows back come last, so that no other window waits for them; several run in parallel.
        """
        abreast = self._are_abreast
        return sorted(
            self._calls.items(),
            key=lambda each: each[0].frame.waits if abreast else each[0].frame.waits_for_rows,
        )

    def _with_computed(self, node: Node) -> tuple[Node, dict[Expr, FieldRef]]:
        """Return ``node`` with a field for each expression that the windows read from a row."""
        wanted = dict.fromkeys(each for each in self._computed() if not isinstance(each, FieldRef))
        held: list[Expr] = [FieldRef(index, field.type) for index, field in enumerate(node.row_type)]
        where: dict[Expr, FieldRef] = {
            each: FieldRef(len(held) + at, each.type) for at, each in enumerate(wanted)
        }
        names = [*node.row_type.names, *(f"${at}" for at in range(1, len(wanted) + 1))]
        fields = [
            *node.row_type,
            *(
                Field(name, each.type, can_be_null(each, node.row_type))
                for name, each in zip(unique_names(names)[len(held) :], wanted, strict=True)
            ),
        ]
        return project(self._relation, node, (*held, *wanted), RowType(tuple(fields))), where

    def _nodes(self, node: Node, where: dict[Expr, FieldRef]) -> Node:
        """Return the nodes of the windows over ``node``; ``where`` has the fields of what is computed."""
        side_by_side = {window for window in self._calls if self._are_abreast and window.frame.waits}
        for window, calls in self._calls.items():
            if window not in side_by_side:
                node = self._node(node, window, calls, where)
        over, windows = node, []
        for window, calls in self._calls.items():
            if window in side_by_side:
                over = each = self._node(over, window, calls, where)
                windows.append(WaitingWindow(each.partition, each.order, each.frame, each.calls, each.snap))
        return WindowsAbreast(self._relation, node, tuple(windows), over.row_type) if windows else node

    def _node(
        self, node: Node, window: PlannedWindow, calls: Sequence[WindowCall], where: dict[Expr, FieldRef]
    ) -> WindowAggregate:
        placed = placed_calls(calls, where)
        partition = tuple(placed_at(key, where) for key in window.partition)
        row_type = with_results(node.row_type, placed)
        return WindowAggregate(
            self._relation,
            node,
            partition,
            window.order,
            window.frame,
            placed,
            row_type,
            _snap(window),
        )

    def _computed(self) -> Iterator[Expr]:
        """Yield all expressions that the windows read from a row."""
        for window, calls in self._calls.items():
            yield from window.partition
            yield from (key for key, _ in window.keys)
            for call in calls:
                yield from (
                    each for each in (call.argument, call.condition, call.default) if each is not None
                )

    # -------------------------------------------------------------- windows

    def _find(self, name: Name) -> WindowSpec:
        if name.text not in self._named:
            raise StatementError(
                f'window "{name.text}" does not exist',
                span=name.place,
                hint=did_you_mean(name.text, list(self._named)),
            )
        return self._named[name.text]

    def _whole(self, spec: WindowSpec) -> WindowSpec:
        """Return a window with the parts of the window that it extends."""
        if spec.base is None:
            return spec
        base = self._find(spec.base)
        for own, inherited, what in (
            (spec.partition, base.partition, "PARTITION BY"),
            (spec.order or spec.sort, base.order or base.sort, "ORDER BY"),
            (spec.frame, base.frame, "a frame"),
        ):
            if own and inherited:
                raise StatementError(f'window "{spec.base.text}" has {what} already', span=spec.base.place)
        return WindowSpec(
            None,
            spec.partition or base.partition,
            spec.order or base.order,
            spec.frame or base.frame,
            spec.place,
            spec.sort or base.sort,
            spec.unit or base.unit,
        )

    def _window(self, spec: WindowSpec) -> PlannedWindow:
        partition = tuple(dict.fromkeys(map(self._of_row, spec.partition)))
        order = Period(PeriodEdge.EXACT)
        if spec.order is not None or spec.sort:
            found = None if spec.order is None else period_of(self._of_row(spec.order))
            if found is None:
                raise StatementError(
                    "a window on a stream must be ordered by its ROWTIME, ascending",
                    span=spec.sort[0].place if spec.order is None else spec.order.place,
                    hint="It may be rounded, as in FLOOR(ROWTIME TO MINUTE). By values ROW_NUMBER, RANK and "
                    "DENSE_RANK go, within a period that is in PARTITION BY.",
                )
            order = found
        return PlannedWindow(partition, order, spec.frame or Frame())

    def _of_row(self, syntax: Expression) -> Expr:
        """Return the expression of PARTITION BY or ORDER BY. The period of a group is its ROWTIME."""
        typed = fold(self._planner.plan(syntax))
        check_key(typed.type, "a term of PARTITION BY or ORDER BY", syntax.place)
        return RowtimeRef() if self._named_by is not None and typed == self._named_by else typed

    # ---------------------------------------------------------------- ranks

    def _ranking(self, spec: WindowSpec) -> Ranking | None:
        """Return the ranking of a window, if it is by value or by ROWTIME DESC, and not in the order of ROWTIME.

        Raises:
          StatementError: PARTITION BY has no period, or the window has a frame.
        """
        items = spec.terms
        if not items:
            return None
        if period_of(self._of_row(items[0].expression)) is not None and not items[0].descending:
            return None
        terms = list(dict.fromkeys(map(self._of_row, spec.partition)))
        period = next((each for each in terms if period_of(each) is not None), None)
        found = None if period is None else period_of(period)
        if found is None:
            raise StatementError(
                "a rank by value needs a period in PARTITION BY: only then are all rows of a partition known",
                span=items[0].place,
                hint="PARTITION BY FLOOR(ROWTIME TO MINUTE), .. ranks the rows of each minute; PARTITION BY "
                "ROWTIME, .. the rows of groups that end together. For the first rows of all so far write QUALIFY "
                "ROW_NUMBER() OVER (PARTITION BY k ORDER BY x DESC) = 1 EMIT CHANGES.",
            )
        if spec.frame is not None:
            raise StatementError("a rank cannot have a frame", span=spec.place)
        return Ranking(found, tuple(each for each in terms if each != period), self._sort_keys(items))

    def _sort_keys(self, items: Sequence[OrderItem]) -> tuple[tuple[Expr, bool], ...]:
        """Return what the terms of ORDER BY sort by, each with True if it descends."""
        keys: list[tuple[Expr, bool]] = []
        for item in items:
            key = self._of_row(item.expression)
            check_order(key.type, "a term of ORDER BY", item.place)
            if item.nulls_first not in (None, item.descending):
                keys.append((Call("IS NULL", (key,), BOOLEAN), bool(item.nulls_first)))
            keys.append((key, item.descending))
        return tuple(keys)

    def _rank(self, syntax: FunctionCall, ranking: Ranking) -> FieldRef:
        """Return the field of a rank by value; register it if it is new."""
        rank, of = RankCall(syntax.name), BIGINT if syntax.name in RANKS else DOUBLE
        if rank.function == "NTILE":
            if len(syntax.args) != 1:
                raise StatementError("NTILE takes one argument", span=syntax.place)
            rank, of = rank._replace(tiles=_count(syntax.args[0], "NTILE", least=1)), BIGINT
            syntax = replace(syntax, args=())
        self._check_rank(syntax)
        if self._by_value is None:
            self._by_value = _ByValue(ranking)
        if self._by_value.ranking != ranking:
            raise StatementError(
                "a select list can rank by one order of values only",
                span=syntax.place,
                hint="Rank by the other one in a sub-query in FROM.",
            )
        if rank not in self._by_value.wanted:
            self._by_value = replace(self._by_value, wanted=(*self._by_value.wanted, rank))
        return FieldRef(0, of) if self._ranked is None else self._ranked.ranks[rank]

    # ---------------------------------------------------------------- calls

    def _call(self, syntax: FunctionCall, frame: Frame) -> tuple[WindowCall, Frame]:
        """Return a call and its frame."""
        name, place = syntax.name, syntax.place
        if syntax.declared is not None and syntax.declared.aggregate is not None:
            return self._declared(syntax, syntax.declared, syntax.declared.aggregate), frame
        declared = SPELLED.get(name)
        if declared is None:
            hint = habits.FUNCTIONS.get(name)
            raise StatementError(f"{name} is not an aggregate or window function", span=place, hint=hint)
        if not declared.over_windows:
            raise StatementError(f"{name} over a window is not supported yet", span=place)
        if declared.family is Family.VALUES:
            return self._aggregate(syntax), frame
        if declared.family is Family.RANK:
            self._check_rank(syntax)
            return WindowCall(name, None, BIGINT), Frame(end=CURRENT_ROW)
        _check_no_aggregate(syntax)
        least, most = {"NTH_VALUE": (2, 2), "LAG": (1, 3), "LEAD": (1, 3)}.get(name, (1, 1))
        if not least <= len(syntax.args) <= most:
            wanted = f"{least}" if least == most else f"{least} to {most}"
            raise StatementError(f"{name} takes {wanted} argument{'' if most == 1 else 's'}", span=place)
        argument = fold(self._planner.plan(syntax.args[0]))
        call = WindowCall(name, argument, argument.type, ignore_nulls=syntax.ignore_nulls)
        if name in ("LAG", "LEAD"):
            return self._shift(syntax, call)
        if name == "NTH_VALUE":
            call = replace(call, number=_count(syntax.args[1], "NTH_VALUE", least=1))
        return call, frame

    def _check_rank(self, syntax: FunctionCall) -> None:
        _check_no_aggregate(syntax)
        if syntax.args or syntax.ignore_nulls:
            raise StatementError(f"{syntax.name} takes no arguments", span=syntax.place)

    def _aggregate(self, syntax: FunctionCall) -> WindowCall:
        aggregate = SPELLED[syntax.name]
        name, place = aggregate.name, syntax.place
        argument, fraction, number = None, aggregate.fraction, 1
        args = syntax.args
        listed = listed_argument(self._planner, syntax) if name == "LISTAGG" else None
        if listed is not None:
            name, argument = listed.function, fold(listed.argument)
        if aggregate.takes_fraction:
            if len(args) != 2 or syntax.star:
                raise StatementError(f"{name} is written {name}(0.9) WITHIN GROUP (ORDER BY x)", span=place)
            fraction, args = fraction_of(self._planner.plan(args[0]), syntax), args[1:]
        if aggregate.takes_number is not None and not syntax.star:
            if len(args) != 2:
                raise StatementError(f"{name} is written {aggregate.written[0]}", span=place)
            number, args = number_of(self._planner.plan(args[1]), syntax), args[:1]
        distinct = syntax.distinct and aggregate.distinct_matters
        if distinct and AGGREGATES[name].order_matters:
            raise StatementError(f"{name}(DISTINCT) over a window is not supported", span=place)
        if syntax.ignore_nulls:
            raise StatementError(
                f"{syntax.name} does not take IGNORE NULLS: it always ignores NULLs",
                span=place,
            )
        if syntax.star:
            if name != "COUNT":
                raise StatementError(f"{syntax.name}(*) is not allowed", span=place)
        elif name == "COUNT" and syntax.distinct and len(args) > 1:
            argument = fold(self._planner.as_one(args, place))
        elif aggregate.pair_of is not None:
            argument = fold(paired(self._planner, syntax)[0])
        elif listed is None:
            if len(args) != 1:
                raise StatementError(f"{syntax.name} takes one argument", span=place)
            argument = fold(self._planner.plan(args[0]))
        condition = None if syntax.condition is None else self._planner.condition(syntax.condition)
        of = result_type(name, None if argument is None else argument.type, place)
        return filtered_first(
            WindowCall(name, argument, of, distinct, condition, fraction=fraction, number=number)
        )

    def _declared(self, syntax: FunctionCall, function: DeclaredFunction, of: PythonAggregate) -> WindowCall:
        argument = fold(declared_argument(self._planner, function, of, syntax))
        condition = None if syntax.condition is None else self._planner.condition(syntax.condition)
        return filtered_first(WindowCall(of.name, argument, PACKED, syntax.distinct, condition, of=of))

    def _shift(self, syntax: FunctionCall, call: WindowCall) -> tuple[WindowCall, Frame]:
        """Return LAG or LEAD: over the one row that it reads, or over all earlier rows."""
        name, args = syntax.name, syntax.args
        offset = 1 if len(args) < 2 else _count(args[1], name, least=0)
        if len(args) == 3:
            call = self._with_default(call, args[2])
        if not syntax.ignore_nulls:
            edge = Edge(EdgeUnit.ROWS, -offset if name == "LAG" else offset)
            return call, Frame(edge, edge)
        if name == "LEAD" or offset == 0:
            raise StatementError(
                f"{name} of {offset} rows with IGNORE NULLS is not supported yet"
                if name == "LAG"
                else "LEAD with IGNORE NULLS is not supported yet",
                span=syntax.place,
                hint="Remove IGNORE NULLS, or filter the rows in FROM (SELECT .. WHERE x IS NOT NULL).",
            )
        return replace(call, number=offset), Frame(end=Edge(EdgeUnit.ROWS, -1))

    def _with_default(self, call: WindowCall, syntax: Expression) -> WindowCall:
        """Return a shift with its default.

        The type is that of the rows if a constant default fits it unchanged; else a type that fits both.
        """
        what = f"what {call.function} gives"
        default = self._planner.plan_as(syntax, UNTYPED_NULL.type)
        assigned = fold(assign(default, call.type, what, syntax.place))
        held = isinstance(default, Literal) and assigned == Literal(default.value, call.type)
        if call.argument is None or default.type == call.type or held:
            return replace(call, default=assigned)
        of = common_type([call.type, default.type])
        argument, default = (assign(each, of, what, syntax.place) for each in (call.argument, default))
        return replace(call, argument=argument, type=of, default=fold(default))


class WindowedPlanner(ExpressionPlanner):
    """Plans a select list with windows, over the rows of ``Windows.over``."""

    def __init__(self, scope: NameScope, clause: str, windows: Windows, *, each_row: bool = False) -> None:
        super().__init__(scope, clause, each_row=each_row)
        self._windows = windows

    def _over(self, syntax: FunctionCall) -> Expr:
        return self._windows.reference(syntax)


def _check_no_aggregate(syntax: FunctionCall) -> None:
    if syntax.star or syntax.distinct or syntax.condition is not None:
        raise StatementError(
            f"{syntax.name} is not an aggregate: *, DISTINCT and FILTER are not allowed", span=syntax.place
        )


def placed_at(expr: Expr, where: Mapping[Expr, FieldRef]) -> int:
    """Return the field of what a window reads from a row; ``where`` has those of what is computed."""
    return expr.index if isinstance(expr, FieldRef) else where[expr].index


def placed_calls(calls: Iterable[WindowCall], where: Mapping[Expr, FieldRef]) -> tuple[WindowCall, ...]:
    """Return calls whose arguments, conditions and defaults are fields."""

    def field(expr: Expr | None) -> FieldRef | None:
        return expr if expr is None or isinstance(expr, FieldRef) else where[expr]

    return tuple(
        replace(
            call, argument=field(call.argument), condition=field(call.condition), default=field(call.default)
        )
        for call in calls
    )


def with_results(row_type: RowType, calls: Sequence[WindowCall]) -> RowType:
    """Return a row type with a field for the result of each call."""
    labels = [_label(call, row_type) for call in calls]
    names = unique_names([*row_type.names, *labels])[len(row_type) :]
    fields = [
        Field(name, call.type, not aggregate_of(call).never_null)
        for name, call in zip(names, calls, strict=True)
    ]
    return RowType((*row_type, *fields))


def _snap(window: PlannedWindow) -> tuple[int, Period] | None:
    """Return the position and the period of the term of PARTITION BY that is a period of ROWTIME."""
    periods = ((place, period_of(each)) for place, each in enumerate(window.partition))
    return next(((place, period) for place, period in periods if period is not None), None)


def _label(call: WindowCall, row_type: RowType) -> str:
    """Return the name of a call's field in the row, as EXPLAIN shows it."""
    inner = row_type[call.argument.index].name if isinstance(call.argument, FieldRef) else "*"
    return f"{call.function}({inner})"


def _count(syntax: Expression, function: str, *, least: int) -> int:
    """Return a constant number of rows.

    Raises:
      StatementError: it is not a whole number, below ``least``, or above the maximum of a frame.
    """
    if isinstance(syntax, NumberLiteral) and syntax.text.isdigit() and len(syntax.text) <= 10:
        number = int(syntax.text)
        if least <= number <= MAX_FRAME_ROWS:
            return number
    raise StatementError(
        f"{function} counts rows with a whole number from {least} to {MAX_FRAME_ROWS}", span=syntax.place
    )
