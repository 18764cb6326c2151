"""docs/sql/expressions.md says what the functions do."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rowtide.expr.functions import FUNCTIONS, TypeMismatch, cast_allowed, resolve
from rowtide.rows.types import BOOLEAN, DATE, INTERVAL_DAY, TIME, TIMESTAMP, VARCHAR, Kind, Type, decimal

PAGE = (Path(__file__).parents[3] / "docs" / "sql" / "expressions.md").read_text(encoding="utf-8")
OTHERWISE = {
    "FLOOR_TO": "FLOOR(x TO",
    "CEIL_TO": "CEIL(x TO",
    "TRIM_LEADING": "LEADING",
    "TRIM_TRAILING": "TRAILING",
}
EXAMPLES = {
    "number": decimal(4, 2),
    "BOOLEAN": BOOLEAN,
    "text": VARCHAR,
    "binary": Type(Kind.VARBINARY),
    "DATE": DATE,
    "TIME": TIME,
    "TIMESTAMP": TIMESTAMP,
    "INTERVAL": INTERVAL_DAY,
}


@pytest.mark.parametrize(
    "name", sorted(name for name in FUNCTIONS if name.isidentifier() and name != "NEGATE")
)
def test_the_page_names_every_function(name: str) -> None:
    assert re.search(rf"\b{re.escape(OTHERWISE.get(name, name))}", PAGE)


def test_the_table_of_casts_is_the_one_that_holds() -> None:
    lines = PAGE.split("| from, to |")[1].split("\n\n")[0].splitlines()
    targets = [cell.strip() for cell in lines[0].split("|") if cell.strip()]
    assert targets == list(EXAMPLES)
    for line in lines[2:]:
        source, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        for target, cell in zip(targets, cells, strict=True):
            given, wanted = EXAMPLES[source], EXAMPLES[target]
            integer = Type(Kind.BIGINT)
            with_integers = cast_allowed(
                integer if source == "number" else given, integer if target == "number" else wanted
            )
            assert with_integers == (cell != ""), (source, target)
            assert cast_allowed(given, wanted) == (cell not in ("", "integers")), (source, target)


@pytest.mark.parametrize("operator", ["+", "-", "*", "/", "%"])
def test_the_rules_of_decimals_are_those_of_the_page(operator: str) -> None:
    rule = next(line for line in PAGE.splitlines() if line.startswith("| `") and f"`{operator}`" in line)
    scale_rule, precision_rule = (cell.strip() for cell in rule.strip("|").split("|")[1:3])
    scale_rule = scale_rule.removesuffix(", refused above 38")
    for p1, s1, p2, s2 in ((10, 2, 8, 3), (5, 0, 4, 4), (3, 3, 9, 1)):
        names = {"p1": p1, "s1": s1, "p2": p2, "s2": s2, "i1": p1 - s1, "i2": p2 - s2, "max": max, "min": min}
        scale = eval(scale_rule, names)
        precision = eval(precision_rule, {**names, "s": scale})
        assert resolve(operator, [decimal(p1, s1), decimal(p2, s2)]) == decimal(precision, scale)


def test_a_product_above_38_digits_behind_the_point_is_refused_as_the_page_says() -> None:
    assert "refused above 38" in PAGE
    with pytest.raises(TypeMismatch):
        resolve("*", [decimal(38, 19), decimal(38, 20)])
