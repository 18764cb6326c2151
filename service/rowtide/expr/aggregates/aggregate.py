"""The declaration of an aggregate.

It is declared once: where it may be used, the type of its result, what DISTINCT, NULLs and the order of
values mean to it, and which calls have a compiled form. ``of_values`` is its meaning: the result over the
values in their order. An aggregate that declares it runs everywhere: in groups, over windows, in changelogs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import Any, Protocol

import numpy as np

from rowtide.expr.ascending import counted
from rowtide.expr.tree import Expr, PythonAggregate
from rowtide.rows.types import Type


class Calling(Protocol):
    """A call of an aggregate, in groups or over a window."""

    @property
    def function(self) -> str:
        """The name of the aggregate, as it is declared."""

    @property
    def argument(self) -> Expr | None:
        """The argument; None: all rows count."""

    @property
    def type(self) -> Type:
        """The type of the result."""

    @property
    def distinct(self) -> bool:
        """Whether each value counts once."""

    @property
    def ignore_nulls(self) -> bool:
        """Whether NULLs do not count for an aggregate that picks a place."""

    @property
    def fraction(self) -> Fraction | None:
        """The fraction of a percentile."""

    @property
    def of(self) -> PythonAggregate | None:
        """The aggregate in Python; None: a built-in one."""

    @property
    def number(self) -> int | None:
        """The number that it is written with: of the greatest values that TOPK returns."""


class CallingOver(Calling, Protocol):
    """A call over a window."""

    @property
    def number(self) -> int:
        """The n of NTH_VALUE, and of LAG that leaves out NULLs, or the k of TOPK; else 1."""


class Family(Enum):
    """Which values a function reads."""

    VALUES = "VALUES"
    """All of them. NULLs are left out."""
    PLACE = "PLACE"
    """The value at one place. NULLs count, unless IGNORE NULLS is written."""
    RANK = "RANK"
    """Only the order of rows: it has no argument."""
    SHARE = "SHARE"
    """Only the order of all rows of a period."""


@dataclass(frozen=True, slots=True)
class FrameShape:
    """The shape of a frame: whether it has no start, and whether it then ends at the current row."""

    endless: bool
    running: bool


def never(call: Calling) -> bool:
    """Return False: no call has this compiled form."""
    del call
    return False


def always(call: Calling) -> bool:
    """Return True: every call has this compiled form."""
    del call
    return True


def never_over(call: CallingOver, frame: FrameShape) -> bool:
    """Return False: no call over a window has a compiled form."""
    del call, frame
    return False


@dataclass(frozen=True, slots=True)
class Compiled:
    """Which calls run compiled, at each place; both forms return the same rows.

    ``group``: in groups that only grow and have one result. ``running``: there, with a result after every
    row. ``retracting``: in groups of rows that come and go. ``window``: over a frame.
    """

    group: Callable[[Calling], bool] = never
    running: Callable[[Calling], bool] = never
    retracting: Callable[[Calling], bool] = never
    window: Callable[[CallingOver, FrameShape], bool] = never_over


ResultType = Callable[[Type | None], Type | None]
"""Returns the type of the result for the type of the argument; None: the aggregate does not take it."""
OfValues = Callable[[Calling, Sequence[Any]], object]
"""Returns the result over values in their order, of which there is at least one."""


class Sketch(Protocol):
    """Values that came and went, in little space. None of them is NULL."""

    def add(self, value: Any) -> None:
        """Add a value."""

    def remove(self, value: Any) -> None:
        """Take back a value that was added."""

    def result(self) -> object:
        """Return the result; None over no values, unless the aggregate is never NULL."""

    def save(self) -> list[Any]:
        """Return the state, equal for equal states, as values of JSON."""

    def load(self, saved: list[Any]) -> None:
        """Restore the result of ``save``."""


MakeSketch = Callable[[Calling, bool], Sketch]
"""Makes the sketch of a call; True: values only come, and only the last one can be taken back."""


def of_sketch(make: MakeSketch) -> OfValues:
    """Return the meaning of an aggregate by its sketch: the result over values is that of a sketch of them."""

    def of_values(call: Calling, values: Sequence[Any]) -> object:
        sketch = make(call, True)
        for value in values:
            sketch.add(value)
        return sketch.result()

    return of_values


@dataclass(frozen=True, slots=True)
class Aggregate:
    """An aggregate or window function.

    * ``summary`` and ``written`` are for the documentation.
    * ``spellings``: the names that SQL has for it; None: its own.
    * ``fraction``: that of the percentile that it always is. ``takes_fraction``: it is written with one.
    * ``takes_number``: it is written with a number up to this one, and that many of the greatest values
      decide its result.
    * ``few_of_rows``: it keeps a few values of rows that only come; ``few_of_changes``: also of rows that go.
    * ``can_fail``: its type may not hold a result; but it does if it holds all values, as the result is
      ``between`` them. ``undoes``: its functions take back a change exactly. ``finite``: it takes neither NaN
      nor infinity.
    * ``of_values`` gets the values in ascending order if it is ``ascending``, without NaN if there are others.
      Where it ``folds``, the result over some values can replace them.
    * ``sketch``: makes its state, if it keeps less than the values.
    * ``pair_of``: the function that makes one value of its two arguments (``functions.pairs``).
    """

    name: str
    summary: str
    result: ResultType
    family: Family = Family.VALUES
    written: tuple[str, ...] = ()
    spellings: tuple[str, ...] | None = None
    in_groups: bool = True
    over_windows: bool = True
    fraction: Fraction | None = None
    takes_fraction: bool = False
    takes_number: int | None = None
    distinct_matters: bool = True
    order_matters: bool = False
    never_null: bool = False
    few_of_rows: bool = False
    few_of_changes: bool = False
    can_fail: bool = False
    between: bool = False
    undoes: bool = False
    finite: bool = False
    compiled: Compiled = Compiled()
    of_values: OfValues | None = None
    ascending: bool = False
    folds: bool = False
    pair_of: str | None = None
    sketch: MakeSketch | None = None

    def __post_init__(self) -> None:
        if self.ascending and self.order_matters:
            raise ValueError(f"{self.name}: values in ascending order do not come in an order that matters")
        if self.can_fail and self.order_matters and not self.undoes:
            # A value that does not fit is removed by value, so equal values must be interchangeable.
            raise ValueError(f"{self.name}: an aggregate to which the order matters cannot fail")

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names that SQL has for it."""
        return (self.name,) if self.spellings is None else self.spellings

    def counts_nulls(self, call: Calling) -> bool:
        """Return whether a call takes rows whose argument is NULL."""
        return self.family is Family.PLACE and not call.ignore_nulls

    def value_of(self, call: Calling, values: Sequence[Any]) -> object:
        """Return the result over values, in ascending order if ``ascending``; over none None, if it may be NULL.

        Raises:
          TypeError: it does not declare its meaning by values.
        """
        if self.of_values is None:
            raise TypeError(f"{self.name} has no form by values")
        if not values and not self.never_null:
            return None
        return self.of_values(call, counted(values) if self.ascending else values)


# ------------------------------------------------------------ types and forms that several declare


def of_argument(argument: Type | None) -> Type | None:
    """Return the type of the argument: the result is one of the values."""
    return argument


def is_plain(call: Calling) -> bool:
    """Return whether there is an argument whose values kernels can add and order.

    Text and wide decimals are Python objects: they can be moved and distinguished only.
    """
    return call.argument is not None and call.argument.type.dtype != np.dtype(object)


def is_plain_over(call: CallingOver, frame: FrameShape) -> bool:
    """Return the same of a call over any frame."""
    del frame
    return is_plain(call)


def is_plain_or_text(call: Calling) -> bool:
    """Return whether there is an argument that is plain, or of text, binary values or UUIDs, which columns can sort."""
    kind = None if call.argument is None else call.argument.type
    return is_plain(call) or (kind is not None and (kind.is_string or kind.is_binary))


def is_fixed(call: Calling) -> bool:
    """Return whether there is an argument of fixed width that is not a Python object."""
    return is_plain(call) and call.argument is not None and not call.argument.type.is_variable_width


def is_fixed_with_repeats(call: Calling) -> bool:
    """Return the same of a call without DISTINCT."""
    return not call.distinct and is_fixed(call)
