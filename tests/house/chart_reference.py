"""The page of the chart's values, from values.yaml and values.schema.json.

``PYTHONPATH=tests python -m house.chart_reference > docs/reference/chart.md`` writes it, and a test compares it.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from house.chart import CHART

_KEY = re.compile(r"^( *)([A-Za-z]\w*):")
_COMMENT = re.compile(r"^ *# (\S.*)$")
_TYPES = {"string": "text", "boolean": "true or false", "integer": "a whole number", "number": "a number"}
_TYPES |= {"array": "list", "object": "map"}

HEAD = """# Values of the chart

The values of `helm/rowtide` with their defaults. [Deploy with Helm](../howto/deploy-helm.md) describes their use.
The schema of the chart refuses values that are not listed here, and values of another form.

`tests/house/chart_reference.py` writes this page from `values.yaml` and `values.schema.json`. A test checks it.

| value | type | default | meaning |
|---|---|---|---|
"""


@dataclass(frozen=True, slots=True)
class Value:
    """A value of the chart, by its path. ``default`` is None for a map that has values of its own."""

    path: tuple[str, ...]
    kind: str
    default: str | None
    meaning: str


def comments() -> dict[tuple[str, ...], str]:
    """Return the comment above each key of values.yaml, by the path of the key. Examples do not count."""
    found: dict[tuple[str, ...], str] = {}
    path: list[str] = []
    above: list[str] = []
    for line in (CHART / "values.yaml").read_text().splitlines():
        if (key := _KEY.match(line)) is not None:
            path[len(key[1]) // 2 :] = [key[2]]
            found[tuple(path)] = " ".join(above)
            above = []
        elif (comment := _COMMENT.match(line)) is not None:
            above.append(comment[1])
        else:
            above = []
    return found


def schema_of(path: tuple[str, ...]) -> Mapping[str, Any]:
    """Return the part of the schema that describes a value.

    Raises:
      KeyError: the schema does not have it.
    """
    whole = json.loads((CHART / "values.schema.json").read_text())
    part: Mapping[str, Any] = whole
    for name in path:
        part = _resolved(whole, part["properties"][name])
    return part


def _resolved(whole: Mapping[str, Any], part: Mapping[str, Any]) -> Mapping[str, Any]:
    while (reference := part.get("$ref")) is not None:
        part = whole
        for name in reference.removeprefix("#/").split("/"):
            part = part[name]
    return part


def kind_of(schema: Mapping[str, Any]) -> str:
    """Return the type of a value in words."""
    if "enum" in schema:
        return " or ".join(f"`{each}`" for each in schema["enum"])
    kinds = schema["type"]
    if isinstance(kinds, list):
        return "text or a number"
    return _TYPES[kinds]


def values() -> Iterator[Value]:
    """Yield every value in the order of values.yaml."""
    meanings = comments()

    def below(path: tuple[str, ...], default: object) -> Iterator[Value]:
        schema = schema_of(path)
        # What a map without values has is not for the chart to know, such as labels.
        inside = default if isinstance(default, dict) and "properties" in schema else {}
        yield Value(path, kind_of(schema), None if inside else json.dumps(default), meanings[path])
        for name, each in inside.items():
            yield from below((*path, name), each)

    for name, default in yaml.safe_load((CHART / "values.yaml").read_text()).items():
        yield from below((name,), default)


def page() -> str:
    """Return the page as Markdown."""
    lines = []
    for each in values():
        default = "" if each.default is None else f"`{each.default}`"
        meaning = each.meaning.replace("|", "\\|").replace("<", "&lt;")
        lines.append(f"| `{'.'.join(each.path)}` | {each.kind} | {default} | {meaning} |\n")
    return HEAD + "".join(lines)


if __name__ == "__main__":
    sys.stdout.write(page())
