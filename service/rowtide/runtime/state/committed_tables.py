"""The foreign tables of a pipeline as queries read them: the rows that are committed, of one moment.

They are read from the database, so they are also there in replicas, while Spark runs the pipeline, and while nothing
runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from typing import Self

from rowtide.errors import RejectedRowError, StatementError
from rowtide.flow.flow import Emitted, Flow
from rowtide.plan.nodes import CommittedTable, Node, nodes_below
from rowtide.plan.plan import ForeignTable, Plan, Server
from rowtide.rows.rowop import Opcode, Row, TimedRow
from rowtide.rows.tray import Tray
from rowtide.rowtime.bound import EARLIEST, LATEST, Bound
from rowtide.runtime.state.declared_rows import declared_rows
from rowtide.runtime.state.output import target_table
from rowtide_connectors.api import Transaction
from rowtide_connectors.errors import GoneError
from rowtide_connectors.registry import find_sink

ROWS_AT_ONCE = 2_000
"""Rows that a query takes at once: it may have enough after them."""


@dataclass(frozen=True, slots=True)
class CommittedTables:
    """The foreign tables that a query reads, by their servers, with the options that are in effect.

    A process of a query holds them. So they have no server, with its password, that the query does not read from.
    """

    tables: tuple[tuple[Server, tuple[ForeignTable, ...]], ...]

    @classmethod
    def of(cls, plan: Plan, node: Node) -> Self:
        """Return the foreign tables of a plan with its effective options (``configured``) that a query reads."""
        read = {each.relation for each in nodes_below(node) if isinstance(each, CommittedTable)}
        tables = [each for each in plan.foreign_tables if each.name in read]
        of_servers = [
            (server, tuple(each for each in tables if each.server == server.name)) for server in plan.servers
        ]
        return cls(tuple((server, own) for server, own in of_servers if own))

    def insert(self, node: Node, flow: Flow) -> Iterator[Emitted]:
        """Insert the rows of the tables into the flow of the query, and yield what comes out.

        Raises:
          StatementError: a table does not exist yet, or has a row that does not fit its declaration.
          OptionError, MismatchError, UnavailableError: as ``api.Database.begin_read_only``.
        """
        read = {each.relation: each for each in nodes_below(node) if isinstance(each, CommittedTable)}
        for server, tables in self.tables:
            with (
                closing(find_sink(server.wrapper).open(dict(server.options))) as database,
                database.begin_read_only() as transaction,
            ):
                for table in tables:
                    rows, origin = _rows(table, transaction), flow.origin(table.name, 0)
                    for tray in _trays(read[table.name], rows, origin):
                        flow.insert(table.name, 0, tray)
                        yield flow.drain()
                    flow.bound(table.name, 0, Bound(LATEST))
                    yield flow.drain()


def _rows(table: ForeignTable, transaction: Transaction) -> Iterator[Row]:
    """Yield the rows of a table in row form.

    Raises:
      StatementError: the table does not exist.
      RejectedRowError: a value is none of its declared type.
    """
    try:
        yield from declared_rows(table, transaction.rows(target_table(table)))
    except GoneError as error:
        raise StatementError(
            error.message, hint="`rowtide run` creates it when it starts the pipeline for the first time."
        ) from error


def _trays(table: CommittedTable, rows: Iterable[Row], origin: int) -> Iterator[Tray]:
    """Yield rows as trays of INSERTs, which exist from the first rowtime on."""
    waiting, count = iter(rows), 0
    while True:
        try:
            tray = Tray.from_rows(
                table.row_type,
                [
                    TimedRow(EARLIEST, origin, counter, Opcode.INSERT, row)
                    for counter, row in enumerate(islice(waiting, ROWS_AT_ONCE), count)
                ],
            )
        except (RejectedRowError, ValueError, TypeError, ArithmeticError) as error:
            # Others may have written what is no value of the declared type, such as a text that is no date.
            raise StatementError(
                f'table "{table.relation}" has a row that does not fit its declaration: {error}',
                hint="Correct the row in the database, or declare a column that takes it.",
            ) from error
        if not len(tray):
            return
        count += len(tray)
        yield tray
