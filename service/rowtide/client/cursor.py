"""Connections and cursors: queries on a running service, over its HTTP API."""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable, Iterator
from datetime import datetime
from http.client import HTTPException, HTTPResponse
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, Self
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode
from urllib.request import Request, urlopen

from rowtide.client.faults import (
    InterfaceError,
    InternalError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    Warning,
)
from rowtide.client.types import converter, moment

PATIENCE_S = 30.0
"""A service writes a line every second while a query runs."""
LIMIT_REACHED = "LIMIT asks for no more rows"
"""How the service says that a stream's query has ended as it should."""
_LEADING = {"op": "CHAR(1)", "rowtime": "TIMESTAMP"}
"""The types of what a row may begin with."""
Row = tuple[Any, ...]


def connect(
    url: str, *, token_file: str | Path | None = None, ca_file: str | Path | None = None
) -> ServiceConnection:
    """Return a connection to a running service, such as http://127.0.0.1:8080. It connects for each query.

    Args:
      url: the address of the service.
      token_file: a file with a token of right ``read`` and nothing else.
      ca_file: certificates (PEM) that verify the service's, instead of the system's.

    Raises:
      InterfaceError: the URL is not one, or a file cannot be read.
    """
    if not url.startswith(("http://", "https://")):
        raise InterfaceError(f'"{url}" is not a URL: write it as http://127.0.0.1:8080')
    try:
        token = None if token_file is None else Path(token_file).read_text(encoding="ascii").strip()
        tls = ssl.create_default_context(cafile=ca_file) if url.startswith("https://") else None
    except (OSError, UnicodeDecodeError) as error:
        raise InterfaceError(f"a file of the connection cannot be read: {error}") from error
    return ServiceConnection(url.rstrip("/"), token, tls)


class ServiceConnection:
    """A service, and the token of its caller. Queries change nothing, so there is nothing to commit."""

    def __init__(self, url: str, token: str | None, tls: ssl.SSLContext | None) -> None:
        self._url = url
        self._token = token
        self._tls = tls
        self._cursors: list[ServiceCursor] | None = []

    def cursor(self) -> ServiceCursor:
        """Return a new cursor."""
        if self._cursors is None:
            raise InterfaceError("the connection is closed")
        made = ServiceCursor(self)
        self._cursors.append(made)
        return made

    def commit(self) -> None:
        """Do nothing: a query changes nothing."""

    def rollback(self) -> None:
        """Do nothing: a query changes nothing."""

    def close(self) -> None:
        """End all queries."""
        for each in self._cursors or ():
            each.close()
        self._cursors = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def request(self, path: str, parameters: dict[str, str]) -> HTTPResponse:
        """Make a request.

        Raises:
          ProgrammingError: the service refuses it.
          OperationalError: it does not answer, or not to this caller.
          InternalError: it is not a service of Rowtide.
        """
        if self._cursors is None:
            raise InterfaceError("the connection is closed")
        request = Request(f"{self._url}{path}?{urlencode(parameters)}")
        if self._token is not None:
            # Not sent to the target of a redirect.
            request.add_unredirected_header("Authorization", f"Bearer {self._token}")
        try:
            answer: HTTPResponse = urlopen(request, timeout=PATIENCE_S, context=self._tls)
        except HTTPError as error:
            self._refuse(error)
        except (URLError, TimeoutError, ConnectionError, HTTPException) as error:
            raise OperationalError(
                f"no service answers at {self._url}: {getattr(error, 'reason', error)}"
            ) from error
        return answer

    def _refuse(self, refusal: HTTPError) -> NoReturn:
        try:
            said = json.loads(refusal.read())
            message, hint = str(said.get("error") or said["detail"]), said.get("hint")
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InternalError(
                f"{self._url} answered {refusal.code}: it is not a service of Rowtide"
            ) from error
        text = message if hint is None else f"{message}\nhint: {hint}"
        kind = ProgrammingError if refusal.code in (400, 404) else OperationalError
        raise kind(text) from refusal


class ServiceCursor:
    """One query at a time. The rows of a query on tables are their contents; rows of a stream come as they come out.

    A row of a stream begins with its ROWTIME. A fetch from a stream waits until enough rows have come.
    """

    def __init__(self, connection: ServiceConnection) -> None:
        self.connection = connection
        self.arraysize = 1
        self.rowcount = -1
        self.description: tuple[tuple[object, ...], ...] | None = None
        self.messages: list[tuple[type[Exception], Exception]] = []
        """A warning for each row that the query could not process."""
        self._answer: HTTPResponse | None = None
        self._lines: Iterator[dict[str, Any]] = iter(())
        self._converters: list[Callable[[Any], Any]] = []
        self._timed = False
        self._leading: tuple[str, ...] = ()
        """What a row begins with before its columns, by its name in a line."""
        self._is_whole = False
        self._bound: datetime | None = None
        self._closed = False

    @property
    def rowtime_bound(self) -> datetime | None:
        """The rowtime bound of a stream at this cursor: no row before it follows. It is the ROWTIME of the last row.

        None before the first row, and for the contents of tables.
        """
        return self._bound

    def execute(self, operation: str, parameters: object = None) -> Self:
        """Run a query.

        Raises:
          ProgrammingError: it is refused.
          NotSupportedError: there are parameters.
          OperationalError: the service does not answer.
        """
        if parameters:
            raise NotSupportedError("a query takes no parameters: write the values into the query")
        self._begin()
        self._answer = self.connection.request("/query", {"sql": operation, "once": "true"})
        self._lines = self._read(self._answer)
        head = next(self._lines, {})
        if "columns" not in head:
            raise InternalError("the answer has no columns: it is not one of a service of Rowtide")
        self._timed = not head["changes"]
        self._describe(("rowtime",) if self._timed else (), head["columns"], head["types"])
        return self

    def latest_rows(self, relation: str, limit: int = 20) -> Self:
        """Read the last rows that a relation has given, the newest last: OP (+ or -), ROWTIME, and its columns.

        Args:
          relation: its catalog name: upper case unless quoted.
          limit: the greatest number of rows, at most 100.

        Raises:
          ProgrammingError: the relation does not exist, or the limit is too high.
          OperationalError: the relation does not run, or the service does not answer.
        """
        self._begin()
        pipeline = self._whole("/api/v1/pipelines", {})["pipelines"][0]["name"]
        names = (pipeline, "relations", relation, "rows", "latest")
        path = "/".join(["/api/v1/pipelines", *(quote(each, safe="") for each in names)])
        found = self._whole(path, {"limit": str(limit)})
        self._timed = False
        columns = found["columns"]
        self._describe(
            ("op", "rowtime"), [each["name"] for each in columns], [each["type"] for each in columns]
        )
        self._lines = iter([*found["rows"], {"ended": LIMIT_REACHED}])
        return self

    def executemany(self, operation: str, parameters: object) -> NoReturn:
        """Refuse: a query takes no parameters.

        Raises:
          NotSupportedError: always.
        """
        raise NotSupportedError("a query takes no parameters")

    def fetchone(self) -> Row | None:
        """Return the next row; None at the end."""
        return next(self, None)

    def fetchmany(self, size: int | None = None) -> list[Row]:
        """Return the next rows: ``size``, by default ``arraysize``, or fewer at the end."""
        return [*islice(self, self.arraysize if size is None else size)]

    def fetchall(self) -> list[Row]:
        """Return all further rows of a query on tables.

        Raises:
          InterfaceError: it is a query on streams, which has no last row.
        """
        if self._timed:
            raise InterfaceError("a query on streams has no last row: use fetchone, fetchmany or a loop")
        return [*self]

    def setinputsizes(self, sizes: object) -> None:
        """Do nothing."""

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Do nothing."""

    def close(self) -> None:
        """End the query."""
        self._end()
        self._closed = True

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Row:
        if self.description is None:
            raise InterfaceError("no query was executed")
        for line in self._lines:
            if "row" in line:
                values = [*(line[name] for name in self._leading), *line["row"]]
                if self._timed and line["rowtime"] is not None:
                    self._bound = moment(line["rowtime"])
                return tuple(convert(value) for convert, value in zip(self._converters, values, strict=True))
            if line.get("failed"):
                self._end()
                raise OperationalError(f"{line['error']}\nhint: {line['hint']}")
            if "ended" in line:
                self._end()
                if self._timed and line["ended"] != LIMIT_REACHED:
                    raise OperationalError(f"the service ended the query: {line['ended']}")
                self._is_whole = True
                break
            if "error" in line:
                warning = Warning(line["error"])
                self.messages.append((Warning, warning))
        if self._is_whole:
            raise StopIteration
        raise OperationalError("the query has failed, or its cursor is closed: no rows follow")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _begin(self) -> None:
        """Drop the result before this one."""
        if self._closed:
            raise InterfaceError("the cursor is closed")
        self._end()
        self.messages.clear()
        self._bound, self.description, self._is_whole = None, None, False

    def _describe(self, leading: tuple[str, ...], names: list[str], types: list[str]) -> None:
        self._leading = leading
        names = [*map(str.upper, leading), *names]
        types = [*(_LEADING[name] for name in leading), *types]
        self._converters = [converter(each) for each in types]
        self.description = tuple(
            (name, kind, None, None, None, None, None) for name, kind in zip(names, types, strict=True)
        )

    def _whole(self, path: str, parameters: dict[str, str]) -> Any:
        """Return an answer in JSON."""
        try:
            with self.connection.request(path, parameters) as answer:
                return json.load(answer)
        except (OSError, HTTPException, ValueError) as error:
            raise OperationalError(f"the service stopped answering: {error}") from error

    def _read(self, answer: HTTPResponse) -> Iterator[dict[str, Any]]:
        """Yield the lines of an answer without its blank ones; the last one says how it ended."""
        try:
            for line in answer:
                if line.strip():
                    yield json.loads(line)
        except (OSError, HTTPException, ValueError) as error:
            raise OperationalError(f"the service stopped answering: {error}") from error
        raise OperationalError("the service stopped answering: the answer has no end")

    def _end(self) -> None:
        if self._answer is not None:
            self._answer.close()
        self._answer, self._lines = None, iter(())
