"""Placing judges and merges: the laws that the module states."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from rowtide.expr.tree import Call, FieldRef, Literal, RowtimeRef
from rowtide.plan.nodes import BoundPolicy, Filter, GroupByPeriod, Merge, Node, Project, Promote, Sort, Source
from rowtide.plan.order import place_order
from rowtide.rows.types import BOOLEAN, INTERVAL_DAY, TIMESTAMP, Field, RowType
from rowtide.rowtime.period import CalendarUnit, Period, PeriodEdge

ROW = RowType((Field("AT", TIMESTAMP), Field("OK", BOOLEAN)))
FIELDS = (FieldRef(0, TIMESTAMP), FieldRef(1, BOOLEAN))
LATER = Call("+", (RowtimeRef(), Literal(1_000, INTERVAL_DAY)), TIMESTAMP)
STEPPED = Call("STEP", (RowtimeRef(), Literal(1_000, INTERVAL_DAY)), TIMESTAMP)
MINUTE = Period(PeriodEdge.FLOOR, CalendarUnit.MINUTE)

sources = st.builds(Source, st.sampled_from(["S", "T"]), st.just(ROW), st.booleans())


def above(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    """Return what the planner may put on top of a node."""
    name = st.sampled_from(["V", "W"])
    promotions = st.builds(
        Promote,
        name,
        inner,
        st.sampled_from([FIELDS[0], LATER, STEPPED]),
        st.just(BoundPolicy.DROP),
        st.just(9),
    )
    return st.one_of(
        st.builds(Filter, name, inner, st.just(FIELDS[1])),
        st.builds(Project, name, inner, st.just(FIELDS), st.just(ROW)),
        promotions,
        st.builds(Sort, name, st.one_of(promotions, inner), st.sampled_from([0, 5_000])),
        st.builds(Merge, name, st.tuples(inner, inner)),
        st.builds(GroupByPeriod, name, inner, st.just(MINUTE), st.just((1,)), st.just(()), st.just(ROW)),
    )


plans: st.SearchStrategy[Node] = st.recursive(sources, above, max_leaves=4)


def ways(node: Node) -> Iterator[list[Node]]:
    """Yield every way from ``node`` down to a source."""
    if not node.inputs:
        yield [node]
    for each in node.inputs:
        for rest in ways(each):
            yield [node, *rest]


def row_wise(way: list[Node]) -> list[tuple[type, str]]:
    return [(type(node), node.relation) for node in way if isinstance(node, Filter | Project | Promote)]


@given(plans)
def test_whatever_needs_order_reads_something_ordered(node: Node) -> None:
    placed = place_order(node)
    assert placed.is_ordered()
    for way in ways(placed):
        for reader, read in pairwise(way):
            if isinstance(reader, GroupByPeriod) or (isinstance(reader, Merge) and len(reader.sources) > 1):
                assert read.is_ordered()


@given(plans)
def test_a_source_is_judged_before_anything_that_needs_order(node: Node) -> None:
    for way in ways(place_order(node)):
        source = way.pop()
        first_judge = next(index for index, each in enumerate(reversed(way)) if isinstance(each, Sort))
        below = list(reversed(way))[:first_judge]
        assert all(isinstance(each, Filter | Project | Promote) for each in below)
        if isinstance(source, Source) and not source.foreign:
            assert below == []


@given(plans)
def test_partitions_are_merged_where_their_last_judge_is(node: Node) -> None:
    for way in ways(place_order(node)):
        merge = next(each for each in reversed(way) if isinstance(each, Merge))
        assert isinstance(merge.sources[0], Sort)
        assert len(merge.sources) == 1


@given(plans)
def test_a_foreign_stream_is_judged_on_message_time_only_where_it_is_not_promoted(node: Node) -> None:
    for way in ways(place_order(node)):
        source = way[-1]
        if isinstance(source, Source) and source.foreign:
            before_merge = way[max(i for i, each in enumerate(way) if isinstance(each, Merge)) + 1 : -1]
            judges = [each for each in before_merge if isinstance(each, Sort)]
            assert len(judges) == 1
            promoted = [each for each in before_merge if isinstance(each, Promote)]
            if judges[0].relation == source.relation and judges[0].within_ms == 0:
                assert promoted == []


@given(plans)
def test_row_wise_nodes_keep_their_order(node: Node) -> None:
    before = sorted(map(repr, map(row_wise, ways(node))))
    after = sorted(map(repr, map(row_wise, ways(place_order(node)))))
    assert before == after


@given(plans)
def test_only_bounds_that_speak_of_promoted_time_pass_a_promotion(node: Node) -> None:
    for way in ways(place_order(node)):
        for index, each in enumerate(way):
            if not isinstance(each, Promote):
                continue
            if each.rowtime in (LATER, STEPPED):
                assert each.bounds is BoundPolicy.MAP
                continue
            chain = way[index + 1 :]
            direct = all(isinstance(one, Filter | Project) for one in chain[:-1])
            foreign = isinstance(chain[-1], Source) and chain[-1].foreign
            assert each.bounds is (BoundPolicy.PASS if direct and foreign else BoundPolicy.DROP)
            assert each.max_ahead_ms == (9 if direct and foreign else None)


@given(plans)
def test_what_gives_different_rowtimes_an_equal_one_is_signed_anew_by_a_sort(node: Node) -> None:
    for way in ways(place_order(node)):
        for reader, read in pairwise(way):
            if isinstance(read, Promote) and read.rowtime == STEPPED:
                assert isinstance(reader, Sort)


@given(plans)
def test_equal_plans_get_equal_order(node: Node) -> None:
    assert place_order(node) == place_order(node)
