"""Labels: where rowops go."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from rowtide.engine.errors import FieldValueError, ModelError
from rowtide.engine.row_type import Row, RowType
from rowtide.engine.unit.rowop import DELETE, INSERT, Rowop
from rowtide.engine.values import Value
from rowtide.rows.rowop import Opcode

if TYPE_CHECKING:
    from rowtide.engine.unit.unit import Unit

Handler = Callable[[Rowop], None]
"""A function that handles one rowop. A rowop that it sends is handled before the sending call returns."""


class Label:
    """A typed destination for rowops in one unit.

    A label without a handler only passes rowops on to the labels chained to it. ``Unit.label``,
    ``Unit.handler`` and ``Label.then`` make labels. Set ``reentrant`` to False to forbid recursion on this
    label even if its unit allows it.
    """

    __slots__ = (
        "_followers",
        "_handler",
        "_on_clear",
        "_row_class",
        "_running",
        "_unit",
        "name",
        "reentrant",
        "row_type",
    )

    def __init__(
        self,
        unit: Unit,
        name: str,
        row_type: RowType,
        handler: Handler | None = None,
        on_clear: Callable[[], None] | None = None,
    ) -> None:
        self._unit: Unit | None = unit
        self.name = name
        self.reentrant = True
        self.row_type = row_type
        self._row_class = row_type.row_class
        self._handler = handler
        self._on_clear = on_clear
        self._followers: list[Label] = []
        self._running = 0

    @property
    def unit(self) -> Unit:
        """The unit that runs this label.

        Raises:
          ModelError: if the label has been cleared.
        """
        if self._unit is None:
            raise ModelError(f'label "{self.name}" has been cleared')
        return self._unit

    @property
    def is_cleared(self) -> bool:
        """Whether the label has been cleared and can no longer be used."""
        return self._unit is None

    @property
    def handler(self) -> Handler | None:
        """The function that handles rowops, if any."""
        return self._handler

    @property
    def followers(self) -> tuple[Label, ...]:
        """The labels chained directly to this one, in the order in which they run."""
        return tuple(self._followers)

    def row(self, *values: Value, **named: Value) -> Row:
        """Make a row of this label's row type; see ``RowType.row``."""
        return self.row_type.row(*values, **named)

    def rowop(self, opcode: Opcode, row: Row) -> Rowop:
        """Make a rowop for this label without sending it; ``row`` may be of any matching type.

        Raises:
          ModelError: if the row is of another type, or the opcode is not valid.
          FieldValueError: if ``row`` is a plain tuple and a value does not fit its field.
        """
        if row.__class__ is not self._row_class:
            row = self._adopt(row)
        if opcode.__class__ is not Opcode:
            raise ModelError(f'label "{self.name}" cannot take opcode {opcode!r}')
        return Rowop(self, opcode, row)

    def _adopt(self, row: Row) -> Row:
        try:
            return self.row_type.adopt(row)
        except ModelError as error:
            raise ModelError(f'label "{self.name}": {error.message}', hint=error.hint) from error
        except FieldValueError as error:
            raise error.at(f'label "{self.name}"') from error

    def adopt(self, rowop: Rowop) -> Rowop:
        """Make a rowop for this label with the opcode and row of another rowop."""
        return self.rowop(rowop.opcode, rowop.row)

    def insert(self, row: Row) -> None:
        """Send an INSERT of ``row`` to this label; returns when everything that follows from it is done."""
        self.send(INSERT, row)

    def delete(self, row: Row) -> None:
        """Send a DELETE of ``row`` to this label; returns when everything that follows from it is done."""
        self.send(DELETE, row)

    def send(self, opcode: Opcode, row: Row) -> None:
        """Send ``row`` with any opcode to this label; returns when everything that follows from it is done.

        Raises:
          ModelError: if the row is of another type, the opcode is not valid or the label has been cleared.
          FieldValueError: if ``row`` is a plain tuple and a value does not fit its field.
          RecursionFault: if the label is executing and may not be called again.
          ExecutionError: if a label raised.
        """
        if row.__class__ is not self._row_class:
            row = self._adopt(row)
        if opcode.__class__ is not Opcode:
            raise ModelError(f'label "{self.name}" cannot take opcode {opcode!r}')
        (self._unit or self.unit)._run(Rowop(self, opcode, row), self, None)

    def forward(self, rowop: Rowop) -> None:
        """Send the opcode and row of a rowop of another label to this label."""
        self.send(rowop.opcode, rowop.row)

    def chain(self, follower: Label) -> Label:
        """Chain ``follower`` to this label, after the labels that are chained to it already, and return it.

        This label then passes every rowop that it handles to ``follower``.

        Raises:
          ModelError: if the row types differ, the labels belong to two units, the label is chained
            already, or the chain would be a circle; nothing has changed.
        """
        here = f'label "{follower.name}" cannot be chained to label "{self.name}"'
        if follower.unit is not self.unit:
            raise ModelError(f"{here}: they belong to different units")
        if follower.row_type != self.row_type:
            theirs, ours = follower.row_type.render(None), self.row_type.render(None)
            raise ModelError(f"{here}: it takes {theirs}, not {ours}")
        if follower in self._followers:
            raise ModelError(f"{here} twice")
        if follower.leads_to(self):
            raise ModelError(f"{here}: the chain would be a circle")
        self._followers.append(follower)
        return follower

    def then(self, handler: Handler, name: str | None = None) -> Label:
        """Make a label that runs ``handler``, chain it to this one and return it; can be used as a decorator.

        Its name is ``name`` or else that of the function.

        Raises:
          ModelError: if there is neither.
        """
        named = name or getattr(handler, "__name__", None)
        if named is None:
            raise ModelError(f'a label after label "{self.name}" needs a name: {handler!r} has none')
        return self.chain(self.unit.label(named, self.row_type, handler))

    def unchain_all(self) -> None:
        """Unchain all labels that are chained to this one."""
        self._followers.clear()

    def leads_to(self, other: Label) -> bool:
        """Return whether ``other`` is this label or is reached from it through chains."""
        seen, ahead = {self}, [self]
        while ahead and other not in seen:
            following = [label for label in ahead.pop()._followers if label not in seen]
            seen.update(following)
            ahead += following
        return other in seen

    def clear(self) -> None:
        """Run ``on_clear``, then drop all references of the label; it can no longer be used.

        The labels chained to it are unchained, not cleared. Clearing a label twice changes nothing.
        """
        if self._unit is None:
            return
        self._unit = None
        try:
            if self._on_clear is not None:
                self._on_clear()
        finally:
            self._on_clear = None
            self._handler = self._refuse
            self._followers.clear()

    def _refuse(self, rowop: Rowop) -> None:
        raise ModelError(f'label "{self.name}" has been cleared, it cannot take {rowop}')

    def __repr__(self) -> str:
        return f'<Label "{self.name}">'
