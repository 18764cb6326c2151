"""Other packages are used by their public interface: a private module may be gone in their next release."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from house.machine import ROOT

FOLDERS = ("service", "connectors", "tests", "benchmarks", "docker", "examples")
OURS = ("rowtide", "rowtide_connectors")
PRIVATE = {"confluent_kafka": {"cimpl"}}
"""Modules that are private without a leading underscore: documented names of theirs are in public ones."""


def private_imports(text: str) -> Iterator[str]:
    """Yield what a module imports from private modules of other packages."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [f"{node.module}.{each.name}" for each in node.names]
        elif isinstance(node, ast.Import):
            names = [each.name for each in node.names]
        else:
            continue
        for name in names:
            package, *parts = name.split(".")
            if package in OURS or package == "__future__":
                continue
            if any(part.startswith("_") or part in PRIVATE.get(package, ()) for part in (package, *parts)):
                yield name


def test_no_private_module_of_another_package_is_imported() -> None:
    files = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    found = {
        str(path.relative_to(ROOT)): names
        for path in files
        if (names := [*private_imports(path.read_text())])
    }
    assert found == {}


@pytest.mark.parametrize(
    "line",
    [
        "from confluent_kafka.admin._config import ConfigResource",
        "from confluent_kafka.cimpl import NewTopic",
        "from numba.core._x import y",
        "import _thread",
        "def f():\n    from ctypes import _SimpleCData",
    ],
)
def test_a_private_import_is_found(line: str) -> None:
    assert list(private_imports(line))
