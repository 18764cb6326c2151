"""The matrix of connectors and formats, from their declarations and from the contract suites that run on them.

``PYTHONPATH=service:connectors:tests python -m house.connector_matrix > docs/connectors/README.md`` writes it, and a
test compares it.
"""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Mapping, Sequence

import pytest

from house.machine import ROOT
from rowtide.cli.author.connectors import guarantees
from rowtide.codec.registry import FORMATS
from rowtide_connectors.registry import BUILT_IN, find_connector

SUITES = ("tests/contract/connectors", "tests/contract/codec")
NOT_TESTED = "not tested"
HEAD = """\
# Connectors and formats

What each connector and format can be used for, with which guarantee, and what its contract suite runs on.
`tests/house/connector_matrix.py` writes this page from the declarations of connectors and formats, and from the marks
of the tests. A test checks that it is current. [Options of connectors](../reference/connectors.md) are listed on a
page of their own. [A package](../extend/package.md) of yours can add more connectors and formats.

## Connectors

| connector | used as | formats | guarantee | tested on |
|---|---|---|---|---|
"""
FORMATS_HEAD = """
Messages of a source or message sink have any of the formats below, or one of another package. A database has columns.
With `format 'PARQUET'`, so do the files that pumps write ([Parquet](../howto/files.md#parquet)).

## Formats

| format | messages | read | fills tables | written | tested on |
|---|---|---|---|---|---|
"""
FOOT = """
The contract suite of formats compares messages with their rows or reasons, reads back what is written, and decodes
10,000 messages with changed bytes. A fake answers requests as the real server does. It does not prove that the
real server works.
"""


class Collected:
    """A plugin of pytest that keeps the marks of the collected tests."""

    def __init__(self) -> None:
        self.covered: dict[tuple[str, str], list[str]] = {}

    def pytest_collection_modifyitems(self, items: Sequence[pytest.Item]) -> None:
        """Note what each test covers."""
        for item in items:
            for mark in item.iter_markers("covers"):
                name, part, on = mark.args
                places = self.covered.setdefault((name, part), [])
                if on not in places:
                    places.append(on)


def covered() -> Mapping[tuple[str, str], Sequence[str]]:
    """Return what the suites run on, by name and part.

    Raises:
      RuntimeError: the tests cannot be collected.
    """
    found, output = Collected(), io.StringIO()
    folders = [str(ROOT / folder) for folder in SUITES]
    with contextlib.redirect_stdout(output):
        code = pytest.main(
            [
                "--collect-only",
                "--assert=plain",
                "-q",
                "-p",
                "no:cacheprovider",
                "--rootdir",
                str(ROOT),
                *folders,
            ],
            plugins=[found],
        )
    if code != pytest.ExitCode.OK:
        raise RuntimeError(output.getvalue())
    return found.covered


def page(tested: Mapping[tuple[str, str], Sequence[str]]) -> str:
    """Return the page as Markdown."""
    lines = [HEAD]
    for name in BUILT_IN:
        for part, guarantee in guarantees(find_connector(name)).items():
            if guarantee != "none":
                formats = "any" if part in ("source", "message sink") else "columns"
                lines.append(
                    f"| {name} | {part} | {formats} | {guarantee} | {_places(tested, name, part)} |\n"
                )
    lines.append(FORMATS_HEAD)
    for name, found in sorted(FORMATS.items()):
        cells = ("yes", "yes" if found.fills_tables else "", "yes" if found.encoder is not None else "")
        lines.append(
            f"| {name} | {found.description} | {' | '.join(cells)} | {_places(tested, name, 'format')} |\n"
        )
    return "".join([*lines, FOOT])


def _places(tested: Mapping[tuple[str, str], Sequence[str]], name: str, part: str) -> str:
    return "; ".join(sorted(tested.get((name, part), [NOT_TESTED])))


if __name__ == "__main__":
    sys.stdout.write(page(covered()))
