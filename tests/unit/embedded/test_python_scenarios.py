"""A pipeline in Python gives the rows that scenarios expect: the same semantics as ``rowtide test``."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from rowtide import Pipeline
from rowtide.embedded.result import Result
from rowtide.embedded.rows_in import input_rows
from rowtide.errors import StatementError
from rowtide.rows.rowop import Row, TimedRow
from rowtide.rows.tray import Tray
from rowtide.sql.catalog.written_names import fold
from rowtide.sql.pipeline import SqlSession, plan_pipeline
from rowtide.testing.compare import ActualRow
from rowtide.testing.error_rows import ERROR_ROW, ERRORS
from rowtide.testing.pipeline import pipeline_text
from rowtide.testing.play import play
from rowtide.testing.reading import read_scenario
from rowtide.testing.relations import Relations
from rowtide.testing.rows import InputRow, RelationShape
from rowtide.testing.scenario import (
    REFUSABLE,
    Expect,
    ExpectError,
    ExpectTable,
    Insert,
    Scenario,
    SetBound,
    SqlText,
)
from rowtide.testing.versions import resolved
from rowtide.testing.virtual_clock import VirtualClock

SCENARIOS = Path(__file__).parents[2] / "scenarios"
ONE_OF = 7
"""Of all scenarios that fit, the part that runs here."""
AS_IN_SYSTEM = ("KIND", "RELATION", "REASON", "BOUND", "RAW", "TOPIC", "MESSAGE_PARTITION", "MESSAGE_OFFSET")
"""The columns of SYS.ERRORS that a scenario shows."""


class DayClock(VirtualClock):
    """Stands at the beginning of a scenario's day."""

    def __init__(self, start: int) -> None:
        super().__init__()
        self.start = start

    def now_ms(self) -> int:
        return self.start


class PythonRunner:
    """Plays the steps of a scenario through ``rowtide.Pipeline``, with values of Python in and out."""

    orders_ties = True

    def __init__(self, scenario: Scenario) -> None:
        pipeline = pipeline_text(scenario)
        self.pipeline = Pipeline(pipeline.text, file=pipeline.file, clock=DayClock(scenario.day.start))
        self.relations = Relations(plan_pipeline(pipeline.text, file=pipeline.file))
        self.taken: dict[str, int] = {}

    def fold(self, name: str) -> str:
        return fold(name)

    def shape(self, relation: str) -> RelationShape:
        return self.relations.shape(relation)

    def insert(self, relation: str, partition: int, rows: Sequence[InputRow]) -> None:
        assert partition == 0
        shape = self.shape(relation)
        timed = [TimedRow(row.rowtime or 0, 0, 0, row.opcode, row.row) for row in rows]
        result = Result(Tray.from_rows(shape.row_type, timed), timed=True, changes=True)
        whole = [dict(zip(result.columns, values, strict=True)) for values in result]
        for row, values in zip(rows, whole, strict=True):
            if row.rowtime is None:
                del values["ROWTIME"]
        self.pipeline.insert(relation, whole)

    def bound(self, relation: str, partition: int | None, rowtime: int) -> None:
        self.pipeline.insert(relation, bound=rowtime)

    def output(self, relation: str) -> list[ActualRow]:
        shape = self.shape(relation)
        given = self.errors() if shape.name == ERRORS else self.read(relation)
        first = self.taken.get(shape.name, 0)
        self.taken[shape.name] = len(given)
        return given[first:]

    def read(self, relation: str) -> list[ActualRow]:
        rows = input_rows(self.shape(relation), self.pipeline.rows(relation))
        return [ActualRow(row.rowtime, row.row, row.opcode) for row in rows]

    def errors(self) -> list[ActualRow]:
        errors = self.pipeline.errors()
        rows = []
        for values in errors:
            found = dict(zip(errors.columns, values, strict=True))
            named = {"ROWTIME": found["ROW_TIME"]}
            named |= {each.name: found[name] for each, name in zip(ERROR_ROW, AS_IN_SYSTEM, strict=True)}
            rows.append(named)
        return [
            ActualRow(named.rowtime, named.row)
            for named in input_rows(RelationShape(ERRORS, ERROR_ROW), rows)
        ]

    def contents(self, relation: str) -> list[Row]:
        rows = [
            dict(zip(table.columns, row, strict=True))
            for table in [self.pipeline.table(relation)]
            for row in table
        ]
        return [each.row for each in input_rows(self.shape(relation), rows)]

    def not_played(self, *_: Any, **__: Any) -> None:
        raise NotImplementedError

    insert_raw = sql = send = advance_wallclock = commit = crash = restart = not_played

    def close(self) -> None:
        self.pipeline.close()


def fits(scenario: Scenario) -> bool:
    """Return whether a scenario has only what a pipeline in Python has: rows of one partition, and bounds."""
    if not isinstance(scenario.pipeline, SqlText):
        return False
    for step, after in zip(scenario.steps, (*scenario.steps[1:], None), strict=True):
        if not isinstance(step, Insert | SetBound | Expect | ExpectTable | ExpectError):
            return False
        if isinstance(step, Insert | SetBound) and step.partition not in (None, 0):
            return False
        if isinstance(after, ExpectError) and not isinstance(step, REFUSABLE):
            return False
    pipeline = pipeline_text(scenario)
    session = SqlSession()
    try:
        session.feed(pipeline.text, file=pipeline.file)
    except StatementError:
        return False
    fed = {target for _, target in session.pumps}
    inserted = {step.relation for step in scenario.steps if isinstance(step, Insert | SetBound)}
    return not fed & {*resolved(Relations(session.plan), inserted).values()}


FILES = [path for path in sorted(SCENARIOS.rglob("*.yaml")) if zlib.crc32(path.name.encode()) % ONE_OF == 0]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SCENARIOS)))
def test_a_pipeline_in_python_gives_the_rows_of_a_scenario(path: Path) -> None:
    scenario = read_scenario(path)
    if not fits(scenario):
        pytest.skip("it has steps that a pipeline in Python does not have")
    difference = play(scenario, PythonRunner(scenario))
    assert difference is None, f"{path}:{difference.line}: {difference.message}\n{difference.detail}"


def test_at_least_half_of_the_sample_fits() -> None:
    assert 2 * sum(fits(read_scenario(path)) for path in FILES) >= len(FILES)
