"""Packets for the traffic example, and what they must come to."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "traffic" / "traffic.sql"
HOUR_MS = 3_600_000
DAY = 19_800
LEAST_BYTES = 100
Table = list[tuple[object, ...]]
Packet = tuple[int, str, str, int]
"""Time (ms), local address, remote address, bytes."""


def packets(seed: int) -> list[Packet]:
    """Return three days of packets in order of time."""
    rng = random.Random(seed)
    at, found = DAY * 24 * HOUR_MS, []
    while at < (DAY + 3) * 24 * HOUR_MS:
        at += rng.randrange(1, HOUR_MS // 3)
        found.append((at, f"10.0.0.{rng.randrange(4)}", f"8.8.8.{rng.randrange(2)}", rng.randrange(90)))
    return found


def message(packet: Packet) -> bytes:
    """Return a packet as the router sends it."""
    return json.dumps(dict(zip(("at", "local_ip", "remote_ip", "bytes"), packet, strict=True))).encode()


def expected(sent: list[Packet]) -> tuple[Table, Table]:
    """Return the hourly rows (local, remote, bytes) and the daily ones (local, bytes), sorted.

    Packets have gone to two partitions by turns; the t-sort of each holds back its last ten seconds.
    """
    end = min(max(at for at, *_ in sent[part::2]) - 10_000 for part in (0, 1))
    hours: Counter[tuple[int, str, str]] = Counter()
    days: Counter[tuple[int, str]] = Counter()
    for at, local, remote, count in sent:
        if at <= end:
            hours[at // HOUR_MS, local, remote] += count
            day = at // (24 * HOUR_MS)
            if (day + 1) * 24 * HOUR_MS <= end:
                days[day, local] += count
    hourly: Table = sorted((local, remote, total) for (_, local, remote), total in hours.items())
    daily: Table = sorted((local, total) for (_, local), total in days.items() if total >= LEAST_BYTES)
    return hourly, daily
