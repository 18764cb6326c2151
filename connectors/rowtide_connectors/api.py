"""The interface of a connector: options, a source, a sink.

Every technology implements these and nothing more. A position is "next offset to read",
per partition. Offsets may have holes, so they are never subtracted to count rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a connector, declared once: parsing, docs and ``connectors describe`` read it.

    ``kind`` is str, int, bool or float; ``applies_to`` is "server", "stream", "column", "table" or "polled table".
    A ``secret`` never shows in logs, errors, ``check`` or ``explain``. A ``changeable`` one affects no read row.
    """

    name: str
    kind: type
    meaning: str
    applies_to: str
    default: object = None
    required: bool = False
    secret: bool = False
    changeable: bool = False


@dataclass(frozen=True, slots=True)
class Messages:
    """Messages of one partition, in log order, as parallel columns.

    ``next_offset`` is the position after them (past any hole that follows). ``values[i]`` is None
    for a null value. ``headers`` is None where no message has any.
    """

    topic: str
    partition: int
    offsets: NDArray[np.int64]
    timestamps: NDArray[np.int64]
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    next_offset: int
    headers: Sequence[Sequence[tuple[str, bytes]] | None] | None = None
    came_from: Sequence[tuple[str, int, int]] | None = None
    """Topic, partition and offset at which each message first arrived, if they are not these."""
    damaged: Mapping[int, str] | None = None
    """Why the messages at these indexes are not whole. Their values are what could be read, or None."""


class Fetched(NamedTuple):
    """One message by itself; ``headers`` is None where it has none."""

    timestamp: int
    value: bytes | None
    key: bytes | None = None
    headers: Sequence[tuple[str, bytes | None]] | None = None


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """The range of a partition: what readers get, from ``earliest`` (inclusive) to ``end`` (exclusive).

    ``uncommitted`` counts the offsets from ``end`` on that an open transaction keeps back, also of other producers.
    A reader at ``end`` has read all that it can, but only one at ``log_end`` all that was written.
    """

    earliest: int
    end: int
    uncommitted: int = 0

    @property
    def log_end(self) -> int:
        """The offset of the next message that is written."""
        return self.end + self.uncommitted


class PartitionReader(Protocol):
    """Reads partitions of one topic from given positions; owned by one thread."""

    def poll(self, max_messages: int, timeout_s: float) -> Sequence[Messages]:
        """Return what has arrived, at most ``max_messages``; waits up to ``timeout_s`` for the first.

        At most one ``Messages`` per partition. If the position of a partition only moved over holes,
        its ``Messages`` are empty and have the new ``next_offset``.

        Raises:
          UnavailableError: the broker is down; calling again later continues without loss.
          GoneError: the position is below the earliest offset of the log, or the topic was deleted.
        """

    def pause(self, partitions: Iterable[int]) -> None:
        """Stop fetching these partitions and release their buffers."""

    def resume(self, partitions: Iterable[int]) -> None:
        """Fetch them again from their positions."""

    def close(self) -> None:
        """Release everything; idempotent."""


class TopicSource(Protocol):
    """One topic of a log-like technology."""

    @property
    def topic(self) -> str:
        """The name of the topic; of several, their names, separated by commas."""

    def ranges(self) -> Mapping[int, OffsetRange]:
        """Return the current range of every partition of the topic.

        Raises:
          UnavailableError, GoneError.
        """

    def offsets_at(self, timestamp_ms: int) -> Mapping[int, int]:
        """Return, per partition, the first offset stamped ``timestamp_ms`` or later, else its end."""

    def reader(self, positions: Mapping[int, int]) -> PartitionReader:
        """Open a reader at exactly these positions; partitions not named are not read."""

    def fetch(self, partition: int, offsets: Sequence[int]) -> Mapping[int, Fetched]:
        """Return the messages at these offsets, for error rows; a missing one is left out."""

    def has_append_times(self) -> bool:
        """Return whether the broker, not the producer, sets a message's timestamp. Raises as ``ranges``."""

    def identity(self) -> str | None:
        """Return an id that differs from that of a later topic of the same name; None if it is unknown.

        Raises:
          UnavailableError, GoneError.
        """

    def ask_identity(self, timeout_s: float) -> Callable[[], str | None]:
        """Begin to query the topic's id, and return a function that waits for the answer and returns it.

        The answer is the id at a moment after this call. A commit writes its rows in the meantime.

        Raises:
          UnavailableError, GoneError: by this call or by the function, which waits ``timeout_s`` at most.
        """

    def is_compacted(self) -> bool:
        """Return whether the log is compacted: a message may remove earlier ones of its key. Raises as ``ranges``."""

    def close(self) -> None:
        """Release its connections, not those of its readers; idempotent."""


@runtime_checkable
class WritableSource(Protocol):
    """A source that can append messages without a value, as notes about the topic."""

    def append(self, partition: int, headers: Sequence[tuple[str, bytes]], timestamp_ms: int) -> int:
        """Append a message without key and value to a partition; return its offset.

        Raises:
          UnavailableError: the broker did not take it in time.
          GoneError: the topic or the partition does not exist.
        """


@runtime_checkable
class MatchingSource(Protocol):
    """A source of the topics that match a pattern: ``ranges`` also finds new ones. Partitions keep their numbers."""

    pattern: str

    def adopt(self, topics: Mapping[int, str]) -> None:
        """Take over the topics of committed partition numbers; forget those that were found and not committed."""

    def identity_of(self, partition: int) -> str | None:
        """Return the id of the topic of a partition; raises as ``TopicSource.identity``."""


@runtime_checkable
class LoadingSource(Protocol):
    """A source whose first reader takes long to load its code."""

    def load(self) -> None:
        """Load the code ahead of time, in a separate thread, so that the first reader need not."""


@dataclass(frozen=True, slots=True)
class TableColumn:
    """One column of a target table. ``sql_type`` is the standard's spelling, such as DECIMAL(10, 2)."""

    name: str
    sql_type: str
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class TargetTable:
    """A table that rows are written to. ``key`` names PRIMARY KEY columns; empty: rows are appended.

    ``name`` is the SQL name, with its schema before a dot unless that is the default; ``options`` are the table's own.
    """

    name: str
    columns: tuple[TableColumn, ...]
    key: tuple[str, ...]
    options: Mapping[str, str] = field(default_factory=dict)


class Transaction(Protocol):
    """The writes of sinks and checkpoint in one commit, which commit together or not at all.

    It is a transaction of the database. Other effects follow it: docs/decisions/0008-sinks-and-the-commit.md.
    """

    def upsert(self, table: TargetTable, columns: Mapping[str, Sequence[object]]) -> None:
        """Insert rows, replacing those whose key exists.

        Keys are distinct within one call. Values are in row form (rows/types.py of the service), under the columns' SQL
        names. An ARRAY is a JSON array as text, with bytes in base64.

        Raises:
          RefusedRowsError: rows violate a constraint, or have values that the database cannot hold; the transaction is
            rolled back, if it is not one of ``Database.sift``.
        """

    def delete(self, table: TargetTable, keys: Mapping[str, Sequence[object]]) -> None:
        """Delete the rows of these keys."""

    def append(self, table: TargetTable, columns: Mapping[str, Sequence[object]]) -> None:
        """Insert rows into a table without a key; raises as ``upsert`` does."""

    def judges_rows(self, table: TargetTable) -> bool:
        """Return whether the database may reject a row for more than its values: constraints, triggers."""

    def reasons_of_table(self, table: TargetTable) -> frozenset[str]:
        """Return the reasons of ``RefusedRowsError`` for which it refuses any row: writes some for trial, undoes it."""

    def check(self, table: TargetTable, columns: Mapping[str, Sequence[object]]) -> None:
        """Check that the database could hold these values, writing none; raises as ``upsert`` does."""

    def compared(
        self, table: TargetTable, keys: Mapping[str, Sequence[object]]
    ) -> Sequence[Sequence[object]]:
        """Return the columns of keys so that they are equal where the database takes them for one key."""

    def rows(self, table: TargetTable) -> Iterator[tuple[object, ...]]:
        """Return all rows of a table in row form, columns as declared, in any order."""

    def form_of(self, table: TargetTable) -> Callable[[tuple[object, ...]], tuple[object, ...]]:
        """Return the function that gives a row the form in which ``rows`` returns it once it is written.

        It holds after the transaction, too. It changes texts that are stored as values (JSON) or padded (CHAR).
        """


class Database(Protocol):
    """A relational database as sink and as home of the checkpoint."""

    def begin(self, *, apart: bool = False) -> AbstractContextManager[Transaction]:
        """Open a transaction: commits on leaving the block, rolls back on an exception.

        With ``apart``, rows that the database takes only in several statements are written so.

        Raises:
          RefusedRowsError: a constraint that is checked at the commit refuses a row.
          UnavailableError: the database is down or the connection broke. If the commit itself raises
          it, the commit may have happened: the caller must read its epoch and cut to find out.
        """

    def sift(self, *, at_once: bool = False) -> AbstractContextManager[Transaction]:
        """Open a transaction that finds the rows that the database refuses; it is never committed.

        A write with such rows raises ``RefusedRowsError``, which names all of them. It has written the others,
        and the transaction stays open. The cost is in proportion to the number of refused rows. With ``at_once``,
        constraints that are else checked at the commit are checked with each statement.

        Raises:
          UnavailableError: as ``begin``.
        """

    def begin_read_only(self) -> AbstractContextManager[Transaction]:
        """Open a read-only transaction on one snapshot of the database.

        Raises:
          UnavailableError: as ``begin``.
        """

    def missing(self, tables: Sequence[TargetTable]) -> Sequence[str]:
        """Return the names of the tables that ``prepare`` would create; changes nothing.

        Raises:
          MismatchError, GoneError: as ``prepare``.
        """

    def prepare(self, tables: Sequence[TargetTable]) -> None:
        """Create the tables that are missing.

        Raises:
          MismatchError: a table has other columns or another key, or its name is ambiguous; names the difference.
          GoneError: a schema does not exist.
          DeniedError: the user lacks a right; names it.
        """

    def limit_idle(self, seconds: int) -> None:
        """Let the server, if it can, end sessions of this process that are idle in a transaction for so long."""

    def close(self) -> None:
        """Release every connection."""


class StagingTable(Protocol):
    """A table beside one target table, filled by many processes until a transaction moves its rows."""

    def create(self) -> None:
        """Create it empty, replacing a stage of that name.

        Raises:
          UnavailableError.
        """

    def insert(self, part: str, columns: Mapping[str, Sequence[object]]) -> None:
        """Stage rows under ``part``; values are as for ``Transaction.upsert``.

        Raises:
          RefusedRowsError: a row has a value that the database cannot hold.
          UnavailableError.
        """

    def delete(self, part: str, keys: Mapping[str, Sequence[object]]) -> None:
        """Stage keys of rows to delete."""

    def move(self, transaction: Transaction, parts: Sequence[str]) -> None:
        """Apply the staged rows of these parts, each key at most once, and drop the stage.

        Raises:
          RefusedStageError: the target does not take a row; the transaction must be rolled back.
        """

    def drop(self) -> None:
        """Drop it; idempotent."""


@runtime_checkable
class StagingDatabase(Protocol):
    """A database that may have staging tables."""

    def stage(self, table: TargetTable, name: str) -> StagingTable | None:
        """Return the stage of this name for a table; None if this kind of database has no stages."""

    def drop_stages(self, prefix: str) -> None:
        """Drop every stage whose name has this prefix: those of processes that died."""


class Guarantee(Enum):
    """The delivery guarantee of a source or a sink; users read the value."""

    IN_COMMIT = "exactly once: rows and positions commit in one transaction"
    BY_COMMIT_NUMBER = "exactly once: the receiver has the number of its last message, and takes none twice"
    IN_TRANSACTIONS = "exactly once for readers of committed messages: isolation.level=read_committed"
    AT_LEAST_ONCE = "at least once: a row may be repeated after a failure"
    LISTED = "exactly once: files get their order in the checkpoint's database before they are read"
    LOGGED = "exactly once: changes are logged in the checkpoint's database before they are processed"


class SourceConnector(Protocol):
    """The source of a technology: its foreign streams."""

    options: Sequence[Option]
    """Those of a "stream"."""
    guarantee: Guarantee

    def check_options(self, stream: Mapping[str, str]) -> None:
        """Read the options of a stream against their declarations; opens nothing.

        Raises:
          OptionError: names the option and says what is allowed.
        """

    def open(self, server: Mapping[str, str], stream: Mapping[str, str]) -> TopicSource:
        """Return the source of a foreign stream from its server's and its own options.

        Raises:
          OptionError: names the option and says what is allowed.
        """


class TableRead(Protocol):
    """The rows of one consistent read of a table."""

    @property
    def reached(self) -> str | None:
        """The greatest value of the column that orders changes, for a later ``read``; None: it has none."""

    def chunks(self) -> Iterator[Sequence[tuple[object, ...]]]:
        """Yield the rows in the order of their keys, with the declared columns.

        Values are those of JSON (None, bool, int, float, str), Decimal, or bytes.

        Raises:
          UnavailableError, MismatchError.
        """


class PolledTable(Protocol):
    """A table of a technology without positions, which is read again and again."""

    name: str
    """The name of the table in its database."""

    def check(self) -> str | None:
        """Check that the table fits its declaration; return a remark about the cost of polls, if any.

        Raises:
          GoneError: the table does not exist.
          MismatchError: a column is missing, or its type does not fit; names all differences.
          UnavailableError: the database is down; a DeniedError names the missing right.
        """

    def read(self, since: str | None) -> AbstractContextManager[TableRead]:
        """Read the rows that may have changed since a read reached ``since``; None: all rows.

        Raises:
          As ``check``.
        """

    def close(self) -> None:
        """Release every connection; idempotent."""


class PolledConnector(Protocol):
    """The tables that a technology offers as sources of engine tables."""

    options: Sequence[Option]
    """Those of a "polled table"."""
    guarantee: Guarantee

    def check_options(self, table: Mapping[str, str]) -> None:
        """Read the options of a table against their declarations; opens nothing.

        Raises:
          OptionError: names the option and says what is allowed.
        """

    def open(self, server: Mapping[str, str], table: TargetTable) -> PolledTable:
        """Return a table; it connects at its first use.

        Raises:
          OptionError: names the option and says what is allowed.
        """


class SinkConnector(Protocol):
    """The sink of a technology: its foreign tables."""

    options: Sequence[Option]
    """Those of a "table"."""
    guarantee: Guarantee

    def check_options(self, table: Mapping[str, str]) -> None:
        """Read the options of a table against their declarations; opens nothing.

        Raises:
          OptionError: names the option and says what is allowed.
        """

    def open(self, server: Mapping[str, str]) -> Database:
        """Return the database of a server.

        Raises:
          OptionError: names the option and says what is allowed.
        """


@dataclass(frozen=True, slots=True)
class OutgoingMessage:
    """A message for a topic. ``number`` is its place in the outbox; ``partition`` None: by the key.

    ``value`` None: the message has no value, which deletes the row of its key.
    """

    number: int
    value: bytes | None
    timestamp_ms: int
    key: bytes | None = None
    headers: Sequence[tuple[str, bytes]] = ()
    partition: int | None = None


class MessageSink(Protocol):
    """Sends the messages of one outbox to one topic. One thread uses it at a time.

    It follows the commits of the database: docs/decisions/0010-the-outbox.md.
    """

    def check(self) -> None:
        """Check that the topic exists and takes messages of the allowed size. Disturbs no other sender.

        Raises:
          UnavailableError, DeniedError, GoneError, MismatchError.
        """

    def begin(self) -> int | None:
        """Take over from earlier senders of the same outbox, and return the number of the last message sent.

        No other sender can complete a ``send`` afterwards, and every ``send`` that was completed is in the
        number. None: no number is stored at the receiver, which is ``Guarantee.AT_LEAST_ONCE``.

        Raises:
          UnavailableError, DeniedError, GoneError.
        """

    def send(self, messages: Sequence[OutgoingMessage], number: int) -> None:
        """Send messages in order, and store ``number``, that of the last one, with them: all or nothing.

        With ``Guarantee.AT_LEAST_ONCE`` no number is stored, and a failure may leave some of them sent.
        Without messages only the number is stored.

        Raises:
          UnavailableError: also if another sender took over. Whether it was done is unknown: call ``begin``.
          RefusedMessageError: the receiver does not take one of the messages; nothing was sent.
        """

    def close(self) -> None:
        """Release its connections; idempotent."""


@runtime_checkable
class SmallBatchSink(Protocol):
    """A message sink that is given at most ``most_messages`` at once, because a failure repeats all of them."""

    most_messages: int


class MessageSinkConnector(Protocol):
    """The sink of a technology for foreign streams that pumps write to."""

    options: Sequence[Option]
    """Those of a "stream"."""
    guarantee: Guarantee
    """The default one; an option of a stream may lower it."""

    def check_options(self, stream: Mapping[str, str]) -> None:
        """Read the options of a stream against their declarations; opens nothing.

        Raises:
          OptionError: names the option and says what is allowed.
        """

    def guarantee_of(self, stream: Mapping[str, str]) -> Guarantee:
        """Return the guarantee of a stream with these options."""

    def open(
        self, server: Mapping[str, str], stream: Mapping[str, str], sender: str, max_message_bytes: int
    ) -> MessageSink:
        """Return the sink of a stream.

        ``sender`` names its outbox, among all that write to this technology. ``max_message_bytes`` is the most that
        key, value and headers of one message have together.

        Raises:
          OptionError: names the option and says what is allowed.
        """


class Connector(Protocol):
    """One technology. Entry point group ``rowtide.connectors``, named as the wrapper in lower case.

    It offers a source, tables to poll, sinks, or some of them; the others are None, as a subclass has them.
    """

    name: str
    description: str
    options: Sequence[Option]
    """Those of a "server"."""
    client_options: str | None = None
    """The further options of a server that the underlying client takes."""
    source: SourceConnector | None = None
    sink: SinkConnector | None = None
    polled: PolledConnector | None = None
    message_sink: MessageSinkConnector | None = None

    def check_options(self, server: Mapping[str, str]) -> None:
        """Read the options of a server against their declarations; opens nothing.

        Raises:
          OptionError: names the option and says what is allowed.
        """

    def check(self, server: Mapping[str, str]) -> str:
        """Try a connection; return one line that describes the server.

        Raises:
          OptionError, UnavailableError.
        """
