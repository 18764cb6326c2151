"""docs/reference/checkpoint.md says what every column of the checkpoint's tables is."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from rowtide.checkpoint.tables import Tables, tables_of

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "checkpoint.md"


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(Tables)])
def test_every_column_is_documented_in_its_order(name: str) -> None:
    sections = re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    (section,) = (each for each in sections if name in each.splitlines()[0].split(", "))
    documented = re.findall(r"^\| `(\w+)` \|", section, flags=re.MULTILINE)
    columns = [column.name for column in getattr(tables_of("postgresql"), name).columns]
    at = documented.index(columns[0]) if name != "snapshot_chunks" else len(documented) - len(columns)
    assert documented[at : at + len(columns)] == columns
