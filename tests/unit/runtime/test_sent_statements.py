"""Statements that are sent to a running pipeline: executed once, logged, and obeyed by every replay."""

from __future__ import annotations

import random
from contextlib import ExitStack
from pathlib import Path

import pytest

from rowtide.checkpoint.statement_log import StatementOutcome
from rowtide.runtime.crashpoints import POINTS, CrashAt, raise_crash
from rowtide.runtime.pace import Pace
from rowtide.runtime.state.context import PipelineContext
from support.polled import DiesAnywhere
from support.seeds import seeds
from support.standby import TAKEOVER_S, replicas
from support.statements import StatementsWorld, drawn_statement


@pytest.fixture
def world(tmp_path: Path) -> StatementsWorld:
    return StatementsWorld(tmp_path)


def check(world: StatementsWorld) -> None:
    """Check that every statement is settled, and that tables and rows are those that the log gives."""
    sent = world.sent()
    assert all(each.outcome is not StatementOutcome.QUEUED for each in sent)
    applied = [each for each in sent if each.outcome is StatementOutcome.APPLIED]
    assert [each.number for each in world.log()] == list(range(1, len(applied) + 1))
    rates = world.table_at("RATES", None, [("EUR", 10), ("USD", 20)])
    regions = world.table_at("REGIONS", None, [])
    kept = {(currency, rate, region) for currency, rate, region, _ in world.rows("kept")}
    if all(each.rowtime is not None and each.rowtime < world.now for each in applied):
        assert kept == {(*row, regions.get(row[0], (None, None))[1]) for row in rates.values()}
    valued = world.rows("valued")
    assert valued == world.expected_valued({row[0] for row in valued})
    assert world.differences() == []


def test_a_statement_holds_from_its_rowtime(world: StatementsWorld) -> None:
    rng = random.Random(1)
    for _ in range(20):
        world.order(rng)
    world.run()
    world.send("UPDATE rates SET rate = rate + 5")
    world.send("INSERT INTO regions VALUES ('EUR', 'euro'), ('GBP', 'isles')")
    world.run()
    for _ in range(20):
        world.now += 10
        world.order(rng)
    world.run()
    first, second = world.sent()
    assert (first.outcome, first.rows, first.did) == (StatementOutcome.APPLIED, 2, "2 rows updated")
    assert (second.outcome, second.rows, second.did) == (StatementOutcome.APPLIED, 2, "2 rows inserted")
    # A millisecond after the rowtime up to which both partitions were read, and so after every row that is out.
    reached = min(max(row[0] for row in world.orders[part:20:2]) for part in (0, 1))
    assert first.rowtime == second.rowtime == reached + 1
    rates = {(rate, region) for _, currency, rate, region in world.rows("valued") if currency == "EUR"}
    assert rates == {(10, None), (15, "euro")}
    check(world)


REFUSED = (
    ("UPDATE rates SET rate = 1 / (rate - rate)", "division"),
    ("UPDATE rates SET rate = 5", 'two rows of "RATES" have equal values of UNIQUE'),
    ("UPDATE rates SET rate = -1 WHERE currency = 'EUR'", "violates CHECK 1"),
    ("UPDATE rates SET currency = 'EUR'", "the PRIMARY KEY"),
    ("INSERT INTO regions VALUES ('EUR', NULL)", "cannot be NULL"),
    ("UPDATE rats SET rate = 1", 'table "RATS" does not exist'),
    ("UPDATE rates SET rat = 1", '"RAT"'),
    ("UPDATE rates SET rate = 'x'", "rate"),
    ("DELETE FROM orders", "DELETE of foreign stream"),
    ("DELETE FROM valued", "DELETE of foreign table"),
    ("DELETE FROM fed", 'table "FED" is filled by pumps'),
    ("DELETE FROM unread", 'no pump reads table "UNREAD"'),
    ("SELECT * FROM rates", "a query does not change rows"),
    ("CREATE TABLE t (a INTEGER)", "this statement does not change rows"),
    ("UPDATE rates SET rate = (SELECT 1 FROM regions)", ""),
    ("UPDATE", ""),
    ("", "expected a statement"),
)
"""Statements, and a part of their errors."""


def test_a_statement_that_fails_changes_nothing(world: StatementsWorld) -> None:
    world.order(random.Random(2))
    world.run()
    before = world.rows("kept")
    for text, _ in REFUSED:
        world.send(text)
    world.run()
    for sent, (text, error) in zip(world.sent(), REFUSED, strict=True):
        assert (sent.text, sent.outcome, sent.rowtime) == (text, StatementOutcome.REFUSED, None)
        assert sent.error is not None
        assert error.lower() in sent.error.lower()
    assert world.rows("kept") == before
    assert world.log() == []
    check(world)


def test_statements_of_one_text_apply_together_or_not_at_all(world: StatementsWorld) -> None:
    rng = random.Random(3)
    world.order(rng)
    world.run()
    world.send("DELETE FROM rates WHERE currency = 'EUR'; UPDATE rates SET rate = -1")
    world.send(
        "INSERT INTO rates VALUES ('GBP', 30); UPDATE rates SET rate = rate + 1; DELETE FROM rates WHERE rate > 25"
    )
    world.run()
    refused, applied = world.sent()
    assert refused.outcome is StatementOutcome.REFUSED
    assert applied.did == "1 row inserted\n3 rows updated\n1 row deleted"
    assert applied.rows == 5
    assert world.table_at("RATES", None, [("EUR", 10), ("USD", 20)]) == {
        "EUR": ("EUR", 11),
        "USD": ("USD", 21),
    }
    check(world)


def test_a_statement_before_the_first_row_holds_from_the_beginning(world: StatementsWorld) -> None:
    world.send("UPDATE rates SET rate = rate + 1")
    world.send("UPDATE rates SET rate = rate + 1")
    for _ in range(10):
        world.order(random.Random(4))
    world.run(stopping=lambda: not world_queued(world))
    assert [each.rowtime for each in world.sent()] == [None, None]
    world.run()
    assert {rate for _, _, rate, _ in world.rows("valued")} <= {12, 22, None}
    check(world)


def world_queued(world: StatementsWorld) -> bool:
    return any(each.outcome is StatementOutcome.QUEUED for each in world.sent())


def test_a_pipeline_without_the_text_lets_statements_wait(world: StatementsWorld) -> None:
    world.order(random.Random(5))
    world.run()
    world.send("TRUNCATE rates")
    world.order(random.Random(6))
    ends = 0

    def looks_often() -> bool:
        nonlocal ends
        ends += 1
        return ends > 100

    world.run(statements=None, stopping=looks_often)
    assert world_queued(world)
    world.run()
    assert not world_queued(world)


PACES = {"snapshots": Pace(100, 20, 30, None), "no snapshots": Pace(100, 20, None, None)}


@pytest.mark.parametrize("point", [each for each in POINTS if each.startswith(("commit.", "recovery."))])
def test_a_process_that_dies_executes_each_statement_once(tmp_path: Path, point: str) -> None:
    world, rng = StatementsWorld(tmp_path), random.Random(point)
    for count, pace in ((1, PACES["snapshots"]), (2, PACES["no snapshots"])):
        for _ in range(15):
            world.order(rng)
        world.send("UPDATE rates SET rate = rate + 1")
        world.send("UPDATE rates SET rate = -rate")
        world.run(CrashAt(point, count, raise_crash), pace=pace)
    for _ in range(5):
        world.order(rng)
    assert world.run()
    assert world.table_at("RATES", None, [("EUR", 10), ("USD", 20)])["EUR"] == ("EUR", 12)
    check(world)


@pytest.mark.parametrize("seed", seeds(4, few=1))
def test_statements_between_rows_and_deaths(tmp_path: Path, seed: int) -> None:
    world, rng = StatementsWorld(tmp_path), random.Random(seed)
    for _ in range(8):
        for _ in range(rng.randrange(12)):
            world.order(rng)
        for _ in range(rng.randrange(3)):
            world.send(drawn_statement(rng))
        world.run(
            DiesAnywhere(rng), pace=rng.choice(list(PACES.values())), poll_messages=rng.choice((1, 7, 50))
        )
    world.now += 1_000
    for _ in range(2):
        world.order(rng)
    assert world.run()
    check(world)


@pytest.mark.parametrize("seed", range(2))
def test_followers_obey_statements_and_execute_none(tmp_path: Path, seed: int) -> None:
    world, rng = StatementsWorld(tmp_path), random.Random(seed)
    with ExitStack() as stack:

        def context(**changes: object) -> PipelineContext:
            return stack.enter_context(world.context(**changes))

        made = stack.enter_context(replicas(context, world.clock))
        for _ in range(3):
            made.start(pace=rng.choice(list(PACES.values())))
        for _ in range(5):
            for _ in range(rng.randrange(12)):
                world.order(rng)
            for _ in range(rng.randrange(3)):
                world.send(drawn_statement(rng))
            made.let_pass(rng.choice((0.3, 2.0, 3.0)))
            leaders = [each for each in made.held if each.role == "leader"]
            if leaders and rng.random() < 0.5:
                made.kill(leaders[0])
                made.start()
        for _ in range(4):
            world.now += 1_000
            world.order(rng)
        made.let_pass(3 * TAKEOVER_S)
        assert len({each.statement_id for each in world.sent()}) == len(world.sent())
    check(world)
