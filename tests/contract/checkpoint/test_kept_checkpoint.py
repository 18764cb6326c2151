"""A checkpoint that version 0.1.0 wrote is taken over: its snapshot loads, and the rows go on.

``kept/checkpoint.db.gz`` is the database of ``kept/pipeline.sql`` after the first half of the messages, with
open groups, windows, joins and t-sort buffers in its snapshot. It was written once, before the code was
reorganised, and is not written again: a change that cannot read it breaks running pipelines.
"""

from __future__ import annotations

import gzip
import random
import sqlite3
from pathlib import Path

from rowtide.plan.plan import Plan
from rowtide.runtime.pace import Pace
from rowtide.sql.pipeline import plan_pipeline
from rowtide_connectors.memory import memory_broker
from rowtide_connectors.memory.broker import MemoryBroker
from support.pipeline import work_off

KEPT = Path(__file__).with_name("kept")
NAME = "kept"
PACE = Pace(0, 40, 200, None)
"""A commit every 40 messages, a snapshot every 200 of them."""
HALF = 400


def produce(broker: MemoryBroker, begin: int, end: int) -> None:
    """Produce the messages from number ``begin`` to ``end``: the same ones in every process."""
    rng = random.Random(20)
    clock = 1_160_000_000_000
    for number in range(end):
        clock += rng.choice((0, 0, 200, 900, 2_500))
        ticker = rng.choice(("ORCL", "YHOO", "IBM", "SUNW"))
        amount, late, partition = rng.randrange(40), rng.choice((0, 0, 500, 1_900, 2_400)), rng.randrange(6)
        if number % 2:
            topic, partition = "trades", partition % 2
            value = f'{{"order_id":{max(number - rng.randrange(9), 0)},"ticker":"{ticker}",'
            value += f'"volume":{amount % 8},"rate":{number / 8}}}'
        else:
            topic, partition = "orders", partition % 3
            value = f'{{"id":{number},"ticker":"{ticker}","amount":{amount},'
            value += f'"price":{number}.25,"at":{clock - late}}}'
        if number % 97 == 41:
            value = value[:-4]
        if number >= begin:
            broker.produce(topic, [value.encode()], timestamps=[clock - late // 3], partition=partition)


def plan(file: Path) -> Plan:
    text = (KEPT / "pipeline.sql").read_text(encoding="utf-8")
    return plan_pipeline(text.replace("{file}", str(file)), file="pipeline.sql")


def opened(file: Path) -> MemoryBroker:
    broker = memory_broker(str(file))
    broker.ensure_topic("orders", 3)
    broker.ensure_topic("trades", 2)
    return broker


def contents(file: Path) -> dict[str, list[tuple[object, ...]]]:
    """Return the rows of every output table and the error rows, in an order of their own."""
    connection = sqlite3.connect(file)
    try:
        names = connection.execute("select name from sqlite_master where name like 'out\\_%' escape '\\'")
        found = {name: connection.execute(f"select * from {name}").fetchall() for (name,) in names}
        query = "select kind, relation, topic, partition, message_offset, bound, raw from rowtide_errors"
        found["errors"] = connection.execute(query).fetchall()
    finally:
        connection.close()
    return {name: sorted(rows, key=repr) for name, rows in found.items()}


def test_a_kept_checkpoint_goes_on_as_if_nothing_had_changed(tmp_path: Path) -> None:
    straight = tmp_path / "straight.db"
    produce(opened(straight), 0, 2 * HALF)
    work_off(plan(straight), NAME, PACE)

    taken_over = tmp_path / "taken_over.db"
    taken_over.write_bytes(gzip.decompress((KEPT / "checkpoint.db.gz").read_bytes()))
    before = contents(taken_over)
    produce(opened(taken_over), 0, 2 * HALF)
    work_off(plan(taken_over), NAME, PACE)

    wanted = contents(straight)
    assert all(wanted.values()), {name: len(rows) for name, rows in wanted.items()}
    assert contents(taken_over) == wanted
    grown = {name for name, rows in wanted.items() if len(rows) > len(before[name])}
    assert {"out_minutes", "out_hops", "out_sessions", "out_windows", "out_matched"} <= grown
