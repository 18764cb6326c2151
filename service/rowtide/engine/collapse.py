"""Collapse: buffers many changes of a row until a flush, which sends at most two.

A key identifies a row. A flush uses only the changes since the last flush, and
sends nothing, a DELETE of the old row, an INSERT of the new one, or both.
"""

from __future__ import annotations

from rowtide.engine.errors import ModelError
from rowtide.engine.row_type import Row, RowType
from rowtide.engine.unit.label import Label
from rowtide.engine.unit.rowop import DELETE, INSERT, Rowop
from rowtide.engine.unit.unit import CountsChanges, Unit
from rowtide.engine.values import Value


class Collapse(CountsChanges):
    """Buffers the changes that arrive at ``input`` until ``flush`` sends their net effect to ``out``.

    ``source`` is the label to take rowops from or, with ``unit``, a row type; ``key`` are the fields that
    identify a row. The labels are called ``name.in`` and ``name.out``.

    Raises:
      ModelError: if a key field does not exist, there is no key or no unit, or the label belongs to
        another unit.
    """

    def __init__(self, name: str, source: Label | RowType, *key: str, unit: Unit | None = None) -> None:
        if isinstance(source, Label):
            if unit is not None and unit is not source.unit:
                raise ModelError(f'collapse "{name}": label "{source.name}" belongs to another unit')
            unit = source.unit
        elif unit is None:
            raise ModelError(f'collapse "{name}" needs a unit or a label to follow')
        if not key:
            raise ModelError(f'collapse "{name}" needs key fields')
        row_type = source.row_type if isinstance(source, Label) else source
        self.name = name
        try:
            self._key_of = row_type.getter(*key)
        except ModelError as error:
            raise ModelError(f'collapse "{name}": {error.message}', hint=error.hint) from error
        self._changes = 0
        self._deleted: dict[Value, Row] = {}
        self._inserted: dict[Value, Row] = {}
        self.input = unit.label(f"{name}.in", row_type, self._take)
        self.out = unit.label(f"{name}.out", row_type)
        if isinstance(source, Label):
            source.chain(self.input)
        unit.keep(name, self)

    def _take(self, rowop: Rowop) -> None:
        key = self._key_of(rowop.row)
        self._changes += 1
        if rowop.opcode is INSERT:
            self._inserted[key] = rowop.row
        elif rowop.opcode is DELETE and self._inserted.pop(key, None) is None:
            # A pending INSERT has not been sent, so it needs no DELETE.
            self._deleted[key] = rowop.row

    def flush(self) -> None:
        """Send all pending DELETEs, then all pending INSERTs, in the order in which their keys arrived."""
        self._changes += 1
        for pending, opcode in ((self._deleted, DELETE), (self._inserted, INSERT)):
            for key in list(pending):
                row = pending.pop(key, None)
                if row is not None:
                    self.out.send(opcode, row)

    @property
    def changes(self) -> int:
        """The number of received rowops and of flushes."""
        return self._changes

    def snapshot(self) -> tuple[list[Row], list[Row]]:
        """Return the rows that the next flush deletes and those that it inserts, as plain tuples."""
        return [tuple(row) for row in self._deleted.values()], [tuple(row) for row in self._inserted.values()]

    def restore(self, state: tuple[list[Row], list[Row]]) -> None:
        """Restore the state that ``snapshot`` returned."""
        for pending, rows in zip((self._deleted, self._inserted), state, strict=True):
            for row in map(self.input.row_type.adopt, rows):
                pending[self._key_of(row)] = row
