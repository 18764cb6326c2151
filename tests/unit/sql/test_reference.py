"""docs/sql names what there is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rowtide.expr.aggregates import SPELLED
from rowtide.expr.functions import FUNCTIONS
from rowtide.rows.types import Kind
from rowtide.sql.grammar.dialect import RESERVED

PAGES = sorted((Path(__file__).parents[3] / "docs" / "sql").glob("*.md"))
TEXT = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
BY_ANOTHER_NAME = {"FLOOR_TO", "CEIL_TO", "TRIM_LEADING", "TRIM_TRAILING", "NEGATE"}
"""Functions that SQL writes as signs or with words in between: FLOOR(x TO unit), TRIM(LEADING ..)."""
CALLED = {name for name in FUNCTIONS if name.isidentifier()} - BY_ANOTHER_NAME


@pytest.mark.parametrize("name", sorted(CALLED | SPELLED.keys() | {kind.value for kind in Kind}))
def test_the_pages_name_every_function_aggregate_and_type(name: str) -> None:
    assert re.search(rf"(?<![\w.]){re.escape(name)}(?!\w)", TEXT), name


def test_the_pages_list_exactly_the_reserved_words() -> None:
    listed = TEXT.split("These are names only in double quotes:")[1].split("`")[1]
    assert set(re.findall(r"[A-Z]+", listed)) == RESERVED
