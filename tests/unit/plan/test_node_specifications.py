"""Every kind of plan node answers its specification; other code asks it and does not switch over kinds."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

import pytest

from rowtide.operators.registry import OPERATORS
from rowtide.plan import nodes
from rowtide.plan.nodes.node import Node

MODULES = [import_module(each.name) for each in walk_packages(nodes.__path__, f"{nodes.__name__}.")]
ABSTRACT = {"Node", "OverOne", "SameFields", "RowWiseNode", "Dropping", "Entrance", "PartitionChanges"}
KINDS = [
    kind
    for module in MODULES
    for name, kind in vars(module).items()
    if isinstance(kind, type)
    and issubclass(kind, Node)
    and kind.__module__ == module.__name__
    and not (name in ABSTRACT or name.startswith("_"))
]
MUST_ANSWER = (
    *("inputs", "reading", "is_changelog", "only_inserts", "holds_rowtime", "keeps", "detail"),
    *("order_through", "made_of"),
)
"""Questions without an answer that fits most kinds."""

SERVICE = Path(__file__).parents[3] / "service" / "rowtide"
MOST_KINDS = 6
"""So many kinds of nodes a module outside of the planner and the operators may import."""
PLANNER_AND_OPERATORS = ("sql", "operators", "plan")
LOOKS_THROUGH = {"plan/narrow.py"}
"""Modules with a loop over one kind of node, as they change what is in it: here the fields of conditions."""


def test_every_kind_is_found() -> None:
    assert set(OPERATORS) <= set(KINDS)
    assert {kind for kind in KINDS if kind not in OPERATORS} == {
        nodes.Source,
        nodes.TableSource,
        nodes.CommittedTable,
        nodes.GroupNode,
    }


@pytest.mark.parametrize("kind", OPERATORS, ids=lambda kind: kind.__name__)
def test_a_kind_answers_what_has_no_common_answer(kind: type[Node]) -> None:
    missing = [name for name in MUST_ANSWER if getattr(kind, name) is getattr(Node, name)]
    assert not missing


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_pickled_node_is_its_fields(kind: type[Node]) -> None:
    """And not its hash, which another process does not share."""
    assert kind.__getstate__ is not object.__getstate__


def test_no_module_beside_planner_and_operators_knows_many_kinds() -> None:
    names = {kind.__name__ for kind in KINDS}
    known = {}
    for file in SERVICE.rglob("*.py"):
        if file.relative_to(SERVICE).parts[0] in PLANNER_AND_OPERATORS:
            continue
        imports = [each for each in ast.walk(ast.parse(file.read_text())) if isinstance(each, ast.ImportFrom)]
        of_plan = [each for each in imports if (each.module or "").startswith("rowtide.plan")]
        known[str(file)] = sorted({alias.name for each in of_plan for alias in each.names} & names)
    assert {file: kinds for file, kinds in known.items() if len(kinds) > MOST_KINDS} == {}


def test_no_loop_looks_through_nodes_by_their_kind() -> None:
    names = {kind.__name__ for kind in KINDS}
    found = set()
    for file in SERVICE.rglob("*.py"):
        for loop in ast.walk(ast.parse(file.read_text())):
            if isinstance(loop, ast.While) and isinstance(loop.test, ast.Call):
                asked = {each.id for each in ast.walk(loop.test) if isinstance(each, ast.Name)}
                if "isinstance" in asked and asked & names:
                    found.add(str(file.relative_to(SERVICE)))
    assert found == LOOKS_THROUGH, "ask the node: keeps_rowtime, keeps_rows, is_row_wise"
