"""The engine of ``rowtide sql --service``: queries on a running service."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rowtide.cli.cells import ARRAY
from rowtide.cli.service_url import RunningService, ask, path_of, pipeline_of
from rowtide.clock import SystemClock
from rowtide.embedded.events import QueryEvent, ResultColumns, ResultNote, ResultRow, is_query, statement_of
from rowtide.errors import StatementError, TransientError
from rowtide.flow.latest_trays import KEPT_ROWS
from rowtide.rows.rowop import Row
from rowtide.runtime.query.query_work import CONTENTS, ENOUGH
from rowtide.sql.definitions.objects import DEFAULT_SCHEMA, relation_name
from rowtide.sql.grammar.statements import Print

QUERY_PATIENCE_S = 30.0
"""A service writes a line every second while a query runs."""
SILENCE_S = 5.0
"""How long a person looks at a header without rows before a query says what it waits for."""
LATEST_ROWS = 20
"""The rows of PRINT without ``--limit``."""
WAITS = (
    "no row yet: the query waits for rows that come from now on. Ctrl-C stops it. PRINT RELATION shows the last "
    "rows that came; `rowtide explain PIPELINE.sql --why-not RELATION` says what keeps rows back."
)

_NUMBERS: Mapping[str, Callable[[Any], object]] = {"BIGINT": int, "REAL": float, "DOUBLE": float}
"""What an answer may have as text, because not all readers of JSON can read it as a number."""


class ServiceEngine:
    """A running service, which executes queries. A query on streams runs until it is stopped.

    A query on tables returns their contents; with ``follow`` it continues and returns their changes, too. PRINT returns
    the last rows that a relation has given, ``limit`` of them. A query that waits for its first row notes so after
    ``silence_s`` seconds; None: never.
    """

    def __init__(
        self,
        service: RunningService | str,
        *,
        follow: bool = False,
        limit: int | None = None,
        silence_s: float | None = None,
    ) -> None:
        self._service = RunningService(service) if isinstance(service, str) else service
        self._follow = follow
        self._limit = LATEST_ROWS if limit is None else limit
        self._silence_s = silence_s

    def execute(self, text: str) -> Iterator[QueryEvent]:
        statement = statement_of(text)
        if isinstance(statement, Print):
            yield from self._latest(statement)
            return
        if not is_query(statement):
            raise StatementError(
                "a running service takes queries only, and PRINT",
                hint="Leave out --service to run statements that define relations.",
            )
        asked = {"sql": text, "once": not self._follow}
        try:
            queries = path_of(pipeline_of(self._service), "queries")
            started = ask(self._service, queries, method="POST", body=asked, patience_s=QUERY_PATIENCE_S)
            rows = f"{queries}/{started['id']}/rows"
            with self._service.open(rows, patience_s=QUERY_PATIENCE_S) as response:
                events = self._events(response)
                yield from events if self._follow else _contents(events)
        except StatementError as error:
            error.text = text
            raise
        except (TimeoutError, ConnectionError) as error:
            raise TransientError(f"{self._service.url} stopped answering: {error}") from error

    def _latest(self, statement: Print) -> Iterator[QueryEvent]:
        """Yield the last rows that a relation has given."""
        parts = [each.text for each in statement.name.parts]
        schema, name = parts if len(parts) > 1 else (DEFAULT_SCHEMA, parts[0])
        relation = relation_name((schema, name))
        path = path_of(pipeline_of(self._service), "relations", relation, "rows", "latest")
        found = ask(self._service, path, limit=str(min(self._limit, KEPT_ROWS)))
        columns, rows = found["columns"], found["rows"]
        types = tuple(each["type"] for each in columns)
        yield ResultNote(
            f"The last {len(rows)} of {found['total']:,} rows since {found['since']}; a query waits for more."
        )
        yield ResultColumns(tuple(each["name"] for each in columns), types, changes=True)
        for each in rows:
            yield ResultRow(each["op"], each["rowtime"], list(map(_number, each["row"], types)))

    def names(self) -> list[str]:
        """Return no names: the client does not know the service's relations."""
        return []

    def _events(self, lines: Iterable[bytes]) -> Iterator[QueryEvent]:
        """Yield what the lines of an answer say. Lines are empty while nothing comes."""
        clock = SystemClock()
        due = None if self._silence_s is None else clock.monotonic() + self._silence_s
        for line in lines:
            if line.strip():
                event = _event_of(json.loads(line))
                yield event
                # The contents of a table end by themselves.
                ends = isinstance(event, ResultColumns) and event.changes and not self._follow
                if ends or isinstance(event, ResultRow):
                    due = None
            elif due is not None and clock.monotonic() >= due:
                yield ResultNote(WAITS)
                due = None


def _number(value: Any, type_name: str) -> object:
    """Return a value of the service's answer with text of numbers as numbers."""
    if value is None:
        return None
    if type_name.endswith(ARRAY):
        return [_number(each, type_name.removesuffix(ARRAY)) for each in value]
    convert = _NUMBERS.get(type_name)
    return value if convert is None else convert(value)


def _contents(events: Iterator[QueryEvent]) -> Iterator[QueryEvent]:
    """Yield the contents of a table instead of its changes; rows of streams are unchanged."""
    contents: ResultColumns | None = None
    held: Counter[Row] = Counter()
    for answer in events:
        if isinstance(answer, ResultColumns) and answer.changes:
            contents = replace(answer, changes=False, timed=False)
            yield contents
        elif contents is not None and isinstance(answer, ResultRow):
            held[tuple(answer.row)] += -1 if answer.op == "-" else 1
        elif answer != ResultNote(ENOUGH) and (contents is None or answer != ResultNote(CONTENTS)):
            yield answer
    for row in held.elements():
        yield ResultRow("+", None, row)


def _event_of(line: Mapping[str, Any]) -> QueryEvent:
    if "columns" in line:
        return ResultColumns(tuple(line["columns"]), tuple(line["types"]), bool(line["changes"]))
    if "row" in line:
        return ResultRow(line["op"], line["rowtime"], line["row"])
    if line.get("failed"):
        raise StatementError(line["error"], hint=line["hint"])
    return ResultNote(str(line.get("ended") or line.get("error")))


def history_file() -> Path:
    """Return the path of the prompt's history file."""
    return Path.home() / ".rowtide_history"
