"""Random queries over tables, of any shape, that our SQL and DuckDB's spell alike.

A column is its SQL and one letter: i for INTEGER, s for VARCHAR, d for DECIMAL, b for BOOLEAN. Whatever
keeps only some rows sorts by all of its columns, so that no row is in doubt.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

Columns = list[tuple[str, str]]
COLUMNS: Columns = [("id", "i"), ("k", "s"), ("n", "i"), ("p", "d"), ("t", "b")]
TYPES = {"i": "INTEGER", "s": "VARCHAR(4)", "d": "DECIMAL(6, 2)", "b": "BOOLEAN"}
_COLUMNS = ", ".join(f"{name} {TYPES[kind]}" for name, kind in COLUMNS)
TABLES = "".join(
    f"CREATE TABLE {name} ({_COLUMNS}, PRIMARY KEY ({key}));"
    for name, key in (("a", "id"), ("b", "id"), ("c", "k, n"))
)
KEYS = {"A": (0,), "B": (0,), "C": (1, 2)}


class Queries:
    """Draws queries; ``random`` says all that is drawn."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self._names = 0

    def name(self, prefix: str) -> str:
        self._names += 1
        return f"{prefix}{self._names}"

    def chance(self, of: float) -> bool:
        return self.random.random() < of

    # ---------------------------------------------------------------- expressions

    def expression(self, columns: Columns, kind: str, depth: int = 2) -> str:
        """Return an expression of one type; none of them fails for any row."""
        own = [name for name, of in columns if of == kind]
        if kind == "b" and not (own and self.chance(0.4)):
            return self.condition(columns, depth - 1)
        if depth <= 0 or self.chance(0.45):
            constants = {
                "i": ("-1", "0", "2"),
                "s": ("'x'", "''", "'xy'"),
                "d": ("1.50", "0.25"),
                "b": ("TRUE",),
            }
            return self.random.choice(own if own and self.chance(0.85) else constants[kind])

        def inner(of: str = kind) -> str:
            return self.expression(columns, of, depth - 1)

        forms = [
            lambda: f"COALESCE({inner()}, {inner()})",
            lambda: f"NULLIF({inner()}, {inner()})",
            lambda: f"CASE WHEN {self.condition(columns, depth - 1)} THEN {inner()} ELSE {inner()} END",
            lambda: f"CASE {inner('s')} WHEN 'x' THEN {inner()} END",
        ]
        own_forms = {
            "i": [
                lambda: f"(({inner()} + {inner()}) % 5)",
                lambda: f"({inner()} * {inner()} % 7)",
                lambda: f"(- {inner()})",
                lambda: f"CAST(LENGTH({inner('s')}) AS INTEGER)",
            ],
            "s": [lambda: f"LEFT({inner()} || {inner()}, 3)", lambda: f"UPPER({inner()})"],
            "d": [
                lambda: f"CAST({inner()} + {inner('i')} AS DECIMAL(12, 2))",
                lambda: f"CAST({inner('i')} AS DECIMAL(8, 2))",
            ],
        }
        return self.random.choice(forms + own_forms.get(kind, []))()

    def condition(self, columns: Columns, depth: int = 2) -> str:
        def inner(of: str) -> str:
            return self.expression(columns, of, depth - 1)

        kind = self.random.choice("isd")
        operator = self.random.choice(["=", "<>", "<", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"])
        forms = [
            lambda: f"({inner(kind)} {operator} {inner(kind)})",
            lambda: f"({inner(kind)} IS {self.random.choice(['', 'NOT '])}NULL)",
            lambda: f"({inner('i')} {self.random.choice(['', 'NOT '])}IN ({inner('i')}, 1))",
            lambda: f"({inner('i')} BETWEEN {inner('i')} AND 3)",
        ]
        if depth > 0:
            forms += [
                lambda: f"({self.condition(columns, depth - 1)} AND {self.condition(columns, depth - 1)})",
                lambda: f"({self.condition(columns, depth - 1)} OR {self.condition(columns, depth - 1)})",
                lambda: f"(NOT {self.condition(columns, depth - 1)})",
                lambda: f"({inner('b')} IS NOT TRUE)",
            ]
        return self.random.choice(forms)()

    def aggregate(self, columns: Columns) -> tuple[str, str]:
        """Return an aggregate and its type."""
        kind = self.random.choice("isd")
        argument = self.expression(columns, kind, 1)
        some = f" FILTER (WHERE {self.condition(columns, 1)})" if self.chance(0.25) else ""
        distinct = "DISTINCT " if self.chance(0.2) else ""
        choices = [("COUNT(*)", "i"), (f"COUNT({distinct}{argument})", "i"), (f"MIN({argument})", kind)]
        choices += [(f"MAX({argument})", kind), (f"BOOL_OR({self.condition(columns, 1)})", "b")]
        if kind != "s":
            choices += [(f"SUM({distinct}{argument})", kind)] * 3
        sql, of = self.random.choice(choices)
        return sql + some, of

    # ---------------------------------------------------------------- queries

    def query(self, depth: int) -> tuple[str, Columns]:
        """Return a query and its columns."""
        shapes = [
            self._select,
            self._grouped,
            self._grouped,
            self._set_operation,
            self._first,
            self._distinct,
            self._windowed,
        ]
        return self.random.choice(shapes)(depth)

    def _from(self, depth: int) -> tuple[str, Columns]:
        return self._join(depth - 1) if depth > 0 and self.chance(0.4) else self._side(depth)

    def _side(self, depth: int) -> tuple[str, Columns]:
        alias = self.name("r")
        if depth <= 0 or self.chance(0.3):
            return f"{self.random.choice('abc')} AS {alias}", [
                (f"{alias}.{name}", of) for name, of in COLUMNS
            ]
        query, columns = self.query(depth - 1)
        return f"({query}) AS {alias}", [(f"{alias}.{name}", of) for name, of in columns]

    def _join(self, depth: int) -> tuple[str, Columns]:
        left, columns = self._from(depth)
        right, others = self._side(depth)
        kind = self.random.choice(["INNER", "LEFT", "RIGHT", "FULL"])
        conditions = []
        for of in self.random.choices("isd", k=self.random.randint(1, 2)):
            conditions.append(f"{self.expression(columns, of, 1)} = {self.expression(others, of, 0)}")
        if self.chance(0.35):
            conditions.append(self.condition(columns + others, 1))
        self.random.shuffle(conditions)
        return f"{left} {kind} JOIN {right} ON {' AND '.join(conditions)}", columns + others

    def _where(self, columns: Columns, depth: int) -> str:
        if self.chance(0.4):
            return ""
        conditions = [self.condition(columns)]
        if depth > 0 and self.chance(0.5):
            conditions.append(self._asked(columns))
        return f" WHERE {self.random.choice([' AND ', ' OR ']).join(conditions)}"

    def _asked(self, columns: Columns) -> str:
        """Return a condition with a sub-query."""
        relation, own = self._from(0)
        kind = self.random.choice("is")
        where = [self.condition(own, 1)]
        outer = [name for name, of in columns if of == kind]
        if outer and self.chance(0.6):
            equal = next(name for name, of in own if of == kind)
            where.append(f"{equal} = {self.random.choice(outer)}")
        of_them = f"FROM {relation} WHERE {' AND '.join(where)}"
        asked, negated = self.expression(columns, kind, 1), self.random.choice(["", "NOT "])
        number = self.random.choice(["COUNT", "MAX"])
        return self.random.choice(
            [
                f"{negated}EXISTS (SELECT * {of_them})",
                f"{asked} {negated}IN (SELECT {self.expression(own, kind, 1)} AS c {of_them})",
                f"(SELECT {number}({self.expression(own, 'i', 1)}) AS c {of_them}) >= 1",
            ]
        )

    def _listed(self, expressions: Sequence[tuple[str, str]]) -> tuple[str, Columns]:
        columns = [(self.name("c"), of) for _, of in expressions]
        given = zip(expressions, columns, strict=True)
        return ", ".join(f"{sql} AS {name}" for (sql, _), (name, _) in given), columns

    def _row(self, columns: Columns, kinds: str | None = None) -> tuple[str, Columns]:
        kinds = kinds or "".join(self.random.choices("iisdb", k=self.random.randint(1, 3)))
        return self._listed([(self.expression(columns, of), of) for of in kinds])

    def _select(self, depth: int, kinds: str | None = None) -> tuple[str, Columns]:
        relation, columns = self._from(depth)
        listed, given = self._row(columns, kinds)
        return f"SELECT {listed} FROM {relation}{self._where(columns, depth)}", given

    def _distinct(self, depth: int) -> tuple[str, Columns]:
        sql, columns = self._select(depth)
        return sql.replace("SELECT", "SELECT DISTINCT", 1), columns

    def _grouped(self, depth: int) -> tuple[str, Columns]:
        relation, columns = self._from(depth)
        kinds = self.random.choices("isb", k=self.random.randint(1, 2))
        # A column in each term: a constant would be a position, or group nothing.
        keys = [(f"COALESCE({self.expression(columns, of, 1)}, NULL)", of) for of in kinds if of != "b"]
        keys = keys or [(self.random.choice(columns)[0], "i")]
        if keys[0][0] in dict(columns):
            keys = [(keys[0][0], dict(columns)[keys[0][0]])]
        listed, given = self._listed(
            [*keys, *(self.aggregate(columns) for _ in range(self.random.randint(1, 3)))]
        )
        having = f" HAVING COUNT(*) > {self.random.randint(0, 2)}" if self.chance(0.3) else ""
        terms = ", ".join(sql for sql, _ in keys)
        where = self._where(columns, depth)
        return f"SELECT {listed} FROM {relation}{where} GROUP BY {terms}{having}", given

    def _set_operation(self, depth: int) -> tuple[str, Columns]:
        kinds = "".join(self.random.choices("iisdb", k=self.random.randint(1, 2)))
        first, columns = self._select(depth - 1, kinds)
        for _ in range(self.random.randint(1, 2)):
            operator = self.random.choice(["UNION", "EXCEPT", "INTERSECT"]) + self.random.choice(["", " ALL"])
            first += f" {operator} {self._select(depth - 1, kinds)[0]}"
        return first, columns

    def _first(self, depth: int) -> tuple[str, Columns]:
        """Return the first rows: of all, or of each partition."""
        relation, columns = self._from(depth)
        where = self._where(columns, depth)
        if self.chance(0.5):
            listed, given = self._row(columns)
            order = self._order([name for name, _ in given])
            rest = f"LIMIT {self.random.randint(1, 3)} OFFSET {self.random.randint(0, 1)}"
            return f"SELECT {listed} FROM {relation}{where} ORDER BY {order} {rest}", given
        listed, given = self._row(columns)
        by = self.random.choice(columns)[0]
        window = f"(PARTITION BY {by} ORDER BY {self._order([name for name, _ in columns])})"
        kept = self.random.choice(["= 1", "<= 2", "BETWEEN 2 AND 3"])
        return f"SELECT {listed} FROM {relation}{where} QUALIFY ROW_NUMBER() OVER {window} {kept}", given

    def _windowed(self, depth: int) -> tuple[str, Columns]:
        """Return rows with results of windows. A term for each column tells rows apart wherever peers would not do.

        QUALIFY may keep some of several equal rows: then their results are equal, or the rows have a key.
        """
        qualifies, keyed = self.chance(0.5), self.chance(0.5)
        relation, columns = self._side(0) if qualifies and keyed else self._from(depth)
        by_place = keyed or not qualifies
        calls = [self._call_over(columns, by_place=by_place) for _ in range(self.random.randint(1, 3))]
        shown = [self.random.choice(columns) for _ in range(self.random.randint(0, 1))]
        listed, given = self._listed([*shown, *calls])
        others = [self._call_over(columns, by_place=by_place)]
        qualify = f" QUALIFY {self._qualified(columns, given[-1:], others)}" if qualifies else ""
        return f"SELECT {listed} FROM {relation}{self._where(columns, depth)}{qualify}", given

    def _qualified(self, columns: Columns, listed: Columns, others: Columns) -> str:
        """Return a condition on windows: on results that are ``listed``, on others, or on both."""
        results = self.random.choice([listed, others, [*listed, *others]])
        conditions = []
        for sql, of in results:
            limit = f"{self.random.choice(['=', '<=', '>'])} {self.random.randint(0, 3)}"
            some = self.random.choice(["<= 'x'", "IS NULL", "IS NOT NULL"])
            conditions.append(f"{sql} {limit if of in 'id' else some if of == 's' else 'IS NOT TRUE'}")
        if self.chance(0.4):
            conditions.append(self.condition([*columns, *results], 1))
        return self.random.choice([" AND ", " OR "]).join(conditions)

    def _call_over(self, columns: Columns, *, by_place: bool) -> tuple[str, str]:
        """Return a call over a window, and its type. ``by_place``: its results for equal rows may differ."""
        by, of_by = self.random.choice(columns)
        partition = f"PARTITION BY {by} " if self.chance(0.7) else ""
        some = f"ORDER BY {self._order([self.random.choice(columns)[0]])}"
        each = f"ORDER BY {self._order([name for name, _ in columns])}"
        aggregate, of = self.aggregate(columns)
        rows = self.random.choice(
            ["UNBOUNDED PRECEDING", "BETWEEN 2 PRECEDING AND 1 FOLLOWING", "2 PRECEDING"]
        )
        rank, shift = self.random.choice(["RANK", "DENSE_RANK"]), self.random.choice(["LAG", "LEAD"])
        peers = [
            (f"{aggregate} OVER ({partition})", of),
            (f"{aggregate} OVER ({partition}{some})", of),
            (f"{rank}() OVER ({partition}{some})", "i"),
        ]
        if not by_place:
            return self.random.choice(peers)
        return self.random.choice(
            [
                *peers,
                (f"{aggregate} OVER ({partition}{each} ROWS {rows})", of),
                (f"ROW_NUMBER() OVER ({partition}{each})", "i"),
                (f"{shift}({by}, {self.random.randint(1, 2)}) OVER ({partition}{each})", of_by),
                (f"FIRST_VALUE({by}) OVER ({partition}{each})", of_by),
            ]
        )

    def _order(self, names: list[str]) -> str:
        self.random.shuffle(names)
        ways = [
            f"{self.random.choice(['ASC', 'DESC'])} NULLS {self.random.choice(['FIRST', 'LAST'])}"
            for _ in names
        ]
        return ", ".join(f"{name} {way}" for name, way in zip(names, ways, strict=True))
