"""The paths of the API, each declared once: right, parameters, body and answers.

The routes, the reference page and the OpenAPI document are made of these.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from rowtide.web.problems import API, Problem
from rowtide.web.tokens import Right

TABLE_ROWS = 100
"""The default number of rows of a table in an answer."""
MOST_TABLE_ROWS = 1_000_000
"""The greatest number of rows in an answer: the answer is one text in memory."""
MOST_PAGE_ROWS = 10_000
"""The same of a path of version 1."""
BODY_BYTES = 256 * 1024
"""The largest body with SQL text."""
JSON, LINES, TEXT, HTML = "application/json", "application/x-ndjson", "text/plain", "text/html"


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a request: in the ``query`` or the ``path`` of its address, or a field of its ``body``.

    A path has the name in braces, a body is a JSON object. ``default`` None: it is required. ``most``: the greatest
    integer, from 0. ``most_items``: the greatest number of ``integers``, which only a body can have.
    """

    name: str
    meaning: str
    default: str | int | bool | tuple[int, ...] | None = None
    kind: Literal["string", "integer", "boolean", "integers"] = "string"
    most: int | None = None
    most_items: int | None = None
    where: Literal["query", "path", "body"] = "query"


@dataclass(frozen=True, slots=True)
class ApiPath:
    """A path of the API. ``right`` None: no token is required.

    ``answers`` are those that are no problem, by status; ``problems`` are its own. ``refused`` is what a StatementError
    of the runtime means here.

    ``body_bytes`` is the largest body that it takes; ``media_type`` that of a successful answer, or one of
    ``more_types`` if the client prefers it. ``answer`` is the type of a successful answer in JSON. ``successor``: the
    path is an alias of this one, for one release.
    """

    path: str
    right: Right | None
    meaning: str
    parameters: tuple[Parameter, ...] = ()
    answers: Mapping[int, str] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    refused: Problem = Problem.STATEMENT_REFUSED
    method: Literal["GET", "POST", "DELETE"] = "GET"
    media_type: str = JSON
    more_types: tuple[str, ...] = ()
    body_bytes: int = 0
    answer: type | None = None
    successor: str | None = None
    is_open: bool = True
    """Whether a path that requires no token answers every request, also those of other sites."""

    def parameters_in(self, where: Literal["query", "path", "body"]) -> tuple[Parameter, ...]:
        """Return the parameters that are there."""
        return tuple(each for each in self.parameters if each.where == where)

    @property
    def media_types(self) -> tuple[str, ...]:
        """Return the types of a successful answer, the default first."""
        return self.media_type, *self.more_types

    def all_answers(self) -> dict[int, str]:
        """Return the meaning of every status that a client may get, in order."""
        titles: dict[int, list[str]] = {}
        for each in self.all_problems():
            titles.setdefault(each.value.status, []).append(each.value.title)
        said = {status: f"{'; or: '.join(held)}." for status, held in titles.items()}
        is_said = any(status < 300 for status in self.answers)
        return dict(sorted({**({} if is_said else {200: "The answer."}), **said, **self.answers}.items()))

    def all_problems(self) -> tuple[Problem, ...]:
        """Return every problem that a client may get, in the order in which they are declared."""
        found = {*self.problems, *(() if self.right is None else SHARED)}
        if not self.is_open:
            found |= {*SHARED} - {Problem.RIGHT_MISSING, Problem.SUPERSEDED}
        if PIPELINE in self.parameters:
            found.add(Problem.UNKNOWN_PIPELINE)
        if self.path.startswith(f"{API}/") and self.right is not None:
            found.add(Problem.NOT_ACCEPTABLE)
        if self.parameters_in("query"):
            found.add(Problem.INVALID_PARAMETER)
        if self.parameters_in("body"):
            found |= {Problem.INVALID_BODY, Problem.BODY_TYPE, Problem.LENGTH_REQUIRED}
        return tuple(each for each in Problem if each in found)


SHARED = (
    Problem.UNAUTHENTICATED,
    Problem.RIGHT_MISSING,
    Problem.OTHER_SITE,
    Problem.HOST_NOT_ALLOWED,
    Problem.BODY_TOO_LARGE,
    Problem.HEAD_TOO_LARGE,
    Problem.FAULT,
    Problem.UNAVAILABLE,
    Problem.SUPERSEDED,
)
"""The problems of every path that requires a right."""
OF_PIPELINE = f"{API}/pipelines/{{pipeline}}"
"""What the paths of a pipeline begin with."""
PIPELINE = Parameter("pipeline", "name of the pipeline", where="path")

RELATION_NAME = Parameter("relation", "catalog name of the relation, percent-encoded", where="path")
RELATION = Parameter("relation", "catalog name of the relation")
ROW = Parameter("row", "the row: values of its columns, as `rowtide explain --why` takes them")
LIMIT = Parameter(
    "limit", "greatest number of rows in the answer", TABLE_ROWS, kind="integer", most=MOST_TABLE_ROWS
)
PAGE_ROWS = Parameter(
    "limit", "greatest number of rows in the answer", TABLE_ROWS, kind="integer", most=MOST_PAGE_ROWS
)
AFTER = Parameter("after", "`next` of the answer before, to continue it", 0, kind="integer", most=2**63 - 1)
QUERY = Parameter("sql", "the query")
ONCE = Parameter("once", "return the current contents of a query on tables, and end", False, kind="boolean")
STATEMENTS = Parameter("sql", "INSERT, UPDATE or DELETE statements")
WAIT = Parameter("wait", "wait until the statements are executed", True, kind="boolean")

STATUS = ApiPath(
    "/", Right.READ, "Return the phase, epoch, last commit, positions and counts of the pipeline."
)
ALIVE = ApiPath(
    "/healthz", None, "Return whether the process makes progress.", answers={503: "The main loop hangs."}
)
READY = ApiPath(
    "/readyz",
    None,
    "Return whether the pipeline runs, or follows without delay.",
    answers={503: "It does not; the answer says what it waits for."},
)
METRICS = ApiPath("/metrics", Right.READ, "Return the metrics for Prometheus.", media_type=TEXT)
OPENAPI = ApiPath(
    f"{API}/openapi.json",
    None,
    "Return this description as an OpenAPI document.",
    answers={200: "The document.", 304: "It is the one of the header If-None-Match."},
)
ASSET = Parameter("asset", "name of the file, as the page has it", where="path")
UI = ApiPath(
    "/ui/",
    None,
    "Return the page for people. A browser that asks for `/` is sent here. It has no data: it asks the other paths.",
    media_type=HTML,
)
UI_ASSET = ApiPath(
    "/ui/{asset}",
    None,
    "Return a file of the page.",
    (ASSET,),
    problems=(Problem.UNKNOWN_PATH,),
    media_type="*/*",
)
WHY_NOT = ApiPath(
    "/why-not",
    Right.READ,
    "Explain why a relation has no new rows.",
    (RELATION,),
    successor=f"{OF_PIPELINE}/relations/{{relation}}/why-not",
    problems=(Problem.UNKNOWN_RELATION,),
)
WHY = ApiPath(
    "/why",
    Right.READ,
    "Explain which messages an output row comes from. It reads the log again.",
    (RELATION, ROW),
    successor=f"{OF_PIPELINE}/explanations",
    problems=(Problem.UNKNOWN_RELATION, Problem.NOT_EXPLAINED),
    refused=Problem.NOT_EXPLAINED,
)
SNAPSHOT = ApiPath(
    "/snapshot",
    Right.OPERATE,
    "Commit with a snapshot.",
    successor=f"{OF_PIPELINE}/snapshots",
    problems=(Problem.NOT_POSSIBLE,),
    refused=Problem.NOT_POSSIBLE,
    method="POST",
)
TABLE = ApiPath(
    "/table",
    Right.READ,
    "Return rows of an engine table.",
    (RELATION, LIMIT),
    successor=f"{OF_PIPELINE}/relations/{{relation}}/rows",
    problems=(Problem.UNKNOWN_RELATION,),
)
ROWS = ApiPath(
    "/query",
    Right.READ,
    "Return rows of a query as they come, one JSON object a line: `columns`, then `row` with `op` and `rowtime`, "
    "`error` for a rejected row, `ended` or a last `error` with `failed`.",
    (QUERY, ONCE),
    successor=f"{OF_PIPELINE}/queries",
    problems=(Problem.STATEMENT_REFUSED, Problem.TOO_MANY_QUERIES),
    media_type=LINES,
)
EXECUTE = ApiPath(
    "/execute",
    Right.OPERATE,
    "Change rows of engine tables.",
    (STATEMENTS, WAIT),
    {200: "The statements are executed.", 202: "They are queued."},
    successor=f"{OF_PIPELINE}/statements",
    problems=(Problem.STATEMENT_REFUSED,),
    method="POST",
)

UNVERSIONED = (
    STATUS,
    UI,
    UI_ASSET,
    ALIVE,
    READY,
    METRICS,
    OPENAPI,
    WHY_NOT,
    WHY,
    SNAPSHOT,
    TABLE,
    ROWS,
    EXECUTE,
)
"""Every path that is not of version 1, and the description of all of them."""
