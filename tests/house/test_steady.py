"""No result of a test depends on load, date or other tests, as far as its text shows it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.xdist_group("steady")
"""One process parses the tests."""

TESTS = Path(__file__).parents[1]
MODULES = sorted(TESTS.rglob("*.py"))

SLEEPERS = {
    "chaos/faults.py": "a fault lasts for a drawn time",
    "integration/runtime/test_killed_again_and_again.py": "kills come at drawn times",
    "integration/runtime/test_memory_stays_bounded.py": "a stream that must not move has time to do so",
    "integration/runtime/test_polled_tables_on_postgres.py": "polls come at intervals",
    "integration/runtime/test_replicas_take_over.py": "kills come at drawn times, messages one after the other",
    "integration/runtime/test_several_topics_on_kafka.py": "kills come at drawn times",
    "integration/runtime/test_table_round_trip.py": "kills come at drawn times",
    "integration/runtime/test_topic_written_exactly_once.py": "kills come at drawn times",
    "property/runtime/test_any_number_of_threads.py": "threads get ahead of one another",
    "unit/connectors/test_several.py": "a reader waits as long as it is asked to",
    "unit/runtime/test_inbox.py": "a thread that must not read has time to do so",
    "unit/runtime/test_outbox_of_a_broker_that_is_down.py": "a service that must not read has time to do so",
    "unit/web/test_connections.py": "a client sends slowly",
}
"""Files that sleep outside a loop that asks for an event, and why."""


def is_call(node: ast.AST, owner: str, *names: str) -> bool:
    """Return whether ``node`` calls one of these functions of a module of this name."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == owner
        and (not names or node.func.attr in names)
    )


def sleeps(node: ast.AST, *, waits: bool = False) -> Iterator[int]:
    """Yield the lines that sleep, but for those of a ``while`` loop: it asks, and goes on with the event."""
    if is_call(node, "time", "sleep") and not waits:
        yield node.lineno  # type: ignore[attr-defined]
    for child in ast.iter_child_nodes(node):
        yield from sleeps(
            child, waits=isinstance(node, ast.While) or (waits and not isinstance(node, ast.For))
        )


def shared_draws(tree: ast.Module) -> Iterator[int]:
    """Yield the lines that draw from the generator of the process, or make one that all tests of a module share."""
    imports_random = any(
        isinstance(node, ast.Import) and any(each.name == "random" for each in node.names)
        for node in ast.walk(tree)
    )
    for node in ast.walk(tree):
        if imports_random and is_call(node, "random") and not is_call(node, "random", "Random"):
            yield node.lineno  # type: ignore[attr-defined]
    for statement in tree.body:
        if isinstance(statement, ast.Assign | ast.AnnAssign) and is_call(
            statement.value or statement, "random", "Random"
        ):
            yield statement.lineno


def dates(tree: ast.Module) -> Iterator[int]:
    """Yield the lines that read the clock while a module is imported: they choose what is tested."""
    for statement in tree.body:
        if not isinstance(statement, ast.FunctionDef | ast.ClassDef):
            for node in ast.walk(statement):
                if is_call(node, "time", "time", "time_ns") or is_call(node, "date", "today"):
                    yield node.lineno  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def trees() -> dict[str, ast.Module]:
    return {file.relative_to(TESTS).as_posix(): ast.parse(file.read_text()) for file in MODULES}


def test_a_test_waits_for_an_event_and_not_for_a_time(trees: dict[str, ast.Module]) -> None:
    assert {name for name, tree in trees.items() if any(sleeps(tree))} == SLEEPERS.keys()


def test_a_draw_added_in_one_place_moves_no_case_of_another(trees: dict[str, ast.Module]) -> None:
    assert {name: lines for name, tree in trees.items() if (lines := [*shared_draws(tree)])} == {}


def test_the_date_does_not_choose_what_is_tested(trees: dict[str, ast.Module]) -> None:
    assert {name: lines for name, tree in trees.items() if (lines := [*dates(tree)])} == {}


def test_what_must_not_be_is_found() -> None:
    tree = ast.parse(
        "import random, time\n"
        "RNG = random.Random(1)\n"
        "TURN = time.time() // 3\n"
        "def test_it():\n"
        "    random.choice((1, 2))\n"
        "    time.sleep(1)\n"
        "    while not done():\n"
        "        time.sleep(1)\n"
        "        for _ in range(3):\n"
        "            time.sleep(1)\n"
        "    rng = random.Random(2)\n"
    )
    assert [*sleeps(tree)] == [6, 10]
    assert [*shared_draws(tree)] == [5, 2]
    assert [*dates(tree)] == [3]
