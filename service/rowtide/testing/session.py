"""Running several scenario files: selection, order and outcomes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from enum import Enum
from fnmatch import fnmatchcase
from pathlib import Path

from rowtide.clock import Clock
from rowtide.errors import RowtideError, StatementError
from rowtide.testing.batching import parse_batching
from rowtide.testing.play import ScenarioDifference, play, play_on
from rowtide.testing.reading import read_scenario
from rowtide.testing.rewrite import rewritten
from rowtide.testing.runner import NotPlayedError, RunnerFactory
from rowtide.testing.scenario import Scenario


class Verdict(Enum):
    """The result of one scenario file."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    REWRITTEN = "rewritten"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class ScenarioOutcome:
    """The outcome of one scenario file, and how long it took in ``seconds``.

    ``skipped`` is the reason why the runner does not support it.
    """

    path: Path
    name: str
    verdict: Verdict
    seconds: float
    difference: ScenarioDifference | None = None
    skipped: str = ""

    def headline(self) -> str:
        """Return the outcome as one line."""
        why = f" ({self.skipped})" if self.skipped else ""
        return f"{self.verdict.value:<9} {self.path}: {self.name}{why}"

    def report(self) -> str:
        """Return the difference in full, or an empty text where there is none."""
        if self.difference is None:
            return ""
        where = f"{self.path}:{self.difference.line}" if self.difference.line else str(self.path)
        lines = [f"{where}: {self.difference.message}"]
        lines += [f"  {line}" for line in self.difference.detail.splitlines()]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class ScenarioRun:
    """How scenario files are run. ``batching`` is the text of ``--batch``: a fresh one for each file."""

    make_runner: RunnerFactory
    clock: Clock
    batching: str = "all"
    pattern: str | None = None
    rewrites: bool = False

    def run(self, files: Sequence[Path]) -> Iterator[ScenarioOutcome]:
        """Run files one after the other, and yield each outcome at once."""
        for path in files:
            begun = self.clock.monotonic()
            try:
                scenario = read_scenario(path)
            except StatementError as error:
                difference = ScenarioDifference(
                    error.place.line if error.place else None, error.message, error.render()
                )
                yield ScenarioOutcome(
                    path, path.stem, Verdict.UNREADABLE, self.clock.monotonic() - begun, difference
                )
                continue
            if not self._is_meant(scenario):
                continue
            skipped, verdict, failure = "", Verdict.SKIPPED, None
            try:
                verdict, failure = self._rewrite(scenario) if self.rewrites else self._play(scenario)
            except NotPlayedError as error:
                skipped = str(error)
            yield ScenarioOutcome(
                path, scenario.name, verdict, self.clock.monotonic() - begun, failure, skipped
            )

    def _is_meant(self, scenario: Scenario) -> bool:
        return self.pattern is None or is_meant(self.pattern, (scenario.name, scenario.path.as_posix()))

    def _play(self, scenario: Scenario) -> tuple[Verdict, ScenarioDifference | None]:
        try:
            with closing(self.make_runner(scenario, parse_batching(self.batching))) as runner:
                difference = play(scenario, runner)
        except StatementError as error:
            difference = ScenarioDifference(None, "the pipeline is refused", error.render())
        except RowtideError as error:
            difference = ScenarioDifference(None, f"the pipeline stopped: {error.message}")
        return (Verdict.PASSED if difference is None else Verdict.FAILED), difference

    def _rewrite(self, scenario: Scenario) -> tuple[Verdict, ScenarioDifference | None]:
        try:
            with closing(self.make_runner(scenario, parse_batching(self.batching))) as runner:
                record, difference = play_on(scenario, runner)
        except RowtideError as error:
            return Verdict.FAILED, ScenarioDifference(None, f"the pipeline stopped: {error.message}")
        if difference is not None:
            return Verdict.FAILED, difference
        if not record.observed and not record.leftovers:
            return Verdict.PASSED, None
        text = scenario.path.read_text(encoding="utf-8-sig")
        scenario.path.write_text(rewritten(text, scenario, record), encoding="utf-8")
        return Verdict.REWRITTEN, None


def is_meant(pattern: str, texts: Iterable[str]) -> bool:
    """Return whether ``-k PATTERN`` matches a part of one of ``texts``; ``*`` and ``?`` are wildcards.

    Case is ignored.
    """
    wild = f"*{pattern.lower()}*"
    return any(fnmatchcase(text.lower(), wild) for text in texts)
