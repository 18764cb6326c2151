"""W1 to W6 in our SQL, from decoded columns in memory to output columns.

The event stream has ROWTIME of arrival (event i: ``BASE_MS`` + i) and is split into trays as by a
source under load. Only the planner and the flow depend on the query.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rowtide.bench.events import BASE_MS, KEYS, Events
from rowtide.bench.suite import Outcome
from rowtide.clock import Clock
from rowtide.flow.flow import Flow
from rowtide.rows.column import Column
from rowtide.rows.tray import Tray
from rowtide.rowtime.bound import Bound
from rowtide.sql.pipeline import plan_pipeline

TRAY_ROWS = 16_384
FAR_FUTURE = Bound(BASE_MS * 10)
"""The final bound, which closes everything."""

EVENTS_SQL = "CREATE STREAM events (ts TIMESTAMP, key VARCHAR(8), price DOUBLE, qty INTEGER);\n"
STREAM = "EVENTS"


Script = Sequence[tuple[str, Tray]]
"""Rows by their relation, in order of arrival."""


def run_query(
    sql: str,
    relation: str,
    given: Events,
    clock: Clock,
    check: Callable[[Sequence[Tray]], str],
    bounded: Sequence[str] = (STREAM,),
    take: Callable[[Tray], None] | None = None,
) -> Outcome:
    """Run a view over the event stream and check its output.

    ``bounded`` are the relations that get the final bound: those whose clock is their own. ``take``
    gets the output while the clock is paused; the output is then not kept, and ``check`` gets no
    rows.
    """
    return run_script(
        EVENTS_SQL + sql,
        relation,
        clock,
        lambda flow: ([], [(STREAM, tray) for tray in _trays(given, flow)]),
        bounded,
        check,
        take,
    )


def run_script(
    sql: str,
    relation: str,
    clock: Clock,
    prepare: Callable[[Flow], tuple[Script, Script]],
    bounded: Sequence[str],
    check: Callable[[Sequence[Tray]], str],
    take: Callable[[Tray], None] | None = None,
) -> Outcome:
    """Run a view over several inputs and check its output.

    ``prepare`` returns the rows before the clock starts and the rows after; for ``take`` see above.
    """
    plan = plan_pipeline(sql)
    flow = Flow({relation: dict(plan.relations)[relation]}, {})
    before, script = prepare(flow)
    for name, tray in before:
        flow.insert(name, 0, tray)
    out: list[Tray] = []
    rows = 0
    seconds = 0.0

    def drain() -> None:
        nonlocal rows, seconds
        given = flow.drain().outputs[relation]
        seconds += clock.monotonic() - began
        rows += sum(map(len, given))
        if take is None:
            out.extend(given)
        else:
            for each in given:
                take(each)

    began = clock.monotonic()
    drain()
    seconds = 0.0
    for name, tray in script:
        began = clock.monotonic()
        flow.insert(name, 0, tray)
        drain()
    began = clock.monotonic()
    for each in bounded:
        flow.bound(each, 0, FAR_FUTURE)
    drain()
    flow.check()
    return Outcome(seconds, rows, check(out))


def key_name(index: int) -> str:
    """Return the name of a key."""
    return f"k{index:05d}"


def key_names() -> pa.Array:
    """Return the names of all keys."""
    return pa.array([key_name(index) for index in range(KEYS)])


def cut(relation: str, flow: Flow, columns: Sequence[Any], rowtime: NDArray[np.int64]) -> list[Tray]:
    """Return the rows of an input as trays, numbered from 0; values are in column form."""
    row_type, origin = flow.row_type(relation), flow.origin(relation, 0)
    trays = []
    for start in range(0, len(rowtime), TRAY_ROWS):
        stop = min(start + TRAY_ROWS, len(rowtime))
        parts = [
            Column(field.type, whole.slice(start, stop - start) if field.type.is_text else whole[start:stop])
            for field, whole in zip(row_type, columns, strict=True)
        ]
        counter = np.arange(start, stop, dtype=np.int64)
        trays.append(Tray.from_columns(row_type, parts, rowtime[start:stop], origin, counter))
    return trays


def _trays(given: Events, flow: Flow) -> list[Tray]:
    names = key_names()
    row_type = flow.row_type(STREAM)
    origin = flow.origin(STREAM, 0)
    trays = []
    for start in range(0, len(given.ts), TRAY_ROWS):
        part = slice(start, start + TRAY_ROWS)
        columns = (
            Column(row_type[0].type, given.ts[part]),
            Column(row_type[1].type, names.take(pa.array(given.key[part]))),
            Column(row_type[2].type, given.price[part]),
            Column(row_type[3].type, given.qty[part]),
        )
        counter = np.arange(start, start + len(columns[0]), dtype=np.int64)
        trays.append(Tray.from_columns(row_type, columns, BASE_MS + counter, origin, counter))
    return trays
