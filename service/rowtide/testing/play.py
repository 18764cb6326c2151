"""Playing a scenario on a runner: step by step, until the first difference.

``play`` stops at the first difference. ``play_on`` continues, and records the
actual rows of each ``expect`` for ``--rewrite``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from rowtide.errors import RowtideError, StatementError
from rowtide.testing.compare import ActualRow, ExpectedRow, Matched, RowComparison
from rowtide.testing.difference import render_difference
from rowtide.testing.error_rows import ERRORS
from rowtide.testing.rows import RelationShape, RowReader
from rowtide.testing.runner import SaysWhyNot, ScenarioRunner
from rowtide.testing.scenario import (
    REFUSABLE,
    AdvanceWallclock,
    Commit,
    Expect,
    ExpectError,
    ExpectTable,
    Insert,
    InsertRaw,
    NamedRow,
    Restart,
    RestartKind,
    RunSql,
    Scenario,
    ScenarioStep,
    SendStatements,
    SetBound,
)

WORD_COLUMNS = frozenset({"REASON"})
"""REASON is a code followed by words. A scenario may have only the code."""


@dataclass(frozen=True, slots=True)
class ScenarioDifference:
    """Why a scenario failed: the line of the file, and the text to show."""

    line: int | None
    message: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Observed:
    """The actual rows of an ``expect`` that expected others.

    ``named``: the columns that its rows name, as written and as the catalog has them; None if the rows
    have all columns in order.
    """

    step: Expect | ExpectTable
    shape: RelationShape
    given: tuple[ActualRow, ...]
    named: tuple[tuple[str, str], ...] | None = None


@dataclass(frozen=True, slots=True)
class Leftover:
    """Output rows of a relation that no ``expect`` took."""

    relation: str
    shape: RelationShape
    given: tuple[ActualRow, ...]


@dataclass(slots=True)
class ScenarioRecord:
    """The differences of a scenario that was played to its end."""

    observed: list[Observed] = field(default_factory=list)
    leftovers: list[Leftover] = field(default_factory=list)


def play(scenario: Scenario, runner: ScenarioRunner) -> ScenarioDifference | None:
    """Play a scenario; return the first difference, or None if there is none.

    A step that the pipeline refuses without an ``expect_error`` is a difference too.
    """
    return next(_Play(scenario, runner, None).differences(), None)


def play_on(scenario: Scenario, runner: ScenarioRunner) -> tuple[ScenarioRecord, ScenarioDifference | None]:
    """Play a scenario to its end, even if rows differ.

    Returns the rows that differ, and the first difference that other rows in an ``expect`` cannot fix.
    """
    record = ScenarioRecord()
    difference = next(_Play(scenario, runner, record).differences(), None)
    return record, difference


class _Play:
    """One run; with a record, rows that differ are recorded there and do not stop the run."""

    def __init__(self, scenario: Scenario, runner: ScenarioRunner, record: ScenarioRecord | None) -> None:
        self._scenario = scenario
        self._runner = runner
        self._record = record

    def differences(self) -> Iterator[ScenarioDifference]:
        following: tuple[ScenarioStep | None, ...] = (*self._scenario.steps[1:], None)
        for step, after in zip(self._scenario.steps, following, strict=False):
            difference = None
            if isinstance(after, ExpectError) and isinstance(step, REFUSABLE):
                difference = self._refused(step, after)
            elif not isinstance(step, ExpectError):
                difference = self._done(step)
            if difference is not None:
                yield difference
        yield from self._leftovers()

    def _refused(self, step: ScenarioStep, wanted: ExpectError) -> ScenarioDifference | None:
        try:
            self._do(step)
        except StatementError as error:
            text = " ".join(part for part in (error.message, error.hint) if part)
            if wanted.message.strip().lower() in text.lower():
                return None
            return ScenarioDifference(
                wanted.line, f'refused with another message than "{wanted.message}"', error.render()
            )
        except RowtideError as error:
            return ScenarioDifference(step.line, f"the pipeline stopped: {error.message}")
        return ScenarioDifference(
            wanted.line, f"the step in line {step.line} should have been refused and was not"
        )

    def _done(self, step: ScenarioStep) -> ScenarioDifference | None:
        try:
            return self._do(step)
        except StatementError as error:
            return ScenarioDifference(step.line, "refused", error.render())
        except RowtideError as error:
            return ScenarioDifference(step.line, f"the pipeline stopped: {error.message}")

    def _do(self, step: ScenarioStep) -> ScenarioDifference | None:
        runner = self._runner
        match step:
            case Insert(relation=relation, partition=partition, rows=rows):
                runner.insert(relation, partition, self._reader(runner.shape(relation)).inputs(rows))
            case InsertRaw(relation=relation, partition=partition, messages=messages, at=at):
                runner.insert_raw(relation, partition, messages, at)
            case SetBound(relation=relation, partition=partition, rowtime=rowtime):
                runner.bound(relation, partition, rowtime)
            case RunSql(text=text):
                runner.sql(text)
            case SendStatements(text=text):
                runner.send(text)
            case AdvanceWallclock(millis=millis):
                runner.advance_wallclock(millis)
            case Commit():
                runner.commit()
            case Restart(kind=RestartKind.CRASH):
                runner.crash()
            case Restart():
                runner.restart()
            case Expect():
                return self._expect(step)
            case ExpectTable():
                return self._expect_table(step)
            case ExpectError():
                pass
        return None

    def _reader(self, shape: RelationShape) -> RowReader:
        return RowReader(shape, self._scenario.day, self._runner.fold)

    def _expect(self, step: Expect) -> ScenarioDifference | None:
        shape = self._runner.shape(step.relation)
        wanted = None if step.rows is None else self._reader(shape).wanted(step.rows)
        given = self._runner.output(step.relation)
        match = RowComparison.as_multiset
        if step.ordered:
            match = RowComparison.in_order if self._runner.orders_ties else RowComparison.in_time
        difference = self._compared(step, shape, wanted, given, match)
        if difference is None or wanted is None or len(given) >= len(wanted):
            return difference
        return replace(difference, detail="\n".join([difference.detail, *self._why_not(step.relation)]))

    def _why_not(self, relation: str) -> Sequence[str]:
        """Return why no more rows came out, if the runner can explain it."""
        runner = self._runner
        causes = runner.why_not(relation) if isinstance(runner, SaysWhyNot) else ()
        return [f"  why no more rows: {cause}" for cause in causes]

    def _expect_table(self, step: ExpectTable) -> ScenarioDifference | None:
        shape = self._runner.shape(step.relation)
        wanted = None if step.rows is None else self._reader(shape).wanted_contents(step.rows)
        given = [ActualRow(None, row) for row in self._runner.contents(step.relation)]
        return self._compared(step, shape, wanted, given, RowComparison.as_multiset)

    def _compared(
        self,
        step: Expect | ExpectTable,
        shape: RelationShape,
        wanted: Sequence[ExpectedRow] | None,
        given: Sequence[ActualRow],
        match: Callable[[RowComparison, Sequence[ExpectedRow], Sequence[ActualRow]], Matched],
    ) -> ScenarioDifference | None:
        if wanted is None:
            if self._record is None:
                return ScenarioDifference(
                    step.line, "no rows are given", "hint: --rewrite fills in the actual rows."
                )
            self._record.observed.append(Observed(step, shape, tuple(given)))
            return None
        prefixes = WORD_COLUMNS if shape.name == ERRORS else frozenset[str]()
        comparison = RowComparison(shape.row_type, step.tolerance, prefixes)
        matched = match(comparison, wanted, given)
        if matched.is_equal:
            return None
        if self._record is not None:
            self._record.observed.append(Observed(step, shape, tuple(given), self._named(step)))
            return None
        kind = "content" if isinstance(step, ExpectTable) else "output"
        return ScenarioDifference(
            step.line,
            f"{kind} of {step.relation} differs: {_counts(wanted, given)}",
            render_difference(matched, shape, self._scenario.day),
        )

    def _named(self, step: Expect | ExpectTable) -> tuple[tuple[str, str], ...] | None:
        cells = [row.cells for row in step.rows or () if isinstance(row, NamedRow)]
        if not cells or len(cells) < len(step.rows or ()):
            return None
        texts = dict.fromkeys(text for each in cells for text, _ in each)
        return tuple((text, self._runner.fold(text)) for text in texts)

    def _leftovers(self) -> Iterator[ScenarioDifference]:
        """Check that an ``expect`` took all output of each relation that an ``expect`` mentions."""
        names = {self._name(step.relation): step.relation for step in self._expects()}
        ignored = {self._name(relation) for relation in self._scenario.ignore}
        for name, relation in names.items():
            if name is None or name in ignored:
                continue
            shape = self._runner.shape(relation)
            given = self._runner.output(relation)
            if not given:
                continue
            if self._record is not None:
                self._record.leftovers.append(Leftover(relation, shape, tuple(given)))
                continue
            matched = RowComparison(shape.row_type).in_order([], given)
            yield ScenarioDifference(
                None,
                f"output of {relation} at the end that no expect took: {_rows(len(given))}",
                render_difference(matched, shape, self._scenario.day),
            )

    def _expects(self) -> Iterator[Expect]:
        return (step for step in self._scenario.steps if isinstance(step, Expect))

    def _name(self, relation: str) -> str | None:
        """Return the catalog name; None for a relation that does not exist."""
        try:
            return self._runner.shape(relation).name
        except StatementError:
            return None


def _counts(wanted: Sequence[ExpectedRow], given: Sequence[ActualRow]) -> str:
    return f"{_rows(len(wanted))} expected, {_rows(len(given))} came out"


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count} rows"
