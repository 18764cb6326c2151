"""Index types: how the rows of a table are found, grouped and ordered.

Index types are immutable values; several table types can use the same one.
Keyword arguments other than the named ones are indexes nested inside each group.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cmp_to_key
from typing import TYPE_CHECKING, Any, ClassVar, Self

from rowtide.engine.errors import ModelError
from rowtide.engine.row_type import Row, RowType
from rowtide.engine.table.order import ascending_key, mixed_key, order_of
from rowtide.engine.values import is_array, is_text, type_name

if TYPE_CHECKING:
    from rowtide.engine.table.aggregate.aggregator import Aggregator

KeyOf = Callable[[Row], Any]


@dataclass(frozen=True, slots=True)
class Descending:
    """A field of an ``Ordered`` index in descending order; NULL sorts last."""

    field: str


class IndexType:
    """Base of all index types: has nested indexes, and at most one aggregator."""

    kind: ClassVar[str]
    is_sorted: ClassVar[bool] = False

    def __init__(self, nested: Mapping[str, IndexType]) -> None:
        self.nested: dict[str, IndexType] = {}
        self.aggregator: Aggregator | None = None
        for name, index in nested.items():
            self._nest(name, index)

    def _nest(self, name: str, index: IndexType) -> None:
        if not isinstance(index, IndexType):
            raise ModelError(f'nested index "{name}" is not an index type: {index!r}')
        self.nested[name] = index

    def nest(self, name: str, index: IndexType) -> Self:
        """Return a copy with one more nested index; for names that cannot be keyword arguments.

        Raises:
          ModelError: if this index cannot have nested ones.
        """
        made = copy.copy(self)
        made.nested = dict(self.nested)
        made._nest(name, index)
        return made

    def aggregate(self, aggregator: Aggregator) -> Self:
        """Return a copy with an aggregator, which replaces one that was set before.

        The aggregator runs for each group of the parent index, or for the whole table at the top, and reads
        the rows of the group in the order of this index.
        """
        made = copy.copy(self)
        made.aggregator = aggregator
        return made

    @property
    def key_fields(self) -> tuple[str, ...]:
        """The key fields of a hashed or an ordered index; empty for other kinds."""
        return ()

    def errors(self, row_type: RowType) -> list[str]:
        """Return everything that is wrong with this index for rows of ``row_type``, one message each."""
        return [f"no field '{name}' in the row type" for name in self.key_fields if name not in row_type]

    def key_of(self, row_type: RowType) -> KeyOf:
        """Return the function from a row to its key in this index."""
        raise NotImplementedError

    @property
    def parameters(self) -> tuple[object, ...]:
        """The values that are equal for equal indexes of one kind."""
        return self.key_fields

    def equals(self, other: IndexType) -> bool:
        """Return whether the other has the same kind, parameters, nested indexes and aggregator."""
        return (
            self._like(other)
            and self.parameters == other.parameters
            and _same_aggregator(self.aggregator, other.aggregator)
            and list(self.nested) == list(other.nested)
            and all(mine.equals(other.nested[name]) for name, mine in self.nested.items())
        )

    def matches(self, other: IndexType) -> bool:
        """Return whether the other has the same kinds and keys; names and FIFO limits may differ."""
        mine, theirs = list(self.nested.values()), list(other.nested.values())
        return (
            self._like(other)
            and self.parameters == other.parameters
            and len(mine) == len(theirs)
            and all(index.matches(against) for index, against in zip(mine, theirs, strict=True))
        )

    def _like(self, other: IndexType) -> bool:
        return type(self) is type(other)

    def describe(self) -> str:
        """Return the kind and the parameters on one line."""
        return f"{self.kind}({', '.join(self.key_fields)})"

    def render(self, name: str, indent: str = "") -> str:
        """Return the index and those nested in it as text, on several lines."""
        head = f"{indent}index {self.describe()} {name}"
        if not self.nested:
            return f"{head},"
        inner = [index.render(under, indent + "  ") for under, index in self.nested.items()]
        return "\n".join([f"{head} {{", *inner, f"{indent}}},"])


def _same_aggregator(mine: Aggregator | None, theirs: Aggregator | None) -> bool:
    return mine is theirs if mine is None or theirs is None else mine.equals(theirs)


class Hashed(IndexType):
    """Finds rows, or groups of rows, by the values of key fields; unordered.

    A leaf holds one row for each key: a new row displaces the old one with its key.
    """

    kind = "HashedIndex"

    def __init__(self, *fields: str, **nested: IndexType) -> None:
        super().__init__(nested)
        self._fields = fields

    @property
    def key_fields(self) -> tuple[str, ...]:
        """The fields of the key."""
        return self._fields

    def errors(self, row_type: RowType) -> list[str]:
        """Return what is wrong: no key, or fields that do not exist."""
        return super().errors(row_type) if self._fields else ["a hashed index needs key fields"]

    def key_of(self, row_type: RowType) -> KeyOf:
        """Return the function from a row to its key: the value of one field, or a tuple of several."""
        return row_type.getter(*self._fields)


class Fifo(IndexType):
    """Keeps rows in the order of insertion, equal rows included; always a leaf.

    A group has at most ``limit`` rows, or any number if it is 0: an insert into a full group displaces the
    oldest row, or all rows if ``jumping``. ``reverse`` reverses the order of iteration, not that of
    displacement.
    """

    kind = "FifoIndex"

    def __init__(self, limit: int = 0, *, jumping: bool = False, reverse: bool = False) -> None:
        super().__init__({})
        if limit < 0:
            raise ModelError(f"a FIFO index cannot have the limit {limit}")
        self.limit = limit
        self.jumping = jumping
        self.reverse = reverse

    def _nest(self, name: str, index: IndexType) -> None:
        raise ModelError(f'index "{name}" cannot be nested in a FIFO index')

    @property
    def parameters(self) -> tuple[object, ...]:
        """Limit, jumping and reverse."""
        return (self.limit, self.jumping, self.reverse)

    def matches(self, other: IndexType) -> bool:
        """Return whether the other is a FIFO index, with any limit."""
        return self._like(other)

    def describe(self) -> str:
        """Return the kind and the parameters on one line."""
        words = [f"limit={self.limit}"] if self.limit else []
        words += ["jumping"] * self.jumping + ["reverse"] * self.reverse
        return f"{self.kind}({' '.join(words)})"


class Ordered(IndexType):
    """Finds rows, or groups of rows, by key fields like ``Hashed``, and keeps them in the order of the key.

    A field is in ascending order, NULL first, unless it is wrapped in ``Descending``.
    """

    kind = "OrderedIndex"
    is_sorted = True

    def __init__(self, *fields: str | Descending, **nested: IndexType) -> None:
        super().__init__(nested)
        self._fields = fields

    @property
    def key_fields(self) -> tuple[str, ...]:
        """The fields of the key, without direction."""
        return tuple(one if isinstance(one, str) else one.field for one in self._fields)

    @property
    def parameters(self) -> tuple[object, ...]:
        """The fields with their directions."""
        return self._fields

    def errors(self, row_type: RowType) -> list[str]:
        """Return what is wrong: no key, or fields that do not exist or have no order."""
        found = super().errors(row_type) if self._fields else ["an ordered index needs key fields"]
        for name in self.key_fields:
            if name in row_type:
                kind = row_type.types[row_type.index(name)]
                if is_array(kind):
                    found.append(
                        f"can not order by the field '{name}', it has an array type '{type_name(kind)}'"
                    )
        return found

    def key_of(self, row_type: RowType) -> KeyOf:
        """Return the function from a row to its sort key."""
        if all(isinstance(one, str) for one in self._fields):
            return ascending_key([row_type.index(name) for name in self.key_fields])
        places = [row_type.index(name) for name in self.key_fields]
        orders = [
            order_of(is_descending=isinstance(one, Descending), is_text=is_text(row_type.types[place]))
            for place, one in zip(places, self._fields, strict=True)
        ]
        return mixed_key(list(zip(places, orders, strict=True)))

    def describe(self) -> str:
        """Return the kind and the parameters on one line."""
        words = (f"{one} ASC" if isinstance(one, str) else f"{one.field} DESC" for one in self._fields)
        return f"{self.kind}({', '.join(words)})"


class Sorted(IndexType):
    """Keeps rows, or groups of rows, in an order that a function of the model defines.

    Pass either ``key``, which returns the sort key of a row, or ``compare``, which returns a negative
    number, 0 or a positive number for two rows. Rows that compare equal have the same key. ``name`` appears
    in messages.
    """

    kind = "SortedIndex"
    is_sorted = True

    def __init__(
        self,
        name: str,
        /,
        *,
        key: KeyOf | None = None,
        compare: Callable[[Row, Row], int] | None = None,
        **nested: IndexType,
    ) -> None:
        super().__init__(nested)
        if (key is None) == (compare is None):
            raise ModelError(f'sorted index "{name}" needs either a key or a comparison')
        self.name = name
        self._key: KeyOf = cmp_to_key(compare) if compare is not None else key  # type: ignore[assignment]
        self._condition = key or compare

    @property
    def parameters(self) -> tuple[object, ...]:
        """The function that defines the order."""
        return (self._condition,)

    def key_of(self, row_type: RowType) -> KeyOf:
        """Return the function from a row to its sort key."""
        return self._key

    def describe(self) -> str:
        """Return the kind and the name on one line."""
        return f"{self.kind}({self.name})"
