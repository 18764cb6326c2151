"""docs/sql/temporal-predicates.md has the truth table of the predicates; ``pytest --rewrite`` writes it.

The table is made by a model that knows a period only as the set of its milliseconds. Every cell is then asked of SQL.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from itertools import product
from pathlib import Path

import pytest

from rowtide.clock import SystemClock
from rowtide.expr.columnar import compile_columns
from rowtide.expr.functions.times.periods import RELATIONS, function_name
from rowtide.expr.rowwise import compile_row
from rowtide.expr.tree import Call, FieldRef
from rowtide.rows.rowop import TimedRow
from rowtide.rows.tray import Tray
from rowtide.rows.types import BOOLEAN, TIMESTAMP, Field, RowType
from rowtide.testing.live import live_runner
from rowtide.testing.session import ScenarioRun, Verdict

PAGE = Path(__file__).parents[3] / "docs" / "sql" / "temporal-predicates.md"
TABLE = re.compile(r"(?<=\| relation \| left and right \| )[^\n]*\n\|[-|]*\n(\|.*\n)*")

Times = tuple[int, ...]
"""Start and end of a period, or a point."""
RIGHT = (4, 8)
PERIODS: Mapping[str, Times] = {
    "before": (1, 3),
    "meets": (1, 4),
    "overlaps": (2, 6),
    "finished by": (2, 8),
    "contains": (2, 10),
    "starts": (4, 6),
    "equals": (4, 8),
    "started by": (4, 10),
    "during": (5, 7),
    "finishes": (6, 8),
    "overlapped by": (6, 10),
    "met by": (8, 10),
    "after": (9, 11),
}
"""Allen's relations, each by a left period; the right one is ``RIGHT``."""
POINTS: Mapping[str, int] = {
    "before": 2,
    "just before": 3,
    "at the start of": 4,
    "within": 5,
    "at the end of": 7,
    "just after": 8,
    "after": 9,
}
CASES: Mapping[str, tuple[Times, Times]] = {
    **{name: (left, RIGHT) for name, left in PERIODS.items()},
    **{f"point {name} period": ((point,), RIGHT) for name, point in POINTS.items()},
    **{f"period with point {name} it": (RIGHT, (point,)) for name, point in POINTS.items()},
    "point before point": ((4,), (6,)),
    "point just before point": ((4,), (5,)),
    "the same point": ((4,), (4,)),
}
COLUMNS = ("CONTAINS", "OVERLAPS", "EQUALS", "PRECEDES", "SUCCEEDS", "LEADS", "LAGS")


def moments(times: Times) -> set[int]:
    """Return the milliseconds of a period."""
    if len(set(times)) == 1:
        return {times[0]}
    return set(range(min(times), max(times)))


BASE: Mapping[str, Callable[[set[int], set[int]], bool]] = {
    "CONTAINS": lambda x, y: x >= y,
    "OVERLAPS": lambda x, y: bool(x & y),
    "EQUALS": lambda x, y: x == y,
    "PRECEDES": lambda x, y: max(x) < min(y),
    "SUCCEEDS": lambda x, y: max(y) < min(x),
    "LEADS": lambda x, y: min(x) < min(y) <= max(x) <= max(y),
    "LAGS": lambda x, y: min(y) <= min(x) <= max(y) < max(x),
}


def expected(predicate: str, left: Times, right: Times) -> bool:
    """Return what the model says about two periods."""
    adverb, _, name = predicate.rpartition(" ")
    x, y = moments(left), moments(right)
    shared = {min(x), max(x) + 1} & {min(y), max(y) + 1}
    return BASE[name](x, y) and {"": True, "STRICTLY": not shared, "IMMEDIATELY": bool(shared)}[adverb]


def cell(predicate: str, left: Times, right: Times) -> str:
    """Return the cell of the table."""
    if not expected(predicate, left, right):
        return " "
    for adverb in ("strictly", "immediately"):
        named = f"{adverb.upper()} {predicate}"
        if named in RELATIONS and expected(named, left, right):
            return f" {adverb} "
    return " yes "


def picture(times: Times, mark: str) -> str:
    """Return a line of time."""
    return "`" + "".join(mark if at in moments(times) else "." for at in range(1, 11)) + "`"


def table() -> str:
    """Return the lines of the table behind its first two heads."""
    lines = [f"{' | '.join(COLUMNS)} |\n", "|---" * (len(COLUMNS) + 2) + "|\n"]
    for name, (left, right) in CASES.items():
        cells = "|".join(cell(predicate, left, right) for predicate in COLUMNS)
        lines.append(f"| {name} | {picture(left, '=')} {picture(right, '-')} |{cells}|\n")
    return "".join(lines)


def test_the_table_of_the_page_is_what_the_model_says(request: pytest.FixtureRequest) -> None:
    page = PAGE.read_text(encoding="utf-8")
    if request.config.getoption("--rewrite"):
        page = TABLE.sub(lambda _: table(), page, count=1)
        PAGE.write_text(page, encoding="utf-8")
    found = TABLE.search(page)
    assert found is not None
    assert found[0] == table()


def test_the_page_names_every_predicate() -> None:
    page = PAGE.read_text(encoding="utf-8")
    written = {name for name in RELATIONS if " " not in name}
    for adverb, names in re.findall(r"(STRICTLY|IMMEDIATELY) \{ ([A-Z |]*) \}", page):
        written |= {f"{adverb} {name}" for name in names.split(" | ")}
    assert written == RELATIONS.keys()


def test_every_cell_is_what_sql_says(tmp_path: Path) -> None:
    def time(at: int) -> str:
        return f"1970-01-01 00:00:00.{at:03}"

    wanted = list(RELATIONS)
    lines = [
        "name: the truth table",
        "sql: |",
        "  CREATE STREAM s (n INTEGER, a TIMESTAMP, b TIMESTAMP, x TIMESTAMP, y TIMESTAMP);",
    ]
    for name, before, after in (
        ("of_periods", "(a, b)", "PERIOD (x, y)"),
        ("of_point_left", "a", "(x, y)"),
        ("of_point_right", "PERIOD (a, b)", "x"),
    ):
        asked = ", ".join(f"{before} {each} {after} AS p{at}" for at, each in enumerate(wanted))
        where = {"of_point_left": " WHERE a = b", "of_point_right": " WHERE x = y"}.get(name, "")
        lines.append(f"  CREATE VIEW {name} AS SELECT STREAM n, {asked} FROM s{where};")
    lines += ["steps:", "  - insert: s", "    rows:"]
    for at, (left, right) in enumerate(CASES.values()):
        edges = [time(each) for each in (min(left), max(left), min(right), max(right))]
        lines.append(f"      - [{at}, {at}, '{edges[0]}', '{edges[1]}', '{edges[2]}', '{edges[3]}']")
    for name, kept in (("of_periods", None), ("of_point_left", 0), ("of_point_right", 1)):
        lines += [f"  - expect: {name}", "    rows:"]
        for at, sides in enumerate(CASES.values()):
            if kept is None or len(sides[kept]) == 1:
                answers = ", ".join(str(expected(each, *sides)).lower() for each in wanted)
                lines.append(f"      - [{at}, {at}, {answers}]")
    file = tmp_path / "truth.yaml"
    file.write_text("\n".join(lines), encoding="utf-8")
    (outcome,) = ScenarioRun(live_runner, SystemClock()).run([file])
    assert outcome.verdict is Verdict.PASSED, outcome.report()


@pytest.mark.parametrize("predicate", RELATIONS)
def test_columns_and_rows_are_what_the_model_says_of_all_small_periods(predicate: str) -> None:
    rows = list(product(range(5), repeat=4))
    fields = RowType(tuple(Field(name, TIMESTAMP, nullable=True) for name in "ABCD"))
    call = Call(function_name(predicate), tuple(FieldRef(at, TIMESTAMP) for at in range(4)), BOOLEAN)
    one = compile_row(call)
    tray = Tray.from_rows(fields, [TimedRow(0, 0, at, 1, row) for at, row in enumerate(rows)])
    answers = compile_columns(call)(tray).column.to_list()
    for row, answer in zip(rows, answers, strict=True):
        assert answer == one(row, 0) == expected(predicate, row[:2], row[2:]), row


def test_overlaps_is_that_of_the_standard() -> None:
    """ISO/IEC 9075-2, overlaps predicate: S and T are start and end, the earlier one first."""
    call = Call(function_name("OVERLAPS"), tuple(FieldRef(at, TIMESTAMP) for at in range(4)), BOOLEAN)
    one = compile_row(call)
    for row in product(range(5), repeat=4):
        (s1, t1), (s2, t2) = sorted(row[:2]), sorted(row[2:])
        standard = (
            (s1 > s2 and not (s1 >= t2 and t1 >= t2))
            or (s2 > s1 and not (s2 >= t1 and t2 >= t1))
            or (s1 == s2 and (t1 != t2 or t1 == t2))
        )
        assert one(row, 0) == standard, row
