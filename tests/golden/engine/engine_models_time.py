"""Models of chapters 13 and 14.1 of the guide: traffic accounting by the time in the data, the diamond."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial

from rowtide.engine import (
    DELETE,
    NOP,
    Aggregator,
    AggregatorContext,
    Fifo,
    Hashed,
    Ordered,
    Rowop,
    RowType,
    Sorted,
    Table,
    TableType,
    TextDriver,
    Unit,
)

HOUR = 3_600_000_000
"""Microseconds, as all times of these models."""

KEEP_HOURS = 2

PACKET = RowType(
    time="int64",
    local_ip="string",
    remote_ip="string",
    local_port="int32",
    remote_port="int32",
    bytes="int32",
)
HOURLY = RowType(time="int64", local_ip="string", remote_ip="string", bytes="int64")
HOURLY_WITH_DAY = RowType(time="int64", day="string", local_ip="string", remote_ip="string", bytes="int64")
DAILY = RowType(day="string", bytes="int64")


def hour_of(time: int) -> int:
    return time - time % HOUR


def day_of(time: int) -> str:
    return datetime.fromtimestamp(time // 1_000_000, UTC).strftime("%Y%m%d")


class Traffic:
    """Packets are summed up by hour as long as the hour is the present one, and kept for a while."""

    def __init__(self, *, is_daily: bool) -> None:
        self.unit = Unit("uTraffic")
        self.hour = 0
        self.day: str | None = None
        hourly = HOURLY_WITH_DAY if is_daily else HOURLY
        # The guide hashes by the addresses and prints them in the order of its hash function: here sorted.
        groups = Ordered(
            "local_ip",
            "remote_ip",
            group=Fifo().aggregate(Aggregator("aggrHourly", hourly, self.sum_up, dict)),
        )
        by_hour = Sorted("byHour", key=lambda packet: hour_of(packet.time), byIP=groups)
        self.packets = Table(self.unit, "tPackets", TableType(PACKET, byHour=by_hour))
        self.hourly = Table(
            self.unit,
            "tHourly",
            TableType(
                hourly,
                byAggr=Ordered("time", "local_ip", "remote_ip"),
                **({"byDay": Hashed("day", group=Fifo())} if is_daily else {}),
            ),
        )
        self.packets.results("aggrHourly").chain(self.hourly.input)
        self.daily = Table(self.unit, "tDaily", TableType(DAILY, byDay=Ordered("day"))) if is_daily else None
        tables = [self.packets, self.hourly, *([self.daily] if self.daily else [])]
        self.driver = TextDriver(
            self.unit,
            {
                "new": self.take,
                **{f"dump{table.name[1:]}": partial(self._dumped, table) for table in tables},
            },
        )
        self.driver.show(*(table.out for table in tables))

    def sum_up(self, context: AggregatorContext) -> None:
        first = context.first()
        if first is None or context.opcode is NOP or hour_of(first.time) < self.hour:
            return
        if context.opcode is DELETE:
            context.send(context.state["sent"])
            return
        hour = hour_of(first.time)
        values = {"time": hour, "local_ip": first.local_ip, "remote_ip": first.remote_ip}
        values |= {"day": day_of(hour)} if self.daily else {}
        context.state["sent"] = context.result(**values, bytes=sum(packet.bytes for packet in context.rows()))
        context.send(context.state["sent"])

    def take(self, words: list[str]) -> None:
        packet = PACKET.parse(words[1:])
        self.hour, before = hour_of(packet.time), self.day
        self.day = day_of(self.hour)
        if packet.local_ip is not None:
            self.packets.input.insert(packet)
        oldest = self.hour - KEEP_HOURS * HOUR
        self.packets.remove_while(lambda kept: hour_of(kept.time) < oldest)
        if self.daily is not None and before not in (None, self.day):
            total = sum(row.bytes for row in self.hourly.index("byDay").group_by(day=before))
            self.daily.input.insert(DAILY.row(before, total))

    def _dumped(self, table: Table, _words: Sequence[str]) -> None:
        self.dump(table)

    def dump(self, table: Table) -> None:
        for row in table:
            self.driver.print(table.row_type.format(row))


def diamond() -> TextDriver:
    """Rows fork by their sign and meet again; an update that changes sides keeps its order."""
    unit = Unit("diamond")
    keyed = RowType(key="string", value="int32")
    marked = keyed.extended(negative="int32")
    joined = unit.label("D", marked)

    def mark(negative: int) -> Callable[[Rowop], None]:
        return lambda rowop: joined.send(rowop.opcode, (*rowop.row, negative))

    below, above = unit.label("B", keyed, mark(1)), unit.label("C", keyed, mark(0))
    fork = unit.label("A", keyed, lambda rowop: (below if rowop.row.value < 0 else above).forward(rowop))
    driver = TextDriver(unit, {"": fork})
    joined.then(
        lambda rowop: driver.print(f"{rowop.opcode.name},{marked.format_csv(rowop.row)}"), name="print"
    )
    return driver


TIME_MODELS: dict[str, Callable[[], TextDriver]] = {
    "hourly traffic": lambda: Traffic(is_daily=False).driver,
    "daily traffic": lambda: Traffic(is_daily=True).driver,
    "diamond": diamond,
}
