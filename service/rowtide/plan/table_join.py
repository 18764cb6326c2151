"""Two tables joined as a node: one input of the changes of both sides, in one order of time.

As for models, the changes of both sides are made rows of one row type: which side they are of, the
fields by which they are joined, then the fields of the left side and those of the right one, NULL
where they are the other's. An ordinary merge orders them (sql-decisions 14).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rowtide.expr.tree import Expr, FieldRef, Literal
from rowtide.rows.types import INTEGER, Field, RowType

if TYPE_CHECKING:
    from rowtide.plan.nodes import JoinKind, Node

LEFT, RIGHT = 0, 1
"""The sides, as the first field of a tagged row has them."""
PREFIXES = ("LEFT.", "RIGHT.")
"""What the names of their fields begin with there."""


@dataclass(frozen=True, slots=True)
class TableJoin:
    """Join two tables and give the changes of the result; every change stands at the place of its cause.

    In: changes tagged with their side, then ``keys`` fields by which they match where they are equal and not
    NULL, then ``left`` fields and the others. Rows match if ``condition``, over the left fields and then
    the right ones, is TRUE, too. An unmatched row of a side that ``kind`` keeps stands beside NULLs until
    it finds a match. A row for which the condition fails is rejected, and a DELETE of it is passed over.

    ``identity`` are the fields that tell the rows of the result apart, if they are known; ``limited``: what
    both sides leave has a limit. ``paired``: the fields of the two sides that must be equal, where those of
    each side are its key; without a condition one of the two, whichever is not NULL, tells the rows apart.
    """

    relation: str
    input: Node
    keys: int
    left: int
    kind: JoinKind
    row_type: RowType
    condition: Expr | None = None
    identity: tuple[int, ...] | None = None
    limited: bool = True
    paired: tuple[tuple[int, int], ...] = ()

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The one input."""
        return (self.input,)


def tagged_type(left: RowType, right: RowType, keys: Sequence[Field]) -> RowType:
    """Give the row type of the changes of both sides."""
    fields = [Field("$SIDE", INTEGER, nullable=False)]
    fields += [replace(key, name=f"$KEY{at}", nullable=True) for at, key in enumerate(keys)]
    for prefix, row_type in zip(PREFIXES, (left, right), strict=True):
        fields += [replace(field, name=prefix + field.name, nullable=True) for field in row_type]
    return RowType(tuple(fields))


def tagged(tagged_rows: RowType, side: int, own: RowType, key: Sequence[int], left: int) -> tuple[Expr, ...]:
    """Give the expressions that make a row of one side a tagged one; ``left``: how wide the left side is."""
    start = 1 + len(key) + (0 if side == LEFT else left)
    expressions: list[Expr] = [Literal(side, INTEGER), *(FieldRef(at, own[at].type) for at in key)]
    for at, field in enumerate(tagged_rows.fields[1 + len(key) :], start=1 + len(key)):
        inside = start <= at < start + len(own)
        expressions.append(FieldRef(at - start, field.type) if inside else Literal(None, field.type))
    return tuple(expressions)
