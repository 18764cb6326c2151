"""Nothing that a database, a topic or a request holds is run as code."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
UNSAFE_MODULES = {"pickle", "marshal", "shelve", "dill", "cloudpickle"}
UNSAFE_CALLS = {"eval", "exec"}

ALLOWED = {
    "service/rowtide/engine/generated.py": "compiles source text that Rowtide writes, of names that it checks",
    "service/rowtide/runners/spark/frames.py": "reports between the driver and its own tasks",
    "service/rowtide/runners/spark/parts/kept_segments.py": "names of parts between the driver and its own tasks",
    "service/rowtide/runners/spark/parts/queues.py": "names of parts between the driver and its own tasks",
    "service/rowtide/runners/spark/shuffle/blocks.py": "reports between the driver and its own tasks",
    "service/rowtide/runners/spark/shuffle/held.py": "reports between the driver and its own tasks",
    "service/rowtide/runners/spark/stage.py": "states between the driver and its own tasks",
    "service/rowtide/runners/spark/start.py": "states between the driver and its own tasks",
    "service/rowtide/testing/on_spark.py": "rows of a scenario, between the test and its own tasks",
    "service/rowtide/runners/spark/faults.py": "faults between the tasks of one run",
    "service/rowtide/runners/spark/waiting.py": "places of rows between the driver and its own tasks",
    "service/rowtide/runtime/backfill/backfill_output.py": "error rows between the tasks of one run",
    "service/rowtide/runtime/state/following.py": "rows between the service and the processes of its queries",
    "service/rowtide/runtime/query/query_work.py": "the planned query, from its process to the service that started it",
    "service/rowtide/runtime/inspect/replay_tables.py": "rows in a temporary file that the process itself wrote",
}


def unsafe_uses(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names if each.name.split(".")[0] in UNSAFE_MODULES)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in UNSAFE_MODULES:
            yield str(node.module)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in UNSAFE_CALLS:
            yield node.func.id


def found() -> dict[str, list[str]]:
    files = [*ROOT.glob("service/**/*.py"), *ROOT.glob("connectors/**/*.py")]
    uses = {str(file.relative_to(ROOT)): list(unsafe_uses(file)) for file in files}
    return {name: used for name, used in uses.items() if used}


def test_only_these_modules_read_pickles_or_run_text() -> None:
    assert sorted(found()) == sorted(ALLOWED), found()
