"""Find the class of an aggregate or table function in Python, and check that it has the methods of one."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rowtide.expr.python.loading import LoadingError, check_arguments, load_function
from rowtide.rows.typed_values import STORABLE, StateError, dump_state


@dataclass(frozen=True, slots=True)
class ClassRule:
    """The methods that a class must have, and what messages say of them."""

    methods: tuple[str, ...]
    how: str


AGGREGATE = ClassRule(
    ("create", "add", "result"),
    "An aggregate is a class with the methods create(), add(state, ..) and result(state).",
)
TABLE_FUNCTION = ClassRule(
    ("create", "add"),
    "A table function is a class with the methods create() and add(state, rowtime, ..), which returns the new "
    "state and a list of rows.",
)


@dataclass(frozen=True, slots=True)
class LoadedClass:
    """An object of the class of an aggregate or table function, and its first state as it is stored."""

    object: Any
    first: bytes


def load_class(path: str, folder: str, rule: ClassRule) -> LoadedClass:
    """Return what ``path``, 'module:Class', names.

    Raises:
      LoadingError: it does not exist or is not a class as ``rule`` says, its module cannot be imported, or its
        first state cannot be stored.
    """
    found: Any = load_function(path, folder)
    if not inspect.isclass(found):
        raise LoadingError(f'"{path}" is not a class', hint=rule.how)
    missing = [name for name in rule.methods if not callable(getattr(found, name, None))]
    if missing:
        raise LoadingError(f'"{path}" has no method "{missing[0]}"', hint=rule.how)
    try:
        made: Any = found()
        first = made.create()
    except Exception as error:
        # A user's class can raise any error.
        message = f'"{path}" cannot be made: {type(error).__name__}: {error}'
        raise LoadingError(message, hint=rule.how) from error
    if first is None:
        raise LoadingError(f'create() of "{path}" returns None', hint="It returns the state without any row.")
    try:
        return LoadedClass(made, dump_state(first))
    except StateError as error:
        raise LoadingError(
            f'create() of "{path}" returns a state that cannot be kept: {error}',
            hint=f"A state has {STORABLE}.",
        ) from error


def check_aggregate(path: str, folder: str, names: Sequence[str]) -> bool:
    """Check the methods of an aggregate with parameters of these names; return whether it has ``retract``.

    Raises:
      LoadingError: as for ``load_class``; or a method takes other arguments.
    """
    made = load_class(path, folder, AGGREGATE).object
    takes_row = ["add", *(["retract"] if hasattr(made, "retract") else [])]
    for method in takes_row:
        check_arguments(f"{path}.{method}", getattr(made, method), ["state", *names])
    check_arguments(f"{path}.result", made.result, ["state"])
    return len(takes_row) > 1


def check_table_function(path: str, folder: str, names: Sequence[str]) -> None:
    """Check the method of a table function with parameters of these names.

    Raises:
      LoadingError: as for ``load_class``; or the method takes other arguments.
    """
    made = load_class(path, folder, TABLE_FUNCTION).object
    check_arguments(f"{path}.add", made.add, ["state", "rowtime", *names])
