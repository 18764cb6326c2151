"""Nesting costs what its text costs: a level more is no more than a level more of planning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rowtide.errors import StatementError
from rowtide.sql.pipeline import plan_pipeline
from rowtide.sql.planning import selects

DEFINED = """
CREATE STREAM s (k INTEGER, x INTEGER);
CREATE TABLE t (k INTEGER PRIMARY KEY, x INTEGER);
CREATE VIEW v OPTIONS (RETENTION 'UNBOUNDED') AS """


def first_rows(inner: str, level: int, *, stream: str = "", by: str = "x") -> str:
    numbered = f"SELECT {stream}k, x, ROW_NUMBER() OVER (PARTITION BY k ORDER BY {by}) AS n FROM {inner}"
    return f"(SELECT {stream}k, x FROM ({numbered} AS a{level}) AS b{level} WHERE n <= 3)"


NESTED: dict[str, tuple[str, Callable[[str, int], str], str]] = {
    "first rows of a table": ("t", first_rows, "SELECT k, x FROM {} AS z"),
    "first rows of a stream": (
        "s",
        lambda inner, level: first_rows(inner, level, stream="STREAM ", by="ROWTIME"),
        "SELECT STREAM k, x FROM {} AS z",
    ),
    "NOT IN": (
        "SELECT x FROM t",
        lambda inner, level: f"SELECT x FROM t AS t{level} WHERE x NOT IN ({inner})",
        "{}",
    ),
    "NOT IN within FROM": (
        "SELECT x FROM t",
        lambda inner, level: f"SELECT x FROM (SELECT x FROM t WHERE x NOT IN ({inner})) AS f{level}",
        "{}",
    ),
    "NOT IN of joined tables": (
        "SELECT x FROM t",
        lambda inner, level: (
            f"SELECT a.x FROM t AS a{level}, t AS b{level} WHERE a{level}.k = b{level}.k "
            f"AND a{level}.x NOT IN ({inner})"
        ).replace("a.x", f"a{level}.x"),
        "{}",
    ),
    "NOT IN within ON": (
        "SELECT x FROM t",
        lambda inner, level: (
            f"SELECT a{level}.x FROM t AS a{level} JOIN t AS b{level} "
            f"ON a{level}.k = b{level}.k AND a{level}.x NOT IN ({inner})"
        ),
        "{}",
    ),
    "a value in the list": (
        "SELECT MAX(x) FROM t",
        lambda inner, level: f"SELECT MAX(x + ({inner})) FROM t AS t{level}",
        "{}",
    ),
}


def plannings(monkeypatch: pytest.MonkeyPatch, nesting: str, depth: int) -> int:
    """Count the SELECTs that are planned for so many levels."""
    text, deeper, whole = NESTED[nesting]
    for level in range(depth):
        text = deeper(text, level)
    counted = 0
    plan = selects.SelectPlanner.plan

    def counting(planner: selects.SelectPlanner) -> Any:
        nonlocal counted
        counted += 1
        return plan(planner)

    with monkeypatch.context() as patch:
        patch.setattr(selects.SelectPlanner, "plan", counting)
        plan_pipeline(DEFINED + whole.format(text) + ";")
    return counted


@pytest.mark.parametrize("nesting", NESTED)
def test_each_level_adds_as_much_planning_as_the_one_before(
    nesting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    two, three, eight = (plannings(monkeypatch, nesting, depth) for depth in (2, 3, 8))
    assert three > two
    assert eight - three == 5 * (three - two)


def test_what_is_wrong_far_inside_is_found_once(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "nowhere"
    for level in range(25):
        text = first_rows(text, level)
    with pytest.raises(StatementError, match="NOWHERE"):
        plan_pipeline(f"{DEFINED}SELECT k, x FROM {text} AS z;")
