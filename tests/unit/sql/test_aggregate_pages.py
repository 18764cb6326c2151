"""docs/sql/group-by.md lists the aggregates as they are declared; ``pytest --rewrite`` writes the table."""

from __future__ import annotations

import re
from itertools import groupby
from pathlib import Path

import pytest

from rowtide.expr.aggregates import AGGREGATES, Aggregate

PAGE = Path(__file__).parents[3] / "docs" / "sql" / "group-by.md"
WINDOWS = PAGE.with_name("windows.md").read_text(encoding="utf-8")
TABLE = re.compile(r"(?<=\| aggregate \| result \|\n\|---\|---\|\n)(\|.*\n)*")


def lines() -> str:
    """Return the lines of the table; aggregates with the same summary share a line."""
    declared = [each for each in AGGREGATES.values() if each.in_groups and each.names]
    found = []
    for summary, same in groupby(declared, lambda each: each.summary):
        written = [text for each in same for text in each.written or (f"{each.name}(x)",)]
        found.append(f"| {' '.join(f'`{text}`' for text in written)} | {summary} |\n")
    return "".join(found)


def test_the_table_is_what_is_declared(request: pytest.FixtureRequest) -> None:
    page = PAGE.read_text(encoding="utf-8")
    if request.config.getoption("--rewrite"):
        page = TABLE.sub(lambda _: lines(), page, count=1)
        PAGE.write_text(page, encoding="utf-8")
    found = TABLE.search(page)
    assert found is not None
    assert found[0] == lines()


@pytest.mark.parametrize("aggregate", AGGREGATES.values(), ids=lambda each: each.name)
def test_the_page_of_windows_names_what_is_there_only_or_nowhere(aggregate: Aggregate) -> None:
    if aggregate.names and aggregate.in_groups != aggregate.over_windows:
        assert re.search(rf"\b{aggregate.name}\b", WINDOWS)
