"""What a database reports if it does not take rows, and what follows: declared once, by database.

Whatever a write of rows raises, and is not declared here as something to wait for, is of the rows: each is then
written alone, and those that fail are error rows. docs/guarantees.md shows this declaration; a test compares them.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum


class Consequence(Enum):
    """What follows; users read the value."""

    ROW = "the row is an error row"
    TABLE = "as before, unless the table refuses any other row so, too: then the pipeline waits and names the table"
    APART = "the rows are written one after the other"
    SMALLER = (
        "the rows are written in smaller statements; if one row alone takes too long, the pipeline waits"
    )
    WAITS = "the pipeline waits and tries again"
    ENDS = "the pipeline ends"


@dataclass(frozen=True, slots=True)
class RefusalKind:
    """One kind of refusal.

    ``sqlstates`` are those of PostgreSQL, or their beginnings. ``numbers`` are of MariaDB and MySQL, ``codes`` are
    primary result codes of SQLite, and ``sqlite_says`` the texts that tell an error of the code 1.
    """

    name: str
    consequence: Consequence
    sqlstates: tuple[str, ...] = ()
    numbers: Collection[int] = ()
    codes: tuple[int, ...] = ()
    sqlite_says: str | None = None


VALUE = RefusalKind(
    "a value that its column does not take",
    Consequence.ROW,
    ("22",),
    (1048, 1264, 1265, 1292, 1364, 1366, 1367, 1406, 1411, 1441, 1525, 1690, 3140),
    (18, 20),
)
CONSTRAINT = RefusalKind(
    "a constraint: NOT NULL, CHECK, keys, FOREIGN KEY, exclusion",
    Consequence.ROW,
    ("23",),
    (1062, 1169, 1216, 1217, 1451, 1452, 1586, 1761, 1762, 3819, 4025),
    (19,),
)
TOO_LONG = RefusalKind(
    "a row that is too long for an index or a page", Consequence.ROW, ("54",), (1118, 1713)
)
PARTITION = RefusalKind("a row without a partition", Consequence.ROW, ("23514",), (1526, 1748))
CHECK_OPTION = RefusalKind("WITH CHECK OPTION of a view", Consequence.ROW, ("44",), (1369,))
ROW_SECURITY = RefusalKind("a policy of row-level security", Consequence.ROW, ("42501",))
TRIGGER = RefusalKind("RAISE, ASSERT or SIGNAL in a trigger", Consequence.ROW, ("P0",), (1644,), (19,))
ONE_KEY = RefusalKind("rows of one statement that have one key for the database", Consequence.APART, ("21",))
OF_TABLE = RefusalKind(
    "a mistake in the table, in a trigger of it, or in the statement",
    Consequence.TABLE,
    ("0A", "26", "2F", "38", "39", "42", "55", "XX"),
    (1054, 1136, 1235, 1288, 1305, 1356, 1394, 1418, 1442, 1449, 1471, 1906, 3105),
    sqlite_says=r"no such|no column|a view|generated column|does not match any",
)
TIME_OUT = RefusalKind("a time-out of statements", Consequence.SMALLER, ("57014",), (1969, 3024))
CONNECTION = RefusalKind(
    "the connection is lost, or the server stops",
    Consequence.WAITS,
    ("08", "25", "57"),
    {
        0,
        1040,
        1047,
        1053,
        *range(1077, 1082),
        *range(1152, 1162),
        1184,
        1203,
        1226,
        1317,
        1927,
        4031,
    }
    | set(range(2000, 2100)),
    (2, 9, 21),
)
LOCK = RefusalKind(
    "a lock, a deadlock or a concurrent transaction",
    Consequence.WAITS,
    ("40", "55006", "55P03"),
    (1020, 1205, 1206, 1213, 1412, 1614, 3058, 3101, 3572),
    (4, 5, 6, 15, 17),
)
STORAGE = RefusalKind(
    "no space, no memory, damaged files",
    Consequence.WAITS,
    ("53", "58", "F0", "XX001", "XX002"),
    (3, 5, 1021, 1026, 1030, 1034, 1035, 1037, 1038, 1041, 1114, 1180, 1194, 1195, 1712, 1877),
    (7, 10, 11, 13, 14, 22, 26),
)
READ_ONLY = RefusalKind("the database is read-only", Consequence.WAITS, ("25006",), (1290, 1792, 1836), (8,))
RIGHT = RefusalKind(
    "a right or the password is missing",
    Consequence.WAITS,
    ("28", "3D000", "42501"),
    (1044, 1045, 1049, 1130, 1142, 1143, 1227, 1370, 1698),
    (3, 23),
)
GONE = RefusalKind(
    "the table or its schema is missing",
    Consequence.ENDS,
    ("3F000", "42P01"),
    (1146,),
    sqlite_says="no such table",
)
KINDS = (
    *(VALUE, CONSTRAINT, TOO_LONG, PARTITION, CHECK_OPTION, ROW_SECURITY, TRIGGER, ONE_KEY, OF_TABLE),
    *(TIME_OUT, CONNECTION, LOCK, STORAGE, READ_ONLY, RIGHT, GONE),
)

_SQLITE_ERROR = 1
_OUTAGES = (TIME_OUT, CONNECTION, LOCK, STORAGE, READ_ONLY, RIGHT, GONE)


@dataclass(frozen=True, slots=True)
class ErrorReport:
    """What a driver reports of an error. One of the three codes is set, if the server has reported any."""

    text: str
    sqlstate: str | None = None
    number: int | None = None
    code: int | None = None
    is_verdict: bool = False
    """PostgreSQL: a policy, a CHECK OPTION, RAISE or ASSERT has refused a row, with any code."""
    in_routine: bool = False
    """PostgreSQL: a trigger or function has raised it."""

    def is_of(self, kind: RefusalKind) -> bool:
        """Return whether it is of a kind, by its code alone."""
        if self.sqlstate:
            return self.sqlstate.startswith(kind.sqlstates) if kind.sqlstates else False
        if self.number is not None:
            return self.number in kind.numbers
        if kind.sqlite_says is not None and self.code == _SQLITE_ERROR:
            return re.search(kind.sqlite_says, self.text) is not None
        return self.code in kind.codes

    @property
    def is_known(self) -> bool:
        """Return whether the server has reported a code at all."""
        return bool(self.sqlstate) or self.number is not None or self.code is not None

    @property
    def is_outage(self) -> bool:
        """Return whether it is not of the rows that were written, but of the database or the access to it.

        A right or a table that is missing in a trigger is one that this trigger needs for this row.
        """
        if self.is_verdict or (self.in_routine and (self.is_of(RIGHT) or self.is_of(GONE))):
            return False
        return not self.is_known or any(self.is_of(kind) for kind in _OUTAGES)

    @property
    def may_be_of_table(self) -> bool:
        """Return whether the table may be at fault, and not the row (``probe``)."""
        return not self.is_verdict and self.is_of(OF_TABLE)
