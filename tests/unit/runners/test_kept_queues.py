"""Rows that wait in a merge are cut into parts by rows and by bytes, and never within a place."""

from __future__ import annotations

from itertools import groupby, pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowtide.checkpoint.parts.files import FileParts
from rowtide.checkpoint.parts.kept import KeptPart, get
from rowtide.operators.merge.merge import queue_of
from rowtide.rows.rowop import Opcode, TimedRow
from rowtide.rows.tray import Tray
from rowtide.rows.types import VARCHAR, Field, RowType
from rowtide.runners.spark.parts import queues
from rowtide.runners.spark.parts.keeping import PartKeeper
from rowtide.runners.spark.parts.queues import KeptQueues

ROWS = RowType((Field("text", VARCHAR),))
NEVER = 1 << 60
Placed = tuple[int, str]
"""A row of a test: its place, and its text."""
changes = st.lists(st.integers(1, 4), max_size=8)
"""The numbers of rows at the places of a port."""


def rows_at(port: int, changes: list[int]) -> list[Placed]:
    return [(place, f"{port}.{place}.{row}") for place, rows in enumerate(changes) for row in range(rows)]


def kept_by(
    store: FileParts, ports: list[list[Placed]], at_once: int
) -> tuple[list[KeptPart], dict[int, list[list[Placed]]]]:
    """Return the parts of rows that come a few at once, by turns from each port, and the rows of each part by port."""
    kept = KeptQueues(PartKeeper(store, "folder/1/1"))
    for start in range(0, max(map(len, ports)), at_once):
        for port, rows in enumerate(ports):
            if some := rows[start : start + at_once]:
                timed = [TimedRow(7, 1, place, Opcode.INSERT, (text,)) for place, text in some]
                kept.add(port, Tray.from_rows(ROWS, timed))
    parts = list(kept.close())
    found: dict[int, list[list[Placed]]] = {port: [] for port in range(len(ports))}
    for part in parts:
        ((name, table),) = get(store, part).items()
        assert part.facts.held == part.facts.ahead == len(table)
        (port,) = [each for each in found if queue_of(each) == name]
        back = Tray.from_arrow(ROWS, table).rows()
        found[port].append([(row.counter, str(row.row[0])) for row in back])
    return parts, found


@given(
    ports=st.lists(changes, min_size=1, max_size=3).filter(any),
    at_once=st.integers(1, 5),
    limits=st.sampled_from([(2, NEVER, NEVER), (NEVER, 60, NEVER), (NEVER, NEVER, 60), (NEVER, NEVER, 1)]),
)
def test_parts_are_all_rows_in_order_and_divide_no_place(
    tmp_path_factory: pytest.TempPathFactory,
    ports: list[list[int]],
    at_once: int,
    limits: tuple[int, int, int],
) -> None:
    store = FileParts(str(tmp_path_factory.getbasetemp() / "queues"))
    rows = [rows_at(port, changes) for port, changes in enumerate(ports)]
    with pytest.MonkeyPatch.context() as patch:
        for name, limit in zip(("PART_ROWS", "PART_BYTES", "HELD_BYTES"), limits, strict=True):
            patch.setattr(queues, name, limit)
        _, found = kept_by(store, rows, at_once)
    for port, parts in found.items():
        assert [row for part in parts for row in part] == rows[port]
        assert all(before[-1][0] < after[0][0] for before, after in pairwise(parts))


def test_a_part_is_kept_once_its_rows_are_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queues, "PART_ROWS", 2)
    _, found = kept_by(FileParts(str(tmp_path)), [rows_at(0, [1, 3, 1, 1, 2])], 1)
    assert places(found[0]) == [[0], [1], [2], [3], [4]]


def places(parts: list[list[Placed]]) -> list[list[int]]:
    return [[place for place, _ in groupby(part, key=lambda row: row[0])] for part in parts]


def test_a_part_is_kept_once_its_bytes_are_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queues, "PART_BYTES", 10_000)
    large = [(0, "x"), (1, "y" * 20_000), (2, "z"), (3, "z"), (4, "y" * 9_000), (5, "y" * 9_000), (6, "z")]
    _, found = kept_by(FileParts(str(tmp_path)), [large], 1)
    assert places(found[0]) == [[0], [1], [2, 3, 4], [5, 6]]


def test_a_task_holds_a_limited_size_of_all_ports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queues, "HELD_BYTES", 25_000)
    small = [(place, "x") for place in range(4)]
    large = [(place, "y" * 9_000) for place in range(4)]
    parts, found = kept_by(FileParts(str(tmp_path)), [small, large], 1)
    assert places(found[0]) == [[0, 1, 2, 3]]
    assert places(found[1]) == [[0, 1], [2, 3]]
    assert max(part.memory for part in parts) < 25_000
