"""The OpenAPI document of version 1, word for word; and that no client of it breaks.

``pytest --rewrite`` writes it. A path, method, parameter, status or field that is gone, and a parameter that is newly
required, stay a failure: they need another version. Before the first release, remove the file and write it anew.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rowtide.web.described import openapi

GOLDEN = Path(__file__).with_name("openapi.json")


def promises(document: Any) -> Iterator[str]:
    """Yield what a client may rely on."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            name = f"{method} {path}"
            yield name
            yield from (f"{name} answers {status}" for status in operation["responses"])
            yield from (f"{name} takes {each['name']}" for each in operation["parameters"])
            for body in operation.get("requestBody", {}).get("content", {}).values():
                yield from (f"{name} takes {each}" for each in body["schema"]["properties"])
    for name, schema in document["components"]["schemas"].items():
        for field, of in schema["properties"].items():
            yield f"{name} has {field}"
            yield from (f"{name}.{field} may be {each}" for each in of.get("enum", ()))


def demands(document: Any) -> Iterator[str]:
    """Yield what a client must send."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            for each in operation["parameters"]:
                if each["required"]:
                    yield f"{method} {path} requires {each['name']}"
            for body in operation.get("requestBody", {}).get("content", {}).values():
                yield from (f"{method} {path} requires {each}" for each in body["schema"]["required"])


def broken(before: Any, after: Any) -> list[str]:
    """Return what a client of the document before cannot rely on."""
    gone = [each for each in promises(before) if each not in set(promises(after))]
    known = set(promises(before))
    new = [each for each in demands(after) if each not in set(demands(before))]
    return gone + [each for each in new if each.partition(" requires ")[0] in known]


def test_the_document_is_the_golden_one_and_breaks_no_client(request: pytest.FixtureRequest) -> None:
    now = openapi("0")
    before = json.loads(GOLDEN.read_text()) if GOLDEN.exists() else now
    assert broken(before, now) == []
    text = f"{json.dumps(now, indent=1, ensure_ascii=False)}\n"
    if request.config.getoption("--rewrite"):
        GOLDEN.write_text(text)
    assert GOLDEN.read_text() == text, (
        "the API differs from its golden document: pytest --rewrite tests/golden/api"
    )


def paths_of(document: Any) -> Any:
    return document["paths"]["/api/v1/pipelines/{pipeline}/errors"]["get"]


def rename(document: Any) -> None:
    document["paths"]["/api/v1/pipelines/{pipeline}/faults"] = document["paths"].pop(
        "/api/v1/pipelines/{pipeline}/errors"
    )


def require(document: Any) -> None:
    paths_of(document)["parameters"][1]["required"] = True


def drop_parameter(document: Any) -> None:
    del paths_of(document)["parameters"][1]


def drop_field(document: Any) -> None:
    del document["components"]["schemas"]["ErrorRowAnswer"]["properties"]["key_base64"]


def drop_problem(document: Any) -> None:
    document["components"]["schemas"]["ProblemAnswer"]["properties"]["type"]["enum"].pop()


def add(document: Any) -> None:
    document["components"]["schemas"]["ErrorRowAnswer"]["properties"]["more"] = {"type": "string"}
    paths_of(document)["parameters"].append({"name": "more", "in": "query", "required": False, "schema": {}})
    paths_of(document)["responses"]["418"] = {"description": "More."}


@pytest.mark.parametrize(
    ("change", "count"),
    [(rename, None), (require, 1), (drop_parameter, 1), (drop_field, 1), (drop_problem, 1), (add, 0)],
)
def test_a_change_that_breaks_clients_is_found_and_an_addition_is_none(
    change: Any, count: int | None
) -> None:
    before, after = openapi("0"), json.loads(json.dumps(openapi("0")))
    change(after)
    found = broken(before, after)
    assert len(found) == count if count is not None else len(found) > 1
