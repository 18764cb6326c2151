"""The files that a foreign stream reads, in the order in which it reads them, in the checkpoint's database.

A file gets its number in a transaction of its own, under the epoch of the process, before anything is read of it.
Numbers have no gaps and never change, so an offset means the same row in every run
(docs/decisions/0018-files-as-sources.md).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import sqlalchemy as sa

from rowtide.checkpoint.migrate import check_version
from rowtide.checkpoint.statements import check_epoch, own_target
from rowtide.checkpoint.tables import SINCE_FILES, Tables, tables_of
from rowtide_connectors.api import Database, TableColumn
from rowtide_connectors.listed import FoundFile, ListedFile
from rowtide_connectors.rdbms.transaction import sql_connection

_COLUMNS = (
    TableColumn("pipeline", "VARCHAR", False),
    TableColumn("relation", "VARCHAR", False),
    TableColumn("number", "BIGINT", False),
    TableColumn("name", "VARCHAR", False),
    TableColumn("partition", "INTEGER", False),
    TableColumn("size_bytes", "BIGINT", False),
    TableColumn("modified", "BIGINT", False),
    TableColumn("epoch", "BIGINT", False),
)


class FileList:
    """The files of ``relation`` of ``pipeline``; see ``listed.FileLog``. Without ``epoch``, it is only read.

    Args:
      database: of the checkpoint.
      pipeline: the name of the pipeline.
      relation: the foreign stream.
      epoch: that of the process that may add files.
      reach: called with "files.before_list" and "files.after_list" around the transaction that adds files.
    """

    def __init__(
        self,
        database: Database,
        pipeline: str,
        relation: str,
        epoch: int | None = None,
        reach: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._database = database
        self._pipeline = pipeline
        self._relation = relation
        self._epoch = epoch
        self._reach = reach

    @property
    def takes_files(self) -> bool:
        """Whether it was opened under an epoch."""
        return self._epoch is not None

    def read(self, begin: int) -> Sequence[ListedFile]:
        """Return the files with number ``begin`` and greater ones, in order.

        Raises:
          UnavailableError.
        """
        with self._database.begin() as transaction:
            connection = sql_connection(transaction)
            version = check_version(connection)
            if version is None or version < SINCE_FILES:
                return ()
            files = tables_of(connection.dialect.name).listed_files
            rows = connection.execute(
                sa.select(
                    files.c.number, files.c.name, files.c.partition, files.c.size_bytes, files.c.modified
                )
                .where(
                    files.c.pipeline == self._pipeline,
                    files.c.relation == self._relation,
                    files.c.number >= begin,
                )
                .order_by(files.c.number)
            )
            return [ListedFile(number, FoundFile(*file)) for number, *file in rows]

    def add(self, begin: int, files: Sequence[FoundFile]) -> None:
        """Add files with the numbers from ``begin`` on.

        Raises:
          SupersededError: another process took the pipeline; nothing was added.
          UnavailableError: they were added or not: read the list again.
        """
        assert self._epoch is not None
        self._reach("files.before_list")
        count = len(files)
        with self._database.begin() as transaction:
            connection = sql_connection(transaction)
            check_epoch(connection, tables_of(connection.dialect.name), self._pipeline, self._epoch)
            transaction.append(
                own_target(connection, "listed_files", _COLUMNS),
                {
                    "pipeline": [self._pipeline] * count,
                    "relation": [self._relation] * count,
                    "number": list(range(begin, begin + count)),
                    "name": [each.name for each in files],
                    "partition": [each.partition for each in files],
                    "size_bytes": [each.size for each in files],
                    "modified": [each.modified_ms for each in files],
                    "epoch": [self._epoch] * count,
                },
            )
        self._reach("files.after_list")


def drop_lists(
    connection: sa.Connection, tables: Tables, pipeline: str, relations: Sequence[str] | None = None
) -> None:
    """Drop the lists of files of a pipeline; with ``relations`` only those of these."""
    files = tables.listed_files
    own = [files.c.pipeline == pipeline]
    if relations is not None:
        own.append(files.c.relation.in_(relations))
    connection.execute(sa.delete(files).where(*own))
