"""Statements that are sent to a running pipeline: INSERT, UPDATE, DELETE, TRUNCATE and MERGE of engine tables.

See docs/sql/tables.md#statements-sent-to-a-running-service.

They are executed over the rows that the tables have, and give the rows that change. Statements of one text are
executed in order, each over the result of those before, and apply together or not at all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from rowtide.errors import SourceSpan, StatementError
from rowtide.rows.rowop import Row
from rowtide.rows.types import RowType
from rowtide.sql.catalog.system import refuse_change
from rowtide.sql.definitions.objects import Catalog, Key, Origin, TableDefinition, relation_name
from rowtide.sql.functions.binding import bound
from rowtide.sql.grammar.statement_grammar import parse
from rowtide.sql.grammar.statements import InsertValues, MergeInto, RowChange, Statement
from rowtide.sql.grammar.syntax import QualifiedName
from rowtide.sql.located import located
from rowtide.sql.row_changes import CHANGED, with_last_rows, with_row_change
from rowtide.sql.statements.define import define

MAX_ROWS = 200_000
"""Maximum rows of the tables that a text names: a statement reads all of them while the pipeline waits."""
MAX_PAIRS = 2_000_000
"""Maximum pairs of rows that a MERGE compares meanwhile."""

Contents = Callable[[str], Sequence[Row]]
"""Returns the rows of an engine table, by its catalog name."""


@dataclass(frozen=True, slots=True)
class TableRowsChanged:
    """The rows of one table that statements have changed: an updated row is deleted and inserted."""

    row_type: RowType
    deleted: tuple[Row, ...]
    inserted: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Executed:
    """The result of a text: the changes of each table, and what each statement did.

    ``counts`` are the numbers of its rows, ``did`` has texts such as "2 rows updated".
    """

    changes: Mapping[str, TableRowsChanged]
    counts: tuple[int, ...]
    did: tuple[str, ...]


class SentStatements:
    """The statements of one text, resolved.

    Raises:
      StatementError: one is not a statement that changes rows of engine tables; with its place and the text.
    """

    def __init__(self, catalog: Catalog, text: str) -> None:
        self._catalog = catalog
        self._text = text
        with located(text, None):
            self._statements = tuple(_accepted(catalog, each) for each in parse(text))
            if not self._statements:
                raise StatementError("expected a statement", span=SourceSpan(1, 1), hint=_WHAT)
            self._targets = tuple(self._table(each.target) for each in self._statements)
            sources = [self._table(name) for each in self._statements for name in _sources(each)]
            self._tables = tuple(dict.fromkeys([*self._targets, *sources]))
            # Types and names are checked before the statement is sent: over no rows, everything is planned.
            self._run(lambda _: ())

    @property
    def targets(self) -> Collection[str]:
        """The catalog names of the tables that may change."""
        return tuple(dict.fromkeys(map(relation_name, self._targets)))

    def execute(self, contents: Contents) -> Executed:
        """Execute the statements over the rows that the tables have.

        Raises:
          StatementError: an expression fails, a table would reject a row, or there are too many rows.
        """
        with located(self._text, None):
            return self._run(contents)

    def _table(self, name: QualifiedName) -> Key:
        return self._catalog.find(name, "table")[0]

    def _run(self, contents: Contents) -> Executed:
        catalog, before = self._catalog, dict[Key, tuple[Row, ...]]()
        for key in self._tables:
            found = catalog.objects[key]
            if isinstance(found, TableDefinition) and found.server is None:
                before[key] = tuple(contents(relation_name(key)))
                catalog = catalog.define(key, replace(found, rows=before[key]))
        if sum(map(len, before.values())) > MAX_ROWS:
            raise StatementError(
                f"the tables have more than {MAX_ROWS} rows",
                span=self._statements[0].place,
                hint="Change large tables in the pipeline file, or fill them from a topic.",
            )
        counts, did = [], []
        for each in self._statements:
            catalog, count, verb = _executed(catalog, each, self._text)
            counts.append(count)
            did.append(f"{count} {'row' if count == 1 else 'rows'} {verb}")
        changes = {}
        for key in dict.fromkeys(self._targets):
            found = catalog.objects[key]
            assert isinstance(found, TableDefinition)
            changes[relation_name(key)] = _difference(found, before[key], found.rows)
        return Executed(changes, tuple(counts), tuple(did))


_WHAT = "INSERT INTO .. VALUES, UPDATE, DELETE, TRUNCATE and MERGE of engine tables can be sent to a service."


def _accepted(catalog: Catalog, statement: Statement) -> InsertValues | RowChange:
    if not isinstance(statement, InsertValues | RowChange):
        kind = type(statement).__name__
        shown = "a query" if kind == "QueryStatement" else "this statement"
        hint = (
            "`rowtide sql --service` runs queries."
            if kind == "QueryStatement"
            else "Change the pipeline file, and run `rowtide apply`."
        )
        raise StatementError(
            f"{shown} does not change rows of an engine table",
            span=getattr(statement, "place", None),
            hint=f"{_WHAT} {hint}",
        )
    refuse_change(statement)
    return bound(statement, catalog.declared)


def _sources(statement: InsertValues | RowChange) -> Iterable[QualifiedName]:
    """Return the tables that a statement reads beside its target."""
    if isinstance(statement, MergeInto) and isinstance(statement.source, QualifiedName):
        yield statement.source


def _executed(catalog: Catalog, statement: InsertValues | RowChange, text: str) -> tuple[Catalog, int, str]:
    if not isinstance(statement, InsertValues):
        catalog, count = with_row_change(catalog, statement, MAX_PAIRS)
        return catalog, count, CHANGED[type(statement)]
    catalog = define(catalog, statement, Origin(text, None, statement.place))
    key, _ = catalog.find(statement.target, "table")
    return with_last_rows(catalog, key, statement.place), len(statement.rows), "inserted"


def _difference(table: TableDefinition, before: Sequence[Row], after: Sequence[Row]) -> TableRowsChanged:
    """Return the rows that are gone and those that are new. All rows go before one comes (UNIQUE)."""
    if table.key:
        held = {tuple(row[at] for at in table.key): row for row in before}
        wanted = {tuple(row[at] for at in table.key): row for row in after}
        gone = [row for key, row in held.items() if wanted.get(key) != row]
        come = [row for key, row in wanted.items() if held.get(key) != row]
    else:
        gone = list((Counter(before) - Counter(after)).elements())
        come = list((Counter(after) - Counter(before)).elements())
    return TableRowsChanged(table.row_type, tuple(gone), tuple(come))
