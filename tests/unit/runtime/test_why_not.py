"""Why no rows come out: each complaint that users of other systems made, with the cause that is named.

Precise cuts of time, which others asked for, are those of ``replay --from --to``: test_replay_compare.py.
"""

import pytest

from rowtide.errors import StatementError
from rowtide.flow.why_not import Holder, Keeper, Silence, Wait
from rowtide.runtime.inspect.facts import Facts, PartitionFacts
from rowtide.runtime.inspect.why_not import Cause, SilenceExplanation
from rowtide.runtime.inspect.why_not import answer as put_together
from rowtide.runtime.service import Service
from support.enquiry import CLICKS, PER_MINUTE, VIEWS, Enquiry, add, causes, enquiry, only, per_row, topic_of
from support.runtime import down

# ----------------------------------------------------- A: time stops when data stops


@pytest.mark.parametrize("relation", ["PER_MINUTE", "OUT"])
def test_a1_a2_a5_a6_the_last_window_waits_for_a_row_or_a_bound_and_no_clock(relation: str) -> None:
    asked = enquiry(PER_MINUTE.format(""), [(0, 10), (0, 70)])
    answer = asked.ask(relation)
    # The first minute has come out, the second is held.
    assert answer.rows_out == 1
    assert [(each.operator, each.rows) for each in answer.holders] == [("GroupByPeriod", 1)]
    cause = only(answer)
    assert (cause.cause, cause.relation, cause.partition) == ("IDLE", "CLICKS", 0)
    assert (cause.has, cause.needs) == (70_000, 120_000)
    assert (cause.position, cause.end_offset) == (2, 2)
    assert "1970-01-01 00:02:00.000" in cause.released
    assert "not before" in cause.released
    assert "rowtide.bound" in cause.change
    asked.topics["CLICKS"].add(0, 71_000, None, rowtide_bound=b"120000")
    answer = asked.ask(relation)
    assert causes(answer) == [("NOTHING_HELD", relation, None)]
    assert answer.rows_out == 2


def test_a3_a8_a_session_of_one_row_waits_for_its_gap() -> None:
    query = "SELECT STREAM k, COUNT(*) AS n FROM clicks GROUP BY SESSION(ROWTIME, INTERVAL '5' MINUTE), k"
    answer = enquiry(per_row(query), [(0, 10)]).ask("ANSWERS")
    assert [(each.operator, each.rows) for each in answer.holders] == [("GroupBySession", 1)]
    assert causes(answer) == [("IDLE", "CLICKS", 0)]
    assert only(answer).needs == 310_000


def test_a4_a_day_of_grace_holds_every_row_for_a_day() -> None:
    query = "SELECT STREAM k, n FROM clicks ORDER BY ROWTIME WITHIN INTERVAL '1' DAY"
    answer = enquiry(per_row(query), [(0, 10), (0, 3_600)]).ask("ANSWERS")
    assert [(each.operator, each.rows, each.partition) for each in answer.holders] == [("Sort", 2, 0)]
    cause = only(answer)
    assert (cause.cause, cause.needs) == ("IDLE", 10_000)
    # A row must be a day later than the first one held, a bound need not.
    assert "1970-01-02 00:00:10.000 or later, or a bound of 1970-01-01 00:00:10.000" in cause.released


def test_a7_heartbeats_are_bound_records() -> None:
    asked = enquiry(PER_MINUTE.format(""), [(0, 10)])
    assert "let the producer send a bound record" in only(asked.ask("OUT")).change.lower()


def test_a9_bounds_on_the_message_time_end_at_a_promoted_column() -> None:
    query = "SELECT STREAM v.at AS ROWTIME, k, n FROM (SELECT STREAM k, n, at FROM clicks) AS v"
    sql = per_row(
        "SELECT STREAM k, COUNT(*) AS n FROM promoted GROUP BY FLOOR(ROWTIME TO MINUTE), k"
    ).replace("CREATE VIEW answers", f"CREATE VIEW promoted AS {query};\nCREATE VIEW answers")
    answer = enquiry(sql, [(0, 10), (0, 20)]).ask("ANSWERS")
    cause = only(answer)
    assert (cause.cause, cause.has, cause.needs) == ("IDLE", 20_000, 60_000)


def test_a9_over_a_union_only_rows_move_a_promoted_clock() -> None:
    streams = f"{CLICKS.format('')}\n{VIEWS}"
    union = "SELECT STREAM k, n, at FROM clicks UNION ALL SELECT STREAM k, n, at FROM views"
    sql = per_row(
        "SELECT STREAM k, COUNT(*) AS n FROM promoted GROUP BY FLOOR(ROWTIME TO MINUTE), k", streams
    ).replace(
        "CREATE VIEW answers",
        f"CREATE VIEW both_of AS {union};\n"
        "CREATE VIEW promoted AS SELECT STREAM at AS ROWTIME, k, n FROM both_of;\nCREATE VIEW answers",
    )
    answer = enquiry(sql, [(0, 10), (0, 20)], views=[(0, 15), (0, 30)]).ask("ANSWERS")
    assert {(each.relation, each.operator) for each in answer.holders} == {
        ("ANSWERS", "GroupByPeriod"),
        ("BOTH_OF", "Merge"),
    }
    assert {each.cause for each in answer.causes} == {"IDLE"}
    assert 'set a bound on "promoted" itself' in answer.causes[-1].change.lower()


def test_a10_a11_partitions_that_never_had_a_message_are_named() -> None:
    answer = enquiry(PER_MINUTE.format(""), [(1, 10), (1, 100)], partitions=3).ask("OUT")
    assert sorted(causes(answer)) == [("NO_BOUND", "CLICKS", 0), ("NO_BOUND", "CLICKS", 2)]
    assert {each.has for each in answer.causes} == {None}
    assert all("idle_timeout" in each.change for each in answer.causes)
    assert ("Merge", 2) in [(each.operator, each.rows) for each in answer.holders]


def test_a12_a_declared_time_out_says_when_it_lets_go() -> None:
    asked = enquiry(PER_MINUTE.format(", idle_timeout '30 SECOND'"), [(0, 10), (0, 100)], partitions=2)
    cause = only(asked.ask("OUT", after_s=10))
    assert (cause.cause, cause.partition) == ("NO_BOUND", 1)
    assert "silent for idle_timeout (30 s)" in cause.released
    assert "1970-01-01 00:01:40.000" in cause.released
    answer = asked.ask("OUT", after_s=100)
    # It follows the other one now, which is not far enough itself.
    assert answer.rows_out == 1
    assert sorted(causes(answer)) == [("IDLE", "CLICKS", 0), ("IDLE", "CLICKS", 1)]
    assert all(
        "no other partition" in each.released or "they are at" in each.released for each in answer.causes
    )


MEETING = (
    "CREATE FOREIGN STREAM clicks (k VARCHAR(8), n INTEGER) SERVER k OPTIONS (topic 'clicks'{});"
    "CREATE FOREIGN STREAM views (k VARCHAR(8), n INTEGER) SERVER k OPTIONS (topic 'views'{});"
)
"""Their rows meet in a union, whose last ones wait for the quiet stream."""
UNION = "SELECT STREAM k, n FROM clicks UNION ALL SELECT STREAM k, n FROM views"


def test_a_stream_that_meets_a_quiet_one_is_told_a_cure_that_works() -> None:
    def asked(of_clicks: str, of_views: str) -> tuple[SilenceExplanation, Cause]:
        sql = per_row(UNION, MEETING.format(of_clicks, of_views))
        answer = enquiry(sql, [(0, 10)], views=[(0, 10), (0, 60)]).ask("OUT", after_s=20)
        return answer, next(each for each in answer.causes if each.relation == "CLICKS")

    timeout = ", idle_timeout '5 SECOND'"
    answer, cause = asked("", "")
    assert answer.rows_out == 1
    assert "declare idle_timeout on CLICKS: while it is idle" in cause.change
    answer, cause = asked(timeout, "")
    # It has done so: what is left is the last row, for which a row or a bound must come.
    assert answer.rows_out == 2
    assert cause.has == 60_000
    assert "no other partition has gone further" in cause.released
    assert "idle_timeout" not in cause.change
    answer, cause = asked(timeout, timeout)
    assert answer.rows_out == 1
    assert "VIEWS is idle too, and idle streams do not advance each other" in cause.released
    assert "declare idle_timeout on CLICKS alone" in cause.change


def test_a13_a_partition_that_cannot_be_read_is_not_idle() -> None:
    asked = enquiry(PER_MINUTE.format(", idle_timeout '30 SECOND'"), [(0, 10), (0, 100)], partitions=2)
    topic = asked.topics["CLICKS"]

    def goes_down() -> None:
        topic.before = down(5, "poll")

    # Asked while the main loop waits for the broker.
    answer = asked.ask("OUT", after_s=10, then=goes_down)
    assert answer.phase == "running"
    assert {each.cause for each in answer.causes} <= {"BROKER_DOWN", "NO_BOUND"}


def test_a14_the_past_is_read_by_its_own_time() -> None:
    year_ago = 1_700_000_000 - 365 * 86_400
    answer = enquiry(PER_MINUTE.format(""), [(0, year_ago), (0, year_ago + 60)]).ask("OUT")
    assert answer.rows_out == 1
    assert causes(answer) == [("IDLE", "CLICKS", 0)]


# ----------------------------------------------------- B: replay and restart


def test_b15_b16_a_restart_knows_the_bounds_it_had() -> None:
    asked = enquiry(PER_MINUTE.format(""), [(0, 10), (0, 70), (1, 65)], partitions=2)
    before = asked.ask("OUT")
    after = asked.ask("OUT")
    assert (before.causes, before.holders, before.fates) == (after.causes, after.holders, after.fates)
    add(asked.topics["CLICKS"], [(0, 20)])
    assert ("CLICKS", 1) in [(each.relation, each.account.late) for each in asked.ask("OUT").fates]


@pytest.mark.parametrize("polled", [1, 3, 100])
def test_b17_b18_how_fast_partitions_are_read_changes_no_answer(polled: int) -> None:
    # Partition 1 lags by a minute, partition 0 has a row behind its own last one.
    messages = [(0, 10), (0, 70), (0, 20), (0, 130), *((1, second) for second in range(5, 70, 5))]

    def asked(changes: dict[str, object]) -> tuple[object, ...]:
        found = enquiry(PER_MINUTE.format(""), messages, partitions=2)
        found.changes = changes
        answer = found.ask("OUT", after_s=10.0)
        return found.world.state()[:3], answer.fates, answer.holders, answer.rows_out

    assert asked({"poll_messages": polled, "max_held_rows": 2}) == asked({})


def test_b19_windows_end_while_a_backlog_is_still_read() -> None:
    asked = enquiry(PER_MINUTE.format(""), [(0, second) for second in range(0, 6000, 10)])
    asked.changes = {"poll_messages": 1}
    asked.topics["CLICKS"].before = lambda _step: asked.world.clock.sleep(0.1)
    answer = asked.ask("OUT")
    (cause,) = [each for each in answer.causes if each.relation == "CLICKS"]
    assert cause.cause == "LAGGING"
    assert answer.rows_out


def test_b21_late_rows_of_either_side_are_counted() -> None:
    asked = enquiry(per_row("SELECT STREAM k, n FROM clicks"), [(0, 100)])
    asked.ask("ANSWERS")
    add(asked.topics["CLICKS"], [(0, 20), (0, 30)])
    (judge,) = [each for each in asked.ask("ANSWERS").fates if each.operator == "Sort"]
    assert (judge.account.rows_in, judge.account.late) == (3, 2)


def test_b22_a_second_stateful_operator_waits_and_drops_nothing() -> None:
    sql = PER_MINUTE.format("").replace(
        "SELECT STREAM period, n FROM per_minute",
        "SELECT STREAM FLOOR(ROWTIME TO HOUR) AS period, SUM(n) AS n FROM per_minute"
        " GROUP BY FLOOR(ROWTIME TO HOUR)",
    )
    answer = enquiry(sql, [(0, 10), (0, 70), (0, 130)]).ask("OUT")
    assert [(each.operator, each.rows) for each in answer.holders] == [
        ("GroupByPeriod", 1),
        ("GroupByPeriod", 2),
    ]
    # The first minute that is held is over at 180 s, but then it waits for the hour, like the other rows. At 59 minutes
    # the last minute is open, which ends with the hour.
    assert only(answer).needs == 3_540_000
    assert all(each.account.late == 0 for each in answer.fates)


def test_b23_the_partition_that_lags_is_named_with_its_offsets() -> None:
    asked = enquiry(PER_MINUTE.format(""), [(0, 100), (1, 10), (1, 20)], partitions=2)
    asked.changes = {"poll_messages": 1, "max_held_rows": 1}
    answer = asked.ask("OUT")
    assert ("IDLE", "CLICKS", 1) in causes(answer)


def test_b24_b25_rows_behind_a_closed_window_are_late_and_give_nothing_again() -> None:
    asked = enquiry(PER_MINUTE.format(""), [(0, 10), (0, 70), (0, 20), (0, 130)])
    answer = asked.ask("OUT")
    assert answer.rows_out == 2
    (judge,) = [each for each in answer.fates if each.operator == "Sort"]
    assert judge.account.late == 1


HELD = Holder("OUT", "Merge", None, 5, 90, (Wait("CLICKS", 1, 90, 100),))
KEEPER = Keeper("CLICKS", 1, "CLICKS", 90, 100, 100)
OTHER = Keeper("CLICKS", 0, "CLICKS", 500, None, None)


@pytest.mark.parametrize(
    ("known", "cause", "words"),
    [
        (PartitionFacts("clicks", 7, 9), "LAGGING", "at offset 7 of 9: 2 messages are not read yet"),
        (PartitionFacts("clicks", 7, 9, paused=True), "PAUSED", "limits.held_rows"),
        (PartitionFacts("clicks", 7, 9, down=True), "BROKER_DOWN", "the broker does not answer"),
        (PartitionFacts("clicks", 9, 9), "IDLE", "read to its end and has no newer rows"),
        (
            PartitionFacts("clicks", 9, 9, uncommitted=5, idle_timeout_ms=30_000, silent_ms=12_000),
            "OPEN_TRANSACTION",
            "is read to offset 9, where a transaction of Kafka is open: the 5 offsets from there on are written",
        ),
        (PartitionFacts("clicks", 7, 9, uncommitted=5), "LAGGING", "at offset 7 of 9"),
        (
            PartitionFacts("clicks", 9, 9, idle_timeout_ms=30_000, silent_ms=12_000),
            "IDLE",
            "silent for idle_timeout (30 s) in 18 s: it then follows the others, which have reached "
            "1970-01-01 00:00:00.5",
        ),
    ],
)
def test_b23_why_a_partition_is_behind_is_told_from_its_offsets_and_the_policy(
    known: PartitionFacts, cause: str, words: str
) -> None:
    silence = Silence("OUT", 3, (HELD,), (KEEPER,), (), (OTHER, KEEPER))
    found = only(put_together("p", "OUT", silence, Facts({("CLICKS", 1): known})))
    assert found.cause == cause
    assert (found.topic, found.partition, found.has, found.needs) == ("clicks", 1, 90, 100)
    assert words in f"{found.why} {found.released}"


@pytest.mark.parametrize(
    ("known", "cause"),
    [
        (PartitionFacts("clicks", 9, 9), "NOTHING_HELD"),
        (PartitionFacts("clicks", 9, 9, down=True), "BROKER_DOWN"),
        (PartitionFacts("clicks", 7, 9), "LAGGING"),
        (PartitionFacts("clicks", 9, 9, uncommitted=1), "OPEN_TRANSACTION"),
    ],
)
def test_where_nothing_is_held_what_is_not_read_yet_is_the_cause(known: PartitionFacts, cause: str) -> None:
    silence = Silence("OUT", 3, (), (), (), (OTHER,))
    assert only(put_together("p", "OUT", silence, Facts({("CLICKS", 0): known}))).cause == cause


def test_a_database_that_is_down_and_rows_that_are_not_committed_are_told_first() -> None:
    silence = Silence("OUT", 3, (HELD,), (KEEPER,), (), (KEEPER,))
    facts = Facts({("CLICKS", 1): PartitionFacts("clicks", 9, 9)}, uncommitted={"OUT": 4}, database_down=True)
    found = put_together("p", "OUT", silence, facts)
    assert [each.cause for each in found.causes] == ["DATABASE_DOWN", "NOT_COMMITTED", "IDLE"]


# ----------------------------------------------------- what else keeps a relation silent


def test_rows_that_are_all_filtered_late_or_rejected_are_named_as_such() -> None:
    nothing = enquiry(per_row("SELECT STREAM k, n FROM clicks WHERE n < 0"), [(0, 10), (0, 20)])
    assert causes(nothing.ask("ANSWERS")) == [("FILTERED", "ANSWERS", None)]
    sampled = enquiry(per_row("SELECT STREAM k, n FROM clicks TABLESAMPLE HASH (0, k)"), [(0, 10), (0, 20)])
    cause = only(sampled.ask("ANSWERS"))
    assert (cause.cause, cause.relation) == ("FILTERED", "ANSWERS")
    assert "2 of 2 rows that came to ANSWERS are not in the sample of 0 percent of (K)" in cause.why
    assert "TABLESAMPLE HASH" in cause.change
    broken = enquiry(per_row("SELECT STREAM k, n / (n - n) AS n FROM clicks"), [(0, 10), (0, 20)])
    assert causes(broken.ask("ANSWERS")) == [("REJECTED", "ANSWERS", None)]
    undecoded = enquiry(PER_MINUTE.format(""), [(0, 10, "{"), (0, 20, "}")])
    cause = only(undecoded.ask("OUT"))
    assert (cause.cause, cause.relation, cause.partition) == ("NO_BOUND", "CLICKS", 0)
    assert "All 2 messages read from the stream were rejected." in cause.why


def test_a_join_without_partners_is_unmatched_and_one_that_may_still_find_some_waits() -> None:
    streams = f"{CLICKS.format('')}\n{VIEWS}"
    query = (
        "SELECT STREAM c.k, c.n FROM clicks AS c"
        " JOIN views OVER (RANGE INTERVAL '1' MINUTE PRECEDING) AS v ON c.k = v.k"
    )
    sql = per_row(query, streams)
    other = '{"k":"b","n":1}'
    waiting = enquiry(sql, [(0, 100)], views=[(0, 50, other)]).ask("ANSWERS")
    assert causes(waiting) == [("IDLE", "VIEWS", 0)]
    bound = {"rowtide_bound": b"9000000"}
    done = enquiry(sql, [(0, 100)], views=[(0, 50, other)])
    for topic in done.topics.values():
        topic.add(0, 100_000, None, **bound)
    assert causes(done.ask("ANSWERS")) == [("UNMATCHED", "ANSWERS", None)]


def test_a_stopped_pump_keeps_its_place_and_is_named() -> None:
    streams = f"{CLICKS.format('')}\n{VIEWS}\nCREATE STREAM merged (k VARCHAR(8), n INTEGER);"
    sql = per_row("SELECT STREAM k, n FROM merged", streams) + (
        "CREATE PUMP one STARTED AS INSERT INTO merged SELECT STREAM k, n FROM clicks;"
        "CREATE PUMP two STOPPED AS INSERT INTO merged SELECT STREAM k, n FROM views;"
    )
    asked = Enquiry(sql, {"CLICKS": topic_of("clicks", 1, [(0, 10)])})
    answer = asked.ask("ANSWERS")
    assert causes(answer) == [("PUMP_STOPPED", "TWO", 0)]
    assert "is stopped" in only(answer).why


def test_a_relation_that_nothing_reads_is_not_computed() -> None:
    sql = PER_MINUTE.format("") + "CREATE VIEW unread AS SELECT STREAM k FROM clicks WHERE n > 1;"
    asked = enquiry(sql, [(0, 10)])
    assert causes(asked.ask("UNREAD")) == [("NOT_READ", "UNREAD", None)]
    with pytest.raises(StatementError, match="does not exist"):
        asked.ask("NOWHERE")


def test_while_it_recovers_the_service_says_so_without_being_kept_waiting() -> None:
    asked = enquiry(PER_MINUTE.format(""), [(0, 10)])
    service = Service(asked.world.context(sources=asked.topics))
    answer = service.requests.why_not("OUT")
    assert causes(answer) == [("STARTING", "OUT", None)]
    assert answer.phase == "starting"
