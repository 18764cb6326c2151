"""Joins of two tables: one input of the changes of both sides, in one order of time.

As for models, the changes of both sides become rows of one row type: the side, the key fields of
the join, then the fields of the left side and those of the right one, which are NULL for rows of
the other side. An ordinary merge orders them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from rowtide.expr.failing import can_fail
from rowtide.expr.tree import Call, Expr, FieldRef, Literal
from rowtide.plan.calls import are_objects
from rowtide.plan.nodes.join.join_kind import JoinKind
from rowtide.plan.nodes.lineage import Matches, SourceRows, is_there, last_insert, same_row
from rowtide.plan.nodes.node import Agreed, Form, OrderMattersError, PartitionKey
from rowtide.plan.nodes.over_one import OverOne
from rowtide.plan.nodes.row_wise import Project
from rowtide.plan.show import show
from rowtide.rows.rowop import Opcode, Row, TimedRow
from rowtide.rows.types import INTEGER, Field, RowType

LEFT, RIGHT = 0, 1
"""The sides: the values of the first field of a tagged row."""
PREFIXES = ("LEFT.", "RIGHT.")
"""Prefixes of the names of their fields there."""


@dataclass(frozen=True, slots=True)
class TableJoin(OverOne):
    """Join two tables and emit the changes of the result. Every change is at the place of its cause.

    In: changes tagged with their side, then ``keys`` fields by which they match where they are equal and not
    NULL, then ``left`` fields and the others. Rows match if ``condition``, over the left fields and then
    the right ones, is TRUE, too. An unmatched row of a side that ``kind`` keeps comes beside NULLs until
    it finds a match. A row for which the condition fails is rejected, and a DELETE of it is ignored.

    ``identity`` are the key fields of the result, if they are known; ``limited``: the rows of both sides
    are limited in number. ``paired``: the fields of the two sides that must be equal, where those of each
    side are its key; without a condition, the key is the one of the two that is not NULL.
    """

    keys: int
    left: int
    kind: JoinKind
    row_type: RowType
    condition: Expr | None = None
    identity: tuple[int, ...] | None = None
    limited: bool = True
    paired: tuple[tuple[int, int], ...] = ()

    def is_changelog(self) -> bool:
        """Return True."""
        return True

    def only_inserts(self) -> bool:
        """Return False."""
        return False

    def follows_contents(self) -> bool:
        """Return True."""
        return True

    def key_fields(self) -> tuple[int, ...] | None:
        """Return the key fields of the result."""
        return self.identity

    def keys_merged_by(self, expressions: Sequence[Expr]) -> tuple[int, ...] | None:
        """Return the expressions of the key of the side that has a row: COALESCE of the two."""
        if not self.paired or self.condition is not None:
            return None
        found = []
        for one, other in self.paired:
            fields = [FieldRef(at, self.row_type[at].type) for at in (one, other)]
            both = (Call("COALESCE", tuple(each), each[0].type) for each in (fields, fields[::-1]))
            places = [expressions.index(each) for each in both if each in expressions]
            if not places:
                return None
            found.append(places[0])
        return tuple(found)

    def holds_rowtime(self, field: int) -> bool:
        """Return False."""
        return False

    def keeps(self) -> str | None:
        """Return both tables."""
        return "the rows of both tables" + ("" if self.limited else ", forever")

    def is_limited(self) -> bool:
        """Return whether both sides are limited."""
        return self.limited

    def unlimited_state(self) -> str | None:
        """Return that both sides are kept, unless both are limited."""
        return (
            None if self.limited else "keeps the rows of both sides of a join forever: RETENTION is UNBOUNDED"
        )

    def form(self) -> Form | None:
        """Return whether the condition only filters pairs, if there is one, and kernels can hold every field."""
        only_filters = self.condition is None or (
            self.kind is JoinKind.INNER and not can_fail(self.condition)
        )
        fields = are_objects(self.input.row_type, range(len(self.input.row_type)))
        return Form.COMPILED if only_filters and not any(fields) else Form.BY_ROW

    def detail(self) -> str:
        """Return the key of the join, as the projections below compute it."""
        split = 1 + self.keys + self.left
        left, right = (
            next(
                each
                for each in self.input.inputs
                if isinstance(each, Project) and each.expressions[0] == Literal(side, INTEGER)
            )
            for side in (LEFT, RIGHT)
        )
        compared = slice(1, 1 + self.keys)
        keys = zip(left.expressions[compared], right.expressions[compared], strict=True)
        pairs = [
            f"{show(one, left.input.row_type)} = {show(other, right.input.row_type)}" for one, other in keys
        ]
        further = ""
        if self.condition is not None:
            fields = self.input.row_type.fields
            pair = RowType((*fields[1 + self.keys : split], *fields[split:]))
            further = f"; and {show(self.condition, pair)}"
        return f"{self.kind.value}, on {' AND '.join(pairs) or 'every pair'}{further}"

    def partition_key(self) -> PartitionKey | None:
        """Return the fields by which rows match."""
        return (tuple(range(1, 1 + self.keys)),) if self.keys else None

    def order_through(self, agreed: Agreed, port: int) -> Agreed:
        """Refuse: the changes of a pair depend on the order of its rows."""
        raise OrderMattersError

    def made_of(self, row: TimedRow) -> Iterator[SourceRows]:
        """Yield the change that caused the row, and the rows of the pair."""
        halves = row.row[: self.left], row.row[self.left :]
        there = [is_there(half) for half in halves]
        # A row that the change removed is not part of the new pair. The change may leave a single row.
        made = row.opcode != Opcode.DELETE and all(there)
        yield same_row(row, lambda each: not made or each.opcode != Opcode.DELETE)
        for side, half in enumerate(halves):
            if there[side]:
                first = 1 + self.keys + side * self.left
                yield last_insert(row, _half(side, first, half), inclusive=True)


def tagged_type(left: RowType, right: RowType, keys: Sequence[Field]) -> RowType:
    """Return the row type of the changes of both sides."""
    fields = [Field("$SIDE", INTEGER, nullable=False)]
    fields += [replace(key, name=f"$KEY{at}", nullable=True) for at, key in enumerate(keys)]
    for prefix, row_type in zip(PREFIXES, (left, right), strict=True):
        fields += [replace(field, name=prefix + field.name, nullable=True) for field in row_type]
    return RowType(tuple(fields))


def tagged(tagged_rows: RowType, side: int, own: RowType, key: Sequence[int], left: int) -> tuple[Expr, ...]:
    """Return the expressions that tag a row of one side; ``left``: the number of fields of the left side."""
    start = 1 + len(key) + (0 if side == LEFT else left)
    expressions: list[Expr] = [Literal(side, INTEGER), *(FieldRef(at, own[at].type) for at in key)]
    for at, field in enumerate(tagged_rows.fields[1 + len(key) :], start=1 + len(key)):
        inside = start <= at < start + len(own)
        expressions.append(FieldRef(at - start, field.type) if inside else Literal(None, field.type))
    return tuple(expressions)


def _half(side: int, first: int, fields: Row) -> Matches:
    """Match a tagged row of one side by its fields."""
    return lambda each: each.row[0] == side and each.row[first : first + len(fields)] == fields
