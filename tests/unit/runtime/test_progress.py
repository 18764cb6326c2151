"""The progress of a pipeline is that of its accounts, and its graph has every relation and step."""

from __future__ import annotations

import itertools
import random

from hypothesis import given, settings
from hypothesis import strategies as st

from rowtide.runtime.pace import Pace
from rowtide.runtime.progress.layout import COUNTED
from rowtide.runtime.service import Service
from rowtide.runtime.state.pipeline_state import OPERATORS_PART, SOURCE_PART, TABLE_PART
from rowtide.sql.pipeline import plan_pipeline
from rowtide.testing.in_memory_topic import InMemoryTopic
from support.progress import READINGS, ran
from support.runtime import World, fill


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 120), st.integers(1, 3), st.sampled_from([5, 60, 1000]))
def test_the_newest_progress_has_the_accounts_of_the_last_commit(
    seed: int, messages: int, partitions: int, rows: int
) -> None:
    world, board = ran(seed, messages, partitions, Pace(2_000, rows, None, None))
    (*_, newest) = board.newest
    accounts = {(each.part, each.relation): each for each in world.context().ledger.accounts()}
    assert world.checkpoint.record is not None
    assert newest.status.commits == world.checkpoint.record.commits
    steps = {row[0]: dict(zip(COUNTED, row[1:], strict=False)) for row in newest.steps}
    for node in newest.graph.nodes:
        shown = dict(zip(COUNTED, newest.by_node[newest.graph.nodes.index(node)].tolist(), strict=False))
        kept = accounts.get((OPERATORS_PART, node.relation))
        written = accounts.get((TABLE_PART, node.relation))
        read = accounts.get((SOURCE_PART, node.relation))
        every = [each for each in (kept, written) if each is not None]
        assert shown["late"] == sum(each.late for each in every)
        assert shown["held"] == sum(each.held for each in every)
        rejected = sum(each.rejected for each in (*every, *([read] if read else [])))
        assert shown["rejected"] == rejected
        if read is not None:
            assert shown["rows_in"] == read.rows_in - read.filtered
            assert steps[node.first[0]]["rows_out"] == read.done
        if written is not None:
            assert shown["rows_out"] == written.done
        assert shown["rows_out"] == sum(steps[at]["rows_out"] or 0 for at in node.last)


def test_the_graph_has_every_relation_with_its_steps_and_readers() -> None:
    _, board = ran()
    graph = board.newest[-1].graph
    assert [(node.id, node.kind, node.first, node.last) for node in graph.nodes] == [
        ("READINGS", "foreign stream", (0,), (4,)),
        ("SAME", "view", (), (4,)),
        ("GREAT", "view", (5,), (5,)),
        ("FOUND", "stream", (), (6,)),
        ("FINDS", "pump", (6,), (6,)),
        ("LATEST", "table", (), ()),
        ("KEEPS", "pump", (), ()),
        ("MINUTES", "foreign table", (10,), (10,)),
        ("PER_MINUTE", "view", (7,), (8,)),
        ("COUNTS", "pump", (9,), (9,)),
        ("UNREAD", "view", (), ()),
    ]
    assert set(graph.edges) == {
        ("READINGS", "SAME"),
        ("SAME", "GREAT"),
        ("GREAT", "FINDS"),
        ("FINDS", "FOUND"),
        ("FOUND", "KEEPS"),
        ("KEEPS", "LATEST"),
        ("FOUND", "PER_MINUTE"),
        ("PER_MINUTE", "COUNTS"),
        ("COUNTS", "MINUTES"),
        ("FOUND", "UNREAD"),
    }
    (source, *judges, merge) = graph.nodes[0].operators
    assert (source.operator, source.partition, merge.operator) == ("Source", None, "Merge")
    assert [each.partition for each in judges] == [0, 1]


def test_a_path_over_steps_passes_relations_without_a_step() -> None:
    _, board = ran()
    graph = board.newest[-1].graph
    steps = [0, 2, 4, 5, 6, 7]
    assert graph.along(graph.relation_of[at] for at in steps) == (
        "READINGS",
        "SAME",
        "GREAT",
        "FINDS",
        "FOUND",
        "PER_MINUTE",
    )


def test_the_digest_changes_with_the_partitions_and_the_plan() -> None:
    digests = {ran(partitions=number)[1].layout.graph.digest for number in (1, 2)}
    other = plan_pipeline(READINGS.replace("> 10", "> 11"))
    digests.add(ran(partitions=2, plan=other)[1].layout.graph.digest)
    assert len(digests) == 3
    assert ran(partitions=2)[1].layout.graph.digest in digests


def test_a_definition_shows_its_text_without_secrets() -> None:
    (readings, *_) = plan_pipeline(READINGS).definitions
    assert readings.text.startswith("CREATE FOREIGN STREAM readings")
    assert readings.text.endswith("some_password '******')")
    assert (readings.place.line, readings.reads) == (4, ())


def test_progress_is_made_once_a_second_and_of_the_last_commit() -> None:
    plan = plan_pipeline(READINGS)
    world = World(InMemoryTopic("readings", 1), plan=plan)
    fill(world.topic, random.Random(3), 60)
    seen: list[tuple[int | None, float]] = []

    def stopping() -> bool:
        newest = service.progress.newest
        if newest and (not seen or seen[-1][0] != newest[-1].status.commits):
            seen.append((newest[-1].status.commits, world.clock.seconds))
        return world.clock.seconds >= begin + 5

    begin = world.clock.seconds
    service = Service(world.context(stopping=stopping, pace=Pace(100, 10, None, None)))
    service.run()
    assert world.checkpoint.record is not None
    assert seen[-1][0] == world.checkpoint.record.commits
    assert len(seen) > 1
    assert all(after - before >= 1 for (_, before), (_, after) in itertools.pairwise(seen[1:]))
