"""Joins of a stream with a table as of each row's rowtime."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Self

from rowtide.expr.tree import Expr
from rowtide.plan.nodes.join.join_kind import JoinKind
from rowtide.plan.nodes.lineage import SourceRows, is_there, picked, same_row
from rowtide.plan.nodes.node import Agreed, Node, PartitionKey, require, types_of
from rowtide.plan.nodes.sources import TableSource
from rowtide.plan.nodes.walk import rewrite
from rowtide.plan.show import show
from rowtide.rows.rowop import Opcode, TimedRow
from rowtide.rows.types import RowType
from rowtide.rowtime.period import GridWindow


@dataclass(frozen=True, slots=True)
class AsOfJoin(Node):
    """Join each stream row with the table as of the row's rowtime (docs/sql/joins.md).

    Input 0 is the table's changelog, input 1 the stream. A stream row at T waits for the table's
    bound >= T + 1 ms and sees the changes of T. Rows match where the key fields are equal and not
    NULL. Out: the stream's fields, then the table's; rowtime and tie-break of the stream row.
    """

    relation: str
    table: Node
    stream: Node
    table_key: tuple[int, ...]
    stream_key: tuple[int, ...]
    kind: JoinKind
    row_type: RowType

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The table, then the stream."""
        return (self.table, self.stream)

    def reading(self, inputs: Sequence[Node]) -> Self:
        """Return the join of another table and stream."""
        return replace(self, table=inputs[0], stream=inputs[1])

    def is_changelog(self) -> bool:
        """Return False: rows are never retracted."""
        return False

    def only_inserts(self) -> bool:
        """Return True."""
        return True

    def holds_rowtime(self, field: int) -> bool:
        """Return whether a field of the stream does."""
        return field < len(self.stream.row_type) and self.stream.holds_rowtime(field)

    def ended_window(self) -> GridWindow | None:
        """Return that of the stream."""
        return self.stream.ended_window()

    def keeps(self) -> str | None:
        """Return the table."""
        return "the rows of the table, as of the rowtime that the stream has reached"

    def detail(self) -> str:
        """Return the tables and keys of the join."""
        on = " AND ".join(
            f"{self.stream.row_type[left].name} = {self.table.row_type[right].name}"
            for left, right in zip(self.stream_key, self.table_key, strict=True)
        )
        return f"{self.kind.value}, table as of the stream's ROWTIME, on {on}"

    def origins(self, own: int, ports: Sequence[Sequence[int]], *, merged: bool) -> tuple[int, ...]:
        """Return those of the stream."""
        return tuple(ports[1])

    def may_pass_again(self) -> bool:
        """Return True: rows of streams pass."""
        return True

    def read_types(self) -> tuple[object, ...]:
        """Return the table itself, because the state is an image of it, and the types of the stream."""
        return (rewrite(self.table, _without_rows), types_of(self.stream.row_type))

    def partition_key(self) -> PartitionKey | None:
        """Return the keys of both sides."""
        return (self.table_key, self.stream_key)

    def looks_up(self, port: int) -> bool:
        """Return whether rows of a port are only looked up by their key and never passed on."""
        return port == 0

    def order_through(self, agreed: Agreed, port: int) -> Agreed:
        """Return the stream's fields. Rows of a key of the table must keep their order."""
        if port == 0:
            require(agreed, self.table_key)
        return agreed

    def made_of(self, row: TimedRow) -> Iterator[SourceRows]:
        """Yield the stream's row, and the table's row if any."""
        yield same_row(row, port=1)
        own, key = picked(row.row, self.stream_key), self.table_key
        if is_there(row.row[len(self.stream.row_type) :]):
            yield SourceRows(
                0,
                lambda each: each.opcode != Opcode.DELETE and picked(each.row, key) == own,
                end=row.rowtime,
                last=1,
            )

    def released_by(self, row: TimedRow, port: int, ports: int) -> tuple[tuple[int, int], ...] | None:
        """Return that the table is past the row's time."""
        return ((0, row.rowtime + 1),)


@dataclass(frozen=True, slots=True)
class AsOfJoinOn(AsOfJoin):
    """An AsOfJoin whose rows match only if ``condition``, over the joined row, is TRUE, too.

    A pair for which the condition fails is rejected and does not match. (A separate node, so that the
    digests of plans without a condition do not change.)
    """

    condition: Expr

    def detail(self) -> str:
        """Return the tables, keys and condition of the join."""
        return f"{AsOfJoin.detail(self)}; and {show(self.condition, self.row_type)}"


def _without_rows(node: Node) -> Node:
    return node.without_rows() if isinstance(node, TableSource) else node
