"""``/explanations``: the messages that an output row comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from starlette.requests import Request

from rowtide.runtime.inspect.why_answer import ExplanationAnswer
from rowtide.web.access import Page
from rowtide.web.declared import BODY_BYTES, OF_PIPELINE, PIPELINE, RELATION, ROW, ApiPath
from rowtide.web.handlers import Handlers
from rowtide.web.parameters import given
from rowtide.web.problems import Problem
from rowtide.web.tokens import Right

EXPLAINED = replace(RELATION, where="body")
EXPLAINED_ROW = replace(ROW, where="body")
EXPLAIN = ApiPath(
    f"{OF_PIPELINE}/explanations",
    Right.READ,
    "Explain which messages an output row comes from. It reads the log again.",
    (PIPELINE, EXPLAINED, EXPLAINED_ROW),
    problems=(Problem.UNKNOWN_RELATION, Problem.NOT_EXPLAINED),
    refused=Problem.NOT_EXPLAINED,
    method="POST",
    answer=ExplanationAnswer,
    body_bytes=BODY_BYTES,
)
PATHS = (EXPLAIN,)


def pages(handlers: Handlers) -> list[Page]:
    """Return the page. It opens the log by itself, and takes as long as reading it does."""
    if (why := handlers.why) is None:
        return []

    def explained(request: Request) -> Mapping[str, object]:
        return why(given(request, EXPLAINED), given(request, EXPLAINED_ROW)).to_json()

    return [Page(EXPLAIN, explained)]
