"""Every scalar function and operator, declared once: how it types, and how it computes.

``FUNCTIONS`` maps a name, as the planner uses it, to its declaration. What is
special about a name stands in its module: ``arithmetic``, ``comparison``,
``logic``, ``text``, ``times``, ``casts``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rowtide.errors import StatementError
from rowtide.expr.functions import arithmetic, casts, comparison, logic, text, times
from rowtide.expr.functions.declaration import Function
from rowtide.expr.functions.typing import common_type
from rowtide.rows.types import Type

FUNCTIONS: Mapping[str, Function] = {
    function.name: function
    for module in (arithmetic, casts, comparison, logic, text, times)
    for function in module.FUNCTIONS
}


def resolve(name: str, types: Sequence[Type]) -> Type:
    """Give the type of a call.

    Raises:
      StatementError: there is no such function, or not for these types; has no place.
    """
    function = FUNCTIONS.get(name)
    if function is None:
        raise StatementError(f'function "{name}" does not exist')
    return function.resolve(tuple(types))


__all__ = ["FUNCTIONS", "Function", "common_type", "resolve"]
