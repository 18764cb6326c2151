"""TABLESAMPLE: which rows of one relation in FROM are read."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

from rowtide.errors import StatementError
from rowtide.expr.tree import FieldRef
from rowtide.plan.nodes import Node
from rowtide.plan.nodes.sample import HashSample
from rowtide.sql.expressions.scope import NameScope
from rowtide.sql.grammar.suggestions import did_you_mean
from rowtide.sql.grammar.syntax import ColumnRef, Expression, NumberLiteral, TableSample, Unary

Method = Callable[[str, Node, NameScope, TableSample], Node]
"""Plans a sample for a relation's text: of the rows of a node, whose columns the scope names."""

_RANDOM = frozenset({"BERNOULLI", "SYSTEM", "RESERVOIR"})
_WRITE = "Write TABLESAMPLE HASH (10, column): it keeps or drops all rows with the same value of the column."
_SEEDS = range(-(1 << 63), 1 << 63)


def sampled(relation: str, node: Node, scope: NameScope, sample: TableSample) -> Node:
    """Return the node of those rows of ``node`` that are in a sample.

    Raises:
      StatementError: the method does not exist, or its arguments do not fit.
    """
    name = sample.method.text
    if name in METHODS:
        return METHODS[name](relation, node, scope, sample)
    if name in _RANDOM:
        message = (
            f"TABLESAMPLE {name} is not supported: after a restart, or on Spark, it would select other rows"
        )
        raise StatementError(message, span=sample.method.place, hint=_WRITE)
    hint = did_you_mean(name, METHODS) or _WRITE
    raise StatementError(f'sampling method "{name}" does not exist', span=sample.method.place, hint=hint)


def _by_hash(relation: str, node: Node, scope: NameScope, sample: TableSample) -> Node:
    """Plan ``HASH (percentage, column, ...)``."""
    percentage, *columns = sample.arguments
    percent = _number(percentage)
    if percent is None or not 0 <= percent <= 100:
        raise StatementError(
            "the percentage of TABLESAMPLE is a number from 0 to 100",
            span=percentage.place,
            hint="Write it as a constant, such as 10 or 0.5.",
        )
    if not columns:
        raise StatementError("TABLESAMPLE HASH needs a column", span=sample.place, hint=_WRITE)
    keys = tuple(_field(each, scope) for each in columns)
    return HashSample(relation, node, keys, percent, _seed(sample.seed))


METHODS: dict[str, Method] = {"HASH": _by_hash}
"""The methods of TABLESAMPLE, by their names in SQL."""


def _field(syntax: Expression, scope: NameScope) -> int:
    found = scope.resolve(syntax) if isinstance(syntax, ColumnRef) else None
    if not isinstance(found, FieldRef):
        raise StatementError(
            "TABLESAMPLE HASH takes columns after the percentage",
            span=syntax.place,
            hint="Name the expression in a query in FROM: FROM (SELECT STREAM *, expression AS k FROM s) "
            "TABLESAMPLE HASH (10, k).",
        )
    return found.index


def _seed(syntax: Expression | None) -> int:
    if syntax is None:
        return 0
    seed = _number(syntax)
    if seed is None or seed != int(seed) or int(seed) not in _SEEDS:
        raise StatementError(
            "the seed of REPEATABLE is a whole number that a BIGINT holds",
            span=syntax.place,
            hint="Write a constant, as in REPEATABLE (42); without REPEATABLE the seed is 0.",
        )
    return int(seed)


def _number(syntax: Expression) -> Decimal | None:
    """Return the number in the text, or None if it is not a number."""
    match syntax:
        case NumberLiteral(text=text):
            return Decimal(text)
        case Unary(operator="-", operand=NumberLiteral(text=text)):
            return -Decimal(text)
        case _:
            return None
