"""``errors resubmit`` says at which rowtime and in which windows a late row counts, and it counts there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from rowtide.runtime.resubmitting.where_counts import has_times_of
from support.pipeline import PipelineFiles

if TYPE_CHECKING:
    from rowtide.plan.nodes import Node

SQL = """
CREATE SERVER k FOREIGN DATA WRAPPER MEMORY OPTIONS (broker '{file}');
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite:///{file}');
CREATE FOREIGN STREAM readings (number INTEGER, at TIMESTAMP) SERVER k OPTIONS (topic 'readings', format 'JSON');
CREATE VIEW timed AS SELECT STREAM at AS ROWTIME, number FROM readings ORDER BY at WITHIN INTERVAL '5' SECOND;
CREATE VIEW high AS SELECT STREAM number + 0 AS number FROM timed WHERE number > 0;
CREATE VIEW per_window AS
  SELECT STREAM {period} AS period, COUNT(*) AS n, MAX(number) AS most FROM high GROUP BY {period};
CREATE FOREIGN TABLE counted (written TIMESTAMP, n BIGINT, most INTEGER) SERVER d;
CREATE PUMP p STARTED AS INSERT INTO counted SELECT STREAM ROWTIME, n, most FROM per_window;
"""
CONFIG = '[service]\nlisten = "127.0.0.1:0"\n'


@pytest.mark.parametrize("period", ["FLOOR(ROWTIME TO MINUTE)", "STEP(ROWTIME BY INTERVAL '20' SECOND)"])
def test_a_late_row_counts_in_the_window_that_is_said(tmp_path: Path, period: str) -> None:
    sql = SQL.replace("{period}", period)
    files = PipelineFiles(tmp_path, sql, CONFIG)
    files.broker.ensure_topic("readings", 1)

    def send(number: int, at: int) -> None:
        files.broker.produce("readings", [b'{"number":%d,"at":%d}' % (number, at)], timestamps=[at])

    send(1, 100_000)
    send(2, 200_000)
    send(99, 101_000)  # Late: the bound is 195 s.
    files.run()
    said = json.loads(files.call("errors resubmit", "--all", "--dry-run", "--json"))["counts"]
    assert [each["rowtime"] for each in said] == ["1970-01-01 00:03:15.000"]
    (window,) = said[0]["windows"]
    assert window["relation"] == "PER_WINDOW"
    shown = files.call("errors resubmit", "--all")
    assert (
        f'counts at 1970-01-01 00:03:15.000 or later, in the window of "PER_WINDOW" that ends at {window["ends"]}'
        in shown
    )
    send(3, 900_000)
    files.run()
    assert [row[0] for row in files.rows("counted") if row[2] == 99] == [window["ends"]]


def test_without_a_window_only_the_rowtime_is_said(tmp_path: Path) -> None:
    sql = SQL.partition("CREATE VIEW per_window")[0] + (
        "CREATE FOREIGN TABLE counted (written TIMESTAMP, number INTEGER) SERVER d;"
        "CREATE PUMP p STARTED AS INSERT INTO counted SELECT STREAM ROWTIME, number FROM high;"
    )
    files = PipelineFiles(tmp_path, sql, CONFIG)
    files.broker.ensure_topic("readings", 1)
    for number, at in ((1, 200_000), (2, 100_000)):
        files.broker.produce("readings", [b'{"number":%d,"at":%d}' % (number, at)], timestamps=[at])
    files.run()
    shown = files.call("errors resubmit", "--all")
    assert "counts at 1970-01-01 00:03:15.000 or later\n" in shown
    assert "(resubmitted)" in files.call("errors list")


class Step:
    """Stands for a node that keeps the rowtimes of what it reads, and counts its visits."""

    relation = "V"
    keeps_rowtime = True

    def __init__(self, *inputs: Step) -> None:
        self._inputs = inputs
        self.visits = 0

    @property
    def inputs(self) -> tuple[Step, ...]:
        self.visits += 1
        return self._inputs


def test_a_view_that_reads_another_twice_again_and_again_is_searched_once() -> None:
    steps = [Step()]
    for _ in range(12):
        steps.append(Step(steps[-1], steps[-1]))
    assert not has_times_of("OTHER", cast("Node", steps[-1]))
    assert [each.visits for each in steps] == [1] * len(steps)
    assert has_times_of("V", cast("Node", steps[-1]))
