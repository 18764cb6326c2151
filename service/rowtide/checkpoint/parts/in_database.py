"""A store of state in parts in the database of the checkpoint, for small states: no folder has to be shared."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import sqlalchemy as sa

from rowtide.checkpoint.migrate import check_version
from rowtide.checkpoint.parts.store import IN_DATABASE, new_folder
from rowtide.checkpoint.tables import Tables, tables_of
from rowtide_connectors.api import Database
from rowtide_connectors.errors import GoneError
from rowtide_connectors.rdbms.transaction import sql_connection
from rowtide_connectors.registry import find_sink

_NAMES_AT_ONCE = 500
_FOLDER = "folder"
"""The first word of the name of the entry that has the folder of a pipeline."""


class DatabaseParts:
    """The blobs are rows of a table of the checkpoint, one for each piece; see ``store.PartStore``.

    Args:
      database: that of the checkpoint, whose tables exist.
    """

    where = IN_DATABASE

    def __init__(self, database: Database) -> None:
        self._database = database

    def write(self, name: str, pieces: Iterable[bytes]) -> None:
        """Store a blob, in one transaction."""
        with self._begun() as connection:
            table = tables_of(connection.dialect.name).state_parts
            for chunk, content in enumerate(pieces):
                connection.execute(sa.insert(table).values(name=name, chunk=chunk, content=content))

    def read(self, name: str) -> Generator[bytes]:
        """Read a blob, each piece by itself."""
        with self._begun() as connection:
            table = tables_of(connection.dialect.name).state_parts
            wanted = sa.select(table.c.content).where(table.c.name == name)
            chunk = 0
            while (content := connection.execute(wanted.where(table.c.chunk == chunk)).scalar()) is not None:
                yield bytes(content)
                chunk += 1
            if not chunk:
                raise GoneError(f'"{name}" is not in the table of state in parts')

    def names(self, folder: str) -> Sequence[str]:
        """List the blobs of a folder."""
        with self._begun() as connection:
            table = tables_of(connection.dialect.name).state_parts
            mine = sa.and_(_is_in(table, folder), table.c.chunk == 0)
            wanted = sa.select(table.c.name).where(mine).order_by(table.c.name)
            return list(connection.execute(wanted).scalars())

    def drop(self, names: Collection[str]) -> None:
        """Remove blobs."""
        gone = sorted(names)
        with self._begun() as connection:
            table = tables_of(connection.dialect.name).state_parts
            for start in range(0, len(gone), _NAMES_AT_ONCE):
                some = gone[start : start + _NAMES_AT_ONCE]
                connection.execute(sa.delete(table).where(table.c.name.in_(some)))

    @contextmanager
    def _begun(self) -> Iterator[sa.Connection]:
        with self._database.begin() as transaction:
            connection = sql_connection(transaction)
            check_version(connection)
            yield connection


@dataclass(frozen=True, slots=True)
class PartsOfServer:
    """The same store for tasks: each call opens the database by its options, which hold a password."""

    wrapper: str
    options: Mapping[str, str] = field(repr=False)

    @property
    def where(self) -> str:
        """The place of the store."""
        return IN_DATABASE

    def write(self, name: str, pieces: Iterable[bytes]) -> None:
        """Store a blob."""
        with self._opened() as parts:
            parts.write(name, pieces)

    def read(self, name: str) -> Generator[bytes]:
        """Read a blob."""
        with self._opened() as parts:
            yield from parts.read(name)

    def names(self, folder: str) -> Sequence[str]:
        """List the blobs of a folder."""
        with self._opened() as parts:
            return parts.names(folder)

    def drop(self, names: Collection[str]) -> None:
        """Remove blobs."""
        with self._opened() as parts:
            parts.drop(names)

    @contextmanager
    def _opened(self) -> Iterator[DatabaseParts]:
        database = find_sink(self.wrapper).open(dict(self.options))
        try:
            yield DatabaseParts(database)
        finally:
            database.close()


def folder_of(connection: sa.Connection, tables: Tables, pipeline: str) -> str:
    """Return the folder of a pipeline in any store, which the database remembers.

    It is a random one: databases with pipelines of one name may share a store.
    """
    folder = known_folder(connection, tables, pipeline)
    if folder is None:
        folder = new_folder()
        entry = {"name": _entry(pipeline), "chunk": 0, "content": folder.encode()}
        connection.execute(sa.insert(tables.state_parts).values(entry))
    return folder


def known_folder(connection: sa.Connection, tables: Tables, pipeline: str) -> str | None:
    """Return the folder of a pipeline; None: it has none yet."""
    table = tables.state_parts
    wanted = sa.select(table.c.content).where(table.c.name == _entry(pipeline), table.c.chunk == 0)
    found = connection.execute(wanted).scalar()
    return None if found is None else bytes(found).decode()


def drop_parts(connection: sa.Connection, tables: Tables, pipeline: str) -> None:
    """Drop the blobs of a pipeline that are in the database, and its folder."""
    table = tables.state_parts
    folder = known_folder(connection, tables, pipeline)
    if folder is not None:
        for which in (_is_in(table, folder), table.c.name == _entry(pipeline)):
            connection.execute(sa.delete(table).where(which))


def _entry(pipeline: str) -> str:
    return f"{_FOLDER} {pipeline}"


def _is_in(table: sa.Table, folder: str) -> sa.ColumnElement[bool]:
    return table.c.name.startswith(f"{folder}/", autoescape=True)
