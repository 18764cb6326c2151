"""Each path is declared once: routes, OpenAPI document and reference page say the same."""

import re
from pathlib import Path

import pytest

from rowtide.web.access import Access
from rowtide.web.declared import ApiPath
from rowtide.web.described import ALL, page
from rowtide.web.problems import API
from support.web import address, asked, whole_app

PAGE = Path(__file__).parents[3] / "docs/reference/http-api.md"


def test_the_reference_page_is_current() -> None:
    assert PAGE.read_text() == page(), "python -m rowtide.web > docs/reference/http-api.md"


def test_the_served_document_has_every_path_with_its_parameters_and_answers() -> None:
    document = asked(whole_app(Access()), "GET", "/api/v1/openapi.json").json()
    assert document["openapi"] == "3.1.0"
    found = {
        (path, method): each
        for path, methods in document["paths"].items()
        for method, each in methods.items()
    }
    assert found.keys() == {(each.path, each.method.lower()) for each in ALL}
    for each in ALL:
        operation = found[each.path, each.method.lower()]
        of_body = (
            operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
        )
        names = [held["name"] for held in operation["parameters"]] + list(of_body.get("properties", {}))
        assert names == [held.name for held in each.parameters]
        assert operation.get("deprecated", False) == (each.successor is not None)
        assert operation["responses"].keys() == {str(status) for status in each.all_answers()}
        assert bool(operation["security"]) == (each.right is not None)


def test_a_path_declares_the_names_that_it_has_in_braces() -> None:
    for each in ALL:
        declared = [held.name for held in each.parameters if held.where == "path"]
        assert re.findall(r"{(\w+)}", each.path) == declared, each.path


@pytest.mark.parametrize(
    "declared", [each for each in ALL if "{pipeline}" in each.path], ids=lambda each: each.path
)
def test_a_pipeline_that_the_service_does_not_run_is_not_found(declared: ApiPath) -> None:
    answer = asked(whole_app(Access()), declared.method, address(declared.path, pipeline="o/ther"))
    assert answer.status_code == 404
    assert answer.json()["type"] == "urn:rowtide:problem:unknown-pipeline"
    assert answer.json()["detail"] == 'this service runs no pipeline "o/ther"'
    assert answer.json()["hint"] == 'It runs "orders_per_minute".'


@pytest.mark.parametrize("declared", ALL, ids=lambda each: each.path)
def test_a_path_without_its_parameters_answers_as_declared(declared: ApiPath) -> None:
    answer = asked(whole_app(Access()), declared.method, address(declared.path))
    assert answer.status_code in declared.all_answers()
    is_complete = all(each.default is not None or each.where == "path" for each in declared.parameters)
    assert is_complete or answer.status_code in (400, 415)
    if answer.status_code == 200:
        assert answer.headers["content-type"].split(";")[0] == declared.media_type
    elif answer.status_code == 204:
        assert answer.content == b""
    else:
        assert answer.json()["detail" if declared.path.startswith(API) else "error"]
