"""The engine of ``rowtide sql --service``: queries on a running service."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rowtide.cli.service_url import RunningService, ask, path_of, pipeline_of
from rowtide.clock import SystemClock
from rowtide.embedded.events import QueryEvent, ResultColumns, ResultNote, ResultRow, is_query, statement_of
from rowtide.errors import StatementError, TransientError
from rowtide.rows.rowop import Row
from rowtide.runtime.query.query_work import CONTENTS, ENOUGH

QUERY_PATIENCE_S = 30.0
"""A service writes a line every second while a query runs."""
SILENCE_S = 5.0
"""How long a person looks at a header without rows before a query says what it waits for."""
WAITS = (
    "no row yet: the query waits for rows that come from now on. Ctrl-C stops it. SELECT from a table returns the rows "
    "that it has; `rowtide explain PIPELINE.sql --why-not RELATION` says what keeps rows back."
)


class ServiceEngine:
    """A running service, which executes queries. A query on streams runs until it is stopped.

    A query on tables returns their contents; with ``follow`` it continues and returns their changes, too. One that
    waits for its first row notes so after ``silence_s`` seconds; None: never.
    """

    def __init__(
        self, service: RunningService | str, *, follow: bool = False, silence_s: float | None = None
    ) -> None:
        self._service = RunningService(service) if isinstance(service, str) else service
        self._follow = follow
        self._silence_s = silence_s

    def execute(self, text: str) -> Iterator[QueryEvent]:
        if not is_query(statement_of(text)):
            raise StatementError(
                "a running service takes queries only",
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
