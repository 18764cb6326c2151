"""The layout of an archive: its folders, the names of its files, and their columns.

``topic=orders/date=2026-01-31/00003-0000000000000000123.parquet`` has consecutive messages of partition 3, of which the
first one is at offset 123 or follows a hole there. Names that begin with ``_`` or ``.`` are no messages.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa

from rowtide.rows.types import MAX_TIMESTAMP_MS

DAY_MS = 86_400_000
NOTES = "_rowtide"
"""The folder of each topic with what its archive notes: positions, and the id of the topic."""

COLUMNS = pa.schema(
    [
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("holes_before", pa.int64(), nullable=False),
        pa.field("timestamp", pa.timestamp("ms", tz="UTC"), nullable=False),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)
"""The columns of a file; topic and date are in the names of its folders.

``holes_before`` is the number of offsets before the message that have none, such as the marks of transactions. So the
rows themselves say whether a message is missing: each begins, with its holes, where the one before ends.
"""

_NAME = re.compile(r"(\d{5,10})-(\d{19})\.parquet")
_UNFINISHED = re.compile(r"\.(\d{5,10}-\d{19}\.parquet|\d{5,10}\.position|topic|owner)\.[0-9a-f]{16}\.tmp")


def topic_folder(root: Path, topic: str) -> Path:
    """Return the folder of a topic."""
    return root / f"topic={quote(topic, safe='')}"


def date_folder(day: int) -> str:
    """Return the name of the folder of a day, which counts from 1970."""
    return f"date={datetime(1970, 1, 1, tzinfo=UTC) + timedelta(days=day):%Y-%m-%d}"


def day_of(timestamp_ms: int) -> int:
    """Return the day of a message; one before 1970 or after 9999 counts as the first or the last."""
    return min(max(timestamp_ms, 0), MAX_TIMESTAMP_MS) // DAY_MS


def file_name(partition: int, begin: int) -> str:
    """Return the name of the file of a partition that begins at an offset."""
    return f"{partition:05}-{begin:019}.parquet"


def place_in(name: str) -> tuple[int, int] | None:
    """Return the partition and the offset in the name of a file; None for other files."""
    found = _NAME.fullmatch(name)
    return None if found is None else (int(found[1]), int(found[2]))


def is_unfinished(name: str) -> bool:
    """Return whether a name is that of a file which a process has not finished."""
    return _UNFINISHED.fullmatch(name) is not None
