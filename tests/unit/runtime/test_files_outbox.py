"""Rows that pumps write to files: each is in one file once, wherever processes die and whatever fails."""

from __future__ import annotations

import json
import os
import random
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from rowtide.runtime.crashpoints import (
    OUTBOX_POINTS,
)
from rowtide.runtime.pace import Pace
from rowtide.runtime.service import Service
from rowtide.runtime.state.topic_sinks import SinkOfStream
from rowtide.testing.in_memory_topic import InMemoryTopic
from rowtide_connectors.api import MessageSink, OutgoingMessage
from rowtide_connectors.errors import MismatchError, OptionError, RefusedMessageError
from rowtide_connectors.registry import find_message_sink
from support.files import dies_at_a_point, fails_anywhere, lines_of, taken_over_within
from support.outbox import alerts_plan
from support.runtime import World, fill
from support.seeds import seeds

PACE = Pace(100, 60, 100, None)


def open_sink(folder: Path, sender: str = "p-ALERTS", **options: str) -> MessageSink:
    given = {"path": "out", "folders": "HOUR", **options}
    return find_message_sink("files").open({"url": str(folder)}, given, sender, 100_000)


class Writer:
    """A world whose pipeline writes rows to files."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        folder.mkdir()
        plan = alerts_plan()
        (alerts,) = plan.written_streams
        plain = tuple(each for each in alerts.options if each[0] != "key")
        self.plan = replace(plan, written_streams=(replace(alerts, options=plain),))
        topic = InMemoryTopic("readings", 3, random.Random(seed))
        fill(topic, random.Random(1))
        self.world = World(topic, plan=self.plan)

    def run(self, **changes: Any) -> None:
        (stream,) = self.plan.written_streams
        guarantee = find_message_sink("files").guarantee
        sinks = {stream.name: SinkOfStream(stream, guarantee, lambda sender: open_sink(self.folder, sender))}
        Service(self.world.context(pace=PACE, sinks=sinks, **changes)).run(until_end=True)

    def check(self) -> None:
        log = self.world.database.contents.appended["LOG"]
        found = [json.loads(line) for line in lines_of(self.folder / "out")]
        assert found == [{"sensor": sensor, "amount": amount} for sensor, amount in log]
        assert len(found) > 200


@pytest.mark.parametrize("point", OUTBOX_POINTS)
def test_dying_at_a_point_again_and_again_writes_each_row_once(tmp_path: Path, point: str) -> None:
    dies_at_a_point(Writer, tmp_path, point)


@pytest.mark.parametrize("dies", [False, True], ids=["calls fail", "the process dies"])
@pytest.mark.parametrize("seed", seeds(3, few=1))
def test_any_failure_of_any_step_writes_each_row_once(tmp_path: Path, seed: int, dies: bool) -> None:
    fails_anywhere(Writer, tmp_path, seed, 0.1, dies=dies)


def test_a_number_is_in_one_file_even_if_an_older_sink_looked_before_the_newer_began(tmp_path: Path) -> None:
    older, newer = open_sink(tmp_path), open_sink(tmp_path)
    rows = [OutgoingMessage(at, b"%d" % at, 3_600_000 * at) for at in (1, 2, 3)]
    older.begin()
    with taken_over_within(newer, rows[:1], 1):
        older.send(rows, 3)
    newer.send(rows[1:], 3)
    assert lines_of(tmp_path / "out") == [b"1", b"2", b"3"]
    assert older.begin() == 3


def test_files_are_in_folders_of_their_hours_and_the_number_outlives_them(tmp_path: Path) -> None:
    one = open_sink(tmp_path, compression="GZIP")
    one.begin()
    one.send([OutgoingMessage(at, b"{}", 3_600_000 * (at // 2)) for at in range(1, 6)], 5)
    paths = sorted((tmp_path / "out").glob("date=*/*/*"))
    assert [path.relative_to(tmp_path / "out").as_posix() for path in paths] == [
        f"date=1970-01-01/hour={hour:02}/p-ALERTS-{first:019}.jsonl.gz"
        for hour, first in ((0, 1), (1, 2), (2, 4))
    ]
    for path in paths:
        path.unlink()
    assert open_sink(tmp_path, compression="GZIP").begin() == 5


def test_what_cannot_be_a_line_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    one = open_sink(tmp_path)
    one.check()
    one.begin()
    for wrong in (
        {"value": None},
        {"value": b"a\nb"},
        {"key": b"k"},
        {"headers": (("h", b""),)},
        {"partition": 1},
    ):
        given = [OutgoingMessage(1, b"{}", 1), replace(OutgoingMessage(2, b"{}", 1), **wrong)]
        with pytest.raises(RefusedMessageError, match="message 2 cannot be a line") as caught:
            one.send(given, 2)
        assert caught.value.number == 2
    assert lines_of(tmp_path / "out") == []


def test_a_folder_without_hard_links_and_an_object_store_are_refused(tmp_path: Path) -> None:
    def no_links(*_: object) -> None:
        raise OSError(1, "Operation not permitted")

    with (
        patch.object(os, "link", no_links),
        pytest.raises(MismatchError, match="cannot be linked"),
    ):
        open_sink(tmp_path).check()
    with pytest.raises(OptionError, match="on file systems of this machine only"):
        find_message_sink("files").open({"url": "s3://bucket/x"}, {"path": "out"}, "s", 1_000)
    with pytest.raises(OptionError, match="has the value 'WEEK'"):
        find_message_sink("files").check_options({"path": "out", "folders": "week"})
