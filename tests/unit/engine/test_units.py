from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import pytest

from rowtide.engine import (
    DELETE,
    INSERT,
    NOP,
    ExecutionError,
    FrameMark,
    ModelError,
    RecursionFault,
    Rowop,
    RowType,
    Scheduling,
    TextTracer,
    Tray,
    Unit,
    make_loop,
)

NUMBER = RowType(number="int32")
COUNT = RowType(count="int32")


def test_a_chained_label_sees_the_rowop_of_the_label_it_was_sent_to() -> None:
    unit = Unit("u")
    first = unit.label("first", NUMBER)
    seen: list[str] = []
    first.then(lambda rowop: seen.append(str(rowop)), name="second")
    first.insert(first.row(5))
    assert seen == ['first OP_INSERT number="5"']


def test_adopting_a_rowop_keeps_its_opcode_even_a_nop() -> None:
    unit = Unit("u")
    other = unit.label("other", NUMBER)
    rowop = other.adopt(unit.label("first", NUMBER).rowop(NOP, NUMBER.row()))
    assert str(rowop) == "other OP_NOP"


def test_labels_of_different_row_types_are_not_chained() -> None:
    unit = Unit("u")
    with pytest.raises(
        ModelError, match=r'"b" cannot be chained to label "a": it takes row \{ int32 count, \}'
    ):
        unit.label("a", NUMBER).chain(unit.label("b", COUNT))


def test_a_label_cannot_follow_itself_through_any_path() -> None:
    unit = Unit("u")
    a, b, c = (unit.label(name, NUMBER) for name in "abc")
    a.chain(b).chain(c)
    with pytest.raises(ModelError, match="the chain would be a circle"):
        c.chain(a)
    with pytest.raises(ModelError, match="the chain would be a circle"):
        a.chain(a)
    assert c.followers == ()


def test_a_label_is_chained_once_and_within_its_unit() -> None:
    unit = Unit("u")
    a, b = unit.label("a", NUMBER), unit.label("b", NUMBER)
    a.chain(b)
    with pytest.raises(ModelError, match="twice"):
        a.chain(b)
    with pytest.raises(ModelError, match="different units"):
        a.chain(Unit("v").label("c", NUMBER))
    a.unchain_all()
    assert a.followers == ()


def test_a_rowop_of_another_unit_is_refused() -> None:
    stranger = Unit("v").label("there", NUMBER).rowop(INSERT, NUMBER.row(1))
    for send in (Unit("u").call, Unit("u").schedule, Unit("u").fork):
        with pytest.raises(ModelError, match='label "there" belongs to unit "v", not to unit "u"'):
            send(stranger)


def test_a_row_of_a_matching_type_is_read_under_the_names_of_the_label() -> None:
    label = Unit("u").label("counts", COUNT)
    assert str(label.rowop(INSERT, NUMBER.row(3))) == 'counts OP_INSERT count="3"'


def test_recursion_names_the_label_and_the_stack_that_led_there() -> None:
    unit = Unit("u")
    b = unit.label("b", NUMBER)
    a = unit.label("a", NUMBER, b.forward)
    b.then(a.forward, name="c")
    with pytest.raises(ExecutionError) as caught:
        a.insert(a.row(1))
    assert isinstance(caught.value.__cause__, RecursionFault)
    assert 'label "a" was called again' in str(caught.value)
    assert caught.value.stack == [
        'label "c", chained from "b", with b OP_INSERT number="1"',
        'label "b", called, with b OP_INSERT number="1"',
        'label "a", called, with a OP_INSERT number="1"',
    ]
    assert unit.stack_depth == 1


def test_a_unit_may_allow_recursion_up_to_a_limit() -> None:
    unit = Unit("u", recursion_limit=3)
    deepest: list[int] = []

    def count_down(rowop: Rowop) -> None:
        deepest.append(unit.stack_depth)
        if rowop.row.number > 1:
            label.insert(label.row(rowop.row.number - 1))

    label = unit.label("down", NUMBER, count_down)
    label.insert(label.row(3))
    assert deepest == [2, 3, 4]
    with pytest.raises(ExecutionError, match="called again while it was executing 3 times"):
        label.insert(label.row(4))


def test_a_label_that_is_not_reentrant_forbids_recursion_where_its_unit_allows_it() -> None:
    unit = Unit("u", recursion_limit=3)
    seen: list[int] = []

    @unit.handler(NUMBER, reentrant=False)
    def down(rowop: Rowop) -> None:
        seen.append(rowop.row.number)
        if rowop.row.number > 1:
            again.insert(NUMBER.row(rowop.row.number - 1))

    again = unit.label("again", NUMBER, down.forward)
    with pytest.raises(ExecutionError, match='label "down" was called again while it was executing'):
        down.insert(down.row(3))
    assert seen == [3]
    down.reentrant = True
    down.insert(down.row(3))
    assert seen == [3, 3, 2, 1]


def test_a_label_that_is_not_reentrant_is_not_reached_again_through_a_chain() -> None:
    unit = Unit("u", recursion_limit=3)
    first = unit.label("first", NUMBER)
    last = first.then(first.forward, name="last")
    last.reentrant = False
    with pytest.raises(ExecutionError, match='label "last" was called again'):
        first.insert(first.row(1))


def test_a_chain_too_long_for_python_ends_in_an_error_that_names_the_label_and_shows_both_ends() -> None:
    unit = Unit("u")
    labels = [unit.label("0", NUMBER)]
    for number in range(1, 3000):
        labels.append(labels[-1].then(lambda rowop: None, name=str(number)))
    with pytest.raises(
        ExecutionError, match=r"nested too deeply for Python, which allows \d+ calls"
    ) as caught:
        labels[0].insert(NUMBER.row(1))
    assert isinstance(caught.value.__cause__, RecursionFault)
    assert caught.value.stack[-1] == 'label "0", called, with 0 OP_INSERT number="1"'
    text = str(caught.value).splitlines()
    assert len(text) == 22
    assert text[11] == f"  ... {len(caught.value.stack) - 20} more labels ..."
    labels[2900].insert(NUMBER.row(1))
    assert unit.stack_depth == 1


def test_a_chain_may_be_wired_from_its_end_and_may_branch_and_join_often() -> None:
    unit = Unit("u")
    labels = [unit.label(str(number), NUMBER) for number in range(3000)]
    for before, after in reversed(list(pairwise(labels))):
        before.chain(after)
    for number in range(0, 100, 2):
        labels[number].chain(labels[number + 2])
    assert labels[0].leads_to(labels[-1])
    assert not labels[1].leads_to(labels[0])


def test_with_shared_frames_what_is_forked_runs_after_the_chain_in_one_frame() -> None:
    unit = Unit("u", scheduling=Scheduling.SHARED_FRAMES)
    seen: list[tuple[str, int]] = []
    note = unit.label("note", NUMBER, lambda rowop: seen.append((str(rowop.row.number), unit.stack_depth)))

    @unit.handler(NUMBER)
    def first(rowop: Rowop) -> None:
        unit.fork(note.rowop(INSERT, NUMBER.row(1)))
        unit.fork(second.rowop(INSERT, NUMBER.row()), note.rowop(INSERT, NUMBER.row(2)))

    @unit.handler(NUMBER)
    def second(rowop: Rowop) -> None:
        unit.fork(note.rowop(INSERT, NUMBER.row(3)))

    first.then(lambda rowop: seen.append(("chained", unit.stack_depth)), name="chained")
    first.insert(first.row())
    assert seen == [("chained", 2), ("1", 2), ("2", 2), ("3", 2)]


def test_with_shared_frames_a_label_may_fork_itself() -> None:
    unit = Unit("u", scheduling=Scheduling.SHARED_FRAMES)
    turns: list[tuple[int, int]] = []

    @unit.handler(NUMBER)
    def down(rowop: Rowop) -> None:
        turns.append((rowop.row.number, unit.stack_depth))
        if rowop.row.number:
            unit.fork(down.rowop(INSERT, NUMBER.row(rowop.row.number - 1)))

    down.insert(down.row(2000))
    assert turns == [(number, 2) for number in range(2000, -1, -1)]


def test_with_shared_frames_a_mark_stands_on_the_frame_of_its_label_and_a_loop_begins_at_its_turn() -> None:
    unit = Unit("u", scheduling=Scheduling.SHARED_FRAMES)
    seen: list[object] = []

    def turn(rowop: Rowop) -> None:
        seen.append(rowop.row.number)
        body.forward(rowop)

    def work(rowop: Rowop) -> None:
        assert loop.mark.is_set
        if rowop.row.number > 1:
            loop.again(INSERT, NUMBER.row(rowop.row.number - 1))

    loop = make_loop(unit, "loop", NUMBER, turn)
    body = unit.label("body", NUMBER, work)
    assert loop.begin is loop.turn
    start = unit.label("start", NUMBER)
    start.then(loop.begin.forward, name="loops")
    start.then(lambda rowop: seen.append("done"), name="after")
    start.insert(start.row(3))
    assert seen == [3, 2, 1, "done"]
    assert not loop.mark.is_set


def test_with_shared_frames_a_verbose_trace_has_braces_around_the_chain_and_the_draining() -> None:
    unit = Unit("u", scheduling=Scheduling.SHARED_FRAMES)
    forked = unit.label("forked", NUMBER)
    first = unit.label("first", NUMBER, lambda rowop: unit.fork(forked.adopt(rowop)))
    first.then(lambda rowop: None, name="second")
    tracer = unit.tracer = TextTracer(verbose=True)
    first.insert(first.row(1))
    assert [line.removeprefix("unit 'u' ").replace(" op OP_INSERT", "") for line in tracer.lines] == [
        "before label 'first' {",
        "before-chained label 'first' {",
        "before label 'second' (chain 'first') {",
        "after label 'second' (chain 'first') }",
        "after-chained label 'first' }",
        "after label 'first' }",
        "before-drain label 'first' {",
        "before label 'forked' {",
        "after label 'forked' }",
        "after-drain label 'first' }",
    ]


def test_with_shared_frames_the_stack_of_an_error_says_what_was_forked() -> None:
    unit = Unit("u", scheduling=Scheduling.SHARED_FRAMES)
    failing = unit.label("failing", NUMBER, lambda rowop: [].pop())
    first = unit.label("first", NUMBER, lambda rowop: unit.fork(failing.adopt(rowop)))
    with pytest.raises(ExecutionError) as caught:
        first.insert(first.row(1))
    assert caught.value.stack == ['label "failing", forked, with failing OP_INSERT number="1"']
    assert unit.is_empty
    assert unit.stack_depth == 1


def test_the_scheduling_changes_only_while_nothing_is_to_run() -> None:
    unit = Unit("u")
    label = unit.label("label", NUMBER)
    unit.schedule(label.rowop(INSERT, NUMBER.row(1)))
    with pytest.raises(ModelError, match="while it has rowops to run"):
        unit.scheduling = Scheduling.SHARED_FRAMES
    unit.drain()
    unit.scheduling = Scheduling.SHARED_FRAMES
    assert unit.scheduling is Scheduling.SHARED_FRAMES


def test_calls_that_nest_too_deep_end_in_a_clear_error() -> None:
    unit = Unit("u", recursion_limit=10**6)

    @unit.handler(NUMBER)
    def label(rowop: Rowop) -> None:
        label.forward(rowop)

    with pytest.raises(ExecutionError, match='unit "u" allows 100 nested calls'):
        label.insert(label.row(1))


def test_a_label_may_schedule_itself_but_not_fork_itself() -> None:
    unit = Unit("u")
    turns: list[int] = []

    def count_down(rowop: Rowop) -> None:
        turns.append(rowop.row.number)
        if rowop.row.number:
            how(label.rowop(INSERT, NUMBER.row(rowop.row.number - 1)))

    label = unit.label("down", NUMBER, count_down)
    how = unit.schedule
    label.insert(label.row(3))
    unit.drain()
    assert turns == [3, 2, 1, 0]
    how = unit.fork
    with pytest.raises(ExecutionError, match="called again"):
        label.insert(label.row(3))


def test_an_error_in_a_call_keeps_what_is_scheduled_and_drops_what_was_forked() -> None:
    unit = Unit("u")
    seen: list[int] = []
    note = unit.label("note", NUMBER, lambda rowop: seen.append(rowop.row.number))

    @unit.handler(NUMBER)
    def failing(rowop: Rowop) -> None:
        unit.schedule(note.rowop(INSERT, NUMBER.row(1)))
        unit.fork(note.rowop(INSERT, NUMBER.row(2)))
        raise ZeroDivisionError("by zero")

    with pytest.raises(ExecutionError, match='label "failing": by zero') as caught:
        failing.insert(failing.row(0))
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    unit.drain()
    assert seen == [1]


def test_an_error_while_draining_drops_the_rest_of_the_frame() -> None:
    unit = Unit("u")
    label = unit.label("inverse", NUMBER, lambda rowop: print(1 / rowop.row.number))  # noqa: T201
    unit.schedule(label.rowop(INSERT, NUMBER.row(0)), label.rowop(INSERT, NUMBER.row(1)))
    with pytest.raises(ExecutionError):
        unit.drain()
    assert unit.is_empty


def test_a_handler_may_stop_an_error_of_what_it_calls() -> None:
    unit = Unit("u")
    inner = unit.label("inner", NUMBER, lambda rowop: [].pop())
    stopped: list[str] = []

    @unit.handler(NUMBER)
    def outer(rowop: Rowop) -> None:
        try:
            inner.forward(rowop)
        except ExecutionError as error:
            stopped.extend(error.stack)

    outer.insert(outer.row(1))
    assert stopped == ['label "inner", called, with inner OP_INSERT number="1"']


def test_the_rowops_of_a_tray_run_one_after_the_other() -> None:
    unit = Unit("u")
    seen: list[str] = []
    first = unit.label("first", NUMBER, lambda rowop: seen.append(f"first {rowop.row.number}"))
    first.then(lambda rowop: seen.append(f"second {rowop.row.number}"), name="second")
    tray = Tray(first.rowop(INSERT, NUMBER.row(number)) for number in (1, 2))
    copied = tray.copy()
    tray.append(first.rowop(DELETE, NUMBER.row(3)))
    unit.call(tray)
    assert seen == [f"{name} {number}" for number in (1, 2, 3) for name in ("first", "second")]
    tray.clear()
    assert (len(tray), len(copied)) == (0, 2)


def test_a_tray_takes_rowops_of_one_unit() -> None:
    tray = Tray([Unit("u").label("a", NUMBER).rowop(INSERT, NUMBER.row(1))])
    with pytest.raises(ModelError, match='rowop for label "b" belongs to another unit'):
        tray.append(Unit("v").label("b", NUMBER).rowop(INSERT, NUMBER.row(1)))


def test_a_mark_is_unset_without_a_frame_outside_and_once_that_frame_is_gone() -> None:
    unit = Unit("u")
    mark = FrameMark("mark")
    unit.set_mark(mark)
    assert not mark.is_set
    inner = unit.label("inner", NUMBER, lambda rowop: unit.set_mark(mark))

    @unit.handler(NUMBER)
    def outer(rowop: Rowop) -> None:
        inner.forward(rowop)
        assert mark.is_set

    outer.insert(outer.row(1))
    assert not mark.is_set


def test_looping_at_a_mark_that_is_gone_is_scheduling() -> None:
    unit = Unit("u")
    seen: list[int] = []
    note = unit.label("note", NUMBER, lambda rowop: seen.append(rowop.row.number))
    unit.loop_at(FrameMark("gone"), note.rowop(INSERT, NUMBER.row(1)))
    assert seen == []
    unit.drain()
    assert seen == [1]


def test_a_loop_ends_within_the_call_and_never_nests_deeper() -> None:
    unit = Unit("u")
    depths: list[int] = []

    def turn(rowop: Rowop) -> None:
        depths.append(unit.stack_depth)
        if rowop.row.number > 1:
            loop.again(INSERT, NUMBER.row(rowop.row.number - 1))

    loop = make_loop(unit, "loop", NUMBER, turn)
    loop.begin.insert(loop.begin.row(1000))
    assert depths == [3] * 1000


def test_loops_that_begin_in_one_frame_take_turns() -> None:
    unit = Unit("u")
    turns: list[tuple[int, int]] = []
    pair = RowType(loop="int32", number="int32")

    def turn(rowop: Rowop) -> None:
        turns.append(tuple(rowop.row))
        if rowop.row.number > 1:
            loop.again(INSERT, pair.row(rowop.row.loop, rowop.row.number - 1))

    loop = make_loop(unit, "loop", pair, turn)

    @unit.handler(pair)
    def start(rowop: Rowop) -> None:
        unit.fork(loop.turn.rowop(INSERT, pair.row(1, 3)), loop.turn.rowop(INSERT, pair.row(2, 3)))

    start.insert(pair.row())
    assert turns == [(1, 3), (2, 3), (1, 2), (2, 2), (1, 1), (2, 1)]


def test_run_next_runs_one_rowop() -> None:
    unit = Unit("u")
    seen: list[int] = []
    note = unit.label("note", NUMBER, lambda rowop: seen.append(rowop.row.number))
    unit.schedule(note.rowop(INSERT, NUMBER.row(1)), note.rowop(INSERT, NUMBER.row(2)))
    assert unit.run_next()
    assert seen == [1]
    assert unit.run_next()
    assert not unit.run_next()


def test_a_cleared_label_refuses_rowops_and_leaves_its_followers_alone() -> None:
    unit = Unit("u")
    cleared: list[str] = []
    first = unit.label("first", NUMBER, on_clear=lambda: cleared.append("first"))
    second = first.then(lambda rowop: cleared.append("second ran"), name="second")
    rowop = first.rowop(INSERT, NUMBER.row(1))
    first.clear()
    first.clear()
    assert cleared == ["first"]
    uses: tuple[Callable[[], None], ...] = (
        lambda: unit.call(rowop),
        lambda: first.insert(NUMBER.row(1)),
        lambda: unit.schedule(rowop),
    )
    for use in uses:
        with pytest.raises(ModelError, match='"first" has been cleared'):
            use()
    second.insert(second.row(1))
    assert cleared == ["first", "second ran"]


def test_leaving_a_unit_clears_all_its_labels() -> None:
    cleared: list[str] = []
    with Unit("u") as unit:
        label = unit.label("label", NUMBER)
        unit.clearing_label("model", on_clear=lambda: cleared.append("model"))
    assert cleared == ["model"]
    assert label.is_cleared


def test_a_clearing_label_takes_no_data() -> None:
    label = Unit("u").clearing_label("model", on_clear=lambda: None)
    with pytest.raises(ExecutionError, match="cannot take"):
        label.insert(())


def test_an_opcode_is_one_of_the_three() -> None:
    label = Unit("u").label("label", NUMBER)
    wrong: Any = 7
    for send in (label.send, label.rowop):
        with pytest.raises(ModelError, match='label "label" cannot take opcode 7'):
            send(wrong, NUMBER.row(1))


def test_a_function_without_a_name_needs_one_for_its_label() -> None:
    label = Unit("u").label("label", NUMBER)
    with pytest.raises(ModelError, match='a label after label "label" needs a name'):
        label.then(partial(print, "got"))
