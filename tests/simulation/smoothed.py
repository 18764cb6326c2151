"""A model with state in floating point, which a restart must restore bit by bit, and with a timer."""

from __future__ import annotations

from rowtide.engine import INSERT, Hashed, ModelSetup, Rowop, RowType, Table, TableType

READING = RowType(sensor="string", amount="int64")
SMOOTHED = RowType(sensor="string", amount="float64")

_WEIGHT = 0.3
_SILENCE_MS = 5_000


class Smoothed:
    """Sends the exponentially weighted mean of each sensor, and sends it again five seconds later."""

    def __init__(self, setup: ModelSetup) -> None:
        unit, clock = setup.unit, setup.clock
        means = Table(unit, "means", TableType(SMOOTHED, by_sensor=Hashed("sensor")))
        smoothed = unit.label("smoothed", SMOOTHED)

        @unit.handler(SMOOTHED)
        def remind(rowop: Rowop) -> None:
            smoothed.insert(rowop.row)

        @unit.handler(READING)
        def read(rowop: Rowop) -> None:
            held = means.find_by(sensor=rowop.row.sensor)
            before = float(rowop.row.amount) if held is None else held.row.amount
            mean = SMOOTHED.row(rowop.row.sensor, before + _WEIGHT * (rowop.row.amount - before))
            means.insert(mean)
            smoothed.insert(mean)
            clock.at(clock.rowtime + _SILENCE_MS, remind.rowop(INSERT, mean))

        setup.input("readings", read)
        setup.output("smoothed", smoothed)
