"""Scenario files as pytest tests.

pytest collects ``*.scenario.yaml`` files in all of its folders, and every YAML
file below the folders of the ini option ``rowtide_scenarios``. With
``rowtide_batches``, each file runs once for each way of cutting its input.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rowtide.clock import SystemClock

if TYPE_CHECKING:
    from rowtide.testing.session import ScenarioOutcome

# A failed assertion of a contract suite shows the values, as one of a test module does.
pytest.register_assert_rewrite("rowtide.testing.contracts")

SUFFIXES = (".scenario.yaml", ".scenario.yml")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the ini options."""
    parser.addini(
        "rowtide_scenarios", "folders below which every YAML file is a scenario", type="paths", default=[]
    )
    parser.addini(
        "rowtide_batches",
        "how the input of scenarios is cut into trays: all, a number of rows, random:SEED",
        type="args",
        default=["all"],
    )


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> ScenarioFile | None:
    """Collect a scenario file."""
    if file_path.name.endswith(SUFFIXES):
        return ScenarioFile.from_parent(parent, path=file_path)
    if file_path.suffix in (".yaml", ".yml"):
        folders: list[Path] = parent.config.getini("rowtide_scenarios")
        if any(file_path.is_relative_to(folder) for folder in folders):
            return ScenarioFile.from_parent(parent, path=file_path)
    return None


class ScenarioFile(pytest.File):
    """One scenario file: a test for each way of cutting its input."""

    def collect(self) -> Iterator[ScenarioItem]:
        """Yield the tests."""
        for batching in self.config.getini("rowtide_batches"):
            name = "scenario" if batching == "all" else f"scenario[{batching}]"
            yield ScenarioItem.from_parent(self, name=name, batching=batching)


class ScenarioFailure(Exception):
    """A scenario failed; the outcome has the difference."""

    def __init__(self, outcome: ScenarioOutcome) -> None:
        super().__init__(outcome.headline())
        self.outcome = outcome


class ScenarioItem(pytest.Item):
    """One scenario, its input cut in one way."""

    def __init__(self, *, batching: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._batching = batching

    def runtest(self) -> None:
        """Run the scenario.

        Raises:
          ScenarioFailure: if anything differs, or the file cannot be read.
        """
        from rowtide.testing.live import live_runner
        from rowtide.testing.session import ScenarioRun, Verdict

        session = ScenarioRun(live_runner, SystemClock(), self._batching)
        for outcome in session.run([self.path]):
            if outcome.verdict is not Verdict.PASSED:
                raise ScenarioFailure(outcome)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> str | Any:
        """Show a failed scenario as ``rowtide test`` does."""
        if isinstance(excinfo.value, ScenarioFailure):
            return f"{excinfo.value.outcome.headline()}\n{excinfo.value.outcome.report()}"
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Return the location of the test."""
        return self.path, None, f"{self.path.name}::{self.name}"
