"""Errors of the engine, by what their catcher does (see ``rowtide.errors``)."""

from __future__ import annotations

from rowtide.errors import FaultError, Reason, RejectedRowError, StatementError

SHOWN_LABELS = 10
"""Labels that an error shows from each end of its stack: more do not fit on a screen."""


class ModelError(StatementError):
    """The model is defined incorrectly, or a name does not exist; nothing has changed."""


class FieldValueError(RejectedRowError):
    """A value does not fit the type of its field; no row is created.

    ``field`` and ``value`` are the name of the field and the value; ``type_name`` is the type as the engine
    prints it.
    """

    def __init__(self, field: str, type_name: str, value: object, place: str | None = None) -> None:
        before = "" if place is None else f"{place}: "
        super().__init__(Reason.TYPE, f'{before}field "{field}" of type {type_name} cannot hold {value!r}')
        self.field = field
        self.type_name = type_name
        self.value = value

    def at(self, place: str) -> FieldValueError:
        """Return the same error with the label or table that the row was for."""
        return FieldValueError(self.field, self.type_name, self.value, place)


class TableError(FaultError):
    """A table was used incorrectly, or code of the model failed in it; ``table`` is its name.

    The table is as it was before the call, unless it is broken (``Table.is_broken``).
    """

    def __init__(self, table: str, message: str) -> None:
        super().__init__(f'table "{table}": {message}')
        self.table = table


class BrokenTableError(TableError):
    """An earlier error stopped a change of this table half-way: it can be read but not changed."""


class RecursionFault(FaultError):
    """A label was called again while it was executing, or calls were nested too deeply."""


class ExecutionError(FaultError):
    """An error inside a label: the cause, and the stack of labels that led to it.

    ``__cause__`` is the exception that was raised; ``label`` is the name of the label that raised it;
    ``stack`` has one line for each label that was executing, innermost first. Rowops that were queued in
    the frames of these labels are dropped; rowops in the outermost frame stay queued.
    """

    def __init__(self, label: str, cause: BaseException) -> None:
        super().__init__(f'label "{label}": {cause}')
        self.label = label
        self.stack: list[str] = []

    def __str__(self) -> str:
        lines = self.stack
        if len(lines) > 2 * SHOWN_LABELS:
            between = f"... {len(lines) - 2 * SHOWN_LABELS} more labels ..."
            lines = [*lines[:SHOWN_LABELS], between, *lines[-SHOWN_LABELS:]]
        return "\n".join([self.message, *(f"  {line}" for line in lines)])
