"""The declared paths as an OpenAPI document, and as docs/reference/http-api.md."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rowtide.web.api import PATHS
from rowtide.web.declared import UNVERSIONED, ApiPath, Parameter

ALL = (*UNVERSIONED, *PATHS)
"""Every path that a service can have."""

HEAD = """\
# HTTP API

The paths of a running service. [Secure the API](../howto/secure-the-api.md) describes rights, tokens and limits.
`GET /api/v1/openapi.json` returns the same as an OpenAPI 3.1 document. `python -m rowtide.web` writes this page, and
a test checks that it is current.

An answer other than 200 or 202 is a JSON object with `error` and `hint`, except those of `/healthz` and `/readyz`.
"""


def openapi(version: str, declared: Iterable[ApiPath] = ALL) -> dict[str, Any]:
    """Return the OpenAPI 3.1 document of the paths; ``version`` is the program's."""
    paths: dict[str, dict[str, Any]] = {}
    for each in declared:
        paths.setdefault(each.path, {})[each.method.lower()] = _operation(each)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Rowtide", "version": version},
        "paths": paths,
        "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
    }


def _operation(declared: ApiPath) -> dict[str, Any]:
    answers = {
        str(status): {
            "description": meaning,
            "content": {declared.media_type if status == 200 else "application/json": {}},
        }
        for status, meaning in declared.all_answers().items()
    }
    found: dict[str, Any] = {
        "summary": declared.meaning,
        "parameters": [_parameter(each) for each in declared.parameters],
        "responses": answers,
        "security": [],
    }
    if declared.right is not None:
        found |= {"security": [{"token": []}], "x-right": declared.right.value}
    return found


def _parameter(parameter: Parameter) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": parameter.kind}
    if parameter.most is not None:
        schema |= {"minimum": 0, "maximum": parameter.most}
    if parameter.default is not None:
        schema["default"] = parameter.default
    return {
        "name": parameter.name,
        "in": parameter.where,
        "description": parameter.meaning,
        "required": parameter.default is None,
        "schema": schema,
    }


def page() -> str:
    """Return the reference page as Markdown."""
    return HEAD + "".join(_section(each) for each in ALL)


def _section(declared: ApiPath) -> str:
    right = "No token is required." if declared.right is None else f"Right: `{declared.right.value}`."
    lines = [f"\n## {declared.method} {declared.path}\n", f"{declared.meaning} {right}\n"]
    if declared.parameters:
        lines += ["| parameter | type | default | meaning |", "|---|---|---|---|"]
        lines += [
            f"| `{each.name}` | {each.kind} | {_default(each)} | {each.meaning} |"
            for each in declared.parameters
        ]
        lines.append("")
    lines += ["| status | meaning |", "|---|---|"]
    lines += [f"| {status} | {meaning} |" for status, meaning in declared.all_answers().items()]
    return "\n".join(lines) + "\n"


def _default(parameter: Parameter) -> str:
    if parameter.default is None:
        return "required"
    shown = str(parameter.default).lower() if parameter.kind == "boolean" else str(parameter.default)
    return f"`{shown}`" if shown else "empty"
