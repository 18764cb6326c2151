"""``rowtide.Pipeline``: a pipeline in this process, for notebooks and tests. Nothing is committed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from rowtide.checkpoint.ledger import StoredError
from rowtide.clock import Clock, SystemClock
from rowtide.config.reading import load_settings
from rowtide.embedded.query import pipeline_text, rendered
from rowtide.embedded.result import Result
from rowtide.embedded.rows_in import input_rows
from rowtide.embedded.topics import TopicReading
from rowtide.embedded.values import milliseconds
from rowtide.errors import BoundRegressionError, StatementError
from rowtide.flow.flow import Emitted, Flow
from rowtide.operators.contract import Fault
from rowtide.rows.rowop import Opcode, TimedRow
from rowtide.rows.tray import Tray
from rowtide.rows.types import RowType
from rowtide.rowtime.bound import EARLIEST, Bound
from rowtide.runtime.configured import configured
from rowtide.runtime.query.listing import Contents
from rowtide.runtime.recovery.begin import parse_begin
from rowtide.runtime.state.deadletters import RecentMessages, error_rows, error_values
from rowtide.runtime.state.output import TableOutput, last_of_each
from rowtide.sql.catalog.system import ERROR_ROWS
from rowtide.sql.pipeline import SqlSession
from rowtide.testing.entrance import ScenarioEntrance
from rowtide.testing.error_rows import ERRORS, settled
from rowtide.testing.relations import Relations
from rowtide.testing.rows import InputRow, RelationShape
from rowtide.testing.source_log import Bounds, LogRows, SourceLog
from rowtide_connectors.api import Fetched


class EmbeddedPipeline:
    """The relations and pumps of a pipeline, running in memory; all rows that come out stay until it is closed.

    Rows that are inserted are processed at once, as the steps of a scenario are. A foreign stream takes inserted rows
    instead of the messages of its topic; ``run_until_end`` reads the topics of all others.

    Args:
      text: the statements.
      file: the name of their file, for errors; Python modules of the pipeline are looked for in its folder.
      config: the settings, as ``rowtide run --config``.
      begin: where to start reading topics: ``earliest``, or a time.
      clock: the time of rows that are inserted without ROWTIME.

    Raises:
      StatementError: a statement or a setting is refused; ``render()`` shows the place.
    """

    def __init__(
        self,
        text: str,
        *,
        file: str | None = None,
        config: str | Path | None = None,
        begin: str = "earliest",
        clock: Clock | None = None,
    ) -> None:
        with rendered():
            settings = load_settings(None if config is None else Path(config))
            self._begin = parse_begin(begin)
            session = SqlSession(takes_rows=True)
            session.feed(text, file=file)
            self._plan = configured(session.plan, settings)
        self._clock = clock or SystemClock()
        self._relations = Relations(self._plan)
        self._wanted = self._relations.wanted(self._relations.names(), with_unread=True)
        self._log = SourceLog()
        self._entries: list[LogRows | Bounds] = []
        self._inserted: set[str] = set()
        self._bounds: dict[str, int] = {}
        self._topics: TopicReading | None = None
        self._start({})
        for each in session.arrived:
            rows = [InputRow(rowtime, row) for rowtime, row in each.at(self._clock.now_ms())]
            self._take(each.relation, rows)

    @classmethod
    def from_file(
        cls, path: str | Path, *, config: str | Path | None = None, begin: str = "earliest"
    ) -> Self:
        """Run the pipeline of a file.

        Raises:
          StatementError: it cannot be read, or a statement or setting is refused.
        """
        with rendered():
            text, file = pipeline_text(Path(path))
        return cls(text, file=file, config=config, begin=begin)

    @classmethod
    def from_text(cls, text: str, *, config: str | Path | None = None, begin: str = "earliest") -> Self:
        """Run the pipeline of these statements.

        Raises:
          StatementError: a statement or setting is refused.
        """
        return cls(text, config=config, begin=begin)

    def insert(self, relation: str, rows: object = (), *, bound: object = None) -> None:
        """Insert rows into a stream, foreign stream or engine table, then set its rowtime bound, and process all.

        Args:
          relation: its name as in SQL.
          rows: mappings, or sequences of ROWTIME and the columns; a table of Arrow; a DataFrame.
          bound: the least ROWTIME of later rows: a datetime with a zone, or text. Without rows, ``relation`` may also
            be a view that has a clock of its own.

        Raises:
          StatementError: a name, column, value or time is wrong, or the bound goes back; nothing is inserted. Late and
            rejected rows are no errors of the call: ``errors`` has them.
        """
        with rendered():
            shape = self._relations.shape(relation)
            name = shape.name
            if self._topics is not None and name in self._topics:
                raise StatementError(
                    f'rows cannot be inserted into "{name}": its topic has been read',
                    hint="Insert rows before run_until_end(), which then does not read the topic.",
                )
            inputs = input_rows(shape, rows)
            promise = None if bound is None else self._promise(name, bound)
            self._take(name, inputs)
            if promise is not None:
                self._bounds[name] = promise.bound.rowtime
                self._enter(promise)

    def run_until_end(self) -> None:
        """Read the topics of all foreign streams without inserted rows, up to the ends that they have now.

        Each call continues where the last one ended. The end of a topic is not a bound: what waits for one, waits.

        Raises:
          OptionError, UnavailableError: an option is wrong, or a broker or database is down.
        """
        with rendered():
            if self._topics is None:
                self._topics = self._opened()
            for emitted in self._topics.read(self._flow, self._topics.ends()):
                self._record(emitted)

    def table(self, name: str) -> Result:
        """Return the current contents of an engine table, a foreign table or a view of tables.

        Of a foreign table it is what a database would hold. Rows are in the order of their last change.

        Raises:
          StatementError: the relation does not exist, or is a stream.
        """
        with rendered():
            shape = self._relations.shape(name)
            found = shape.name
            if found == ERRORS:
                return self.errors()
            if not shape.is_changes:
                raise StatementError(
                    f'"{found}" is a stream: it has no contents',
                    hint=f'rows("{found}") returns what came out of it.',
                )
            contents = _contents(self._given(shape), self._relations.key(found))
            return Result(contents, bound=self._bound_of(found))

    def rows(self, name: str) -> Result:
        """Return all rows that came out of a stream, view or table so far; of a table they are changes.

        Raises:
          StatementError: the relation does not exist.
        """
        with rendered():
            shape = self._relations.shape(name)
            if shape.name == ERRORS:
                return self.errors()
            bound = self._bound_of(shape.name)
            return Result(self._given(shape), timed=True, changes=shape.is_changes, bound=bound)

    def errors(self) -> Result:
        """Return all late and rejected rows so far, with the columns of SYS.ERRORS."""
        made = error_rows(
            self._faults,
            source_of=self._flow.source_of,
            topics=self._relations.topics(),
            recent=RecentMessages(),
            fetch=self._fetched,
        )
        now = self._clock.now_ms()
        rows = [error_values(StoredError(at, row, 0, now)) for at, row in enumerate(made, start=1)]
        return Result(_tray(ERROR_ROWS, rows))

    def close(self) -> None:
        """Release the connections to topics."""
        if self._topics is not None:
            self._topics.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _start(self, partitions: Mapping[str, Sequence[int]]) -> None:
        """Begin with no row, and with these partitions of topics; an inserted stream has partition 0."""
        self._partitions = {**self._relations.partitions({}), **partitions}
        self._flow = Flow(self._wanted, self._partitions)
        self._outputs: dict[str, list[Tray]] = {}
        self._faults: list[Fault] = []
        self._record(self._flow.drain())

    def _opened(self) -> TopicReading:
        """Connect to the topics, and begin again with their partitions and the same rows."""
        streams = [each for each in self._plan.foreign_streams if each.name not in self._inserted]
        topics = TopicReading(self._plan, streams, self._begin)
        try:
            ends = topics.ends()
        except BaseException:
            topics.close()
            raise
        # Partitions are known only now, and no row must have passed a merge that does not know them.
        self._start({name: tuple(sorted(held)) for name, held in ends.items()})
        for entry in self._entries:
            self._feed(entry)
        self._entries = []
        return topics

    def _promise(self, name: str, bound: object) -> Bounds:
        try:
            rowtime = milliseconds(bound)
        except ValueError as error:
            raise StatementError(f'{error}, as bound of "{name}"') from error
        held = self._bounds.get(name, EARLIEST)
        if rowtime < held:
            raise BoundRegressionError(name, 0, held=held, offered=rowtime)
        return Bounds(name, self._relations.bounded_partitions(name, self._partitions), Bound(rowtime))

    def _take(self, name: str, rows: Sequence[InputRow]) -> None:
        """Insert rows; none into a foreign stream is enough so that its topic is not read."""
        if rows or self._relations.entrance(name) is not None:
            entrance = ScenarioEntrance(self._relations, self._log)
            self._enter(entrance.rows(name, 0, rows, self._clock.now_ms()))
            self._inserted.add(name)

    def _enter(self, entry: LogRows | Bounds) -> None:
        if self._topics is None:
            self._entries.append(entry)
        self._feed(entry)

    def _feed(self, entry: LogRows | Bounds) -> None:
        if isinstance(entry, Bounds):
            # All partitions of a topic, also those that were not known when the bound was set.
            for partition in self._relations.bounded_partitions(entry.relation, self._partitions):
                self._flow.bound(entry.relation, partition, entry.bound)
        else:
            origin = self._flow.origin(entry.relation, entry.partition)
            signed = np.full(len(entry.tray), origin, dtype=np.int32)
            self._flow.insert(entry.relation, entry.partition, replace(entry.tray, origin=signed))
            self._faults += [replace(fault, origin=origin) for fault in entry.faults]
        self._record(self._flow.drain())

    def _record(self, emitted: Emitted) -> None:
        faults = list(emitted.faults)
        for relation, trays in emitted.outputs.items():
            given: Iterable[Tray] = trays
            table = self._relations.foreign_table(relation)
            if table is not None:
                sink = TableOutput(table)
                faults += sink.add(trays)
                writes = sink.take()
                given = () if writes is None else (writes.tray,)
            self._outputs.setdefault(relation, []).extend(tray for tray in given if len(tray))
        self._faults += settled(faults)

    def _given(self, shape: RelationShape) -> Tray:
        return Tray.concat([Tray.empty(shape.row_type), *self._outputs.get(shape.name, ())])

    def _bound_of(self, name: str) -> int | None:
        return self._flow.promised().get(name)

    def _fetched(self, place: tuple[str, int], offsets: Sequence[int]) -> Mapping[int, Fetched]:
        if self._topics is None or place[0] not in self._topics:
            return {}
        return self._topics.fetch(*place, offsets)


def _contents(changes: Tray, key: Sequence[int]) -> Tray:
    """Return what remains after all changes: of a table with a key, the last row of each."""
    if key:
        last = changes.take(last_of_each([changes.columns[at].to_list() for at in key]))
        return last.where(last.opcode != Opcode.DELETE)
    held = Contents(())
    held.take(changes.rows())
    return _tray(changes.row_type, held.rows())


def _tray(row_type: RowType, rows: Iterable[tuple[object, ...]]) -> Tray:
    return Tray.from_rows(row_type, (TimedRow(EARLIEST, 0, 0, Opcode.INSERT, row) for row in rows))
