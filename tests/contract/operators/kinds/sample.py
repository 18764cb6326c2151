"""TABLESAMPLE HASH: its cases, and what it means as docs/sql/select.md says it."""

from __future__ import annotations

import json
import struct
from decimal import Decimal
from typing import Any
from zlib import crc32

from hypothesis import strategies as st

from contract.operators.inputs import (
    KEY_TYPES,
    MOSTLY_INSERTS,
    REAL,
    TINYINT,
    Case,
    ordered_items,
    row_type_of,
)
from contract.operators.stream_models import RowWiseModel
from rowtide.operators.contract import OperatorSite
from rowtide.plan.nodes import Source
from rowtide.plan.nodes.sample import HashSample
from rowtide.rows.column import unscaled
from rowtide.rows.rowop import TimedRow
from rowtide.rows.types import TIMESTAMP, Type

WORD = 1 << 64
ORIGINS = (6 << 16, 2 << 16)


@st.composite
def samples(draw: st.DrawFn) -> Case:
    """Keys of every type, alone and together; shares of nothing, of some and of all."""
    row_type = row_type_of(draw(st.permutations((*KEY_TYPES, TINYINT, REAL, TIMESTAMP))))
    keys = tuple(draw(st.lists(st.integers(0, len(row_type) - 1), min_size=1, max_size=3)))
    percent = Decimal(draw(st.sampled_from(("0", "0.001", "12.5", "50", "50", "99.999", "100"))))
    node = HashSample("V", Source("S", row_type), keys, percent, draw(st.sampled_from((0, 42, -1))))
    times = st.integers(-3, 6)
    items = draw(ordered_items(row_type, ORIGINS, times, opcodes=MOSTLY_INSERTS, copies=True))
    return Case(node, OperatorSite(9 << 16, True, (ORIGINS,)), (items,))


class SampleModel(RowWiseModel):
    """Keeps a row if the hash of its keys is in the lowest share of all hashes."""

    def of(self, timed: TimedRow) -> TimedRow | None:
        found = mixed(self.node.seed)
        for key in self.node.keys:
            found = mixed(found ^ word(timed.row[key], self.node.row_type[key].type))
        return timed if found * 100 < self.node.percent * WORD else None


def mixed(state: int) -> int:
    """Return the output of SplitMix64 for a state."""
    value = (state + 0x9E3779B97F4A7C15) % WORD
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 % WORD
    value = (value ^ value >> 27) * 0x94D049BB133111EB % WORD
    return value ^ value >> 31


def word(value: Any, kind: Type) -> int:
    """Return the word of one value."""
    match value:
        case None:
            return 0x6E756C6C
        case str():
            return crc32(value.encode())
        case bytes():
            return crc32(value)
        case float():
            canonical = float("nan") if value != value else value + 0.0
            return int.from_bytes(struct.pack("<d", canonical), "little")
        case Decimal():
            return unscaled(value, kind.scale) % WORD
        case tuple():
            return crc32(json.dumps(value, separators=(",", ":")).encode())
        case _:
            return int(value) % WORD


KIND, CASES, MODEL = HashSample, samples(), SampleModel
