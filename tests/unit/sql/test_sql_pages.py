"""Every example of docs/sql and of the pages around it is run: ``sql`` is planned, ``yaml`` is a scenario."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rowtide.clock import SystemClock
from rowtide.sql.pipeline import SqlSession
from rowtide.testing.live import live_runner
from rowtide.testing.session import ScenarioRun as Scenarios
from rowtide.testing.session import Verdict

DOCS = Path(__file__).parents[3] / "docs"
PAGES = [
    *sorted((DOCS / "sql").glob("*.md")),
    DOCS / "how-consistent-time-works.md",
    DOCS / "howto/formats.md",
    DOCS / "howto/late-rows.md",
]
WITHOUT_EXAMPLE = ("README.md", "models.md")
"""An index, and what docs/howto/models.md shows."""


def blocks(page: Path, language: str) -> list[str]:
    """Return the fenced blocks of a page in one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)


def write_modules(page: Path, folder: Path) -> None:
    """Write the modules of a page, which begin with the names of their files."""
    for block in blocks(page, "python"):
        if found := re.match(r"# (\w+\.py)\n", block):
            (folder / found[1]).write_text(block, encoding="utf-8")


SCENARIOS = [(page, index) for page in PAGES for index in range(len(blocks(page, "yaml")))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_statements_of_a_page_are_planned(page: Path, tmp_path: Path) -> None:
    write_modules(page, tmp_path)
    session = SqlSession()
    for block in blocks(page, "sql"):
        session.feed(block, file=str(tmp_path / page.name))
    assert page.name in WITHOUT_EXAMPLE or blocks(page, "sql") + blocks(page, "yaml")


@pytest.mark.parametrize(("page", "index"), SCENARIOS, ids=[f"{page.stem}-{at}" for page, at in SCENARIOS])
def test_a_scenario_of_a_page_passes(page: Path, index: int, tmp_path: Path) -> None:
    write_modules(page, tmp_path)
    file = tmp_path / "example.yaml"
    file.write_text(blocks(page, "yaml")[index], encoding="utf-8")
    (outcome,) = Scenarios(live_runner, SystemClock()).run([file])
    assert outcome.verdict is Verdict.PASSED, outcome.report()
