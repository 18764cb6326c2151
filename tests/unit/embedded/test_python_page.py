"""Every example of docs/howto/python.md is run, in order; the types that it shows are those of the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rowtide.embedded import values
from support.canned import answering, json_lines

TOTALS = (
    {"columns": ["PRODUCT", "AMOUNT"], "types": ["VARCHAR(20)", "DECIMAL(38, 2)"], "changes": True},
    {"op": "+", "rowtime": None, "row": ["rope", "21.75"]},
    {"ended": "contents"},
)
"""What the service answers that the page connects to."""
PAGE = (Path(__file__).parents[3] / "docs/howto/python.md").read_text("utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, flags=re.DOTALL | re.MULTILINE)


def test_the_blocks_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (file,) = blocks("sql")
    (tmp_path / "orders.sql").write_text(file)
    (tmp_path / "token").write_text("secret")
    names: dict[str, object] = {}
    with answering(json_lines(*TOTALS)) as (url, asked):
        for block in blocks("python"):
            text = block.replace("http://127.0.0.1:8080", url)
            exec(compile(text, "docs/howto/python.md", "exec"), names)
    assert asked == ["Bearer secret"]
    tests = [each for name, each in names.items() if name.startswith("test_")]
    assert len(tests) == 2
    for each in tests:
        assert callable(each)
        each()


def test_the_page_shows_the_types_that_results_have() -> None:
    table = PAGE.split("## Types")[1].split("\n\n")[1]
    documented = [re.split(r"\s*\|\s*", line.strip("| "))[1:] for line in table.splitlines()[2:]]
    of_code = [line for line in (values.__doc__ or "").splitlines() if line.startswith("| ")][1:]
    coded = [re.split(r"\s*\|\s*", line.strip("| "))[1:] for line in of_code]
    assert [[word.replace(" .. ", " to ").replace(": ", ", ") for word in row] for row in coded] == documented
