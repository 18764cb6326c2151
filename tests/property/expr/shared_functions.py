"""What SQL functions are compared on: calls that PostgreSQL or DuckDB have too, and the values of their arguments.

``a``, ``b``, ``c`` and ``d`` are the arguments. A difference that stays is a condition of the rows that differ; one
from PostgreSQL also names its line of docs/sql/differences-from-postgresql.md.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import cache, cached_property
from itertools import product
from typing import Any

from property.expr.test_expressions_agree import by_column, by_row
from rowtide.errors import RejectedRowError
from rowtide.expr.columnar import compile_columns
from rowtide.expr.rowwise import compile_row
from rowtide.expr.tree import Expr
from rowtide.plan.nodes.row_wise import Project
from rowtide.rows.rowop import Opcode, TimedRow
from rowtide.rows.tray import Tray
from rowtide.rows.types import BOOLEAN, Field, Kind, RowType, Type
from rowtide.sql.pipeline import SqlSession

MOST_ROWS = 150
NAMES = "abcd"
EPOCH = datetime(1970, 1, 1)
REJECTED = "rejected"
SAME = "="


def days(*texts: str) -> tuple[int, ...]:
    return tuple(date.fromisoformat(each).toordinal() - date(1970, 1, 1).toordinal() for each in texts)


def moments(*texts: str) -> tuple[int, ...]:
    return tuple((datetime.fromisoformat(each) - EPOCH) // timedelta(milliseconds=1) for each in texts)


VALUES: Mapping[str, tuple[str, Sequence[object]]] = {
    "BOOLEAN": ("BOOLEAN", (True, False)),
    "SMALLINT": ("SMALLINT", (0, 1, -1, 255, 2**15 - 1, -(2**15))),
    "INTEGER": ("INTEGER", (0, 1, -1, 2, 3, 7, -8, 12, 1000, 2**31 - 1, -(2**31))),
    "BIGINT": ("BIGINT", (0, 1, -1, 6, -10, 2**53 + 1, 2**63 - 1, -(2**63))),
    "FEW": ("INTEGER", (0, 1, -1, 2, 3, 5, -3, 9)),
    "DOUBLE": (
        "DOUBLE",
        (
            *(0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 2.5, 0.285, 3.0, 1e15, 123456789.125, 2.0**53, 1e308, -1e308),
            *(math.nan, math.inf, -math.inf),
        ),
    ),
    "TINY": ("DOUBLE", (0.0, 1e-300, -1e-200, 5e-324, 1.0, 1e300, math.nan, math.inf)),
    "SOME DOUBLE": ("DOUBLE", (0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 1.5, 30.25, 10.0, 90.0, 1e-5, math.nan)),
    "DECIMAL": (
        "DECIMAL(10, 2)",
        tuple(
            map(Decimal, ("0.00", "0.01", "-0.05", "0.50", "-2.50", "12.34", "99999999.99", "-99999999.99"))
        ),
    ),
    "OTHER DECIMAL": (
        "DECIMAL(8, 3)",
        tuple(map(Decimal, ("0.000", "0.001", "-2.500", "7.125", "99999.999"))),
    ),
    "TEXT": (
        "VARCHAR",
        (
            *(
                "",
                " ",
                "a",
                "abc",
                "Abc dEf_gh",
                "a,b,,c",
                " a b  ",
                "12",
                "o'k",
                "a%b_\\",
                "aab",
                "line\nend",
            ),
            *("Straße", "İstanbul", "e\u0301x", "😀é😀", "ΑΣ ᾳ ǆ ﬁ", "aaaaabaaab"),
        ),
    ),
    "PART": ("VARCHAR", ("", "a", "b", ",", "aa", "é", "😀", "ab", "xyz", " ")),
    "NUMBER TEXT": (
        "VARCHAR",
        (
            "0",
            " 12 ",
            "-7",
            "+5",
            "2147483648",
            "9" * 20,
            "",
            "x",
            "1 2",
            "--1",
            "1.5",
            "-0.005",
            ".5",
            "5.",
            "1e3",
            "1e400",
        ),
    ),
    "WORD": (
        "VARCHAR",
        ("true", " FALSE ", "t", "f", "yes", "n", "on", "off", "of", "o", "1", "0", "2", "", "tru", "nope"),
    ),
    "DAY TEXT": (
        "VARCHAR",
        (
            "2024-02-29",
            "2023-02-29",
            " 2024-01-05 ",
            "1900-02-29",
            "2000-02-29",
            "2024-13-01",
            "2024-00-10",
            "x",
            "",
            "2024-1-5",
        ),
    ),
    "MOMENT TEXT": (
        "VARCHAR",
        (
            *(
                "2024-02-29 12:34:56.789",
                "2024-02-29T12:34:56",
                "2024-02-29",
                "2024-02-29 24:00:01",
                "2024-02-29 12:60:00",
            ),
            *(
                "1969-12-31 23:59:59.999",
                "2024-02-29 7:05:06",
                "0001-01-01 00:00:00",
                "9999-12-31 23:59:59.999",
            ),
        ),
    ),
    "TIME TEXT": ("VARCHAR", ("00:00:00", "23:59:59.999", "7:05", "12:34:56.7", "25:00:00", "x", "12:60:00")),
    "DATE": (
        "DATE",
        (
            *days(
                "1970-01-01",
                "1969-12-31",
                "2024-02-29",
                "2023-02-28",
                "2000-02-29",
                "1900-03-01",
                "2024-01-31",
            ),
            *days("2021-01-03", "2020-12-31", "2024-12-30", "0001-01-01", "9999-12-31", "2024-11-30"),
        ),
    ),
    "TIMESTAMP": (
        "TIMESTAMP",
        (
            *moments(
                "1970-01-01", "1969-12-31 23:59:59.999", "2024-02-29 12:34:56.789", "2024-12-31 23:59:59.999"
            ),
            *moments(
                "2021-01-03 00:00:00",
                "2016-01-31 01:02:03.004",
                "1900-02-28 11:00:00",
                "2000-10-10 10:10:10.100",
            ),
            *moments("0001-01-01", "9999-12-31 23:59:59.999"),
        ),
    ),
    "TIME": ("TIME", (0, 1, 43_200_000, 45_296_789, 86_399_999)),
    "JSON": (
        "JSON",
        (
            *(
                "{}",
                "[]",
                "null",
                "true",
                "7",
                '"text"',
                '{"a": 1.50, "b": [1, null, "x"]}',
                '{"a": null, "é😀": "\\ud83d\\ude00"}',
            ),
            *(
                '[1, [2, 3], {"a": "b"}]',
                '{"a": {"a": [true, false]}}',
                '{"a": "quo\\"te", "b": -0.0}',
                '[{"a": 1}, {"a": 2}]',
            ),
            *('{"b": 1e3, "a": "1.50"}', '"\\u00e9\\n"', "-12.50", '{"a": 1, "a": 2}', '{"": 5, " a": 6}'),
        ),
    ),
    "CODE": ("INTEGER", (0, 1, 65, 233, 0x20AC, 0x1F600, 0xD800, 0x10FFFF, 0x110000, -1)),
    "LIKE": (
        "VARCHAR",
        ("", "%", "_", "a%", "%b", "A%", "_b%", "%é%", "😀_😀", "%\\\\%", "a!%b%", "__", "a!b", "%!!"),
    ),
    "SIMILAR": (
        "VARCHAR",
        ("a|b", "(a|b)%", "a+", "[a-c]*", "%", "_", "a{2,3}", "[^a]%", ".", "a?b%", "%(b|d)%", "("),
    ),
    "REGEX": (
        "VARCHAR",
        ("a+", "^a", "b$", "[[:alpha:]]+", "[0-9]", "(a|b)(b|c)", "x*", "é", "(", "a|b", ""),
    ),
    "HEX TEXT": ("VARCHAR", ("", "00", "c3a9", "C3A9", "c3a", "zz", "0a ff", " 61\n", "6 1", "é")),
    "BASE64": ("VARCHAR", ("", "YQ==", "YWI=", "YW Jj\n", "YQ", "YQ=", "====", "é", "Y", "+/+/", "-_-_")),
    "UUID TEXT": (
        "VARCHAR",
        (
            *(
                "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
                "A0EEBC999C0B4EF8BB6D6BB9BD380A11",
                "",
                "x",
                "a0eebc99",
            ),
            *("{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}", "a0ee-bc99-9c0b-4ef8-bb6d-6bb9-bd38-0a11"),
            *("{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "a0eebc99--9c0b-4ef8-bb6d-6bb9bd380a11"),
        ),
    ),
    "YEAR": ("INTEGER", (2024, 2023, 1900, 1, 9999, 0, -1, 10000)),
    "DAY": ("INTEGER", (1, 28, 29, 30, 31, 0, 32, -1)),
    "SECOND": ("DOUBLE", (0.0, 5.25, 59.999, 60.0, 61.0, -1.0)),
    "MEMBER": ("VARCHAR", ("a", "b", "é😀", "", " a", "1")),
    "INTEGERS": ("INTEGER ARRAY", ((), (1,), (3, 1, 2), (1, None, 1), (None,), (2, 2, -1, 2))),
    "TEXTS": ("VARCHAR ARRAY", ((), ("a",), ("b", "a", "b"), ("a", None, ""), ("é😀", "a,b"))),
}
"""The values of each sort of argument, in row form, with the type in SQL. Each argument may also be NULL."""


@dataclass(frozen=True)
class Shared:
    """A call, as each system spells it; None: the system does not have it.

    ``apart`` has a condition, in our SQL, for each system whose rows are different on purpose. ``line`` is a part of
    the line of the page. ``is_near``: the last bits of a DOUBLE depend on the implementation.
    """

    ours: str
    sorts: str
    postgres: str | None = SAME
    duckdb: str | None = SAME
    apart: Mapping[str, str] = field(default_factory=dict)
    line: str = ""
    is_near: bool = False

    def spelled(self, system: str) -> str | None:
        found: str | None = getattr(self, system)
        return self.ours if found == SAME else found

    @property
    def arguments(self) -> tuple[str, ...]:
        return tuple(each.strip() for each in self.sorts.split(";"))

    @property
    def types(self) -> tuple[str, ...]:
        return tuple(VALUES[each][0] for each in self.arguments)

    @cached_property
    def kinds(self) -> list[Type]:
        """The types of the arguments."""
        return [planned(name, self.types).type for name in NAMES[: len(self.types)]]

    @cached_property
    def rows(self) -> list[tuple[object, ...]]:
        """All combinations of the values, or a drawn part of them."""
        found = list(product(*((None, *VALUES[each][1]) for each in self.arguments)))
        return found if len(found) <= MOST_ROWS else random.Random(7).sample(found, MOST_ROWS)

    def __str__(self) -> str:
        return f"{self.ours} of {self.sorts}"


@cache
def planned(expression: str, types: tuple[str, ...]) -> Expr:
    """Return the tree of an expression over columns of these types."""
    session = SqlSession()
    columns = ", ".join(f"{name} {kind}" for name, kind in zip(NAMES, types, strict=False))
    session.feed(f"CREATE STREAM s ({columns});")
    node = session.query(f"SELECT STREAM {expression} AS x, a AS other FROM s")
    assert isinstance(node, Project), node
    return node.expressions[0]


def answers(expression: str, case: Shared) -> tuple[Type, list[object]]:
    """Return the type and the values of an expression for the rows of a case; by rows, and columns give the same."""
    tree = planned(expression, case.types)
    row_type = RowType(tuple(Field(name, kind) for name, kind in zip(NAMES, case.kinds, strict=False)))
    rows = [TimedRow(0, 0, at, Opcode.INSERT, row) for at, row in enumerate(case.rows)]
    by_rows = by_row(tree, rows)
    assert by_column(compile_columns(tree)(Tray.from_rows(row_type, rows))) == by_rows
    return tree.type, list(_evaluated(tree, rows))


def _evaluated(tree: Expr, rows: Sequence[TimedRow]) -> Iterator[object]:
    evaluate = compile_row(tree)
    for timed in rows:
        try:
            yield spelled(evaluate(timed.row, 0), tree.type)
        except RejectedRowError:
            yield REJECTED


def spelled(value: Any, kind: Type) -> Any:
    """Return a value of ours as the clients of other systems take and return it."""
    if value is None:
        return None
    match kind.kind:
        case Kind.TIMESTAMP:
            return EPOCH + timedelta(milliseconds=value)
        case Kind.INSTANT:
            return EPOCH.replace(tzinfo=UTC) + timedelta(milliseconds=value)
        case Kind.DATE:
            return date(1970, 1, 1) + timedelta(days=value)
        case Kind.TIME:
            return (EPOCH + timedelta(milliseconds=value)).time()
        case Kind.INTERVAL_DAY:
            return timedelta(milliseconds=value)
        case Kind.ARRAY:
            return list(value)
        case _:
            return value


def given(case: Shared) -> list[tuple[object, ...]]:
    """Return the rows of a case as the clients of other systems take them."""
    return [
        tuple(spelled(value, kind) for value, kind in zip(row, case.kinds, strict=True)) for row in case.rows
    ]


def differences(system: str, case: Shared, theirs: Sequence[object]) -> list[tuple[object, ...]]:
    """Return the rows for which a system returns another value, with ours and theirs, but for those known to differ."""
    kind, ours = answers(case.ours, case)
    known: list[object] = [False] * len(ours)
    if system in case.apart:
        of, known = answers(case.apart[system], case)
        assert of == BOOLEAN
        assert True in known
    return [
        (*row, mine, other)
        for row, mine, other, apart in zip(case.rows, ours, theirs, known, strict=True)
        if apart is not True and not _same(mine, other, kind, is_near=case.is_near)
    ]


def _same(ours: Any, theirs: Any, kind: Type, *, is_near: bool) -> bool:
    if ours is None or theirs is None or REJECTED in (ours, theirs):
        return ours is theirs or ours == theirs
    if kind.is_float:
        both_nan = math.isnan(ours) and math.isnan(theirs)
        return (
            both_nan
            or ours == theirs
            or (is_near and math.isclose(ours, theirs, rel_tol=1e-13, abs_tol=1e-300))
        )
    if kind.kind is Kind.JSON:
        return bool(_json(ours) == _json(theirs))
    return bool(ours == theirs)


def _json(text: str) -> Any:
    return json.loads(text, parse_float=Decimal)
