"""A text constant has the type of what it stands beside: in each position it plans as a constant of that type."""

from __future__ import annotations

import pytest

from rowtide.errors import StatementError
from rowtide.plan.nodes import Node
from rowtide.sql.pipeline import SqlSession

TYPES = {
    "TINYINT": ("'5'", "CAST(5 AS TINYINT)", "'5.5'"),
    "SMALLINT": ("' -5 '", "CAST(-5 AS SMALLINT)", "'40000'"),
    "INTEGER": ("'+5'", "5", "'12.7'"),
    "BIGINT": ("'3000000000'", "3000000000", "'x'"),
    "DECIMAL(6, 2)": ("'1.245'", "1.245", "'1,2'"),
    "REAL": ("'1.5'", "CAST(1.5 AS REAL)", "'a'"),
    "DOUBLE": ("'1e3'", "1e3", "'NaN'"),
    "BOOLEAN": ("'yes'", "TRUE", "'maybe'"),
    "DATE": ("'2024-02-29'", "DATE '2024-02-29'", "'2024-02-30'"),
    "TIME": ("'10:00'", "TIME '10:00:00'", "'25:00'"),
    "TIMESTAMP": ("'2024-02-29T10:00'", "TIMESTAMP '2024-02-29 10:00:00'", "'today'"),
    "TIMESTAMP WITH TIME ZONE": (
        "'2024-02-29 10:00:00+02:00'",
        "TIMESTAMP WITH TIME ZONE '2024-02-29 08:00:00+00:00'",
        "'2024-02-29 10:00 Europe/Berlin'",
    ),
    "INTERVAL DAY TO SECOND": ("'1 day 02:00'", "INTERVAL '26' HOUR", "'1 month'"),
    "INTERVAL YEAR TO MONTH": ("'2 years'", "INTERVAL '2' YEAR", "'1 day'"),
    "UUID": (
        "'{A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11}'",
        "CAST('a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11' AS UUID)",
        "'a0eebc99'",
    ),
}
"""Each type with a text, the constant that it is, and a text that is none."""
POSITIONS = {
    **{
        each: f"SELECT STREAM x {each} # AS r FROM s"
        for each in (
            "=",
            "<>",
            "<",
            "<=",
            ">",
            ">=",
            "IS DISTINCT FROM",
            "IS NOT DISTINCT FROM",
            "NOT IN (x, #) AND x =",
        )
    },
    "the other side": "SELECT STREAM # < x AS r FROM s",
    "BETWEEN": "SELECT STREAM x BETWEEN # AND x AS r FROM s WHERE x NOT BETWEEN x AND #",
    "IN": "SELECT STREAM x IN (#, x) AS r FROM s",
    "CASE x WHEN": "SELECT STREAM CASE x WHEN # THEN 1 END AS r FROM s",
    "THEN": "SELECT STREAM CASE WHEN x IS NULL THEN # ELSE x END AS r FROM s",
    "ELSE": "SELECT STREAM CASE WHEN x IS NULL THEN x ELSE # END AS r FROM s",
    "COALESCE": "SELECT STREAM COALESCE(x, NULL, #) AS r FROM s",
    "NULLIF": "SELECT STREAM NULLIF(x, #) AS r FROM s",
    "GREATEST": "SELECT STREAM GREATEST(x, #, x) AS r FROM s",
    "IF": "SELECT STREAM IF(x = x, #, x) AS r FROM s",
    "a parameter": "SELECT STREAM same(#) AS r FROM s",
    "ON": "SELECT STREAM s.x AS r FROM s JOIN t ON s.x = t.x AND t.x = #",
    "HAVING": "SELECT STREAM x AS r FROM s GROUP BY FLOOR(ROWTIME TO MINUTE), x HAVING x = #",
    "a pump": "INSERT INTO t SELECT STREAM # FROM s",
    "INSERT VALUES": "INSERT INTO t VALUES (#)",
    "UPDATE": "INSERT INTO t (x) VALUES (NULL); UPDATE t SET x = # WHERE x IS NULL",
    "DEFAULT": "CREATE TABLE d (id INTEGER, x ! DEFAULT #); INSERT INTO d (id) VALUES (1)",
    "UNION ALL": "SELECT STREAM x AS r FROM s UNION ALL SELECT STREAM # FROM s",
    "VALUES": "SELECT r FROM (VALUES (CAST(NULL AS !)), (#)) AS v (r)",
}
ARITHMETIC = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "DECIMAL(6, 2)", "REAL", "DOUBLE")


def planned(type_: str, position: str, constant: str) -> tuple[tuple[str, Node], ...]:
    """Return the relations and pumps of a pipeline that has a constant in a position."""
    text = position.replace("#", constant).replace("!", type_)
    if text.startswith("SELECT"):
        text = f"CREATE VIEW v OPTIONS (RETENTION 'UNBOUNDED') AS {text}"
    elif " SELECT " in text:
        text = f"CREATE PUMP v AS {text}"
    session = SqlSession()
    session.feed(
        f"""CREATE STREAM s (x {type_}); CREATE TABLE t (x {type_});
        CREATE FUNCTION same (x {type_}) RETURNS {type_} RETURN x; {text};"""
    )
    return (*session.plan.relations, *((pump.name, pump.node) for pump in session.plan.pumps))


@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("type_", TYPES)
def test_a_text_constant_is_a_constant_of_the_type_beside_it(type_: str, position: str) -> None:
    text, constant, wrong = TYPES[type_]
    assert planned(type_, POSITIONS[position], text) == planned(type_, POSITIONS[position], constant)
    with pytest.raises(StatementError) as refused:
        planned(type_, POSITIONS[position], wrong)
    assert refused.value.place is not None
    assert refused.value.hint, refused.value.message


@pytest.mark.parametrize("operator", ["+", "-", "*", "/", "%"])
@pytest.mark.parametrize("type_", ARITHMETIC)
def test_a_text_constant_in_arithmetic_is_a_number(type_: str, operator: str) -> None:
    text, constant, _ = TYPES[type_]
    for position in (f"x {operator} #", f"# {operator} x"):
        query = f"SELECT STREAM {position} AS r FROM s"
        assert planned(type_, query, text) == planned(type_, query, constant)


@pytest.mark.parametrize(
    ("type_", "with_text", "with_constant"),
    [
        ("TIMESTAMP", "x + '1 day'", "x + INTERVAL '1' DAY"),
        ("TIMESTAMP", "x - '3 mons'", "x - INTERVAL '3' MONTH"),
        ("TIMESTAMP", "x - '2024-01-01'", "x - TIMESTAMP '2024-01-01 00:00:00'"),
        (
            "TIMESTAMP",
            "TIMESTAMPDIFF(DAY, '2024-01-01', x)",
            "TIMESTAMPDIFF(DAY, TIMESTAMP '2024-01-01 00:00:00', x)",
        ),
        ("DATE", "x - '2024-01-01'", "x - DATE '2024-01-01'"),
        ("TIME", "x + '10:00'", "x + INTERVAL '10' HOUR"),
        ("VARCHAR(8)", "LPAD(x, '12', '0')", "LPAD(x, 12, '0')"),
        ("VARCHAR(8)", "x || '12'", "x || '12'"),
        ("INTEGER", "ROUND(x, '1')", "ROUND(x, 1)"),
    ],
)
def test_a_text_constant_is_what_a_function_takes(type_: str, with_text: str, with_constant: str) -> None:
    query = "SELECT STREAM # AS r FROM s"
    found, wanted = (dict(planned(type_, query, each))["V"] for each in (with_text, with_constant))
    assert found == wanted


@pytest.mark.parametrize("expression", ["x = n", "COALESCE(x, n)", "x + n", "'1' + '2'", "NULLIF(n, x)"])
def test_text_that_is_no_constant_needs_a_cast(expression: str) -> None:
    session = SqlSession()
    session.feed("CREATE STREAM s (x VARCHAR(8), n INTEGER);")
    with pytest.raises(StatementError):
        session.feed(f"CREATE VIEW v AS SELECT STREAM {expression} AS r FROM s;")
