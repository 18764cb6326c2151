"""Modules import at their top. An import within a function defers a heavy package, or a feature of few pipelines."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

from house.machine import ROOT

pytestmark = pytest.mark.xdist_group("imports")
"""One process parses the modules."""

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
    "bson": "an extra that may not be installed: only for BSON",
    "google": "an extra that may not be installed: only for Protobuf",
    "jwt": "a tenth of a second, and an extra: only with an OpenID Connect provider",
    "pyarrow": "half of the time of a start, and loads numpy",
    "numpy": "a tenth of a second; settings do without",
}
"""Packages that are imported where they are needed, and why."""

FEATURES = {
    "rowtide.cli.run.asked_row": "the question why a row is there",
    "rowtide.codec.changes.upserts": "messages that change a table",
    "rowtide.codec.changes.debezium_json": "messages of Debezium",
    "rowtide.codec.changes.envelopes": "changes written as Debezium's messages to a topic",
    "rowtide.codec.changes.envelopes_avro": "changes written as Debezium's messages to a topic",
    "rowtide.codec.encode.key_value": "rows written as pairs of names and values to a topic",
    "rowtide.codec.key_value": "messages of format KEY_VALUE",
    "rowtide.codec.raw": "messages of format RAW",
    "rowtide.codec.bson.decoder": "messages of format BSON, and an extra that may not be installed",
    "rowtide.codec.bson.encoder": "rows written as BSON to a topic, and an extra that may not be installed",
    "rowtide.runtime.batches.running": "live processing on Spark",
    "rowtide.runtime.inspect.inferring.of_bson": "an extra that may not be installed",
    "rowtide.codec.xml.decoder": "messages of format XML",
    "rowtide.codec.xml.encoder": "rows written as XML to a topic",
    "rowtide.runtime.inspect.why": "the question why a row is there",
    "rowtide.runtime.inspect.why_not": "the question why a relation is silent",
    "rowtide.sql.catalog.model_classes": "CREATE MODEL, which loads the procedural engine",
    "rowtide.sql.statements.defining": "CREATE FUNCTION and DROP FUNCTION",
}
"""Modules that only some pipelines or requests need, and what needs them. A start of others does not load them."""

EXCEPTIONS: Mapping[tuple[str, str], str] = {
    ("rowtide.__main__", "rowtide.cli.main"): "signals are handled before commands are imported",
    ("rowtide.cli.author.sql", "readline"): "some builds of Python lack it, and only a terminal needs it",
    (
        "rowtide.cli.author.test",
        "rowtide.testing.on_spark",
    ): "loads datasets and Parquet files; only with --runner spark",
    ("rowtide.cli.version", "importlib.metadata"): "loads email, csv and zipfile; only for --version",
}
"""Other imports within functions, by module and what is imported, and why."""


PLAIN = """
CREATE SERVER k FOREIGN DATA WRAPPER KAFKA OPTIONS (bootstrap_servers '127.0.0.1:9', timeout_s '1');
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite:///{folder}/plain.db');
CREATE FOREIGN STREAM orders (ts TIMESTAMP NOT NULL, item VARCHAR(8), qty INTEGER)
  SERVER k OPTIONS (topic 'orders', format 'JSON');
CREATE FOREIGN TABLE totals (minute TIMESTAMP, item VARCHAR(8), qty BIGINT, PRIMARY KEY (minute, item)) SERVER d;
CREATE PUMP p STARTED AS INSERT INTO totals
  SELECT STREAM FLOOR(o.ROWTIME TO MINUTE) AS minute, item, SUM(qty) AS qty
  FROM (SELECT STREAM ts AS ROWTIME, item, qty FROM orders ORDER BY ts WITHIN INTERVAL '5' SECOND) AS o
  GROUP BY FLOOR(o.ROWTIME TO MINUTE), item;
"""


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


def _loaders(wanted: str) -> set[str]:
    """Return all modules that load ``wanted``."""
    return {each for each in MODULES if wanted in _loads(each)}


def _deferred() -> list[tuple[str, str]]:
    """Return each import within a function: the module, and what it imports."""
    return sorted({(each, name) for each in MODULES for within, name in _imported(each) if within})


def test_an_import_within_a_function_defers_a_heavy_package_or_a_feature() -> None:
    wrong = []
    for module, name in _deferred():
        saved = _loads(name) - _loads(module)
        if not saved & (HEAVY.keys() | FEATURES.keys()) and (module, name) not in EXCEPTIONS:
            wrong.append(f"{module} imports {name}")
    assert wrong == []


def test_every_feature_is_imported_within_functions_only() -> None:
    deferred = {name for _, name in _deferred()}
    assert {feature for feature in FEATURES if not deferred & (_loaders(feature) | {feature})} == set()
    for command in ("rowtide.cli.author.check", "rowtide.cli.run.run"):
        assert _loads(command) & FEATURES.keys() == set()


def test_a_start_of_a_plain_pipeline_loads_no_feature(tmp_path: Path) -> None:
    """Run a pipeline from Kafka to SQLite for a second time; nothing listens where its broker should be."""
    (tmp_path / "plain.sql").write_text(PLAIN.format(folder=tmp_path))
    program = (
        "import atexit, sys; atexit.register(lambda: print(*sys.modules)); "
        "from rowtide.__main__ import main; main()"
    )
    run_once = ("run", "--no-wait", "--listen", "127.0.0.1:0")
    for arguments, code in (("check",), 0), (run_once, 3), (run_once, 3):
        command = [arguments[0], str(tmp_path / "plain.sql"), *arguments[1:]]
        run = subprocess.run(
            [sys.executable, "-c", program, *command], capture_output=True, text=True, check=False
        )
        assert run.returncode == code, run.stderr
        loaded = set(run.stdout.split())
        assert "rowtide.sql.pipeline" in loaded
        assert loaded & FEATURES.keys() == set()
    assert "rowtide.runtime.service" in loaded
    assert {each for each in loaded if each.startswith("sqlalchemy.dialects.mysql")} == set()


def test_every_exception_is_used() -> None:
    assert EXCEPTIONS.keys() - set(_deferred()) == set()
