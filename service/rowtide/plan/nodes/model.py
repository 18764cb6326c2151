"""A procedural model as a node: one input of tagged rows, one output of tagged rowops.

A model has several inputs and outputs of different row types, and its rows come in one consistent
time order (docs/sql/semantics.md#models). So the rows of all inputs become rows of one row type,
whose first field is the number of the input, and an ordinary merge orders them. Filters separate
the outputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from dataclasses import field as declared

from rowtide.expr.tree import Call, Expr, FieldRef, Literal
from rowtide.plan.nodes.lineage import SourceRows
from rowtide.plan.nodes.node import Agreed, Form, PartitionKey, require
from rowtide.plan.nodes.over_one import OverOne, names_of
from rowtide.rows.rowop import TimedRow
from rowtide.rows.types import BOOLEAN, INTEGER, Field, RowType

PORT = "PORT"
"""The field that numbers the input or output of a tagged row."""


@dataclass(frozen=True, slots=True)
class ModelPort:
    """One input or output. ``name`` is spelled as in the model's class.

    ``changes``: an output whose rowops are the changes of a table. ``key``: the fields by whose values
    the model is split; all inputs have as many, of the same types.
    """

    name: str
    row_type: RowType
    changes: bool = False
    key: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Model(OverOne):
    """Run the model that ``path`` names (CREATE MODEL), made with ``options``.

    In: rows tagged with the number of their input. Out: rowops tagged with the number of their output;
    rowtime is that of the row or event that caused them, in the order in which the model sent them. An
    event at t runs before rows of t that arrive after it was scheduled. A row that makes the model fail
    is rejected (FUNCTION), and the model is as if it had not arrived.

    ``code`` is a digest of its text: a model with another text is another one. ``folder`` is where its
    module may be, on the machine that planned; it has no effect on rows.
    """

    path: str
    options: tuple[tuple[str, str], ...]
    accepts: tuple[ModelPort, ...]
    gives: tuple[ModelPort, ...]
    row_type: RowType
    code: str = ""
    folder: str = declared(default="", compare=False)

    def is_changelog(self) -> bool:
        """Return True: a model may send any opcode."""
        return True

    def shows_opcodes(self) -> bool:
        """Return False: an output is a stream. An output of changes has a table over it."""
        return False

    def only_inserts(self) -> bool:
        """Return False: a model may send any opcode."""
        return False

    def is_ordered(self) -> bool:
        """Return True."""
        return True

    def holds_rowtime(self, field: int) -> bool:
        """Return False."""
        return False

    def keeps(self) -> str | None:
        """Return its tables."""
        return "what the tables of the model hold"

    def work(self) -> str | None:
        """Return that it takes rows one by one."""
        return Form.BY_ROW.value

    def detail(self) -> str:
        """Return the class, its options and its ports."""
        texts = [f"{name} '{value}'" for name, value in self.options]
        ports = (", ".join(port.name for port in each) for each in (self.accepts, self.gives))
        key = names_of(self.accepts[0].row_type, self.accepts[0].key)
        by_key = f", one for each {key}" if key else ""
        return f"{self.path}({', '.join(texts)}), {' to '.join(ports)}{by_key}"

    def origins(self, own: int, ports: Sequence[Sequence[int]], *, merged: bool) -> tuple[int, ...]:
        """Return its own origin."""
        return (own,)

    def partition_key(self) -> PartitionKey | None:
        """Return the key by which the model is split."""
        return (self.key,) if self.key else None

    def order_through(self, agreed: Agreed, port: int) -> Agreed:
        """Return no fields, if rows of a key keep their order."""
        require(agreed, self.key)
        return None

    def made_of(self, row: TimedRow) -> Iterator[SourceRows]:
        """Yield all rows of the same rowtime."""
        time = row.rowtime
        yield SourceRows(0, lambda _each: True, begin=time, end=time)

    @property
    def lineage_note(self) -> str | None:
        """Earlier rows may be in its state."""
        return "a model keeps state of its own: rows before these may count, too"

    @property
    def key(self) -> tuple[int, ...]:
        """The fields of the input by which the model is split: there is one model for each value."""
        return tuple(range(1, 1 + len(self.accepts[0].key)))


def tagged(ports: Sequence[ModelPort]) -> RowType:
    """Return the row type that holds a row of any of ``ports``: its number, its key, the fields of all."""
    fields = [Field(PORT, INTEGER, nullable=False)]
    first = ports[0]
    fields += [Field(f"KEY {at}", first.row_type[index].type) for at, index in enumerate(first.key, start=1)]
    for port in ports:
        fields += [replace(field, name=f"{port.name}.{field.name}", nullable=True) for field in port.row_type]
    return RowType(tuple(fields))


def first_field(ports: Sequence[ModelPort], number: int) -> int:
    """Return the index of the first field of port ``number`` in a tagged row."""
    return 1 + len(ports[0].key) + sum(len(port.row_type) for port in ports[:number])


def tagging(ports: Sequence[ModelPort], number: int) -> tuple[Expr, ...]:
    """Return the expressions that tag a row of port ``number``."""
    found: list[Expr] = [Literal(number, INTEGER)]
    own = ports[number]
    found += [FieldRef(index, own.row_type[index].type) for index in own.key]
    for other, port in enumerate(ports):
        for index, field in enumerate(port.row_type):
            found.append(FieldRef(index, field.type) if other == number else Literal(None, field.type))
    return tuple(found)


def untagging(ports: Sequence[ModelPort], number: int) -> tuple[Expr, tuple[Expr, ...]]:
    """Return the condition that selects the rows of port ``number``, and the expressions of its fields."""
    first = first_field(ports, number)
    condition = Call("=", (FieldRef(0, INTEGER), Literal(number, INTEGER)), BOOLEAN)
    row_type = ports[number].row_type
    return condition, tuple(FieldRef(first + index, field.type) for index, field in enumerate(row_type))
