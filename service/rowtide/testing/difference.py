"""A difference for people: expected and actual rows side by side, with rowtimes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rowtide.codec.written.times import ScenarioDay
from rowtide.codec.written.values import text_of
from rowtide.rows.rowop import Opcode
from rowtide.testing.compare import ANY, ActualRow, ExpectedRow, Matched, Misfit
from rowtide.testing.rows import RelationShape

CONTEXT_ROWS = 3
"""How many equal rows are shown around a difference."""

_SIGNS = {Opcode.INSERT: "+", Opcode.DELETE: "-"}


def render_difference(matched: Matched, shape: RelationShape, day: ScenarioDay) -> str:
    """Return the lines of a difference: expected rows on the left, actual rows on the right.

    The mark between them is ``|`` if the two differ, ``<`` if a row is missing, ``>`` if a row is
    surplus, and empty if they are equal.
    """
    texts = _Texts(matched, shape, day)
    left = [texts.wanted(want) for want, _ in matched.pairs]
    width = max(len("expected"), *(len(text) for text in left))
    lines = [f"  {'expected':<{width}}     got"]
    differing = set(matched.differing)
    for shown in _shown(len(matched.pairs), differing):
        if shown is None:
            lines.append("  ...")
            continue
        want, got = matched.pairs[shown]
        # For rows that match, show only the compared parts; for other rows, show everything.
        columns = None if want is None or shown in differing else want.values
        sign = " " if shown not in differing else "<" if got is None else ">" if want is None else "|"
        lines.append(f"  {left[shown]:<{width}}  {sign}  {texts.given(got, columns)}".rstrip())
    return "\n".join(lines)


def _shown(count: int, differing: set[int]) -> Iterator[int | None]:
    """Yield the positions to show, None for a run of equal rows that is left out."""
    near = {at + off for at in differing for off in range(-CONTEXT_ROWS, CONTEXT_ROWS + 1)}
    left_out = False
    for at in range(count):
        if at in near:
            yield at
        elif not left_out:
            yield None
        left_out = at not in near


class _Texts:
    """Writes rows in the form of the scenario's expected rows: values in order, or by name."""

    def __init__(self, matched: Matched, shape: RelationShape, day: ScenarioDay) -> None:
        self._shape = shape
        self._day = day
        wanted = [want for want, _ in matched.pairs if want is not None]
        self._is_named = any(value is ANY for want in wanted for value in want.values)
        self._has_opcode = shape.is_changes or any(
            opcode is Opcode.DELETE
            for pair in matched.pairs
            for opcode in (each.opcode for each in pair if each is not None)
        )
        self._has_rowtime = any(
            got is not None and got.rowtime is not None for _, got in matched.pairs
        ) or any(isinstance(want.rowtime, int) for want in wanted)

    def wanted(self, want: ExpectedRow | None) -> str:
        if want is None:
            return ""
        return self._row(want.opcode, want.rowtime, want.values)

    def given(self, got: ActualRow | None, compared: Sequence[object] | None) -> str:
        if got is None:
            return ""
        values: Sequence[object] = got.row
        if compared is not None:
            values = [ANY if want is ANY else value for want, value in zip(compared, values, strict=True)]
        return self._row(got.opcode, got.rowtime, values)

    def _row(self, opcode: object, rowtime: object, values: Sequence[object]) -> str:
        parts = []
        if self._has_opcode and isinstance(opcode, Opcode):
            parts.append(_SIGNS.get(opcode, str(opcode)))
        if self._has_rowtime and rowtime is not ANY:
            parts.append(self._time(rowtime))
        for column, value in zip(self._shape.row_type, values, strict=True):
            if value is ANY:
                continue
            text = value.text if isinstance(value, Misfit) else text_of(value, column.type, self._day)
            parts.append(f"{column.name}={text}" if self._is_named else text)
        return "  ".join(parts)

    def _time(self, rowtime: object) -> str:
        if isinstance(rowtime, Misfit):
            return rowtime.text
        return self._day.format(rowtime) if isinstance(rowtime, int) else "null"
