"""Rows that wait for their time leave as a list sorted by time would give them, however they came."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowtide.operators.sort import held_rows
from rowtide.operators.sort.held_rows import HeldRows
from rowtide.operators.storage.waiting import SMALL_ROWS
from rowtide.rows.rowop import Opcode, TimedRow
from rowtide.rows.tray import Tray
from rowtide.rows.types import BOOLEAN, DOUBLE, INTEGER, VARCHAR, Field, RowType, decimal

ROW_TYPE = RowType(
    (
        Field("NAME", VARCHAR),
        Field("FLAG", BOOLEAN),
        Field("COUNT", INTEGER),
        Field("SHARE", DOUBLE),
        Field("WIDE", decimal(38, 2)),
    )
)
TIMES = st.integers(0, 20)
VALUES = st.tuples(
    st.none() | st.text(alphabet="aé", max_size=18),
    st.none() | st.booleans(),
    st.none() | st.integers(-5, 5),
    st.none() | st.floats(-1, 1),
    st.none() | st.just(Decimal(10**30).scaleb(-2)),
)
SKIPPED = TimedRow(0, 0, 0, Opcode.INSERT, ("skipped", None, None, None, None))


@given(
    steps=st.lists(
        st.one_of(
            TIMES,
            st.tuples(st.lists(st.tuples(TIMES, st.integers(0, 1), VALUES), max_size=9), st.integers(0, 2)),
        ),
        max_size=12,
    ),
    small=st.sampled_from([0, 3, SMALL_ROWS]),
)
def test_rows_leave_in_order_of_time_then_of_arrival(
    steps: list[int | tuple[list[tuple[int, int, tuple[object, ...]]], int]], small: int
) -> None:
    held, waiting = HeldRows(ROW_TYPE), list[TimedRow]()
    counter = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(held_rows, "SMALL_ROWS", small)
        for step in steps:
            if isinstance(step, int):
                out = held.release(step)
                leaving = [row for row in waiting if row.rowtime <= step]
                waiting = [row for row in waiting if row.rowtime > step]
                assert list(out.rows() if out is not None else ()) == leaving
            else:
                given_rows, skipped = step
                rows = []
                for time, origin, values in given_rows:
                    rows.append(TimedRow(time, origin, counter, Opcode.INSERT, values))
                    counter += 1
                # A slice: its columns do not begin where their memory does.
                tray = Tray.from_rows(ROW_TYPE, [SKIPPED] * skipped + rows)
                held.add(tray.slice(skipped, len(tray)))
                waiting = sorted(waiting + rows, key=lambda row: row.rowtime)
            assert list(held.contents().rows()) == waiting
            assert len(held) == len(waiting)
            assert held.first() == (waiting[0].rowtime if waiting else None)
