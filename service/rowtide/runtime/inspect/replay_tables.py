"""The actual and expected content of tables, on disk, and their difference.

Tables may be larger than memory. So both sides are written to a SQLite file,
which is deleted afterwards: rows under digests of their keys and values. The
comparison is a join.
"""

from __future__ import annotations

import pickle
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory

from rowtide.plan.plan import ForeignTable
from rowtide.rows.rowop import Opcode, Row, TimedRow
from rowtide.runtime.state.deadletters import as_json
from rowtide.runtime.state.output import rows_of_target

DIGEST_BYTES = 16
"""Two rows of a table of 2**32 have one digest with a probability of 2**-65."""

Refused = Counter[tuple[int | None, str | None]]
"""Rowtime and JSON of rows that the database has refused, which are in no table."""


@contextmanager
def scratch() -> Iterator[sqlite3.Connection]:
    """Return an empty database, which is deleted at the end of the block."""
    with TemporaryDirectory(prefix="rowtide-replay-") as folder:
        connection = sqlite3.connect(Path(folder) / "compared.db", isolation_level=None)
        try:
            for pragma in ("journal_mode = off", "synchronous = off", "cache_size = -65536"):
                connection.execute(f"pragma {pragma}")
            yield connection
        finally:
            connection.close()


class ComparedTable:
    """One foreign table: its actual and its expected content.

    ``field`` is the time field, if any; ``refused`` are rows that are left out, once each.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        number: int,
        table: ForeignTable,
        field: int | None,
        refused: Refused,
    ) -> None:
        self.table = table
        self._connection = connection
        self._field = field
        self._refused = refused
        self._form: Callable[[Row], Row] = lambda row: row
        self._held, self._wanted = f"held_{number}", f"wanted_{number}"
        for name in (self._held, self._wanted):
            connection.execute(
                f"create table {name} (key blob primary key, digest blob, row blob, n integer,"
                " turn integer, time integer) without rowid"
            )

    def hold(self, rows: Iterable[Row], form: Callable[[Row], Row]) -> None:
        """Note rows that the table holds; ``form`` is theirs (``Transaction.form_of``)."""
        self._form = form
        self._add(self._held, ((row, 0) for row in rows_of_target(self.table.row_type, rows)))

    def leave_out(self, refused: Iterable[tuple[int | None, str | None]]) -> None:
        """Note rows, by rowtime and JSON, that the database has refused."""
        self._refused.update(refused)

    def apply(self, rows: Iterable[TimedRow], turn: int) -> None:
        """Apply rowops in order to the expected content."""
        names = self.table.row_type.names
        waiting: list[tuple[Row, int]] = []
        for timed in rows:
            if self._refused:
                refused_row = (timed.rowtime, as_json(timed.row, names))
                if self._refused[refused_row] > 0:
                    self._refused[refused_row] -= 1
                    continue
            if timed.opcode != Opcode.DELETE:
                waiting.append((self._form(timed.row), turn))
                continue
            self._add(self._wanted, waiting)
            waiting = []
            key = self._key(self._form(timed.row))
            self._connection.execute(f"delete from {self._wanted} where key = ?", (key,))
        self._add(self._wanted, waiting)

    def count(self, begin_ms: int | None, end_ms: int | None) -> int:
        """Count the expected rows with a time from ``begin_ms`` to before ``end_ms``."""
        query = f"select coalesce(sum(n), 0) from {self._wanted} as w where {_within('w', begin_ms, end_ms)}"
        return int(self._connection.execute(query).fetchone()[0])

    def rows(self, begin_ms: int | None, end_ms: int | None) -> Iterator[Row]:
        """Yield the expected rows from ``begin_ms`` to before ``end_ms``, in order."""
        within = _within("w", begin_ms, end_ms)
        query = f"select w.row, w.n from {self._wanted} as w where {within} order by w.turn, w.time"
        for row, n in self._connection.execute(query):
            held = _row(row)
            if held is not None:
                yield from [held] * n

    def differences(
        self, begin_ms: int | None, end_ms: int | None
    ) -> Iterator[tuple[Row | None, Row | None, int | None]]:
        """Yield the actual and the expected row of one key, and the turn of the expected one."""
        held, wanted = self._held, self._wanted
        keyed = bool(self.table.key)
        inside, other = _within("w", begin_ms, end_ms), _within("h", begin_ms, end_ms)
        joined = f"left join {held} as h on h.key = w.key and {other}"
        unlike = f"from {wanted} as w {joined} where {inside} and (h.key is null or h.digest <> w.digest"
        query = f"select w.row, w.turn, h.row, w.n - coalesce(h.n, 0) {unlike} or w.n > h.n) order by w.turn"
        for row, turn, there, n in self._connection.execute(query):
            for _ in range(1 if keyed else n):
                yield _row(there) if keyed else None, _row(row), turn
        joined = f"left join {wanted} as w on w.key = h.key and {inside}"
        query = (
            f"select h.row, h.n - coalesce(w.n, 0) from {held} as h {joined}"
            f" where {other} and (w.key is null or h.n > w.n)"
        )
        for row, n in self._connection.execute(query):
            for _ in range(n):
                yield _row(row), None, None

    def _add(self, name: str, rows: Iterable[tuple[Row, int]]) -> None:
        again = "n = n + 1, turn = excluded.turn"
        if self.table.key:
            columns = ("digest", "row", "turn", "time")
            again = ", ".join(f"{column} = excluded.{column}" for column in columns)
        self._connection.execute("begin")
        self._connection.executemany(
            f"insert into {name} values (?, ?, ?, 1, ?, ?) on conflict (key) do update set {again}",
            ((self._key(row), _digest(row), pickle.dumps(row), turn, self._time(row)) for row, turn in rows),
        )
        self._connection.execute("commit")

    def _key(self, row: Row) -> bytes:
        return _digest(tuple(row[index] for index in self.table.key) if self.table.key else row)

    def _time(self, row: Row) -> int | None:
        found = None if self._field is None else row[self._field]
        return found if isinstance(found, int) else None


def _within(name: str, begin_ms: int | None, end_ms: int | None) -> str:
    """Return the condition on a row's time. A row without a time is compared only if all rows are."""
    terms = [] if begin_ms is None else [f"{name}.time >= {begin_ms:d}"]
    terms += [] if end_ms is None else [f"{name}.time < {end_ms:d}"]
    return " and ".join(terms) or "true"


def _digest(row: Row) -> bytes:
    return blake2b(repr([_same(value) for value in row]).encode(), digest_size=DIGEST_BYTES).digest()


def _same(value: object) -> object:
    """Return the normal form of equal values: of 1.50 and 1.5, of 0.0 and -0.0."""
    if isinstance(value, Decimal):
        text = f"{value:f}"
        text = text.rstrip("0").rstrip(".") if "." in text else text
        return "0" if text == "-0" else text
    if isinstance(value, float):
        return value + 0.0
    if isinstance(value, tuple):
        return [_same(each) for each in value]
    return value


def _row(content: bytes | None) -> Row | None:
    if content is None:
        return None
    row: Row = pickle.loads(content)
    return row
