"""A model that is split by meter, for the scenario beside this file."""

from __future__ import annotations

from rowtide.engine import INSERT, Fifo, ModelSetup, Row, Rowop, RowType, Table, TableType

READING = RowType(meter="string", value="int64")
LIMIT = RowType(meter="string", most="int64")
STATE = RowType(meter="string", readings="int64", highest="int64")


class Meter:
    """Knows one meter: tells when it has been silent, and what it has measured since the last limit."""

    def __init__(self, setup: ModelSetup, silence_ms: int = 10_000) -> None:
        unit, clock = setup.unit, setup.clock
        readings = Table(unit, "readings", TableType(READING, arrived=Fifo()))
        limits = Table(unit, "limits", TableType(LIMIT, last=Fifo(1)))
        silent, states = unit.label("silent", STATE), unit.label("states", STATE)

        def state(meter: str) -> Row:
            values = [row.value for row in readings]
            return STATE.row(meter, len(values), max(values, default=None))

        @unit.handler(STATE)
        def wake(rowop: Rowop) -> None:
            if rowop.row == state(rowop.row.meter):
                silent.insert(rowop.row)

        @unit.handler(READING)
        def read(rowop: Rowop) -> None:
            limit = limits.first()
            if limit is not None and rowop.row.value > limit.row.most:
                raise ValueError(f"{rowop.row.value} is more than {limit.row.most}")
            readings.insert(rowop.row)
            clock.at(clock.rowtime + silence_ms, wake.rowop(INSERT, state(rowop.row.meter)))

        @unit.handler(LIMIT)
        def limit(rowop: Rowop) -> None:
            states.insert(state(rowop.row.meter))
            limits.insert(rowop.row)
            readings.clear()

        setup.input("readings", read, key=("meter",))
        setup.input("limits", limit, key=("meter",))
        setup.output("silent", silent)
        setup.output("states", states)
