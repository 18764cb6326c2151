"""ASOF JOIN: each row of a stream with the last row of another one with equal keys, at its ROWTIME or before.

See docs/sql/joins.md#asof-join. It is the join with the table of those last rows, and is written as that:
``JOIN (SELECT STREAM * FROM q QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY ROWTIME DESC) = 1 EMIT CHANGES)``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from rowtide.errors import SourceSpan, StatementError
from rowtide.expr.tree import FieldRef, RowtimeRef
from rowtide.plan.nodes import Node
from rowtide.sql.expressions.scope import NameScope
from rowtide.sql.grammar.syntax import (
    Binary,
    ColumnRef,
    DerivedTable,
    Emit,
    Expression,
    FunctionCall,
    Join,
    Name,
    NumberLiteral,
    OrderItem,
    RelationRef,
    Select,
    StarItem,
    WindowSpec,
)
from rowtide.sql.grammar.syntax_walk import columns_in, conjuncts, connected
from rowtide.sql.group.rolled_up import of_rowtime

_HINT = "Write ASOF JOIN quotes AS q ON t.symbol = q.symbol AND t.ROWTIME >= q.ROWTIME."
_TURNED = {">=": "<=", "<=": ">="}
Side = tuple[Node, NameScope]
"""The rows of one side, and their names."""


def with_last_rows(join: Join, left: Side, right: Side) -> Join:
    """Return the join with the table of the last rows of the right stream.

    Raises:
      StatementError: ON has something else than equalities and one comparison of both ROWTIMEs.
    """
    item = join.right
    if not isinstance(item, RelationRef | DerivedTable) or item.window is not None or join.using is not None:
        raise _refused("ASOF JOIN takes a stream with ON", join.place)
    both = NameScope((*left[1].bindings, *right[1].bindings))
    for column in columns_in(join.condition):
        both.resolve(column)
    keys: list[Expression] = []
    equal: list[Expression] = []
    times = 0
    for each in conjuncts(join.condition):
        if _compares_times(each, left, right):
            times += 1
            continue
        own = _own_key(each, left[1], right[1])
        if own is None:
            raise _refused(
                "ON of ASOF JOIN takes equalities, and one comparison of both ROWTIMEs", each.place
            )
        keys.append(own)
        equal.append(each)
    if times != 1 or not equal:
        raise _refused("ON of ASOF JOIN needs an equality, and one comparison of both ROWTIMEs", join.place)
    place = join.place
    time = ColumnRef((Name("ROWTIME", place),), place)
    latest = OrderItem(time, descending=True, within_ms=None, place=place)
    window = WindowSpec(None, tuple(keys), None, None, place, (latest,))
    number = FunctionCall("ROW_NUMBER", (), place, over=window)
    rows = Select((StarItem((), place),), item, True, None, (), None, (), place)
    last = Binary("=", number, NumberLiteral("1", place), place)
    rows = replace(rows, qualify=last, emit=Emit(None, place))
    alias = Name(right[1].bindings[0].alias, place)
    condition = connected(equal) or join.condition
    return replace(join, right=DerivedTable(rows, alias, None, place), condition=condition, as_of=False)


def _compares_times(condition: Expression, left: Side, right: Side) -> bool:
    """Return whether a condition says that the right row is not later than the left one.

    Raises:
      StatementError: it compares both ROWTIMEs in another way.
    """
    if not isinstance(condition, Binary) or condition.operator not in ("<", "<=", ">", ">=", "="):
        return False
    for one, other, operator in (
        (condition.left, condition.right, condition.operator),
        (condition.right, condition.left, _TURNED.get(condition.operator, "")),
    ):
        if _is_time(one, left) and _is_time(other, right):
            if operator != ">=":
                raise _refused(
                    "ASOF JOIN joins the last row at the ROWTIME of the left row or before", condition.place
                )
            return True
    return False


def _is_time(syntax: Expression, side: Side) -> bool:
    """Return whether an expression is the ROWTIME of a side, or the column that is promoted to it."""
    node, scope = side
    if not isinstance(syntax, ColumnRef) or not scope.resolves(syntax):
        return False
    found = scope.resolve(syntax)
    return found == RowtimeRef() or (isinstance(found, FieldRef) and of_rowtime(found, node) == RowtimeRef())


def _own_key(condition: Expression, left: NameScope, right: NameScope) -> Expression | None:
    """Return the side of an equality that is of the right rows."""
    if not isinstance(condition, Binary) or condition.operator != "=":
        return None
    for one, other in ((condition.left, condition.right), (condition.right, condition.left)):
        if _is_of(other, right.resolves) and _is_of(one, left.resolves):
            return other
    return None


def _is_of(syntax: Expression, resolves: Callable[[ColumnRef], bool]) -> bool:
    columns = list(columns_in(syntax))
    return bool(columns) and all(map(resolves, columns))


def _refused(message: str, span: SourceSpan) -> StatementError:
    return StatementError(message, span=span, hint=_HINT)
