"""Traffic accounting as a model in a pipeline: bytes by hour and addresses, and by day.

``traffic.sql`` reads the packets from Kafka and keeps both in the database.
"""

from __future__ import annotations

from rowtide.engine import INSERT, Fifo, Hashed, ModelSetup, Rowop, RowType, Table, TableType

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS

PACKET = RowType(local_ip="string", remote_ip="string", bytes="int64")
HOURLY = RowType(hour="timestamp", local_ip="string", remote_ip="string", bytes="int64")
DAILY = RowType(day="date", local_ip="string", bytes="int64")
MIDNIGHT = RowType(day="date")


class Traffic:
    """Adds packets up by hour. At midnight the day is added up by local address and its hours are forgotten.

    ``least_bytes``: addresses with less on a day are left out of the day's sums.
    """

    def __init__(self, setup: ModelSetup, least_bytes: int = 0) -> None:
        unit, clock = setup.unit, setup.clock
        hours = Table(
            unit,
            "hours",
            TableType(
                HOURLY,
                by_hour=Hashed("hour", "local_ip", "remote_ip"),
                by_address=Hashed("local_ip", all=Fifo()),
            ),
        )
        hourly, daily = unit.label("hourly", HOURLY), unit.label("daily", DAILY)

        @unit.handler(MIDNIGHT)
        def midnight(rowop: Rowop) -> None:
            for address in hours.index("by_address").groups():
                rows = list(address)
                total = sum(row.bytes for row in rows)
                if total >= least_bytes:
                    daily.insert(DAILY.row(rowop.row.day, rows[0].local_ip, total))
            hours.clear()

        @unit.handler(PACKET)
        def packet(rowop: Rowop) -> None:
            local, remote, count = rowop.row
            day = clock.rowtime // DAY_MS
            if not len(hours):
                clock.at((day + 1) * DAY_MS, midnight.rowop(INSERT, MIDNIGHT.row(day)))
            key = HOURLY.row(clock.rowtime // HOUR_MS * HOUR_MS, local, remote)
            held = hours.find(key)
            row = HOURLY.changed(key, bytes=count + (held.row.bytes if held else 0))
            hours.insert(row)
            hourly.insert(row)

        setup.input("packets", packet)
        setup.output("hourly", hourly)
        setup.output("daily", daily)
        setup.table("today", hours)
