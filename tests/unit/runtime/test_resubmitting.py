"""Each error row is resubmitted at most once, whoever asks, how often, and at the same time as others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from rowtide.checkpoint import error_stream
from rowtide.checkpoint.error_stream import ErrorFilter
from rowtide.checkpoint.ledger import StoredError
from rowtide.errors import OvertakenError, StatementError
from rowtide.runtime.pace import Pace
from rowtide.runtime.pipeline import Pipeline, open_pipeline
from rowtide.runtime.recovery.begin import ON_SPARK
from rowtide.runtime.resubmitting import resubmit as resubmitting
from rowtide.runtime.resubmitting.resubmit import (
    CHOICES,
    IN_ONE_PROCESS,
    MISSING,
    ResubmittedRows,
    resubmit,
)
from rowtide.sql.pipeline import plan_pipeline
from rowtide_connectors.memory import memory_broker
from support.pipeline import work_off

SQL = """
CREATE SERVER k FOREIGN DATA WRAPPER MEMORY OPTIONS (broker '{file}');
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite:///{file}');
CREATE FOREIGN STREAM readings (number INTEGER) SERVER k OPTIONS (topic 'readings', format 'JSON');
CREATE FOREIGN TABLE found (number INTEGER) SERVER d;
CREATE PUMP p STARTED AS INSERT INTO found SELECT STREAM number FROM readings;
"""
LATE = 5
BEFORE = "already resubmitted"


@pytest.fixture
def pipeline(tmp_path: Path) -> Iterator[Pipeline]:
    """A pipeline with late rows and, after them, one that cannot be decoded."""
    file = tmp_path / "out.db"
    broker = memory_broker(str(file))
    broker.ensure_topic("readings", 1)
    times = [10_000, *range(1_000, 1_000 + LATE)]
    values = [b'{"number":%d}' % at for at in times]
    broker.produce("readings", [*values, b"{broken"], timestamps=[*times, 11_000], partition=0)
    plan = plan_pipeline(SQL.format(file=file))
    work_off(plan, "readings", Pace(100, 100, None, None))
    with open_pipeline(plan, "readings") as found:
        yield found


def numbers(rows: Sequence[StoredError]) -> list[int]:
    return [each.error_id for each in rows]


def late_of(pipeline: Pipeline) -> list[int]:
    found = numbers(pipeline.ledger.errors(ErrorFilter(kind="LATE")))
    assert len(found) == LATE
    return found


def pending(pipeline: Pipeline) -> list[int]:
    return numbers(pipeline.ledger.errors(ErrorFilter(kind="LATE", pending=True)))


def test_rows_are_taken_once_and_others_stay_with_the_reason(pipeline: Pipeline) -> None:
    late = late_of(pipeline)
    would = resubmit(pipeline, ErrorFilter(), dry_run=True)
    assert (numbers(would.rows), pending(pipeline)) == (late, late)
    assert [each.rowtime for each in would.counting.values()] == [10_000] * LATE
    (why,) = would.stay.values()
    assert "cannot be decoded" in why
    first = resubmit(pipeline, ErrorFilter(numbers=tuple(late[:2])))
    assert (numbers(first.rows), pending(pipeline)) == (late[:2], late[2:])
    again = resubmit(pipeline, ErrorFilter(numbers=(*late[1:3], 10_000)))
    assert numbers(again.rows) == late[2:3]
    assert again.stay == {late[1]: BEFORE, 10_000: MISSING}
    rest = resubmit(pipeline, ErrorFilter(kind="LATE"))
    assert (numbers(rest.rows), rest.stay, pending(pipeline)) == (late[3:], {}, [])
    assert [each.left for each in (would, first, again, rest)] == [999, 999, 998, 997]
    assert resubmit(pipeline, ErrorFilter(kind="LATE")) == ResubmittedRows([], {}, {}, left=997)


def test_a_dry_run_refuses_more_resubmissions_than_a_flow_may_hold(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = late_of(pipeline)
    monkeypatch.setattr(error_stream, "MAX_RESUBMISSIONS", 1)
    assert resubmit(pipeline, ErrorFilter(numbers=(late[0],))).left == 0
    for dry_run in (True, False):
        with pytest.raises(StatementError, match="has 1 resubmissions, and 1 is the limit"):
            resubmit(pipeline, ErrorFilter(kind="LATE"), dry_run=dry_run)
    assert pending(pipeline) == late[1:]


def test_of_rows_that_are_named_all_or_none_are_resubmitted_if_that_is_asked(pipeline: Pipeline) -> None:
    late = late_of(pipeline)
    for other in (late[-1] + 1, 10_000):
        with pytest.raises(StatementError, match=f"error row {other} of pipeline"):
            resubmit(pipeline, ErrorFilter(numbers=(late[0], other)), all_or_none=True)
    assert pending(pipeline) == late


@pytest.mark.parametrize("most", [1, 2, LATE, LATE + 1, LATE + 2])
def test_parts_of_a_limited_size_have_each_row_once_also_past_rows_that_stay(
    pipeline: Pipeline, most: int
) -> None:
    late, taken, stay = late_of(pipeline), list[int](), list[int]()
    after: int | None = 0
    while after is not None:
        done = resubmit(pipeline, ErrorFilter(after=after), most=most)
        assert len(done.rows) + len(done.stay) <= most
        taken += numbers(done.rows)
        stay += done.stay
        after = done.last
    assert (taken, len(stay), pending(pipeline)) == (late, 1, [])


def size_of(pipeline: Pipeline, number: int) -> int:
    (found,) = pipeline.ledger.errors(ErrorFilter(numbers=(number,)))
    return found.row.size


@pytest.mark.parametrize("is_named", [False, True])
@pytest.mark.parametrize("rows", [0, 1, 2, 10])
def test_parts_of_limited_bytes_have_each_row_once(
    pipeline: Pipeline, rows: int, is_named: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    late, taken = late_of(pipeline), list[int]()
    most = rows * max(size_of(pipeline, each) for each in late)
    monkeypatch.setattr(error_stream, "RESUBMITTED_BYTES", most)
    stay: dict[int, str] = {}
    wanted, after = ErrorFilter(numbers=(*late, 10_000) if is_named else (), kind="LATE"), None
    while after != 0:
        done = resubmit(pipeline, replace(wanted, after=after or 0), most=100)
        assert len(done.rows) == 1 or sum(each.row.size for each in done.rows) <= most
        taken += numbers(done.rows)
        # A row that was not looked at yet is not missing.
        stay |= done.stay
        after = done.last or 0
    assert (taken, pending(pipeline)) == (late, [])
    assert stay == ({10_000: MISSING} if is_named else {})


class Reading:
    """A ledger that notes how many rows it has returned."""

    def __init__(self, ledger: Any) -> None:
        self._ledger = ledger
        self.returned: list[int] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    def errors(self, *arguments: Any) -> Any:
        found = self._ledger.errors(*arguments)
        self.returned.append(len(found))
        return found


@pytest.mark.parametrize("is_named", [False, True])
def test_no_more_rows_are_read_than_the_bytes_allow(
    pipeline: Pipeline, is_named: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = late_of(pipeline)
    monkeypatch.setattr(error_stream, "RESUBMITTED_BYTES", 1)
    monkeypatch.setattr(resubmitting, "PORTION_ROWS", 2)
    ledger = Reading(pipeline.ledger)
    wanted = ErrorFilter(numbers=tuple(late) if is_named else (), kind="LATE")
    would = resubmit(replace(pipeline, ledger=cast("Any", ledger)), wanted, dry_run=True, most=100)
    assert (numbers(would.rows), would.last) == (late[:1], late[0])
    assert ledger.returned == [2]


class Overtaken:
    """A ledger of a process that others overtake each time before it marks rows."""

    def __init__(self, ledger: Any, overtake: Callable[[], object]) -> None:
        self._ledger = ledger
        self._overtake = overtake

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    def resubmit(self, rows: Sequence[StoredError], refuse: Callable[[str], None]) -> int:
        self._overtake()
        return cast("int", self._ledger.resubmit(rows, refuse))


@pytest.mark.parametrize("is_named", [False, True])
def test_rows_that_another_request_takes_meanwhile_are_not_taken_twice(
    pipeline: Pipeline, is_named: bool
) -> None:
    late = late_of(pipeline)
    others: list[ResubmittedRows] = []

    def overtake() -> None:
        if not others:
            others.append(resubmit(pipeline, ErrorFilter(numbers=tuple(late[:2]))))

    ours = replace(pipeline, ledger=cast("Any", Overtaken(pipeline.ledger, overtake)))
    done = resubmit(ours, ErrorFilter(numbers=tuple(late)) if is_named else ErrorFilter(kind="LATE"))
    assert numbers(others[0].rows) == late[:2]
    assert numbers(done.rows) == late[2:]
    assert done.stay == (dict.fromkeys(late[:2], BEFORE) if is_named else {})
    rows = pipeline.ledger.errors(ErrorFilter(kind="LATE"))
    assert [each.resubmitted for each in rows] == [1, 1, 2, 2, 2]


def test_a_request_that_is_overtaken_again_and_again_changes_nothing(pipeline: Pipeline) -> None:
    late = late_of(pipeline)
    left = list(late)

    def overtake() -> None:
        resubmit(pipeline, ErrorFilter(numbers=(left.pop(0),)))

    ours = replace(pipeline, ledger=cast("Any", Overtaken(pipeline.ledger, overtake)))
    with pytest.raises(OvertakenError):
        resubmit(ours, ErrorFilter(kind="LATE"))
    assert pending(pipeline) == left == late[CHOICES:]


SPARK = f"there process 7{ON_SPARK}"


@pytest.mark.parametrize("dry_run", [True, False])
def test_rows_stay_while_spark_has_the_pipeline(pipeline: Pipeline, dry_run: bool) -> None:
    late = late_of(pipeline)
    pipeline.ledger.claim("", SPARK)
    with pytest.raises(StatementError, match=f"reads no resubmitted rows: {SPARK}") as refused:
        resubmit(pipeline, ErrorFilter(kind="LATE"), dry_run=dry_run)
    assert (refused.value.hint, pending(pipeline)) == (IN_ONE_PROCESS, late)
    pipeline.ledger.claim("", "there process 8")
    assert numbers(resubmit(pipeline, ErrorFilter(kind="LATE")).rows) == late


def test_spark_that_takes_the_pipeline_after_the_rows_are_chosen_leaves_them_unmarked(
    pipeline: Pipeline,
) -> None:
    ours = replace(
        pipeline,
        ledger=cast("Any", Overtaken(pipeline.ledger, lambda: pipeline.ledger.claim("", SPARK))),
    )
    with pytest.raises(StatementError, match="reads no resubmitted rows"):
        resubmit(ours, ErrorFilter(kind="LATE"))
    assert pending(pipeline) == late_of(pipeline)


def test_rows_of_another_plan_are_refused(pipeline: Pipeline) -> None:
    file = pipeline.plan.servers[0]
    other = plan_pipeline(
        SQL.format(file=dict(file.options)["broker"]).replace("STREAM number", "STREAM number + 1")
    )
    with pytest.raises(StatementError, match="under another plan"):
        resubmit(replace(pipeline, plan=other), ErrorFilter(kind="LATE"))
    assert pending(pipeline) == late_of(pipeline)
