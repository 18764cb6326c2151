"""How a pipeline starts, is refused, waits, is superseded and stops."""

import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from rowtide.checkpoint.ledger import KeptSnapshot
from rowtide.errors import StatementError, SupersededError, TransientError
from rowtide.plan.nodes import KeyedTable, TableSource
from rowtide.plan.plan import Pump
from rowtide.runtime.leadership.watch import USUAL
from rowtide.runtime.pace import Pace
from rowtide.runtime.recovery.begin import StartEdge, StartTimestamp, parse_begin
from rowtide.runtime.recovery.digest import dumped, plan_digests
from rowtide.runtime.retry import StoppedError
from rowtide.runtime.service import Service
from rowtide.testing.in_memory_ledger import InMemoryLedger
from rowtide.testing.in_memory_topic import InMemoryTopic, TopicReader
from rowtide_connectors.errors import DeniedError, UnavailableError
from rowtide_connectors.memory.broker import Partition
from support.runtime import READINGS, World, down, fill, readings_plan


def world_with(messages: int = 60, seed: int = 1, *, in_small_polls: bool = False) -> World:
    topic = InMemoryTopic("readings", 2, random.Random(seed) if in_small_polls else None)
    fill(topic, random.Random(seed), messages)
    return World(topic)


def run(world: World, **changes: object) -> Service:
    service = Service(world.context(**changes))
    service.run(until_end=True)
    return service


def stop_after(calls: int) -> Callable[[], bool]:
    left = calls

    def stopping() -> bool:
        nonlocal left
        left -= 1
        return left < 0

    return stopping


def positions(world: World) -> list[int]:
    record = world.checkpoint.record
    assert record is not None
    return [position.next_offset for position in record.partition_positions]


def test_each_start_takes_the_next_epoch() -> None:
    world = world_with()
    for epoch in (1, 2, 3):
        run(world)
        assert world.checkpoint.record is not None
        assert world.checkpoint.record.epoch == epoch


def test_a_start_at_a_time_reads_each_partition_from_its_first_message_of_then() -> None:
    world = world_with()
    stamps = [log.timestamps for log in world.topic.partitions.values()]
    middle = sorted(stamp for log in stamps for stamp in log)[30]
    Service(world.context()).run(StartTimestamp(middle), until_end=True)
    record = world.checkpoint.record
    assert record is not None
    first = [next(o for o, stamp in enumerate(log) if stamp >= middle) for log in stamps]
    assert [position.start_offset for position in record.partition_positions] == first
    assert positions(world) == [len(log) for log in stamps]


@pytest.mark.parametrize("begin", [StartEdge.EARLIEST, StartTimestamp(5)])
def test_a_begin_over_committed_positions_is_refused(begin: StartEdge | StartTimestamp) -> None:
    world = world_with()
    run(world)
    before = world.database.contents
    with pytest.raises(StatementError, match="has committed positions"):
        Service(world.context()).run(begin)
    assert world.database.contents is before


def test_another_plan_over_committed_positions_is_refused_and_says_what_changed() -> None:
    world = world_with()
    run(world)
    before = world.database.contents
    world.plan = readings_plan(within_ms=3_000)
    with pytest.raises(StatementError, match='pump "P_LATEST" has changed; pump "P_LOG" has changed'):
        run(world)
    world.plan = replace(world.plan, pumps=world.plan.pumps[:2])
    with pytest.raises(StatementError, match='pump "P_LOG" is gone'):
        run(world)
    assert world.database.contents is before


def test_a_pipeline_that_writes_nothing_is_refused() -> None:
    world = world_with()
    world.plan = replace(world.plan, pumps=())
    with pytest.raises(StatementError, match="the pipeline does nothing"):
        run(world)
    assert world.checkpoint.record is None


def test_an_aged_out_log_is_refused_by_name_unless_a_snapshot_covers_it() -> None:
    world = world_with()
    run(world, pace=Pace(100, 10, None, None))
    world.topic.truncate(1, 5)
    with pytest.raises(
        StatementError, match='topic "readings" partition 1 no longer holds offsets 0 to 4'
    ) as e:
        run(world)
    assert "retention.ms" in str(e.value.hint)
    covered = world_with()
    run(covered, pace=Pace(100, 10, 1, None))
    expected = covered.state()
    covered.topic.truncate(1, 5)
    run(covered)
    assert covered.state() == expected


def test_a_log_that_lost_what_was_never_read_is_refused() -> None:
    world = world_with()
    run(world, pace=Pace(100, 10, 1, None))
    fill(world.topic, random.Random(2), 40)
    world.topic.truncate(0, positions(world)[0] + 1)
    with pytest.raises(StatementError, match="no longer holds offsets"):
        run(world)


def test_a_topic_that_was_made_anew_is_refused() -> None:
    world = world_with()
    run(world)
    world.topic.partitions.update({0: Partition(), 1: Partition()})
    with pytest.raises(StatementError, match="is not the topic that the pipeline has read"):
        run(world)


def test_a_topic_that_has_lost_partitions_is_refused() -> None:
    world = world_with()
    run(world)
    del world.topic.partitions[1]
    with pytest.raises(StatementError, match='topic "readings" no longer has partitions 1'):
        run(world)


def test_a_topic_that_was_made_anew_is_refused_however_many_messages_it_has() -> None:
    world = world_with()
    run(world)
    world.topic.made = "second"
    fill(world.topic, random.Random(3), 100)
    with pytest.raises(StatementError, match='topic "readings" was deleted and created again'):
        run(world)


def test_a_topic_that_is_made_anew_while_the_service_runs_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    world = world_with()

    def deleted_and_made_anew() -> bool:
        if world.clock.seconds > 3:
            # A reader that does not see it: it waits for the offsets that it knows.
            monkeypatch.setattr(TopicReader, "poll", lambda *_: ())
            world.topic.partitions.update({0: Partition(), 1: Partition()})
        return world.clock.seconds > 60

    with pytest.raises(StatementError, match="is not the topic that the pipeline has read"):
        Service(world.context(stopping=deleted_and_made_anew)).run()
    assert world.clock.seconds < 60


def test_no_row_of_a_topic_made_anew_is_committed_whenever_that_happens() -> None:
    pace = Pace(100, 20, None, None)
    plain = world_with(120, in_small_polls=True)
    steps = 0

    def count(_step: str) -> None:
        nonlocal steps
        steps += 1

    plain.topic.before = plain.database.before = count
    run(plain, pace=pace)
    assert steps > 30
    wanted = set(plain.database.contents.appended["LOG"])
    refused = 0
    for last in range(1, steps + 1):
        world = world_with(120, in_small_polls=True)
        left = last

        def made_anew_behind_the_position(_step: str, world: World = world) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                world.topic.made = "second"
                for partition in range(2):
                    world.topic.partitions[partition] = Partition()
                    for number in range(300):
                        value = b'{"sensor":"foreign","amount":1}'
                        world.topic.add(partition, 60_000 + 1_000 * number, value)

        world.topic.before = world.database.before = made_anew_behind_the_position
        try:
            run(world, pace=pace)
        except StatementError as error:
            refused += 1
            assert error.message.startswith('topic "readings" was deleted and created again')
        record = world.checkpoint.record
        if (
            record is None
            or not record.partition_positions
            or record.partition_positions[0].topic_id == "second"
        ):
            continue
        assert set(world.database.contents.appended.get("LOG", ())) <= wanted
        assert all(b"foreign" not in (row.raw or b"") for row in world.checkpoint.errors)
    assert refused > steps / 2


def test_a_commit_waits_for_a_broker_that_cannot_tell_the_topics_id() -> None:
    world = world_with()
    world.topic.before = down(3, "identity")
    run(world)
    straight = world_with()
    run(straight)
    assert world.state() == straight.state()


def test_no_transaction_is_open_while_a_commit_waits_for_a_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    world = world_with()
    steps: list[str] = []
    answers = iter((True, False))

    def late(timeout_s: float) -> Callable[[], str | None]:
        steps.append("asked")

        def answer() -> str | None:
            if next(answers, True):
                return world.topic.made
            steps.append("late")
            raise UnavailableError("the answer is late")

        return answer

    monkeypatch.setattr(world.topic, "ask_identity", late)
    world.database.before = steps.append
    run(world, pace=Pace(100, 20, None, None))
    asked = [at for at, step in enumerate(steps) if step == "asked"]
    late_at = steps.index("late")
    # The query is sent before the rows are written; they are rolled back, and written again after the wait.
    assert steps[asked[1] : late_at + 2] == ["asked", "begin", "late", "begin"]
    straight = world_with()
    run(straight, pace=Pace(100, 20, None, None))
    assert world.state() == straight.state()


def test_a_zombie_commits_nothing_and_says_who_took_over() -> None:
    world = world_with(200, in_small_polls=True)
    taken = False

    def take_over(step: str) -> None:
        nonlocal taken
        # Another process claims the pipeline between this one's second and third commit.
        record = world.checkpoint.record
        if step == "begin" and not taken and record is not None and record.commits == 2:
            taken = True
            run(world, pace=Pace(100, 10**6, None, None))

    world.database.before = take_over
    with pytest.raises(SupersededError, match=r"was taken by .*: epoch 2, ours is 1"):
        run(world, pace=Pace(100, 20, None, None))
    straight = world_with(200)
    run(straight)
    assert world.state()[:3] == straight.state()[:3]


def test_a_quiet_process_learns_within_seconds_that_another_one_has_the_pipeline() -> None:
    world = world_with()
    taken_at: list[float] = []

    def take_over() -> bool:
        record = world.checkpoint.record
        if world.clock.seconds > 30 and not taken_at and record is not None:
            taken_at.append(world.clock.seconds)
            run(world)
        return world.clock.seconds > 600

    with pytest.raises(SupersededError, match=r"was taken by .*: epoch 2, ours is 1"):
        Service(world.context(stopping=take_over)).run()
    assert world.clock.seconds - taken_at[0] < 2 * USUAL.beat_s


def test_a_commit_whose_reply_was_lost_to_another_process_is_not_repeated() -> None:
    world = world_with(60, in_small_polls=True)
    taken = False

    def lose_reply(step: str) -> None:
        nonlocal taken
        record = world.checkpoint.record
        if step == "committed" and not taken and record is not None and record.commits == 2:
            taken = True
            run(world)
            down(1, "committed")("committed")

    world.database.before = lose_reply
    with pytest.raises(SupersededError, match="was taken by"):
        run(world, pace=Pace(100, 20, None, None))
    straight = world_with(60)
    run(straight)
    assert world.state()[:3] == straight.state()[:3]


@pytest.mark.parametrize("step", ["read", "prepare", "begin", "commit", "committed"])
def test_a_database_that_is_down_is_waited_for_and_named_once_a_minute(step: str) -> None:
    world = world_with()
    world.database.before = down(30, step)
    with capture_logs() as logs:
        run(world)
    said = [log for log in logs if log["event"] == "dependency_down"]
    waited = world.clock.seconds
    assert all(log["dependency"] == "database" for log in said)
    assert 120 < waited < 400
    assert 2 <= len(said) <= waited // 60 + 1
    straight = world_with()
    run(straight)
    assert world.state() == straight.state()


@pytest.mark.parametrize("where", ["database", "topic"])
def test_without_waiting_a_dependency_that_is_down_ends_the_service(where: str) -> None:
    world = world_with()
    if where == "database":
        world.database.before = down(1, "commit")
    else:
        world.topic.before = down(1, "poll")
    with pytest.raises(TransientError, match="is down"):
        run(world, wait=False)
    run(world, wait=False)
    straight = world_with()
    run(straight)
    assert world.state() == straight.state()


def denied(failures: int, wanted: str) -> Callable[[str], None]:
    left = failures

    def before(step: str) -> None:
        nonlocal left
        if step == wanted and left:
            left -= 1
            raise DeniedError("the password is wrong", hint="Correct the password.")

    return before


@pytest.mark.parametrize(
    ("where", "step"), [("database", "read"), ("database", "prepare"), ("topic", "ranges")]
)
def test_credentials_that_are_refused_at_a_start_end_it_with_a_hint(where: str, step: str) -> None:
    world = world_with()
    refusing = world.database if where == "database" else world.topic
    refusing.before = denied(1, step)
    with pytest.raises(TransientError, match="the password is wrong") as caught:
        run(world)
    assert caught.value.hint == "Correct the password."
    run(world)
    straight = world_with()
    run(straight)
    assert world.state() == straight.state()


@pytest.mark.parametrize(("where", "step"), [("database", "commit"), ("topic", "poll")])
def test_credentials_that_are_refused_while_it_runs_are_waited_for(where: str, step: str) -> None:
    world, straight = world_with(), world_with()
    for each in (world, straight):
        run(each)
        fill(each.topic, random.Random(5), 40)

    def refuse() -> None:
        refusing = world.database if where == "database" else world.topic
        refusing.before = denied(20, step)

    run(world, crash_points=Meanwhile("recovery.before_snapshot", refuse))
    run(straight)
    assert world.state() == straight.state()


def test_told_to_stop_the_service_commits_what_it_has_worked_off() -> None:
    world = world_with(200, in_small_polls=True)
    Service(world.context(pace=Pace(10**9, 10**9, None, None), stopping=stop_after(5))).run()
    assert 0 < sum(positions(world)) < 200
    run(world)
    straight = world_with(200)
    run(straight)
    assert world.state() == straight.state()


def test_rows_of_insert_statements_come_out_once() -> None:
    rows = TableSource("SECTORS", READINGS, (("a", 1), ("b", 2)), loaded_once=True)
    plan = readings_plan()
    pump = Pump("P_SECTORS", "LOG", KeyedTable("SECTORS", rows, (0,)))
    for with_messages in (False, True):
        topic = InMemoryTopic("readings", 1)
        world = World(topic, plan=replace(plan, pumps=(*plan.pumps[:2], pump)))
        for _ in range(3):
            if with_messages:
                topic.add(0, 1_000, b'{"sensor":"a","amount":1}')
            run(world)
        assert world.database.contents.appended["LOG"] == [("a", 1), ("b", 2)]


def test_told_to_stop_while_the_database_is_down_the_service_stops() -> None:
    world = world_with()
    world.database.before = down(10**9, "commit")
    with pytest.raises(StoppedError):
        Service(world.context(stopping=stop_after(40))).run()


def test_the_status_board_tells_phases_positions_and_what_is_waited_for() -> None:
    world = world_with()
    service = Service(world.context())
    seen = []

    def look(step: str) -> None:
        seen.append((service.board.status().phase, service.board.status().waits_for))
        down_once(step)

    down_once = down(2, "commit")
    world.database.before = look
    service.run(until_end=True)
    assert ("starting", None) in seen
    assert ("waiting", "database") in seen
    now = service.board.status()
    assert now.phase == "stopping"
    assert now.epoch == 1
    assert [at.next_offset for at in now.positions] == [at.end_offset for at in now.positions]


@pytest.mark.parametrize(
    ("text", "begin"),
    [
        ("watermark", StartEdge.WATERMARK),
        ("EARLIEST", StartEdge.EARLIEST),
        ("2026-01-31 12:00:00", StartTimestamp(1_769_860_800_000)),
        ("2026-01-31T13:00:00+01:00", StartTimestamp(1_769_860_800_000)),
        ("1769860800000", StartTimestamp(1_769_860_800_000)),
    ],
)
def test_begins_are_read(text: str, begin: object) -> None:
    assert parse_begin(text) == begin


def test_a_begin_that_is_none_is_refused() -> None:
    with pytest.raises(StatementError, match='"latest" is not a time'):
        parse_begin("latest")


class CountingLedger(InMemoryLedger):
    """Counts how often a snapshot is read."""

    def __init__(self, world: World) -> None:
        super().__init__(world.database, "readings", world.clock)
        self.read_snapshots = 0

    def newest_snapshot(self) -> KeptSnapshot | None:
        self.read_snapshots += 1
        return super().newest_snapshot()


class Meanwhile:
    """Lets something happen at one point of the start."""

    def __init__(self, point: str, happens: Callable[[], object]) -> None:
        self._point, self._happens = point, happens

    def reach(self, point: str) -> None:
        if point == self._point:
            self._happens()


EACH_COMMIT = Pace(100, 10, 1, None)


def test_another_plan_that_starts_before_the_epoch_is_taken_refuses_the_start() -> None:
    world = world_with()
    other, world.plan = world.plan, readings_plan(within_ms=3_000)
    context = world.context(
        crash_points=Meanwhile("start.before_epoch", lambda: run(world)),
    )
    world.plan = other
    with pytest.raises(StatementError, match='pump "P_LATEST" has changed'):
        Service(context).run(until_end=True)
    alone = world_with()
    run(alone)
    assert world.state() == alone.state()
    assert world.checkpoint.record == alone.checkpoint.record


def test_another_plan_that_is_applied_before_the_epoch_is_taken_refuses_the_start() -> None:
    world = world_with()
    run(world)
    applied = dumped(plan_digests(readings_plan(within_ms=3_000)))

    def apply() -> None:
        record = world.checkpoint.record
        assert record is not None
        world.checkpoint.record = replace(record, digest=applied, epoch=record.epoch + 1)

    with pytest.raises(StatementError, match='pump "P_LATEST" has changed'):
        run(world, crash_points=Meanwhile("start.before_epoch", apply))
    assert world.checkpoint.record is not None
    assert (world.checkpoint.record.epoch, world.checkpoint.record.digest) == (2, applied)


def test_what_another_process_reads_before_the_epoch_is_taken_is_no_other_topic() -> None:
    """Messages come, and are committed, after the start has asked the broker for the ends of the topic."""
    world, alone = world_with(), world_with()
    for each in (world, alone):
        run(each)

    def more() -> None:
        fill(world.topic, random.Random(2), 40)
        run(world)

    run(world, crash_points=Meanwhile("start.before_epoch", more))
    fill(alone.topic, random.Random(2), 40)
    run(alone)
    assert world.state() == alone.state()


def test_a_start_reads_the_newest_snapshot_once() -> None:
    world = world_with()
    run(world, pace=EACH_COMMIT)
    expected = world.state()
    ledger = CountingLedger(world)
    run(world, ledger=ledger)
    assert ledger.read_snapshots == 1
    assert world.state() == expected


def test_a_snapshot_that_another_process_stores_before_the_epoch_is_taken_is_read_too() -> None:
    world, alone = world_with(), world_with()
    for each in (world, alone):
        run(each, pace=EACH_COMMIT)
        fill(each.topic, random.Random(2), 40)
    run(alone, pace=EACH_COMMIT)
    ledger = CountingLedger(world)
    run(
        world,
        ledger=ledger,
        crash_points=Meanwhile("start.before_epoch", lambda: run(world, pace=EACH_COMMIT)),
    )
    assert ledger.read_snapshots == 2
    assert world.state() == alone.state()


@pytest.mark.parametrize("point", ["start.before_epoch", "start.after_epoch", "recovery.before_snapshot"])
def test_a_snapshot_that_is_dropped_during_the_start_is_not_used(point: str) -> None:
    world = world_with()
    run(world, pace=EACH_COMMIT)
    expected = world.state()
    ledger = CountingLedger(world)

    def drop() -> None:
        # The database has new contents after every transaction.
        world.checkpoint.snapshots.clear()

    run(world, ledger=ledger, crash_points=Meanwhile(point, drop))
    assert ledger.read_snapshots == 2
    assert world.state() == expected


@pytest.mark.parametrize("at_once", [False, True])
def test_only_the_first_rows_after_a_start_do_not_wait_for_the_interval(at_once: bool) -> None:
    world = world_with(200, in_small_polls=True)
    logged: list[int] = []

    def note(step: str) -> None:
        if step == "committed":
            logged.append(len(world.database.contents.appended.get("LOG", ())))

    world.database.before = note
    run(world, pace=Pace(10**9, 10**9, None, None, first_rows_at_once=at_once))
    rows = logged[-1]
    # The sign of life of a process that leaves adds no rows.
    with_rows = list(dict.fromkeys(count for count in logged if count))
    if at_once:
        first, last = with_rows
        assert 0 < first < last == rows
    else:
        assert with_rows == [rows]
