"""The paths of the API, each declared once: right, parameters, body and answers.

The routes, the reference page and the OpenAPI document are made of these.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from rowtide.web.tokens import Right

TABLE_ROWS = 100
"""The default number of rows of a table in an answer."""
MOST_TABLE_ROWS = 1_000_000
"""The greatest number of rows in an answer: the answer is one text in memory."""
JSON, LINES, TEXT = "application/json", "application/x-ndjson", "text/plain"


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of the address, in its ``query`` or in its ``path``, which has the name in braces.

    ``default`` None: it is required. ``most``: the greatest integer, from 0.
    """

    name: str
    meaning: str
    default: str | int | bool | None = None
    kind: Literal["string", "integer", "boolean"] = "string"
    most: int | None = None
    where: Literal["query", "path"] = "query"


@dataclass(frozen=True, slots=True)
class ApiPath:
    """A path of the API. ``right`` None: no token is required. ``answers`` are its own, by status.

    ``body_bytes`` is the largest body that it takes; ``media_type`` that of a successful answer. ``answer`` is the
    type of a successful answer in JSON.
    """

    path: str
    right: Right | None
    meaning: str
    parameters: tuple[Parameter, ...] = ()
    answers: Mapping[int, str] = field(default_factory=dict)
    method: Literal["GET", "POST"] = "GET"
    media_type: str = JSON
    body_bytes: int = 0
    answer: type | None = None

    def all_answers(self) -> dict[int, str]:
        """Return the meaning of every status that a client may get, in order."""
        shared = {} if self.right is None else SHARED
        of_pipeline = {404: NO_PIPELINE} if PIPELINE in self.parameters else {}
        return dict(sorted({200: "The answer.", **shared, **of_pipeline, **self.answers}.items()))


SHARED = {
    401: "The token is missing or invalid.",
    403: "The caller lacks the right, or the request comes from another site or names another host.",
    413: "The body is larger than the path takes.",
    431: "Address and headers are too long.",
    503: "The service is busy or waits for a dependency. Try again.",
}
"""The refusals of every path that requires a right."""
BAD = "A parameter is missing or invalid."
UNKNOWN = "The pipeline has no such relation."
NO_PIPELINE = "The service has no such pipeline."

API = "/api/v1"
OF_PIPELINE = f"{API}/pipelines/{{pipeline}}"
"""What the paths of a pipeline begin with."""
PIPELINE = Parameter("pipeline", "name of the pipeline", where="path")

RELATION = Parameter("relation", "catalog name of the relation")
ROW = Parameter("row", "the row: values of its columns, as `rowtide explain --why` takes them")
LIMIT = Parameter(
    "limit", "greatest number of rows in the answer", TABLE_ROWS, kind="integer", most=MOST_TABLE_ROWS
)
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
OPENAPI = ApiPath(f"{API}/openapi.json", None, "Return this description as an OpenAPI document.")
WHY_NOT = ApiPath(
    "/why-not",
    Right.READ,
    "Explain why a relation has no new rows.",
    (RELATION,),
    {400: BAD, 404: UNKNOWN},
)
WHY = ApiPath(
    "/why",
    Right.READ,
    "Explain which messages an output row comes from. It reads the log again.",
    (RELATION, ROW),
    {400: BAD, 404: "The pipeline has no such relation or row."},
)
SNAPSHOT = ApiPath(
    "/snapshot",
    Right.OPERATE,
    "Commit with a snapshot.",
    answers={404: "The service can store no snapshot now; the answer says why."},
    method="POST",
)
TABLE = ApiPath(
    "/table", Right.READ, "Return rows of an engine table.", (RELATION, LIMIT), {400: BAD, 404: UNKNOWN}
)
ROWS = ApiPath(
    "/query",
    Right.READ,
    "Return rows of a query as they come, one JSON object a line: `columns`, then `row` with `op` and `rowtime`, "
    "`error` for a rejected row, `ended` or a last `error` with `failed`.",
    (QUERY, ONCE),
    {400: "The query or a parameter is invalid, or too many queries run."},
    media_type=LINES,
)
EXECUTE = ApiPath(
    "/execute",
    Right.OPERATE,
    "Change rows of engine tables.",
    (STATEMENTS, WAIT),
    {200: "The statements are executed.", 202: "They are queued.", 400: "They are refused."},
    method="POST",
)

UNVERSIONED = (STATUS, ALIVE, READY, METRICS, OPENAPI, WHY_NOT, WHY, SNAPSHOT, TABLE, ROWS, EXECUTE)
"""Every path that is not of version 1, and the description of all of them."""
