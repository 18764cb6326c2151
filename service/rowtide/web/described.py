"""The declared paths as an OpenAPI document, and as docs/reference/http-api.md."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from rowtide.web.api import PATHS
from rowtide.web.declared import JSON, SHARED, UNVERSIONED, ApiPath, Parameter
from rowtide.web.problems import API, PROBLEM_JSON, Problem, ProblemAnswer
from rowtide.web.sessions import COOKIE

BODILESS, REFUSED = (204, 304), 300
"""Statuses: answers without a body, and the first of those that refuse."""
_REFERENCE = "#/components/schemas/{name}"
ALL = (*UNVERSIONED, *PATHS)
"""Every path that a service can have."""

HEAD = """\
# HTTP API

The paths of a running service. [Secure the API](../howto/secure-the-api.md) describes rights, tokens and limits.
`GET /api/v1/openapi.json` returns the same as an OpenAPI 3.1 document. `python -m rowtide.web` writes this page, and
a test checks that it is current.

Below `/api/v1`, a time is text as RFC 3339 has it, in UTC with milliseconds. Values of rows are as in JSON messages: a
BIGINT and a DECIMAL are text, and so are NaN and infinity; a TIMESTAMP is a number of milliseconds, binary values are
in base64. An alias of before version 1 answers with the headers `Deprecation` and `Link`.

Each answer has the header `X-Request-Id`: the id of the request, which the log has, too. A client may send its own,
of letters, digits, `.`, `_` and `-`, at most 64.

A refusal below `/api/v1` is a [problem](#problems). That of another path is a JSON object with `error` and `hint`;
those of `/healthz` and `/readyz` have `status` and `reason`.
"""
PROBLEMS = """
## Problems

A refusal is an object of type `application/problem+json` (RFC 9457). All fields are always there; null means none.

| field | meaning |
|---|---|
| `type` | `urn:rowtide:problem:` and the name of a type below |
| `title`, `status` | as below |
| `detail` | what is wrong in this request |
| `hint` | what to do |
| `place` | the place in the SQL text: `line` and `column` from 1, and `length` |
| `retry_after_s` | when to try again, as in the header `Retry-After` |
| `instance` | the id of the request |

"""


def openapi(version: str, declared: Iterable[ApiPath] = ALL) -> dict[str, Any]:
    """Return the OpenAPI 3.1 document of the paths; ``version`` is the program's."""
    found = list(declared)
    types: list[Any] = list({each.answer: None for each in found if each.answer is not None})
    schemas, components = msgspec.json.schema_components(
        [ProblemAnswer, *types], schema_hook=_any_value, ref_template=_REFERENCE
    )
    known = dict(zip(types, schemas[1:], strict=True))
    components["ProblemAnswer"]["properties"]["type"]["enum"] = [each.urn for each in Problem]
    paths: dict[str, dict[str, Any]] = {}
    for each in found:
        schema = {} if each.answer is None else {"schema": known[each.answer]}
        paths.setdefault(each.path, {})[each.method.lower()] = _operation(each, schema)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Rowtide", "version": version},
        "paths": paths,
        "components": {
            "schemas": dict(sorted(components.items())),
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "session": {"type": "apiKey", "in": "cookie", "name": COOKIE},
            },
        },
    }


def _any_value(of: type) -> dict[str, Any]:
    """Return the schema of a value of a row."""
    if of is object:
        return {"description": "A value of a row."}
    raise NotImplementedError(f"answers cannot have {of}")


def _operation(declared: ApiPath, schema: dict[str, Any]) -> dict[str, Any]:
    """Return an operation; ``schema`` is that of its successful answer."""
    refusal: dict[str, Any] = {PROBLEM_JSON: {"schema": {"$ref": _REFERENCE.format(name="ProblemAnswer")}}}
    if not declared.path.startswith(f"{API}/"):
        refusal = {JSON: {}}
    answers: dict[str, dict[str, Any]] = {}
    for status, meaning in declared.all_answers().items():
        answers[str(status)] = {"description": meaning}
        if status not in BODILESS:
            types = {declared.media_type: schema, **{each: {} for each in declared.more_types}}
            answers[str(status)]["content"] = types if status < REFUSED else refusal
    found: dict[str, Any] = {
        "summary": declared.meaning,
        "parameters": [_parameter(each) for each in declared.parameters if each.where != "body"],
        "responses": answers,
        "security": [],
    }
    if body := declared.parameters_in("body"):
        found["requestBody"] = {"required": True, "content": {JSON: {"schema": _body(body)}}}
    if declared.successor is not None:
        found["deprecated"] = True
    if declared.right is not None:
        found |= {"security": [{"token": []}, {"session": []}], "x-right": declared.right.value}
    return found


def _body(fields: Iterable[Parameter]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {each.name: {"description": each.meaning, **_schema(each)} for each in fields},
        "required": [each.name for each in fields if each.default is None],
        "additionalProperties": False,
    }


def _parameter(parameter: Parameter) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "in": parameter.where,
        "description": parameter.meaning,
        "required": parameter.default is None,
        "schema": _schema(parameter),
    }


def _schema(parameter: Parameter) -> dict[str, Any]:
    is_array = parameter.kind == "integers"
    schema: dict[str, Any] = {"type": "integer" if is_array else parameter.kind}
    if parameter.most is not None:
        schema |= {"minimum": 0, "maximum": parameter.most}
    if is_array:
        schema = {"type": "array", "items": schema}
        if parameter.most_items is not None:
            schema["maxItems"] = parameter.most_items
    if parameter.default is not None:
        schema["default"] = parameter.default
    return schema


def page() -> str:
    """Return the reference page as Markdown."""
    shared = ", ".join(_linked(each) for each in SHARED)
    text = HEAD + f"\nPaths that require a token can also have the problems {shared}.\n"
    return text + "".join(_section(each) for each in ALL) + PROBLEMS + "\n".join(map(_problem, Problem))


def _linked(problem: Problem) -> str:
    return f"[{problem.word}](#{problem.word})"


def _problem(problem: Problem) -> str:
    kind = problem.value
    return f"### {problem.word}\n\n{kind.status}: {kind.title}. {kind.meaning}\n"


def _section(declared: ApiPath) -> str:
    needed = "No token is required." if declared.is_open else "Any right."
    right = needed if declared.right is None else f"Right: `{declared.right.value}`."
    lines = [f"\n## {declared.method} {declared.path}\n", f"{declared.meaning} {right}\n"]
    if declared.successor is not None:
        lines.append(f"Deprecated: an alias of `{declared.successor}`, for one release.\n")
    if declared.parameters:
        lines += ["| parameter | in | type | default | meaning |", "|---|---|---|---|---|"]
        lines += [
            f"| `{each.name}` | {each.where} | {each.kind} | {_default(each)} | {each.meaning} |"
            for each in declared.parameters
        ]
        lines.append("")
    if declared.more_types:
        lines.append(f"Formats: {', '.join(f'`{each}`' for each in declared.media_types)}.\n")
    lines += [f"{status}: {meaning}\n" for status, meaning in declared.answers.items()]
    own = [_linked(each) for each in declared.all_problems() if each not in SHARED]
    lines += [f"Problems: {', '.join(own)}.\n"] if own else []
    lines[-1] = lines[-1].removesuffix("\n")
    return "\n".join(lines) + "\n"


def _default(parameter: Parameter) -> str:
    if parameter.default is None:
        return "required"
    shown = str(parameter.default).lower() if parameter.kind == "boolean" else str(parameter.default)
    return "empty" if parameter.default in ("", ()) else f"`{shown}`"
