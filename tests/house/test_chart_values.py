"""The values of the chart: values.yaml, the schema and the page in docs/reference have the same ones."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from house.chart import CHART
from house.chart_reference import page, schema_of, values
from house.machine import ROOT


def test_the_page_of_the_values_is_current() -> None:
    """PYTHONPATH=tests python -m house.chart_reference > docs/reference/chart.md."""
    assert (ROOT / "docs/reference/chart.md").read_text() == page()


def test_every_value_is_described_by_itself_or_by_the_map_that_it_is_in() -> None:
    described = {each.path: each.meaning for each in values()}
    for path in described:
        assert any(described[path[:length]] for length in range(1, len(path) + 1)), ".".join(path)
    for meaning in described.values():
        assert not meaning or meaning[-1] in ".:", meaning


def properties(path: tuple[str, ...], schema: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yield the paths of the values that a part of the schema knows."""
    for name in schema.get("properties", {}):
        found = schema_of((*path, name))
        yield (*path, name)
        if found.get("additionalProperties") is False:
            yield from properties((*path, name), found)


def test_the_schema_has_the_values_of_the_file_and_no_others() -> None:
    """A value that only the schema has is not documented; one that only the file has is refused."""
    schema = json.loads((CHART / "values.schema.json").read_text())
    of_the_file = {each.path for each in values()}
    # Helm adds "global" to every chart.
    known = {path for path in properties((), schema) if path != ("global",)}
    of_kubernetes = {("affinity", name) for name in ("nodeAffinity", "podAffinity", "podAntiAffinity")}
    assert known - of_the_file == of_kubernetes
    assert of_the_file <= known


def unclear(part: object) -> Iterator[str]:
    """Yield the rules of a schema of which Helm says no more than that they failed."""
    if isinstance(part, dict):
        yield from part.keys() & {"anyOf", "if", "not", "oneOf"}
        yield from (name for name, each in part.get("properties", {}).items() if each is False)
        part = list(part.values())
    for each in part if isinstance(part, list) else ():
        yield from unclear(each)


def test_what_the_schema_refuses_is_said_in_words() -> None:
    """What needs more than a type, a list of values or a form is refused by the templates, which say what to do."""
    assert list(unclear(json.loads((CHART / "values.schema.json").read_text()))) == []
    assert list(unclear({"not": {}, "allOf": [{"properties": {"a": False}}]})) == ["not", "a"]
