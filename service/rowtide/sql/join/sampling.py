"""TABLESAMPLE: which rows of one relation in FROM are read."""

from __future__ import annotations

from collections.abc import Callable

from rowtide.errors import StatementError
from rowtide.plan.nodes import Node
from rowtide.sql.grammar.syntax import TableSample
from rowtide.sql.select.scope import NameScope

Method = Callable[[str, Node, NameScope, TableSample], Node]
"""Plans a sample for a relation's text: of the rows of a node, whose columns the scope names."""

METHODS: dict[str, Method] = {}
"""The methods of TABLESAMPLE, by their names in SQL."""


def sampled(relation: str, node: Node, scope: NameScope, sample: TableSample) -> Node:
    """Return the node that passes on the rows of ``node`` that are in a sample.

    Raises:
      StatementError: the method does not exist, or its arguments do not fit.
    """
    method = METHODS.get(sample.method.text)
    if method is None:
        raise StatementError(
            f"TABLESAMPLE {sample.method.text} is not supported: after a restart, or on Spark, it would select "
            "other rows",
            place=sample.method.place,
            hint="A condition selects the same rows each time, for example WHERE MOD(id, 10) = 0.",
        )
    return method(relation, node, scope, sample)
