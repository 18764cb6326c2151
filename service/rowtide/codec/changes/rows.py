"""Changes of a table: rows and keys that several decoders decoded, in the order of the messages.

See docs/sql/tables.md#tables-that-a-topic-fills.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np

from rowtide.codec.contract import Decoded, DecodeFault
from rowtide.codec.options import Declared
from rowtide.errors import Reason
from rowtide.plan.plan import KEPT, changes_type
from rowtide.rows.column import Column, Indices
from rowtide.rows.rowop import Opcode, Row
from rowtide.rows.types import RowType, Type


@dataclass(slots=True)
class Gathered:
    """Collects rows that several decoders decoded, and sorts them into the order of the messages."""

    declared: Declared
    parts: list[tuple[tuple[Column, ...], Indices, int]] = field(default_factory=list)
    faults: list[DecodeFault] = field(default_factory=list)

    def reject(self, at: int, reason: Reason, message: str) -> None:
        """Add the fault of a message."""
        self.faults.append(DecodeFault(at, reason, message))

    def inserts(
        self,
        decoded: Decoded,
        places: Sequence[int],
        kept: Sequence[int] = (),
        before: Mapping[int, Row] = MappingProxyType({}),
    ) -> None:
        """Add rows of the messages at ``places``.

        ``kept`` are the columns that are unchanged, ``before`` the rows before the changes that move them, by message.
        """
        columns = decoded.columns
        if self.declared.patched:
            names = ",".join(map(str, kept)) or None
            kept_column = Column.from_values(KEPT.type, [names] * len(decoded.accepted))
            rows = [before.get(places[at]) for at in decoded.accepted.tolist()]
            columns = (*columns, kept_column, *_columns_of(self.declared.row_type, rows))
        self._add(decoded, columns, places, Opcode.INSERT)

    def deletes(self, decoded: Decoded, places: Sequence[int]) -> None:
        """Add DELETEs of the messages at ``places``; the decoded columns are those of the key."""
        count = len(decoded.accepted)
        keys = dict(zip(self.declared.key, decoded.columns, strict=True))
        columns = tuple(
            keys[at] if at in keys else Column.nulls(each, count) for at, each in enumerate(self._types())
        )
        self._add(decoded, columns, places, Opcode.DELETE)

    def _types(self) -> list[Type]:
        changes = changes_type(self.declared.row_type, self.declared.key, patched=self.declared.patched)
        return [each.type for each in changes]

    def _add(self, decoded: Decoded, columns: tuple[Column, ...], places: Sequence[int], opcode: int) -> None:
        where = np.array(places, dtype=np.int64)
        self.parts.append((columns, where[decoded.accepted], opcode))
        self.faults += [
            DecodeFault(places[fault.index], fault.reason, fault.message) for fault in decoded.faults
        ]

    def decoded(self) -> Decoded:
        """Return everything in the order of the messages."""
        faults = tuple(sorted(self.faults, key=lambda fault: fault.index))
        if not self.parts:
            nothing = tuple(Column.nulls(each, 0) for each in self._types())
            return Decoded(nothing, np.zeros(0, dtype=np.int64), faults)
        accepted = np.concatenate([places for _, places, _ in self.parts])
        opcodes = np.concatenate(
            [np.full(len(places), opcode, dtype=np.int8) for _, places, opcode in self.parts]
        )
        order = np.argsort(accepted, kind="stable")
        columns = tuple(
            Column.concat(same).take(order)
            for same in zip(*(columns for columns, _, _ in self.parts), strict=True)
        )
        return Decoded(columns, accepted[order], faults, opcodes[order])


def _columns_of(row_type: RowType, rows: Sequence[Row | None]) -> Iterator[Column]:
    """Yield the columns of rows, which are NULL where there is no row."""
    some = any(rows)
    for at, each in enumerate(row_type):
        if some:
            yield Column.from_values(each.type, (None if row is None else row[at] for row in rows))
        else:
            yield Column.nulls(each.type, len(rows))
