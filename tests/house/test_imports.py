"""Modules import at their top. An import within a function defers a heavy package."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from house.machine import ROOT

HEAVY = {
    "numba": "a second, and compiled kernels; only for operators that run",
    "pyspark": "an extra that may not be installed",
    "py4j": "comes with pyspark",
    "confluent_kafka": "only to read or write a topic",
    "sqlalchemy": "only to open a database",
    "alembic": "only to change the tables of a checkpoint",
    "starlette": "only to serve pages",
    "uvicorn": "only to serve pages",
    "structlog": "only where a pipeline runs",
    "fastavro": "only to read Avro",
    "pyarrow": "half of the time of a start, and loads numpy",
    "numpy": "a tenth of a second; settings do without",
}
"""Packages that are imported where they are needed, and why."""

EXCEPTIONS: Mapping[tuple[str, str], str] = {
    ("rowtide.app", "rowtide.cli.main"): "signals are handled before commands are imported",
    ("rowtide.cli.sql", "readline"): "some builds of Python lack it, and only a terminal needs it",
    (
        "rowtide.cli.test",
        "rowtide.testing.on_spark",
    ): "loads datasets and Parquet files; only with --runner spark",
    ("rowtide.cli.version", "importlib.metadata"): "loads email, csv and zipfile; only for --version",
    ("rowtide.sql.catalog.definitions", "rowtide.sql.catalog.model_classes"): (
        "loads the procedural engine; only for CREATE MODEL"
    ),
}
"""Other imports within functions, by module and what is imported, and why."""


def _modules() -> dict[str, Path]:
    found = {}
    for folder in ("service", "connectors"):
        for path in (ROOT / folder).rglob("*.py"):
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = _modules()


def _is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def _imports(node: ast.AST, *, within: bool = False) -> Iterator[tuple[bool, str]]:
    """Yield what is imported when the code runs, and whether within a function."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from ((within, each.name) for each in child.names)
        elif isinstance(child, ast.ImportFrom):
            assert child.module is not None
            assert child.level == 0
            for each in child.names:
                name = f"{child.module}.{each.name}"
                yield within, name if name in MODULES else child.module
        elif not _is_for_types(child):
            is_function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
            yield from _imports(child, within=within or is_function)


@cache
def _imported(module: str) -> tuple[tuple[bool, str], ...]:
    return tuple(_imports(ast.parse(MODULES[module].read_text())))


@cache
def _loads(module: str) -> frozenset[str]:
    """Return all modules of ours, and packages of others, that importing a module loads."""
    found: set[str] = set()
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found.add(name)
        if name in MODULES:
            waiting += [each for within, each in _imported(name) if not within]
            waiting += [name.rpartition(".")[0]] if "." in name else []
        else:
            found.add(name.partition(".")[0])
    return frozenset(found)


def _deferred() -> list[tuple[str, str]]:
    """Return each import within a function: the module, and what it imports."""
    return sorted({(each, name) for each in MODULES for within, name in _imported(each) if within})


def test_an_import_within_a_function_defers_a_heavy_package() -> None:
    wrong = []
    for module, name in _deferred():
        saved = _loads(name) - _loads(module)
        if not saved & HEAVY.keys() and (module, name) not in EXCEPTIONS:
            wrong.append(f"{module} imports {name}")
    assert wrong == []


def test_every_exception_is_used() -> None:
    assert EXCEPTIONS.keys() - set(_deferred()) == set()
