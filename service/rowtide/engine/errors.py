"""What can go wrong in the engine, by what its catcher will do (see ``rowtide.errors``)."""

from __future__ import annotations

from rowtide.errors import FaultError, Reason, RejectedRowError, StatementError

SHOWN_LABELS = 10
"""How many labels an error shows from either end of its stack: more do not fit on a screen."""


class ModelError(StatementError):
    """The model is put together wrongly or asked for something it does not have; nothing has changed."""


class FieldValueError(RejectedRowError):
    """A value does not fit the type of its field; no row was made.

    ``field`` and ``value`` say which; ``type_name`` is the type as the engine prints it.
    """

    def __init__(self, field: str, type_name: str, value: object, place: str | None = None) -> None:
        before = "" if place is None else f"{place}: "
        super().__init__(Reason.TYPE, f'{before}field "{field}" of type {type_name} cannot hold {value!r}')
        self.field = field
        self.type_name = type_name
        self.value = value

    def at(self, place: str) -> FieldValueError:
        """Give the same error saying where the row was to go."""
        return FieldValueError(self.field, self.type_name, self.value, place)


class TableError(FaultError):
    """A table was used in a way that it must not be; the table is as it was before the call."""

    def __init__(self, table: str, message: str) -> None:
        super().__init__(f'table "{table}": {message}')
        self.table = table


class BrokenTableError(TableError):
    """An error stopped this table half-way through a change: it can be read but no longer changed."""


class RecursionFault(FaultError):
    """A label was reached again while it was still executing, or labels nested too deep."""


class ExecutionError(FaultError):
    """An error inside a label: the cause, and the stack of labels that led to it.

    ``__cause__`` is what was raised; ``label`` is the name of the label that raised it; ``stack`` holds
    one line for each label that was executing, innermost first. Rowops queued in the frames that were
    unwound are gone; rowops on the outermost frame stay (engine decision 11).
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
