"""Replicas of one pipeline: one leads, the others follow its commits, and one of them takes over."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from rowtide.checkpoint.ledger import SKIP, Decision, KeptSnapshot, Writer
from rowtide.errors import FaultError, ReplacedSnapshotError, StatementError
from rowtide.metrics import Metrics
from rowtide.operators.contract import State
from rowtide.plan.plan import Plan
from rowtide.runtime.crashpoints import NoCrash
from rowtide.runtime.inspect.replay import Range, compare
from rowtide.runtime.live.observing import MetricsObserver
from rowtide.runtime.pace import Pace
from rowtide.runtime.pipeline import open_pipeline
from rowtide.runtime.service import Service
from rowtide.runtime.state.context import PipelineContext
from rowtide.testing.in_memory_ledger import InMemoryLedger
from rowtide.testing.in_memory_topic import InMemoryTopic
from rowtide_connectors.errors import UnavailableError
from rowtide_connectors.memory.broker import MemoryBroker
from support.outbox import alerts_plan, sent, sink_of
from support.polled import PolledWorld
from support.runtime import World, fill, readings_plan
from support.seeds import seeds
from support.standby import TAKEOVER_S, Replica, Replicas, replicas

SNAPSHOTS = (Pace(500, 60, None, None), Pace(500, 60, 40, None), Pace(500, 60, 1, None))


def idle_plan() -> Plan:
    plan = readings_plan()
    (stream,) = plan.foreign_streams
    return replace(
        plan, foreign_streams=(replace(stream, options=(*stream.options, ("idle_timeout", "3 SECOND"))),)
    )


@pytest.fixture
def world() -> World:
    return World(InMemoryTopic("readings", 3))


@pytest.fixture
def made(world: World) -> Iterator[Replicas]:
    with replicas(world.context, world.clock) as found:
        yield found


def undisturbed(world: World) -> tuple[object, ...]:
    """Return what one process makes of the same topic."""
    alone = World(world.topic, plan=world.plan)
    Service(alone.context()).run(until_end=True)
    return alone.state()


def add(world: World, rng: random.Random, messages: int) -> None:
    """Add readings of the present time, some of them late or broken."""
    for number in range(messages):
        timestamp = int(1_000 * (60 + world.clock.seconds)) + number - rng.choice((0, 0, 0, 900, 3_000))
        value = (
            b'{"sensor":"s%d","amount":%d}' % (rng.randrange(5), number) if rng.random() < 0.9 else b"{broken"
        )
        world.topic.add(rng.randrange(len(world.topic.partitions)), timestamp, value)


def ledger(world: World) -> InMemoryLedger:
    return InMemoryLedger(world.database, "readings", world.clock)


def epoch(world: World) -> int:
    record = world.checkpoint.record
    assert record is not None
    return record.epoch


def lag(replica: Replica) -> int:
    shown = replica.status.replica
    assert shown is not None
    return shown.lag_commits


@pytest.mark.parametrize("pace", SNAPSHOTS)
def test_a_follower_takes_over_from_a_dead_leader_and_reads_nothing_again(world: World, pace: Pace) -> None:
    rng = random.Random(1)
    with replicas(world.context, world.clock) as made, capture_logs() as logs:
        first, second = made.start(pace=pace), made.start(pace=pace)
        for _ in range(8):
            fill(world.topic, rng, 60)
            made.let_pass(1.3)
        assert (first.role, second.role) == ("leader", "follower")
        assert second.status.phase == "following"
        made.kill(first)
        died_at = world.clock.seconds
        fill(world.topic, rng, 100)
        made.let_pass(TAKEOVER_S + 1.5)
        assert second.role == "leader"
        assert epoch(world) == 2
        (took,) = [each for each in logs if each["event"] == "took_over"]
        assert took["replayed_messages"] <= 60, "no more than the last commit"
        made.let_pass(5)
        assert world.clock.seconds - died_at < 10
    assert world.state() == undisturbed(world)


def silent_since(world: World, began: float) -> Callable[[], Writer | None]:
    """Return a session that holds the record and has sent no statement since then."""
    return lambda: Writer(7, "11", world.clock.seconds - began)


def test_a_leader_that_is_suspended_within_its_commit_costs_no_more_than_a_dead_one(
    world: World, made: Replicas
) -> None:
    rng = random.Random(3)
    first, second = made.start(), made.start()
    fill(world.topic, rng, 200)
    made.let_pass(3)
    first.is_suspended = True
    world.database.writer = silent_since(world, world.clock.seconds)
    fill(world.topic, rng, 200)
    with capture_logs() as logs:
        made.let_pass(TAKEOVER_S + 1)
    assert made.leader() is second
    assert [each["session"] for each in logs if each["event"] == "session_ended"] == [7]
    first.is_suspended = False
    made.let_pass(3)
    assert (first.role, second.role, epoch(world)) == ("follower", "leader", 2)
    assert world.state() == undisturbed(world)


def test_a_session_that_works_is_not_ended_and_one_of_another_role_is_named(
    world: World, made: Replicas
) -> None:
    first, second = made.start(), made.start()
    fill(world.topic, random.Random(4), 200)
    made.let_pass(3)
    first.is_suspended = True
    working = Writer(7, "11", None)
    world.database.writer = lambda: working
    with capture_logs() as logs:
        made.let_pass(10 * TAKEOVER_S)
        assert second.role == "follower"
        working = replace(working, grant="GRANT a TO b")
        made.let_pass(4 * TAKEOVER_S)
    events = [each for each in logs if each["event"].startswith("session")]
    assert [(each["event"], each["hint"]) for each in events] == [
        ("session_not_ended", "Let all processes use one role, or: GRANT a TO b.")
    ]
    # The server ends the transaction by itself, later.
    world.database.writer = lambda: None
    made.let_pass(4 * TAKEOVER_S)
    assert made.leader() is second
    assert world.state() == undisturbed(world)


@pytest.mark.parametrize("lost_s", [1.3, 4.0])
def test_replicas_continue_where_a_database_that_has_lost_commits_is(
    world: World, made: Replicas, lost_s: float
) -> None:
    """As after a failover to a standby that has not got the last commits, with or without a take-over."""
    rng = random.Random(3)
    first, second = made.start(), made.start()
    fill(world.topic, rng, 200)
    made.let_pass(3)
    kept = deepcopy(world.database.contents)
    fill(world.topic, rng, 200)
    if lost_s > TAKEOVER_S:
        made.kill(first)
        first = made.start()
    made.let_pass(lost_s)
    world.database.contents = kept
    fill(world.topic, rng, 200)
    made.let_pass(10 * TAKEOVER_S)
    assert {first.role, second.role} == {"leader", "follower"}
    assert world.state() == undisturbed(world)


def test_a_leader_that_was_suspended_follows_and_can_lead_again(world: World, made: Replicas) -> None:
    rng = random.Random(2)
    first, second = made.start(), made.start()
    fill(world.topic, rng, 200)
    made.let_pass(3)
    first.is_suspended = True
    fill(world.topic, rng, 200)
    made.let_pass(TAKEOVER_S + 3)
    assert made.leader() is second
    first.is_suspended = False
    made.let_pass(3)
    assert (first.role, second.role, epoch(world)) == ("follower", "leader", 2)
    made.kill(second)
    fill(world.topic, rng, 200)
    # It has seen a take-over, so it waits longer.
    made.let_pass(2 * TAKEOVER_S + 3)
    assert (made.leader(), epoch(world)) == (first, 3)
    made.let_pass(5)
    assert world.state() == undisturbed(world)


def test_an_idle_leader_stays_the_leader(world: World, made: Replicas) -> None:
    first, second = made.start(), made.start()
    fill(world.topic, random.Random(3), 50)
    made.let_pass(5)
    commits = ledger(world).pulse()
    made.let_pass(600)
    assert (first.role, second.role, epoch(world)) == ("leader", "follower", 1)
    pulse = ledger(world).pulse()
    assert pulse is not None
    assert commits is not None
    assert pulse.commits == commits.commits
    # Each half second, and not more often.
    assert 900 < pulse.beats <= 1_250


def test_an_orderly_stop_hands_over_at_once(world: World, made: Replicas) -> None:
    first, second = made.start(takeover_s=60.0), made.start(takeover_s=60.0)
    fill(world.topic, random.Random(4), 100)
    made.let_pass(3)
    first.stop()
    made.let_pass(2)
    assert (first.role, second.role, epoch(world)) == (None, "leader", 2)
    # An orderly hand-over is no reason to wait longer next time.
    third = made.start(takeover_s=60.0)
    made.let_pass(2)
    second.stop()
    made.let_pass(2)
    assert third.role == "leader"
    assert world.state() == undisturbed(world)


def test_of_several_first_starts_one_leads_and_the_others_follow(world: World, made: Replicas) -> None:
    started = [made.start() for _ in range(3)]
    fill(world.topic, random.Random(5), 100)
    made.let_pass(5)
    assert sorted(each.role or "" for each in started) == ["follower", "follower", "leader"]
    assert epoch(world) == 1
    for _ in range(2):
        made.kill(made.leader())
        made.let_pass(8 * TAKEOVER_S)
    assert world.state() == undisturbed(world)


@pytest.mark.parametrize("rounds", [100, pytest.param(200, marks=pytest.mark.long)])
def test_replicas_of_a_slow_database_do_not_take_the_pipeline_from_each_other(
    world: World, rounds: int
) -> None:
    """Each transaction takes longer than the time-out: every leader seems dead."""
    rng = random.Random(6)
    running: list[Replica] = []
    with replicas(world.context, world.clock) as made:

        def slow(step: str) -> None:
            if step == "begin" and running:
                running[0].clock.sleep(1.7 * TAKEOVER_S)

        world.database.before = slow
        give = made.turns.give

        def noted(process: object) -> None:
            running[:] = [each for each in made.held if each.process is process]
            give(process)  # type: ignore[arg-type]  # as it is called

        made.turns.give = noted  # type: ignore[method-assign]  # to know who runs
        for _ in range(3):
            made.start()
        for _ in range(rounds):
            fill(world.topic, rng, 5)
            made.let_pass(10)
        taken = epoch(world)
        made.let_pass(10 * rounds)
        assert epoch(world) == taken, "in the end one of them stays"
        assert taken <= 7
        record = world.checkpoint.record
        assert record is not None
        assert record.commits > rounds / 2
    world.database.before = lambda _step: None
    made_of_all = undisturbed(world)
    assert world.state()[:2] == made_of_all[:2]


def test_an_outage_of_the_database_is_no_reason_to_take_over(world: World, made: Replicas) -> None:
    first, second = made.start(), made.start()
    fill(world.topic, random.Random(7), 100)
    made.let_pass(3)

    def refuse(step: str) -> None:
        if step in ("begin", "read", "pulse"):
            raise UnavailableError("the database is down")

    world.database.before = refuse
    fill(world.topic, random.Random(8), 100)
    made.let_pass(120)
    assert (first.status.phase, second.status.phase) == ("waiting", "waiting")
    world.database.before = lambda _step: None
    made.let_pass(30)
    assert (first.role, second.role, epoch(world)) == ("leader", "follower", 1)
    assert world.state() == undisturbed(world)


def test_a_follower_that_was_suspended_does_not_wake_up_as_leader(world: World, made: Replicas) -> None:
    first, second = made.start(), made.start()
    fill(world.topic, random.Random(9), 100)
    made.let_pass(3)
    second.is_suspended = True
    made.let_pass(300)
    fill(world.topic, random.Random(10), 100)
    second.is_suspended = False
    made.let_pass(5)
    assert (first.role, second.role, epoch(world), lag(second)) == ("leader", "follower", 1, 0)


@pytest.mark.parametrize("seed", seeds(6, few=2))
def test_followers_obey_the_decisions_of_leaders(seed: int) -> None:
    """Silent and new partitions, resubmitted rows and skipped messages, with a take-over at any moment."""
    rng = random.Random(seed)
    world = World(InMemoryTopic("readings", 2), plan=idle_plan())
    with replicas(world.context, world.clock) as made:
        pace = SNAPSHOTS[seed % 3]
        for _ in range(3):
            made.start(pace=pace)
        made.let_pass(1)
        for turn in range(12):
            match rng.randrange(6):
                case 0:
                    partitions = len(world.topic.partitions)
                    world.topic.broker.add_partitions("readings", partitions + 1)
                case 1:
                    stored = [
                        each for each in ledger(world).errors() if each.resubmitted is None and each.row.raw
                    ]
                    ledger(world).resubmit(stored[:2])
                case 2:
                    made.let_pass(4)
                case 3:
                    for each in made.held:
                        each.is_suspended = False
                case 4:
                    made.leader().is_suspended = turn % 2 == 0
                case 5:
                    made.kill(made.leader())
                    made.start(pace=pace)
            add(world, rng, 40)
            made.let_pass(rng.choice((0.4, 3, 20 * TAKEOVER_S)))
            if all(each.role != "leader" or each.is_suspended for each in made.held):
                made.let_pass(40 * TAKEOVER_S)
        for each in made.held:
            each.is_suspended = False
        made.let_pass(40 * TAKEOVER_S)
        assert epoch(world) > 1
        assert all(lag(each) == 0 for each in made.followers())
        assert {each.kind for each in world.checkpoint.decisions} >= {"IDLE"}
    compared = compare(world.context(ledger=ledger(world)), Range())
    assert compared.count == 0
    assert sum(compared.rows.values()) > 100


def test_a_skipped_message_is_skipped_by_who_takes_over(world: World, made: Replicas) -> None:
    made.start()
    made.start()
    fill(world.topic, random.Random(11), 50)
    made.let_pass(3)
    offset = world.topic.add(0, 10**6, b'{"sensor":"poison","amount":1}')
    ledger(world).decide("a person", lambda _: [Decision(SKIP, "READINGS", 0, offset, None)])
    made.let_pass(20 * TAKEOVER_S)
    made.leader()
    assert [row.offset for row in world.checkpoint.errors if row.reason.startswith("SKIPPED")] == [offset]
    assert not any("poison" in row for row in world.database.contents.appended["LOG"])


def test_a_follower_of_a_changed_pipeline_ends_and_says_why(world: World, made: Replicas) -> None:
    made.start()
    made.start()
    fill(world.topic, random.Random(12), 50)
    made.let_pass(3)
    record = world.checkpoint.record
    assert record is not None
    with world.database.begin() as transaction:
        held = ledger(world)
        held.fence(transaction, epoch=record.epoch, commits=record.commits)
        held.replace_plan(transaction, '{"digests": {"pump \\"P\\"": "1"}, "version": 1}', ())
    with pytest.raises(StatementError, match="was changed while it was followed") as refused:
        made.let_pass(3)
    assert "rowtide apply" in (refused.value.hint or "")


def test_a_follower_of_a_dropped_pipeline_ends(world: World, made: Replicas) -> None:
    first = made.start()
    made.start()
    fill(world.topic, random.Random(13), 50)
    made.let_pass(3)
    first.is_suspended = True
    ledger(world).drop()
    with pytest.raises(FaultError, match="was dropped while it was followed"):
        made.let_pass(3)


def test_a_compacted_topic_is_taken_over_from_the_snapshot_of_the_last_commit(world: World) -> None:
    rng = random.Random(14)
    world.topic.is_compacted = lambda: True  # type: ignore[method-assign]  # as a broker says
    with replicas(world.context, world.clock) as made, capture_logs() as logs:
        first, second = made.start(), made.start()
        fill(world.topic, rng, 100)
        made.let_pass(3)
        assert (second.role, second.status.phase) == ("follower", "following")
        made.kill(first)
        fill(world.topic, rng, 100)
        made.let_pass(TAKEOVER_S + 5)
        assert made.leader() is second
        (found,) = [each for each in logs if each["event"] == "recovered" and each["snapshot"]]
        assert found["replayed_messages"] == 0
    assert world.state() == undisturbed(world)


def test_a_follower_shows_its_lag_and_does_not_commit(world: World, made: Replicas) -> None:
    first, second = made.start(), made.start()
    fill(world.topic, random.Random(15), 100)
    made.let_pass(3)
    shown = second.status
    assert shown.epoch is None, "it has taken none"
    assert shown.replica is not None
    assert (shown.replica.keeps_up, shown.replica.takeovers) == (True, 0)
    made.kill(first)
    made.let_pass(2 * TAKEOVER_S)
    shown = second.status
    assert shown.replica is not None
    assert (shown.epoch, shown.replica.role, shown.replica.takeovers) == (2, "leader", 1)


class _Replaced(dict[str, State]):
    """The state in parts of a snapshot that was replaced while it was read."""

    def __getitem__(self, key: str) -> State:
        raise ReplacedSnapshotError(f'the parts of "{key}" are gone')


def test_a_follower_whose_snapshot_is_replaced_begins_with_the_newest(
    world: World, made: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng, pace = random.Random(1), Pace(500, 60, 1, None)
    first = made.start(pace=pace)
    fill(world.topic, rng, 60)
    made.let_pass(2)
    newest = InMemoryLedger.newest_snapshot
    replaced: list[int] = []

    def read(self: InMemoryLedger) -> KeptSnapshot | None:
        found = newest(self)
        if found is None or len(replaced) == 2:
            return found
        replaced.append(1)
        return replace(found, state=_Replaced(found.state))

    monkeypatch.setattr(InMemoryLedger, "newest_snapshot", read)
    second = made.start(pace=pace)
    for _ in range(3):
        fill(world.topic, rng, 60)
        made.let_pass(2)
    assert len(replaced) == 2
    assert (second.status.phase, lag(second)) == ("following", 0)
    made.kill(first)
    fill(world.topic, rng, 60)
    made.let_pass(TAKEOVER_S + 1.5)
    assert second.role == "leader"
    assert world.state() == undisturbed(world)


def test_metrics_of_a_replica_are_those_of_its_role(world: World, made: Replicas) -> None:
    all_metrics = [Metrics() for _ in range(2)]
    first, second = (
        made.start(observer=MetricsObserver(metrics, world.clock, "1")) for metrics in all_metrics
    )

    def shown(metrics: Metrics, name: str, **labels: str) -> float | None:
        return metrics.registry.get_sample_value(name, labels)

    def lag_of_the_topic(metrics: Metrics) -> float | None:
        return shown(metrics, "rowtide_lag_offsets", topic="readings", partition="0")

    fill(world.topic, random.Random(16), 100)
    made.let_pass(10)
    leads, follows = all_metrics
    for metrics, role in ((leads, "leader"), (follows, "follower")):
        assert shown(metrics, "rowtide_role", role=role) == 1
        assert shown(metrics, "rowtide_up") == 1
        assert shown(metrics, "rowtide_takeovers_total") == 0
    assert shown(follows, "rowtide_phase", phase="following") == 1
    assert (lag_of_the_topic(leads), lag_of_the_topic(follows)) == (0, None)
    first.is_suspended = True
    made.let_pass(2 * TAKEOVER_S)
    first.is_suspended = False
    fill(world.topic, random.Random(17), 100)
    made.let_pass(10)
    assert (first.role, second.role) == ("follower", "leader")
    assert shown(leads, "rowtide_role", role="leader") == 0
    assert (lag_of_the_topic(leads), lag_of_the_topic(follows)) == (None, 0)
    assert [shown(each, "rowtide_takeovers_total") for each in all_metrics] == [1, 1]
    assert shown(follows, "rowtide_epoch") == 2
    assert shown(leads, "rowtide_standby_lag_commits") == 0


def test_messages_for_a_topic_are_sent_once_by_leaders_that_follow_each_other() -> None:
    plan, broker, rng = alerts_plan(), MemoryBroker(), random.Random(18)
    world = World(InMemoryTopic("readings", 3), plan=plan)
    with replicas(partial(world.context, sinks=sink_of(plan, broker)), world.clock) as made:
        made.start()
        for turn in range(6):
            made.start()
            add(world, rng, 60)
            made.let_pass(rng.choice((0.6, 2, 3)))
            leader = made.leader()
            if turn % 2:
                leader.is_suspended = True
            else:
                made.kill(leader)
            made.let_pass(20 * TAKEOVER_S)
            leader.is_suspended = False
        made.let_pass(5)
        assert epoch(world) == 7
    log = [sensor for sensor, _ in world.database.contents.appended["LOG"]]
    assert len(log) > 100
    assert [None if key is None else key.decode() for _, key, _ in sent(broker)] == log


def test_tables_of_databases_are_polled_by_the_leader_and_followed_by_their_log(tmp_path: Path) -> None:
    polled = PolledWorld(tmp_path, random.Random(19))
    with ExitStack() as opened:

        def context(**changes: Any) -> PipelineContext:
            pipeline = opened.enter_context(open_pipeline(polled.plan, "p"))
            return polled.context(pipeline, NoCrash(), **changes)

        made = opened.enter_context(replicas(context, polled.clock))
        made.start()
        made.start()
        for turn in range(2):
            for _ in range(12):
                polled.change()
                made.let_pass(1)
            leader = made.leader()
            if turn % 2:
                leader.is_suspended = True
            else:
                made.kill(leader)
                made.start()
            made.let_pass(5 * TAKEOVER_S)
            leader.is_suspended = False
        polled.click(polled.clock.now_ms() + 15_000)
        made.let_pass(15)
        polled.look_at_log()
        assert polled.sink("select epoch from rowtide_pipelines") == [(3,)]
    named = sorted(polled.sink("select n, who, name from named"))
    assert len(named) > 4
    assert named == sorted(polled.expected_named())[: len(named)]
    assert sorted(polled.sink("select id, name from users_now")) == polled.source(
        "select id, name from people order by id"
    )
