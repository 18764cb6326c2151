"""Writing the actual rows into a scenario file, for a person to review.

Only the ``rows`` of the steps that differ are replaced. The rest of the text,
including comments, does not change.
"""

from __future__ import annotations

from collections.abc import Sequence

from rowtide.codec.written.times import ScenarioDay
from rowtide.codec.written.values import cell_text
from rowtide.rows.rowop import Opcode
from rowtide.testing.compare import ActualRow
from rowtide.testing.play import Leftover, Observed, ScenarioRecord
from rowtide.testing.rows import OP, OPCODES, ROWTIME, RelationShape
from rowtide.testing.scenario import ExpectTable, Scenario

_SIGNS = {opcode: sign for sign, opcode in OPCODES.items()}
_Change = tuple[int, int, str]
"""Start (inclusive) and end (exclusive) of the replaced text, and the new text."""


def rewritten(text: str, scenario: Scenario, record: ScenarioRecord) -> str:
    """Return the scenario file's text with the actual rows in place of those that differ."""
    writer = _Writer(text, scenario)
    changes = [writer.change(each) for each in record.observed]
    end = len(text[: scenario.steps_end].rstrip())
    changes += [(end, end, writer.step(each)) for each in record.leftovers]
    for start, stop, new in sorted(reversed(changes), key=_start, reverse=True):
        text = text[:start] + new + text[stop:]
    return text


def _start(change: _Change) -> int:
    return change[0]


class _Writer:
    """Writes rows and steps with the indentation of the file."""

    def __init__(self, text: str, scenario: Scenario) -> None:
        self._text = text
        self._lines = text.splitlines()
        self._day: ScenarioDay = scenario.day
        # The line of a step is the line of its dash.
        self._margin = self._leading(scenario.steps[0].line) if scenario.steps else "  "

    def _leading(self, line: int) -> str:
        text = self._lines[line - 1]
        return text[: len(text) - len(text.lstrip(" "))]

    def change(self, observed: Observed) -> _Change:
        """Return the change of a step whose rows differ or are left out."""
        rows = [self._row(observed, given) for given in observed.given]
        listed = _listed(rows, f"{self._margin}    ")
        span = observed.step.span
        if observed.step.rows is None:
            return span.start, span.end, f"\n{self._margin}  rows:{listed}"
        before = self._text[: span.start].rstrip()
        if before.endswith(":"):
            return len(before), span.end, listed
        # A comment is between "rows:" and its value: the new value starts on its own line.
        return len(before), span.end, listed if rows else f"\n{self._margin}    []"

    def step(self, leftover: Leftover) -> str:
        """Return the text of a new step that expects the rows that no step has taken."""
        rows = [self._listed_row(leftover.shape, given) for given in leftover.given]
        name = _scalar(leftover.relation)
        return f"\n{self._margin}- expect: {name}\n{self._margin}  rows:" + _listed(
            rows, f"{self._margin}    "
        )

    def _row(self, observed: Observed, given: ActualRow) -> str:
        if observed.named is not None:
            return self._named_row(observed.shape, given, observed.named)
        if isinstance(observed.step, ExpectTable):
            return "[" + ", ".join(self._cells(observed.shape, given)) + "]"
        return self._listed_row(observed.shape, given)

    def _listed_row(self, shape: RelationShape, given: ActualRow) -> str:
        has_opcode = shape.is_changes or given.opcode is not Opcode.INSERT
        opcode = [self._opcode(given)] if has_opcode else []
        return "[" + ", ".join([*opcode, self._rowtime(given), *self._cells(shape, given)]) + "]"

    def _named_row(self, shape: RelationShape, given: ActualRow, named: Sequence[tuple[str, str]]) -> str:
        cells = dict(zip(shape.row_type.names, self._cells(shape, given), strict=True))
        special = {OP: self._opcode(given), ROWTIME: self._rowtime(given)}
        parts = (f"{_scalar(text)}: {cells.get(name) or special[name]}" for text, name in named)
        return "{" + ", ".join(parts) + "}"

    def _cells(self, shape: RelationShape, given: ActualRow) -> list[str]:
        return [
            cell_text(value, column.type, self._day)
            for value, column in zip(given.row, shape.row_type, strict=True)
        ]

    def _opcode(self, given: ActualRow) -> str:
        return f'"{_SIGNS[given.opcode]}"'

    def _rowtime(self, given: ActualRow) -> str:
        return "null" if given.rowtime is None else f'"{self._day.format(given.rowtime)}"'


def _listed(rows: Sequence[str], indent: str) -> str:
    return "".join(f"\n{indent}- {row}" for row in rows) if rows else " []"


def _scalar(text: str) -> str:
    return f"'{text}'" if '"' in text else text
