"""FROM: relations, queries and joins -> one node and its names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from rowtide.errors import SourceSpan, StatementError
from rowtide.expr.constant import fold
from rowtide.expr.failing import can_fail
from rowtide.expr.functions import common_type
from rowtide.expr.tree import Call, Expr, FieldRef, Literal, RowtimeRef, fields_used, uses_rowtime
from rowtide.plan.narrow import narrowed
from rowtide.plan.nodes import AsOfJoin, AsOfJoinOn, Filter, JoinKind, Node, ProjectKeys
from rowtide.rows.types import BOOLEAN, INTEGER, Field, RowType
from rowtide.sql.definitions.objects import Retention
from rowtide.sql.expressions.conversions import cast
from rowtide.sql.expressions.expression_planner import ExpressionPlanner
from rowtide.sql.expressions.scope import Binding, NameScope
from rowtide.sql.from_clause.asof_joins import with_last_rows
from rowtide.sql.from_clause.on_subqueries import parted, refused_pairs
from rowtide.sql.grammar.syntax import (
    BooleanLiteral,
    DerivedTable,
    Expression,
    FromItem,
    Join,
    JsonRows,
    Name,
    QualifiedName,
    QuerySyntax,
    RangeWindow,
    RelationRef,
    Select,
)
from rowtide.sql.grammar.syntax_walk import holds_query
from rowtide.sql.group.group_windows import period_of
from rowtide.sql.group.rolled_up import of_rowtime
from rowtide.sql.join.json_rows import json_table
from rowtide.sql.join.sampling import sampled
from rowtide.sql.join.stream_joins import Side, moved, window_join
from rowtide.sql.join.table_joins import check_limit, table_join
from rowtide.sql.join.using import joined_on, merged_scope
from rowtide.sql.relations.guards import keys_and_others
from rowtide.sql.relations.relations import Planned, distinct_names, project, shifted, unique_names

_ONE_KEY = Literal(0, INTEGER)
_NO_RELATION = RelationRef(QualifiedName(()), None, None)
ReadRelation = Callable[[RelationRef], tuple[Planned, tuple[str, ...]]]
"""Returns the relation of a name, and its qualifiers."""
ReadQuery = Callable[[QuerySyntax], Planned]
"""Returns the relation of a query in FROM."""


@dataclass(frozen=True, slots=True)
class PlannedFrom:
    """A planned FROM."""

    node: Node
    scope: NameScope
    changelog: bool


Resolved = Callable[
    ["FromPlanner", Expression, PlannedFrom, bool, Sequence[Expression]],
    tuple[Expression | None, PlannedFrom],
]
"""Removes the sub-queries from a condition of ON: see ``on_subqueries``."""


class FromPlanner:
    """Plans FROM for the relation named ``relation``, whose text contains it."""

    def __init__(
        self,
        relation: str,
        read_relation: ReadRelation,
        read_query: ReadQuery,
        retention: Retention | None = None,
        resolved: Resolved | None = None,
    ) -> None:
        """Plan FROM; ``resolved`` removes the sub-queries from a condition of ON: see ``on_subqueries``."""
        self._relation = relation
        self._retention = retention
        self._resolved = resolved
        self._attached = 0
        self._read_relation = read_relation
        self._read_query = read_query
        self._sides: dict[int, PlannedFrom] = {}

    def plan(self, item: FromItem) -> PlannedFrom:
        """Return the node of ``item`` and its scope.

        Raises:
          StatementError: a name does not exist, or the join is not possible; with its place.
        """
        if isinstance(item, Join):
            return self._join(item)
        if isinstance(item, JsonRows):
            return self._side(item)
        if (window := _window(item)) is not None:
            raise StatementError(
                "a relation with a window must be part of a JOIN",
                span=window.place,
                hint="For a window of each row write SUM(x) OVER (RANGE INTERVAL '1' MINUTE PRECEDING).",
            )
        if isinstance(item, RelationRef) and item.as_of is not None:
            raise StatementError(
                "FOR SYSTEM_TIME AS OF is allowed only after a table that is joined with a stream",
                span=item.as_of.place,
            )
        return self._leaf(item)

    def scope_of(self, item: RelationRef | DerivedTable) -> NameScope:
        """Return the scope of one relation of a FROM that is not planned yet.

        Raises:
          StatementError: the relation does not exist.
        """
        return self._side(item).scope

    def _leaf(self, item: RelationRef | DerivedTable) -> PlannedFrom:
        if isinstance(item, RelationRef):
            planned, qualifiers = self._read_relation(item)
        else:
            planned, qualifiers = self._read_query(item.query), ("the query in FROM",)
        if item.alias is not None:
            qualifiers = (item.alias.text,)
        row_type = _called(planned.node.row_type, item.columns, planned.hidden)
        binding = Binding(qualifiers, row_type, 0, not planned.changelog, hidden=planned.hidden)
        scope, node = NameScope((binding,)), planned.node
        if item.sample is not None:
            node = sampled(self._relation, node, scope, item.sample)
        return PlannedFrom(node, scope, planned.changelog)

    def _side(self, item: FromItem) -> PlannedFrom:
        """Plan one side of a join, once."""
        if id(item) not in self._sides:
            match item:
                case Join():
                    found = self._join(item)
                case JsonRows():
                    read = self.plan(item.left)
                    node, scope = json_table(self._relation, item, read.node, read.scope)
                    found = PlannedFrom(node, scope, read.changelog)
                case _:
                    found = self._leaf(item)
            self._sides[id(item)] = found
        return self._sides[id(item)]

    @property
    def next_name(self) -> str:
        """The qualifier of the columns of the next sub-query that is joined to this FROM."""
        return f"$QUERY{self._attached + 1}"

    def attached(
        self,
        read: PlannedFrom,
        condition: Expression,
        binding: Binding,
        values: Planned,
        kind: JoinKind,
        span: SourceSpan,
    ) -> PlannedFrom:
        """Return rows joined with a sub-query, named ``binding``, on ``condition``.

        Raises:
          StatementError: the rows are of a changelog whose state would have no limit.
        """
        self._attached += 1
        table = PlannedFrom(values.node, NameScope((binding,)), changelog=True)
        nothing = DerivedTable(Select((), _NO_RELATION, False, None, (), None, ()), None)
        join = Join(nothing, nothing, kind.value, condition, span)
        if read.changelog:
            return self._table_join(join, read, table, keeps=False)
        return self._as_of_join(join, read, table, kind, table_on_left=False, keeps=False)

    def windowed(
        self,
        read: PlannedFrom,
        source: RelationRef | DerivedTable,
        where: Expression | None,
        span: SourceSpan,
    ) -> PlannedFrom:
        """Return rows of a stream, each joined with the rows of another's window for which ``where`` is TRUE, or none.

        Raises:
          StatementError: ``source`` is a table, or ``where`` cannot be planned.
        """
        self._attached += 1
        other = self._leaf(source)
        if other.changelog:
            raise StatementError("a window is allowed only on a stream", span=span)
        condition = BooleanLiteral(True, span) if where is None else where
        join = Join(source, source, JoinKind.LEFT.value, condition, span)
        left = Side(read.node, read.scope.bindings, None)
        node, scope = self._window_join(join, left, self._stream_side(other, source), keeps=False)
        return PlannedFrom(node, scope, changelog=False)

    # ----------------------------------------------------------------- joins

    def _window_join(self, join: Join, left: Side, right: Side, *, keeps: bool) -> tuple[Node, NameScope]:
        return window_join(
            self._relation,
            join,
            (left, right),
            lambda scope: _conjuncts(ExpressionPlanner(scope, "ON").condition(join.condition)),
            lambda conjunct, width: _key_pair(conjunct, width, join.condition.place),
            self._with_keys if keeps else self._with_rejected_keys,
            self._retention,
        )

    def _stream_side(self, read: PlannedFrom, item: FromItem) -> Side:
        """Return a side of a join of streams, with the order of its window.

        Raises:
          StatementError: the window is not ordered by a period of the side's ROWTIME.
        """
        window = _window(item)
        side = Side(read.node, read.scope.bindings, window)
        if window is None or window.order is None:
            return side
        # The window comes before the alias, so it can use the relation's own name.
        names = [binding.qualifiers for binding in read.scope.bindings]
        if isinstance(item, RelationRef):
            names.append(self._read_relation(item)[1])
        own = tuple(replace(binding, qualifiers=each) for binding in read.scope.bindings for each in names)
        order = period_of(fold(ExpressionPlanner(NameScope(own), "a window").plan(window.order)))
        if order is None:
            raise StatementError(
                "a window on a stream must be ordered by its ROWTIME",
                span=window.order.place,
                hint="It may be rounded, as in FLOOR(ROWTIME TO MINUTE) or STEP(ROWTIME BY INTERVAL ..).",
            )
        return replace(side, order=order)

    def _join(self, join: Join) -> PlannedFrom:
        left, right = self._side(join.left), self._side(join.right)
        if join.as_of and not left.changelog and not right.changelog:
            join = with_last_rows(join, (left.node, left.scope), (right.node, right.scope))
            right = self.plan(join.right)
        elif join.as_of:
            raise StatementError(
                "ASOF JOIN joins two streams",
                span=join.place,
                hint="A plain JOIN of a stream with a table joins the table as of the ROWTIME of the row.",
            )
        if join.using is not None:
            read = self._join(joined_on(join, left.scope, right.scope))
            return replace(read, scope=merged_scope(join, left.scope, right.scope, read.scope))
        names = [binding.alias for read in (left, right) for binding in read.scope.bindings]
        if len(set(names)) < len(names):
            raise StatementError(
                f'two relations of this FROM are called "{names[-1]}"',
                span=join.place,
                hint="Rename one of them with AS.",
            )
        if self._resolved is None or not holds_query(join.condition):
            return self._joined(join, left, right)
        resolved = partial(self._resolved, self)
        on = parted(join, (left, right), lambda read: read.scope, resolved)
        read = self._joined(on.join, on.left, on.right)
        for each in on.of_pairs:
            condition, read = resolved(each, read, join.kind == "INNER", ())
            if join.kind != "INNER":
                raise refused_pairs(join, each)
            if condition is not None:
                typed = ExpressionPlanner(read.scope, "ON").condition(condition)
                read = replace(read, node=Filter(self._relation, read.node, typed))
        return read

    def _joined(self, join: Join, left: PlannedFrom, right: PlannedFrom) -> PlannedFrom:
        """Join two sides on a condition without sub-queries."""
        if left.changelog and right.changelog:
            return self._table_join(join, left, right, keeps=True)
        if not left.changelog and not right.changelog:
            node, scope = self._window_join(
                join, self._stream_side(left, join.left), self._stream_side(right, join.right), keeps=True
            )
            return PlannedFrom(node, scope, changelog=False)
        for window in (_window(join.left), _window(join.right), join.within):
            if window is not None:
                raise StatementError(
                    "a window is allowed only on a stream that is joined with a stream",
                    span=window.place,
                    hint="Remove the window: a table is read as of the ROWTIME of the stream row.",
                )
        table_on_left = left.changelog
        preserved = "RIGHT" if table_on_left else "LEFT"
        if join.kind not in ("INNER", preserved):
            raise StatementError(
                "a join of a stream with a table cannot keep table rows that no stream row matches",
                span=join.place,
                hint=f"Write JOIN, or {preserved} JOIN to keep the rows of the stream.",
            )
        kind = JoinKind.INNER if join.kind == "INNER" else JoinKind.LEFT
        stream, table = (right, left) if table_on_left else (left, right)
        self._check_as_of(join, stream)
        return self._as_of_join(join, stream, table, kind, table_on_left, keeps=True)

    def _table_join(self, join: Join, left: PlannedFrom, right: PlannedFrom, *, keeps: bool) -> PlannedFrom:
        for item in (join.left, join.right):
            window = _window(item) or join.within
            as_of = item.as_of if isinstance(item, RelationRef) else None
            if window is not None or as_of is not None:
                raise StatementError(
                    "a join of two tables joins all of their current rows",
                    span=join.place if window is None else window.place,
                    hint="Windows and FOR SYSTEM_TIME are for streams: remove it.",
                )
        kind = JoinKind(join.kind)
        width = len(left.node.row_type)
        on_left = tuple(moved(left.scope.bindings, 0, outer=kind.keeps_right))
        on_right = tuple(moved(right.scope.bindings, width, outer=kind.keeps_left))
        both = NameScope((*on_left, *on_right), left.scope.merged)
        condition = ExpressionPlanner(both, "ON").condition(join.condition)
        pairs, others = keys_and_others(
            _conjuncts(condition),
            width,
            lambda conjunct, width: _key_pair(conjunct, width, join.condition.place),
            guarded=(kind.keeps_left, kind.keeps_right),
        )
        sides = (left.node, right.node)
        with_keys = self._with_keys if keeps else self._with_rejected_keys
        node, added = table_join(self._relation, kind, sides, pairs, others, with_keys)
        check_limit(node, self._retention, join.place)
        rest = tuple(replace(binding, start=binding.start + added) for binding in on_right)
        return PlannedFrom(node, NameScope((*on_left, *rest), left.scope.merged), changelog=True)

    def _check_as_of(self, join: Join, stream: PlannedFrom) -> None:
        """Check that FOR SYSTEM_TIME AS OF, if present, names the time that the join uses by default."""
        for item in (join.left, join.right):
            as_of = item.as_of if isinstance(item, RelationRef) else None
            if as_of is None:
                continue
            time = ExpressionPlanner(stream.scope, "FOR SYSTEM_TIME").plan(as_of)
            if time != RowtimeRef() and of_rowtime(time, stream.node) != RowtimeRef():
                raise StatementError(
                    "a table is read as of the ROWTIME of the stream row, no other time",
                    span=as_of.place,
                    hint=f"Write FOR SYSTEM_TIME AS OF {stream.scope.bindings[0].alias}.ROWTIME.",
                )

    def _as_of_join(
        self,
        join: Join,
        stream: PlannedFrom,
        table: PlannedFrom,
        kind: JoinKind,
        table_on_left: bool,
        *,
        keeps: bool,
    ) -> PlannedFrom:
        """Split ON into equal keys and other conditions, and build the join.

        ``keeps``: a LEFT join also keeps rows whose key fails.
        """
        width = len(stream.node.row_type)
        table_bindings = tuple(
            replace(
                binding,
                start=binding.start + width,
                row_type=_outer(binding.row_type) if kind is JoinKind.LEFT else binding.row_type,
            )
            for binding in table.scope.bindings
        )
        bindings = (
            (*table_bindings, *stream.scope.bindings)
            if table_on_left
            else (*stream.scope.bindings, *table_bindings)
        )
        scope = NameScope(bindings, (*stream.scope.merged, *table.scope.merged))
        condition = ExpressionPlanner(scope, "ON").condition(join.condition)
        keys, further = keys_and_others(
            _conjuncts(condition),
            width,
            lambda conjunct, width: _key_pair(conjunct, width, join.condition.place),
            guarded=(True, False),
        )
        on_table: list[Expr] = []
        others: list[Expr] = []
        for conjunct in further:
            if not uses_rowtime(conjunct) and min(fields_used(conjunct), default=-1) >= width:
                on_table.append(shifted(conjunct, width, -width))
            else:
                others.append(conjunct)
        # Without an equality, every row of the table has the same key.
        keys = keys or [(_ONE_KEY, _ONE_KEY)]
        table_node = table.node
        for each in on_table:
            table_node = Filter(self._relation, table_node, each)
        stream_keys, table_keys = [key for key, _ in keys], [key for _, key in keys]
        with_keys = self._with_keys if keeps else self._with_rejected_keys
        stream_node, stream_key = with_keys(stream.node, stream_keys, kept=kind is JoinKind.LEFT)
        table_node, table_key = with_keys(table_node, table_keys, kept=False)
        added = len(stream_node.row_type) - width
        given = _joined_type(stream_node.row_type, table_node.row_type, kind)
        parts = (self._relation, table_node, stream_node, table_key, stream_key, kind, given)
        further = [shifted(each, width, added) for each in others]
        node: Node = AsOfJoin(*parts)
        if further and kind is JoinKind.LEFT:
            whole = further[0] if len(further) == 1 else Call("AND", tuple(further), BOOLEAN)
            node = AsOfJoinOn(*parts, whole)
        else:
            for each in further:
                node = Filter(self._relation, node, each)
        moved = tuple(
            replace(binding, start=binding.start + added) if binding in table_bindings else binding
            for binding in bindings
        )
        return PlannedFrom(node, NameScope(moved, scope.merged), changelog=False)

    def _with_keys(self, node: Node, keys: list[Expr], *, kept: bool) -> tuple[Node, tuple[int, ...]]:
        """Return ``node`` with a field for each computed key, and the positions of the keys.

        A row for which a key fails is rejected; with ``kept`` it also stays, without a match.
        """
        row_type = node.row_type
        expressions: list[Expr] = [FieldRef(index, field.type) for index, field in enumerate(row_type)]
        fields = list(row_type)
        positions = []
        for key in keys:
            if key not in expressions:
                expressions.append(key)
                fields.append(Field(f"$KEY{len(expressions)}", key.type))
            positions.append(expressions.index(key))
        given = tuple(expressions), RowType(tuple(fields))
        failing = tuple(at for at, each in enumerate(expressions) if can_fail(each))
        if kept and failing:
            return narrowed(ProjectKeys(self._relation, node, *given, failing)), tuple(positions)
        return project(self._relation, node, *given), tuple(positions)

    def _with_rejected_keys(
        self, node: Node, keys: list[Expr], *, kept: bool
    ) -> tuple[Node, tuple[int, ...]]:
        """Return ``node`` with the keys of a join with a sub-query: a row for which a key fails is rejected."""
        del kept
        return self._with_keys(node, keys, kept=False)


def _called(row_type: RowType, names: Sequence[Name], hidden: int) -> RowType:
    """Return a row type with the column names of an alias.

    Raises:
      StatementError: the numbers of names and columns differ, or a name appears twice.
    """
    if not names:
        return row_type
    columns = len(row_type) - hidden
    if len(names) != columns:
        raise StatementError(
            f"the alias names {len(names)} columns, the relation has {columns}",
            span=names[0].place,
        )
    distinct_names(names)
    renamed = [replace(field, name=name.text) for field, name in zip(row_type, names, strict=False)]
    return RowType((*renamed, *tuple(row_type)[columns:]))


def _window(item: FromItem) -> RangeWindow | None:
    return None if isinstance(item, Join | JsonRows) else item.window


def _conjuncts(condition: Expr) -> Iterator[Expr]:
    """Yield the conditions that AND connects, from left to right."""
    if isinstance(condition, Call) and condition.function == "AND":
        for arg in condition.args:
            yield from _conjuncts(arg)
    else:
        yield condition


def _key_pair(conjunct: Expr, width: int, span: SourceSpan) -> tuple[Expr, Expr] | None:
    """Return the stream side and the table side of an equality, cast to one type."""
    if not (isinstance(conjunct, Call) and conjunct.function == "="):
        return None
    for stream, table in (conjunct.args, reversed(conjunct.args)):
        of_stream, of_table = fields_used(stream), fields_used(table)
        if not of_table or uses_rowtime(table) or not (of_stream or uses_rowtime(stream)):
            continue
        if max(of_stream, default=0) < width <= min(of_table):
            if stream.type.kind is table.type.kind and stream.type.scale == table.type.scale:
                return stream, table
            common = common_type([stream.type, table.type])
            return (
                stream if stream.type == common else cast(stream, common, span),
                table if table.type == common else cast(table, common, span),
            )
    return None


def _outer(row_type: RowType) -> RowType:
    """Return the row type of the side of an outer join that can be missing."""
    return RowType(tuple(replace(field, nullable=True) for field in row_type))


def _joined_type(stream: RowType, table: RowType, kind: JoinKind) -> RowType:
    outer = _outer(table) if kind is JoinKind.LEFT else table
    fields = [*stream, *outer]
    names = unique_names([field.name for field in fields])
    return RowType(tuple(replace(field, name=name) for field, name in zip(fields, names, strict=True)))
