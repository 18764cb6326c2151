"""Local times are those of Arrow, which reads the zones of the machine by itself."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import given
from hypothesis import strategies as st

from rowtide.expr.columnar import compile_columns
from rowtide.expr.functions.times.zones import FROM_UTC, TO_UTC
from rowtide.expr.rowwise import compile_row
from rowtide.expr.tree import Call, FieldRef, Literal
from rowtide.rows.rowop import TimedRow
from rowtide.rows.tray import Tray
from rowtide.rows.types import TIMESTAMP, VARCHAR, Field, RowType
from rowtide.rowtime.zones import zone_names, zone_of

ZONES = (
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Asia/Kolkata",
    "Australia/Lord_Howe",
    "America/Sao_Paulo",
)
DAY = 86_400_000
# From 1975 to 2020, whose rules no newer version of the zones changes; with quarters of hours among the times.
times = st.lists(
    st.one_of(
        st.integers(5 * 365 * DAY, 50 * 365 * DAY),
        st.integers(5 * 365 * 96, 50 * 365 * 96).map(lambda quarter: quarter * 900_000),
    ),
    min_size=1,
    max_size=12,
)


def both_forms(name: str, zone: str, given_times: list[int]) -> list[object]:
    """Return the times of a function, which must be the same in columns and rows."""
    call = Call(name, (FieldRef(0, TIMESTAMP), Literal(zone, VARCHAR)), TIMESTAMP)
    fields = RowType((Field("T", TIMESTAMP, nullable=False),))
    tray = Tray.from_rows(fields, [TimedRow(0, 0, at, 1, (each,)) for at, each in enumerate(given_times)])
    found = compile_columns(call)(tray).column.to_list()
    one = compile_row(call)
    assert found == [one((each,), 0) for each in given_times]
    return found


@given(st.sampled_from(ZONES), times)
def test_local_times_are_those_of_arrow(zone: str, utc: list[int]) -> None:
    theirs = pc.local_timestamp(pa.array(utc, pa.timestamp("ms", zone))).cast(pa.int64()).to_pylist()
    assert both_forms(FROM_UTC, zone, utc) == theirs


@given(st.sampled_from(ZONES), times)
def test_times_of_a_zone_are_those_of_arrow(zone: str, local: list[int]) -> None:
    shown = pa.array(local, pa.timestamp("ms"))
    theirs = pc.assume_timezone(shown, zone, ambiguous="earliest", nonexistent="earliest").cast(pa.int64())
    ours = both_forms(TO_UTC, zone, local)
    for at, found, expected in zip(local, ours, theirs.to_pylist(), strict=True):
        assert isinstance(found, int)
        is_skipped = both_forms(FROM_UTC, zone, [found]) != [at]
        # Arrow takes the last moment before the clocks that skip this time.
        assert found == expected or is_skipped


def test_every_zone_can_be_read() -> None:
    assert len(zone_names()) > 400
    assert all(zone_of(name) is not None for name in zone_names())
    assert not any(
        map(zone_of, ("", ".", "..", "../zones", "/etc/localtime", "Europe", "europe/berlin", "CEST!"))
    )
