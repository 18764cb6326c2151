"""The syntax of queries and expressions, not yet resolved.

Frozen. Every node has its place, which comparisons ignore. Names are already
folded: unquoted ones to upper case, quoted ones unchanged.

The module has more than 600 lines because it is one small class for each form, and
the forms contain each other.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeGuard

from rowtide.errors import SourceSpan
from rowtide.expr.aggregates import OF_GROUPS
from rowtide.expr.tree import Expr, PythonAggregate, PythonFunction, PythonTable
from rowtide.plan.frames import EdgeUnit, Frame
from rowtide.plan.json_columns import JsonColumnKind
from rowtide.rows.types import Kind, RowType, Type
from rowtide.rowtime.period import CalendarUnit

NOWHERE = SourceSpan(1, 1, 1)
LENGTH_UNITS = {"DAY": 86_400_000, "HOUR": 3_600_000, "MINUTE": 60_000, "SECOND": 1000}
"""Units that a difference of times may be counted in, in ms."""


@dataclass(frozen=True, slots=True)
class Name:
    """One part of a name, folded."""

    text: str
    place: SourceSpan = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class QualifiedName:
    """The name of a relation, schema, server or pump: schema and name, or only the name."""

    parts: tuple[Name, ...]
    place: SourceSpan = field(default=NOWHERE, compare=False)


# ---------------------------------------------------------------- expressions


@dataclass(frozen=True, slots=True)
class ColumnRef:
    """``column``, ``alias.column`` or ``schema.relation.column``; the column can be ROWTIME."""

    parts: tuple[Name, ...]
    place: SourceSpan = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class NumberLiteral:
    """The text of a number, without a sign."""

    text: str
    place: SourceSpan = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class StringLiteral:
    """A string in single quotes."""

    text: str
    place: SourceSpan = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class BinaryLiteral:
    """``X'0AFF'``."""

    value: bytes
    place: SourceSpan = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class BooleanLiteral:
    """TRUE, FALSE; UNKNOWN is None."""

    value: bool | None
    place: SourceSpan = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class NullLiteral:
    """NULL."""

    place: SourceSpan = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class TypedLiteral:
    """A constant with its value in row form: DATE '..', TIMESTAMP WITH TIME ZONE '..', INTERVAL '..' .."""

    value: int
    type: Type
    place: SourceSpan = field(default=NOWHERE, compare=False)
    unit: int | None = field(default=None, compare=False)
    """The unit of an INTERVAL that has only one, in ms or months: CAST to an integer counts it."""


@dataclass(frozen=True, slots=True)
class Unary:
    """``-x``, ``+x``, ``~x`` or ``NOT x``; or ``(x - y) MINUTE``, the operator being the unit."""

    operator: str
    operand: Expression
    place: SourceSpan = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Binary:
    """``left operator right``; the operator as ``expr.functions`` names it."""

    operator: str
    left: Expression
    right: Expression
    place: SourceSpan = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class IsTest:
    """``x IS [NOT] NULL | TRUE | FALSE | UNKNOWN``."""

    operand: Expression
    test: str
    negated: bool
    place: SourceSpan = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class IsDistinct:
    """``x IS [NOT] DISTINCT FROM y``."""

    left: Expression
    right: Expression
    negated: bool
    place: SourceSpan = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Between:
    """``x [NOT] BETWEEN low AND high``."""

    operand: Expression
    low: Expression
    high: Expression
    negated: bool
    place: SourceSpan = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class InList:
    """``x [NOT] IN (a, b, ...)``."""

    operand: Expression
    items: tuple[Expression, ...]
    negated: bool
    place: SourceSpan = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class InQuery:
    """``x [NOT] IN (query)``."""

    operand: Expression
    query: QuerySyntax
    negated: bool
    place: SourceSpan = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Quantified:
    """``x operator ANY (query)``, or with ``every`` ``x operator ALL (query)``."""

    operator: str
    operand: Expression
    query: QuerySyntax
    every: bool
    place: SourceSpan = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Exists:
    """``EXISTS (query)``; ``of_row`` is ``(x, y) IN (query)``, which can be UNKNOWN if EXISTS is FALSE."""

    query: QuerySyntax
    place: SourceSpan = field(default=NOWHERE, compare=False)
    of_row: bool = False


@dataclass(frozen=True, slots=True)
class ScalarQuery:
    """``(query)`` as a value."""

    query: QuerySyntax
    place: SourceSpan = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Like:
    """``x [NOT] LIKE | ILIKE | SIMILAR TO pattern [ESCAPE character]``."""

    operand: Expression
    pattern: Expression
    escape: Expression | None
    negated: bool
    place: SourceSpan = field(default=NOWHERE, compare=False)
    operator: str = "LIKE"


@dataclass(frozen=True, slots=True)
class Case:
    """``CASE [operand] WHEN a THEN b ... [ELSE c] END``."""

    operand: Expression | None
    branches: tuple[tuple[Expression, Expression], ...]
    otherwise: Expression | None
    place: SourceSpan = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class IntervalFields:
    """The units of an INTERVAL type, in ms or months.

    ``first`` is its first unit, ``unit`` that unit if it is the only one, ``least`` the least part that is
    kept. ``digits`` is the maximum number of digits of the first unit's count; None: no maximum.
    """

    first: int
    unit: int | None
    least: int
    digits: int | None = None


NUMERIC = Type(Kind.DECIMAL)
"""NUMERIC or DECIMAL without digits, only in a CAST: it has those of the value."""


def digits_hint(name: str = "NUMERIC") -> str:
    """Return how to write the digits of a NUMERIC."""
    return f"Write {name}(12, 2): 12 digits, 2 of them after the point."


@dataclass(frozen=True, slots=True)
class Cast:
    """``CAST(x AS type)``; ``tried`` is TRY_CAST, which is NULL if CAST rejects the row.

    ``interval`` has the units of an INTERVAL type. ``type`` can be ``NUMERIC``.
    """

    operand: Expression
    type: Type
    place: SourceSpan = field(default=NOWHERE, compare=False)
    tried: bool = False
    interval: IntervalFields | None = None


@dataclass(frozen=True, slots=True)
class Rounded:
    """``FLOOR(x TO unit)`` or ``CEIL(x TO unit)``."""

    function: str
    operand: Expression
    unit: CalendarUnit
    place: SourceSpan = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Stepped:
    """``STEP(x BY interval)``."""

    operand: Expression
    interval: Expression
    place: SourceSpan = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Extract:
    """``EXTRACT(unit FROM x)``."""

    unit: str
    operand: Expression
    place: SourceSpan = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class DeclaredFunction:
    """A function of CREATE FUNCTION: one of the kinds in Python, or a ``body`` over the parameters."""

    name: str
    parameters: tuple[tuple[str, Type], ...]
    returns: Type | RowType
    body: Expr | PythonFunction | PythonAggregate | PythonTable

    @property
    def aggregate(self) -> PythonAggregate | None:
        """The aggregate in Python, if it is one."""
        return self.body if isinstance(self.body, PythonAggregate) else None

    def __str__(self) -> str:
        takes = ", ".join(f"{name} {of}" for name, of in self.parameters)
        return f"{self.name}({takes})"


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A scalar or aggregate function; ``star`` is COUNT(*). ``over`` makes it a window function.

    ``descending``: the values of a percentile are sorted in descending order. ``order``: that of the values of a list.
    ``declared``: it calls a function of CREATE FUNCTION.
    """

    name: str
    args: tuple[Expression, ...]
    place: SourceSpan = field(default=NOWHERE, compare=False)
    star: bool = False
    distinct: bool = False
    condition: Expression | None = None
    over: Name | WindowSpec | None = None
    ignore_nulls: bool = False
    descending: bool = False
    declared: DeclaredFunction | None = None
    order: tuple[OrderItem, ...] = ()


def names_aggregate(call: FunctionCall) -> bool:
    """Return whether the function of a call is an aggregate of groups, with OVER or without it."""
    return call.name in OF_GROUPS or (call.declared is not None and call.declared.aggregate is not None)


def is_aggregate(syntax: object) -> TypeGuard[FunctionCall]:
    """Return whether syntax is the call of an aggregate of a group."""
    return isinstance(syntax, FunctionCall) and syntax.over is None and names_aggregate(syntax)


@dataclass(frozen=True, slots=True)
class WindowSpec:
    """``([window] [PARTITION BY ..] [ORDER BY ..] [frame])``; ``base`` is the window that it extends.

    If ORDER BY has one ascending term, it is ``order``; otherwise the terms are in ``sort``. ``unit`` is the word
    before the frame, RANGE or ROWS.
    """

    base: Name | None
    partition: tuple[Expression, ...]
    order: Expression | None
    frame: Frame | None
    place: SourceSpan = field(default=NOWHERE, compare=False)
    sort: tuple[OrderItem, ...] = ()
    unit: EdgeUnit | None = None

    @property
    def terms(self) -> tuple[OrderItem, ...]:
        """The terms of ORDER BY."""
        if self.order is None:
            return self.sort
        return (OrderItem(self.order, descending=False, within_ms=None, place=self.order.place),)


@dataclass(frozen=True, slots=True)
class NamedWindow:
    """``name AS (..)`` of a WINDOW clause."""

    name: Name
    window: WindowSpec


Expression = (
    ColumnRef
    | NumberLiteral
    | StringLiteral
    | BinaryLiteral
    | BooleanLiteral
    | NullLiteral
    | TypedLiteral
    | Unary
    | Binary
    | IsTest
    | IsDistinct
    | Between
    | InList
    | InQuery
    | Quantified
    | Exists
    | ScalarQuery
    | Like
    | Case
    | Cast
    | Rounded
    | Stepped
    | Extract
    | FunctionCall
)


SubQuery = InQuery | Quantified | Exists | ScalarQuery


# -------------------------------------------------------------------- queries


@dataclass(frozen=True, slots=True)
class SelectItem:
    """``expression [AS alias]``."""

    expression: Expression
    alias: Name | None
    place: SourceSpan = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class StarItem:
    """``*`` or ``alias.*``; ``without`` are the columns of EXCEPT."""

    qualifier: tuple[Name, ...]
    place: SourceSpan = field(default=NOWHERE, compare=False)
    without: tuple[Name, ...] = ()


@dataclass(frozen=True, slots=True)
class RangeWindow:
    """OVER ([ORDER BY order] RANGE ..) of a joined relation, from ``start_ms`` to ``end_ms`` after the other.

    With an order (ROWTIME rounded), this is the time of the rows on its side. ``named`` is a window of the
    WINDOW clause, which the grammar replaces by its definition.
    """

    start_ms: int
    end_ms: int
    place: SourceSpan = field(default=NOWHERE, compare=False)
    order: Expression | None = None
    named: Name | None = None


@dataclass(frozen=True, slots=True)
class TableSample:
    """``TABLESAMPLE method (argument, ...) [REPEATABLE (seed)]`` after a relation in FROM."""

    method: Name
    arguments: tuple[Expression, ...]
    seed: Expression | None
    place: SourceSpan = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class RelationRef:
    """A named relation in FROM; ``as_of`` is the expression of FOR SYSTEM_TIME AS OF.

    ``columns`` are other names for its columns: ``FROM s AS a (x, y)``.
    """

    name: QualifiedName
    alias: Name | None
    as_of: Expression | None
    window: RangeWindow | None = None
    place: SourceSpan = field(default=NOWHERE, compare=False)
    columns: tuple[Name, ...] = ()
    sample: TableSample | None = None


@dataclass(frozen=True, slots=True)
class WindowTableFunction:
    """A window table function in FROM: its input, and the window as GROUP BY has it."""

    source: FromItem
    window: FunctionCall


@dataclass(frozen=True, slots=True)
class DerivedTable:
    """A query in FROM. ``windowed``: it is written as a window table function."""

    query: QuerySyntax
    alias: Name | None
    window: RangeWindow | None = None
    place: SourceSpan = field(default=NOWHERE, compare=False)
    columns: tuple[Name, ...] = ()
    sample: TableSample | None = None
    windowed: WindowTableFunction | None = None


@dataclass(frozen=True, slots=True)
class Join:
    """``left kind JOIN right ON condition``; kind is INNER, LEFT, RIGHT or FULL.

    ``using`` has the columns of USING; it is empty for NATURAL and None for ON. ``within`` is the window of right
    rows around each left row, as ksqlDB writes it. ``as_of`` is ASOF JOIN.
    """

    left: FromItem
    right: FromItem
    kind: str
    condition: Expression
    place: SourceSpan = field(default=NOWHERE, compare=False)
    using: tuple[Name, ...] | None = None
    within: RangeWindow | None = None
    as_of: bool = False


@dataclass(frozen=True, slots=True)
class JsonColumnSyntax:
    """A column of JSON_TABLE: ``name type [FORMAT JSON | EXISTS] [PATH path] [.. ON EMPTY] [.. ON ERROR]``.

    Without ``path`` it is the member that is named like the column. ``on_empty`` and ``on_error`` are values, None
    for ERROR.
    """

    name: Name
    type: Type
    kind: JsonColumnKind
    path: StringLiteral | None = None
    on_empty: Expression | None = None
    on_error: Expression | None = None
    place: SourceSpan = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class JsonRows:
    """``left kind JOIN JSON_TABLE (document, path COLUMNS (..)) ON condition``; kind is INNER or LEFT.

    ``document`` and the condition can name columns of ``left``. ``function`` is how it is written: JSON_TABLE,
    UNNEST or another name. ``names`` are other names for the columns; ``*`` leaves out the last ``hidden`` ones.
    """

    left: FromItem
    document: Expression
    path: StringLiteral
    columns: tuple[JsonColumnSyntax, ...]
    function: str
    kind: str
    condition: Expression
    empty_on_error: bool
    alias: Name | None = None
    names: tuple[Name, ...] = ()
    hidden: int = 0
    place: SourceSpan = field(default=NOWHERE, compare=False)


FromItem = RelationRef | DerivedTable | Join | JsonRows


@dataclass(frozen=True, slots=True)
class OrderItem:
    """One term of ORDER BY; ``within_ms`` makes it a t-sort. ``nulls_first`` is None if it is not specified."""

    expression: Expression
    descending: bool
    within_ms: int | None
    place: SourceSpan = field(default=NOWHERE, compare=False)
    nulls_first: bool | None = None


@dataclass(frozen=True, slots=True)
class LimitSyntax:
    """LIMIT and OFFSET, or FETCH FIRST: the number of rows of each period, and of skipped rows before them."""

    count: int | None
    offset: int
    place: SourceSpan = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Emit:
    """``EMIT CHANGES [EVERY interval]``; ``every_ms`` None: after each row."""

    every_ms: int | None
    place: SourceSpan = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Select:
    """One SELECT. ``place`` is the place of the word SELECT, ``all_rows`` that of () in GROUP BY ()."""

    items: tuple[SelectItem | StarItem, ...]
    source: FromItem
    stream: bool
    where: Expression | None
    group_by: tuple[Expression, ...]
    having: Expression | None
    order_by: tuple[OrderItem, ...]
    place: SourceSpan = field(default=NOWHERE, compare=False)
    windows: tuple[NamedWindow, ...] = ()
    distinct: bool = False
    limit: LimitSyntax | None = None
    emit: Emit | None = None
    qualify: Expression | None = None
    all_rows: SourceSpan | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class SetOperation:
    """``left UNION | EXCEPT | INTERSECT right``. ``place`` is the place of this word.

    ``every``: with ALL, which keeps equal rows; UNION ALL is ``UnionAll``.
    """

    operation: str
    left: QuerySyntax
    right: QuerySyntax
    every: bool
    place: SourceSpan = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class UnionAll:
    """``left UNION ALL right``. ``place`` is the place of the word UNION."""

    left: QuerySyntax
    right: QuerySyntax
    order_by: tuple[OrderItem, ...]
    place: SourceSpan = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class ValuesSyntax:
    """``VALUES (..), (..)``: a table whose rows are in the text."""

    rows: tuple[tuple[Expression, ...], ...]
    place: SourceSpan = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class RowsOfFunction:
    """``TABLE(function(CURSOR(query) [PARTITION BY column, ..], argument, ..))``: the rows of a table function.

    ``call`` has the arguments after the cursor.
    """

    call: FunctionCall
    query: QuerySyntax
    partition: tuple[Name, ...]
    place: SourceSpan = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class CommonTable:
    """``name [(columns)] AS (query)`` of a WITH clause."""

    name: Name
    columns: tuple[Name, ...]
    query: QuerySyntax


@dataclass(frozen=True, slots=True)
class With:
    """``WITH name AS (..), .. query``: names that only ``body`` and the later tables of the WITH can read."""

    tables: tuple[CommonTable, ...]
    body: QuerySyntax
    place: SourceSpan = field(default=NOWHERE, compare=False)


QuerySyntax = Select | ValuesSyntax | UnionAll | SetOperation | RowsOfFunction | With
