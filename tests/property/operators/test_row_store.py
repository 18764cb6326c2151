from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rowtide.operators.storage.row_store import RowStore
from rowtide.rows.column import Column
from rowtide.rows.rowop import Opcode, TimedRow
from rowtide.rows.tray import Tray
from rowtide.rows.types import BIGINT, VARCHAR, Field, RowType

ROW_TYPE = RowType((Field("NUMBER", BIGINT), Field("NAME", VARCHAR)))
PADDING = 5_000
"""More rows than are kept in memory although nothing needs them."""

PADS: dict[str, Callable[[int], str]] = {
    "short": lambda at: f"padding {at}",
    "long and alike": lambda at: f"of all the paddings there are this one is number {at % 9}",
    "long": lambda at: f"of all the paddings there are this one is number {at}",
}

values = st.tuples(st.none() | st.integers(-9, 9), st.none() | st.text("aé\u20ac", max_size=80))
steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.lists(values, max_size=5)),
        st.tuples(st.just("pad"), st.sampled_from(sorted(PADS))),
        st.tuples(st.just("forget"), st.integers(0, 3)),
        st.tuples(st.just("keep"), st.lists(st.integers(0, 30), max_size=6)),
        st.tuples(st.just("look up"), st.lists(st.integers(0, 30), max_size=6)),
    ),
    max_size=12,
)


@dataclass
class Model:
    """What the store should hold: every row that ever came, by number."""

    store: RowStore = field(default_factory=lambda: RowStore(ROW_TYPE))
    rows: list[tuple[object, ...]] = field(default_factory=list)
    asked: list[tuple[list[Column], list[tuple[object, ...]]]] = field(default_factory=list)

    def append(self, rows: list[tuple[object, ...]]) -> None:
        timed = [TimedRow(at, 0, at, Opcode.INSERT, row) for at, row in enumerate(rows)]
        self.store.append(Tray.from_rows(ROW_TYPE, timed))
        self.rows += rows

    def keep(self, back: list[int]) -> None:
        """Go on with some of the rows alone, counted from the last one."""
        numbers = [len(self.rows) - 1 - each for each in back]
        numbers = [number for number in numbers if number >= self.store.base]
        self.store = self.store.kept(np.array(numbers, dtype=np.int64))
        self.rows = [self.rows[number] for number in numbers]

    def look_up(self, back: list[int]) -> None:
        """Ask for rows, counted from the last one; those that are gone are missing."""
        numbers = [len(self.rows) - 1 - each for each in back]
        numbers = [-1 if number < self.store.base else number for number in numbers]
        expected = [(None, None) if number < 0 else self.rows[number] for number in numbers]
        self.asked.append((self.store.joined(np.array(numbers, dtype=np.int64)), list(expected)))


@settings(deadline=None)
@given(steps)
def test_rows_that_are_looked_up_later_are_what_they_were(taken: list[tuple[str, list[object]]]) -> None:
    model = Model()
    for what, given_ in taken:
        match what, given_:
            case "append", rows:
                model.append(rows)  # type: ignore[arg-type]
            case "pad", name:
                model.append([(at, PADS[name](at)) for at in range(PADDING)])  # type: ignore[index]
            case "forget", count:
                model.store.forget(max(0, len(model.rows) - count))  # type: ignore[operator]
            case "keep", back:
                model.keep(back)  # type: ignore[arg-type]
            case _, back:
                model.look_up(back)  # type: ignore[arg-type]
    for columns, expected in model.asked:
        assert [len(column) for column in columns] == [len(expected)] * len(columns)
        assert list(zip(*(column.to_list() for column in columns), strict=True)) == expected
