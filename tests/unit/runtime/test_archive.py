"""Archives of topics: each message is in one file once, wherever processes die and whatever fails."""

from __future__ import annotations

import json
import random
import re
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rowtide.cli.main import app
from rowtide.errors import StatementError, SupersededError, TransientError
from rowtide.runtime.archive.files import FileLimits, TopicArchive
from rowtide.runtime.archive.layout import DAY_MS, NOTES
from rowtide.runtime.crashpoints import ARCHIVE_POINTS, CrashAt, SimulatedCrash, raise_crash
from rowtide.testing.virtual_clock import VirtualClock
from rowtide_connectors.errors import UnavailableError
from rowtide_connectors.matching import MatchingTopics
from rowtide_connectors.memory import memory_broker
from rowtide_connectors.memory.broker import MemoryBroker
from support.archive import archive, archived_messages, files_of, messages_of, rows_of, source_of
from support.files import failing
from support.seeds import seeds

STEPS = ("link", "fsync", "replace")
"""Calls of the operating system for each file."""


def filled(rng: random.Random, messages: int = 60, broker: MemoryBroker | None = None) -> MemoryBroker:
    """Produce messages of all kinds to three partitions over some days, with holes between them."""
    broker = broker or MemoryBroker()
    broker.ensure_topic("t", 3)
    for at in range(messages):
        stamp = max(-1, (20_000 * DAY_MS + at * DAY_MS // 20) + rng.randrange(-DAY_MS // 10, DAY_MS // 10))
        stamp = rng.choice([stamp] * 20 + [-1, 1 << 50])
        value = rng.choice([None, b"", b"{", bytes(rng.randrange(256) for _ in range(rng.randrange(90)))])
        headers = rng.choice([None, None, [("h", b"\xff"), ("h", b"")], [("rowtide.bound", b"7")]])
        partition = rng.randrange(3)
        broker.produce(
            "t",
            [value],
            timestamps=[stamp],
            partition=partition,
            keys=[rng.choice([None, b"", b"k"])],
            headers=[headers],
        )
        if rng.random() < 0.1:
            broker.hole("t", rng.randrange(1, 4), partition=rng.randrange(3))
    return broker


def check(root: Path, broker: MemoryBroker, begins: dict[int, int] | None = None) -> None:
    """Check that an archive has every message once, and that its rows cover the offsets without a gap."""
    assert archived_messages(root, "t") == messages_of(broker, "t")
    ends = dict(begins or {})
    for row in (row for row in rows_of(root) if row["topic"] == "t"):
        begin = row["offset"] - row["holes_before"]
        assert begin == ends.get(row["partition"], 0)
        ends[row["partition"]] = row["offset"] + 1


@pytest.mark.parametrize("seed", seeds(5, few=2))
def test_an_archive_has_every_message_whatever_it_says_and_continues(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    broker = filled(rng)
    report = archive(source_of(broker, "t"), tmp_path)
    check(tmp_path, broker)
    files = files_of(tmp_path)
    assert report.files == len(files) > 10
    assert report.messages == len(messages_of(broker, "t"))
    assert report.positions["t"] == {number: log.end for number, log in broker.topic("t").items()}
    again = archive(source_of(broker, "t"), tmp_path)
    assert (again.messages, again.positions) == (0, report.positions)
    filled(rng, 20, broker)
    archive(source_of(broker, "t"), tmp_path)
    check(tmp_path, broker)
    assert files_of(tmp_path)[: len(files)] != []
    assert set(files) <= set(files_of(tmp_path))


def test_a_file_is_in_the_folder_of_the_day_of_its_first_message_and_has_no_later_one(tmp_path: Path) -> None:
    broker = filled(random.Random(1))
    archive(source_of(broker, "t"), tmp_path, FileLimits())
    found: dict[tuple[int, str], list[int]] = {}
    for row in rows_of(tmp_path):
        day = min(max(row["timestamp"], 0), 253_402_300_799_999) // DAY_MS
        found.setdefault((row["partition"], row["date"]), []).append(day)
    for (_, folder), days in found.items():
        assert folder == (date(1970, 1, 1) + timedelta(days=max(days))).isoformat()


def test_files_end_at_their_size_and_age(tmp_path: Path) -> None:
    clock = VirtualClock()
    broker = MemoryBroker()
    broker.create_topic("t")
    one = TopicArchive(tmp_path, "t", FileLimits(1_000, 60, 100), clock)
    one.begin()
    one.start(0, 0)
    reader = source_of(broker, "t").reader({0: 0})

    def produce(count: int) -> None:
        broker.produce("t", [bytes(60)] * count, timestamps=[1] * count)
        for messages in reader.poll(1_000, 0):
            one.add(messages)

    produce(9)
    assert files_of(tmp_path) == []
    produce(12)
    assert [path.name[6:25].lstrip("0") for path in files_of(tmp_path)] == ["", "10"]
    clock.seconds += 59
    one.finish_due()
    assert len(files_of(tmp_path)) == 2
    clock.seconds += 1
    one.finish_due()
    assert len(files_of(tmp_path)) == 3
    assert one.buffered == 0
    check(tmp_path, broker)


@pytest.mark.parametrize("point", ARCHIVE_POINTS)
def test_dying_at_a_point_again_and_again_archives_each_message_once(tmp_path: Path, point: str) -> None:
    broker = filled(random.Random(1))
    for count in (1, 2, 5):
        root = tmp_path / str(count)
        root.mkdir()
        for _ in range(6):
            with pytest.raises(SimulatedCrash):
                archive(source_of(broker, "t"), root, crash_points=CrashAt(point, 1, raise_crash))
        for _ in range(3):
            try:
                archive(source_of(broker, "t"), root, crash_points=CrashAt(point, count, raise_crash))
            except SimulatedCrash:
                continue
        archive(source_of(broker, "t"), root)
        check(root, broker)


@pytest.mark.parametrize("dies", [False, True], ids=["calls fail", "the process dies"])
@pytest.mark.parametrize("seed", seeds(4, few=2))
def test_any_failure_of_any_step_archives_each_message_once(tmp_path: Path, seed: int, dies: bool) -> None:
    rng = random.Random(seed)
    broker, failures = filled(rng), 0
    for _ in range(200):
        try:
            with failing(STEPS, rng, 0.04, dies=dies):
                archive(source_of(broker, "t"), tmp_path)
        except (SimulatedCrash, TransientError, UnavailableError):
            failures += 1
            continue
        break
    else:
        archive(source_of(broker, "t"), tmp_path)
    assert failures
    check(tmp_path, broker)
    assert not list(tmp_path.rglob(".*.tmp"))


@pytest.mark.parametrize("seed", seeds(6, few=2))
def test_a_process_that_waits_for_its_disk_archives_each_message_once(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    broker = filled(rng)
    with failing(STEPS, rng, 0.08, dies=False):
        for _ in range(20):
            # Its last files are not waited for.
            try:
                archive(source_of(broker, "t"), tmp_path, waits=True)
            except UnavailableError:
                continue
            break
    archive(source_of(broker, "t"), tmp_path)
    check(tmp_path, broker)


def test_a_running_archive_finds_partitions_and_topics_and_notices_what_is_deleted(tmp_path: Path) -> None:
    broker, clock, calls = MemoryBroker(), VirtualClock(), 0
    broker.create_topic("a")
    source = MatchingTopics(
        re.compile("[ab]"), broker.topics, lambda topic: source_of(broker, topic), every_s=0.0
    )

    def stopping() -> bool:
        nonlocal calls
        calls, clock.seconds = calls + 1, clock.seconds + 4
        match calls:
            case 2:
                broker.produce("a", [b"1", b"2"], timestamps=[1, 1])
            case 4:
                broker.add_partitions("a", 2)
                broker.create_topic("b")
                broker.produce("a", [b"3"], timestamps=[1], partition=1)
                broker.produce("b", [b"4"], timestamps=[1])
            case 12:
                broker.produce("a", [b"gone", b"5"], timestamps=[1, 1])
                broker.truncate("a", 3)
        return calls > 20

    archive(source, tmp_path, stopping=stopping, clock=clock, until_end=False, skip_lost=True)
    found = [(row["topic"], row["partition"], row["offset"], row["value"]) for row in rows_of(tmp_path)]
    assert found == [
        ("a", 0, 0, b"1"),
        ("a", 0, 1, b"2"),
        ("a", 0, 3, b"5"),
        ("a", 1, 0, b"3"),
        ("b", 0, 0, b"4"),
    ]


def test_of_two_processes_the_older_one_ends(tmp_path: Path) -> None:
    broker = filled(random.Random(1))
    taken: list[str] = []

    class Between:
        def reach(self, point: str) -> None:
            if point == "archive.before_link" and not taken:
                taken.append(point)
                broker.truncate("t", 3)
                archive(source_of(broker, "t"), tmp_path)

    before = messages_of(broker, "t")
    with pytest.raises(SupersededError, match='another process archives topic "t"'):
        archive(source_of(broker, "t"), tmp_path, crash_points=Between())
    assert len(before) > len(messages_of(broker, "t"))
    check(tmp_path, broker, {0: 3})


def test_offsets_that_the_broker_has_deleted_are_an_error_or_skipped(tmp_path: Path) -> None:
    broker = filled(random.Random(1))
    archive(source_of(broker, "t"), tmp_path)
    end = broker.topic("t")[0].end
    broker.produce("t", [b"lost", b"kept"], timestamps=[1, 1])
    broker.truncate("t", end + 1)
    wanted = f'topic "t" partition 0 no longer has offsets {end} to {end}, which are not in the archive'
    with pytest.raises(StatementError, match=wanted) as caught:
        archive(source_of(broker, "t"), tmp_path)
    assert "--skip-lost" in str(caught.value.hint)
    archive(source_of(broker, "t"), tmp_path, skip_lost=True)
    last = [row for row in rows_of(tmp_path) if row["partition"] == 0][-1]
    assert (last["offset"], last["holes_before"], last["value"]) == (end + 1, 0, b"kept")


def test_deleted_holes_are_not_missed(tmp_path: Path) -> None:
    broker = MemoryBroker()
    broker.create_topic("t")
    broker.produce("t", [b"a"], timestamps=[1])
    broker.hole("t", 5)
    archive(source_of(broker, "t"), tmp_path)
    broker.truncate("t", 6)
    broker.produce("t", [b"b"], timestamps=[1])
    archive(source_of(broker, "t"), tmp_path)
    assert [(row["offset"], row["holes_before"]) for row in rows_of(tmp_path)] == [(0, 0), (6, 5)]


def test_files_that_are_moved_away_are_not_archived_again(tmp_path: Path) -> None:
    broker = filled(random.Random(1))
    archive(source_of(broker, "t"), tmp_path)
    for path in files_of(tmp_path):
        path.unlink()
    assert archive(source_of(broker, "t"), tmp_path).messages == 0


def test_another_topic_of_the_same_name_is_refused(tmp_path: Path) -> None:
    broker = filled(random.Random(1))
    archive(source_of(broker, "t"), tmp_path)
    broker.delete_topic("t")
    filled(random.Random(1), 500, broker)
    with pytest.raises(StatementError, match="was deleted and created again"):
        archive(source_of(broker, "t"), tmp_path)


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    broker = filled(random.Random(1))
    archive(source_of(broker, "t"), tmp_path)
    files_of(tmp_path)[-1].write_bytes(b"PAR1")
    newest = max((path for path in files_of(tmp_path)), key=lambda path: path.name)
    newest.write_bytes(b"PAR1")
    with pytest.raises(StatementError, match="of the archive is damaged"):
        archive(source_of(broker, "t"), tmp_path)


PIPELINE = """
CREATE SERVER k FOREIGN DATA WRAPPER MEMORY OPTIONS (broker '{broker}');
CREATE FOREIGN STREAM one (a INTEGER) SERVER k OPTIONS (topic_pattern 't.*');
CREATE FOREIGN STREAM two (a INTEGER) SERVER k OPTIONS (topic 'u, t');
"""


def test_the_command_archives_the_topics_of_streams_each_once(tmp_path: Path) -> None:
    broker = memory_broker(str(tmp_path))
    filled(random.Random(1), broker=broker)
    broker.create_topic("t2")
    broker.create_topic("u")
    for topic in ("t2", "u"):
        broker.produce(topic, [b"x"], timestamps=[1])
    pipeline, root = tmp_path / "p.sql", tmp_path / "archive"
    pipeline.write_text(PIPELINE.format(broker=tmp_path))

    def call(*args: str) -> Any:
        return CliRunner().invoke(app, ["archive", str(pipeline), str(root), *args, "--until-end"])

    missing = call()
    assert missing.exit_code == 2
    assert "mkdir -p" in missing.stderr
    root.mkdir()
    assert 'is or reads "v"' in call("v").stderr
    assert "invalid --file-age" in call("--file-age", "soon").stderr
    done = call("ONE", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert set(found["positions"]) == {"t", "t2"}
    assert found["messages"] == 61
    done = call("--file-mb", "1")
    assert "1 messages archived in 1 files" in done.stdout
    assert "u continues at partition 0 offset 1" in done.stdout
    check(root, broker)
    assert (root / "topic=u" / NOTES).is_dir()
