"""pytest's plugin for ``--times``: at the end of a run, where its time went, by folder and by module.

Processor seconds are those of the processes that run tests, and of those that these have started and ended. What
servers and Spark use, which stay, is only in the seconds that a test takes.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import PurePath

import pytest

MOST = 40
"""The modules that are shown."""

_PROCESSOR = "processor_s"


@dataclass
class _Spent:
    tests: int = 0
    processor: float = 0.0
    seconds: float = 0.0

    def add(self, report: pytest.TestReport) -> None:
        self.tests += report.when == "call"
        self.processor += sum(float(str(each)) for name, each in report.user_properties if name == _PROCESSOR)
        self.seconds += report.duration

    def add_all(self, other: _Spent) -> None:
        self.tests += other.tests
        self.processor += other.processor
        self.seconds += other.seconds


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--times``."""
    parser.addoption("--times", action="store_true", help="show where the time of the run went")


def pytest_configure(config: pytest.Config) -> None:
    """Count, if the option asks for it."""
    if config.getoption("--times"):
        config.pluginmanager.register(_Times())


def _processor() -> float:
    return sum(os.times()[:4])


class _Times:
    def __init__(self) -> None:
        self._last = _processor()
        self._modules: dict[PurePath, _Spent] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        now = _processor()
        report.user_properties.append((_PROCESSOR, now - self._last))
        self._last = now
        return report

    def pytest_runtest_logstart(self) -> None:
        self._last = _processor()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._modules.setdefault(PurePath(report.location[0]), _Spent()).add(report)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        folders: dict[PurePath, _Spent] = {}
        for module, spent in self._modules.items():
            folders.setdefault(PurePath(*module.parent.parts[:3]), _Spent()).add_all(spent)
        for title, found in ("folders", folders), ("modules", self._modules):
            terminalreporter.write_sep("=", f"processor seconds, seconds and tests of {title}")
            largest = sorted(found.items(), key=lambda each: -each[1].processor)[:MOST]
            for path, spent in largest:
                numbers = f"{spent.processor:8.1f} {spent.seconds:8.1f} {spent.tests:6}"
                terminalreporter.write_line(f"{numbers} {path}")
