"""One name, one meaning: no two public classes have the same name, and no two test files."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict

from house.machine import ROOT

PACKAGES = ("service/rowtide", "connectors/rowtide_connectors")
OF_THE_GUIDE = "service/rowtide/engine/"
"""The procedural engine has the names of the Triceps Developer's Guide, whatever the rest calls so."""


def test_no_two_public_classes_have_one_name() -> None:
    found: dict[str, list[str]] = defaultdict(list)
    for package in PACKAGES:
        for file in (ROOT / package).rglob("*.py"):
            path = str(file.relative_to(ROOT))
            for node in ast.parse(file.read_text()).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    found[node.name].append("engine" if path.startswith(OF_THE_GUIDE) else path)
    twice = {name: places for name, places in found.items() if len(set(places) - {"engine"}) > 1}
    assert twice == {}


def test_arrays_are_named_in_one_module() -> None:
    names = {"Int64s", "Int32s", "Int8s", "Mask", "Bytes", "Floats", "Words"}
    defined = [
        (str(file.relative_to(ROOT)), target.id)
        for file in (ROOT / "service/rowtide").rglob("*.py")
        for node in ast.parse(file.read_text()).body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name) and target.id in names
    ]
    assert {path for path, _ in defined} == {"service/rowtide/rows/arrays.py"}


def test_no_two_test_files_have_one_name() -> None:
    """Folders of tests are no packages, so pytest would collect the first of them only."""
    found = Counter(file.name for file in (ROOT / "tests").rglob("test_*.py"))
    assert [name for name, times in found.items() if times > 1] == []


CALLED = {
    "CommitBatch": "batch",
    "OperatorSite": "site",
    "PartitionId": "partition",
    "PipelineState": "state",
    "SourceSpan": "span",
}
"""What a parameter of a class is called, so that a reader who has met the class once knows it everywhere."""


def test_a_parameter_is_called_after_its_class() -> None:
    found = [
        f"{file.relative_to(ROOT)}:{function.lineno}: {argument.arg}: {kind}"
        for package in (*PACKAGES, "tests")
        for file in (ROOT / package).rglob("*.py")
        for function in ast.walk(ast.parse(file.read_text()))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for kind, (argument, *others) in _by_class(function).items()
        # Two of a class need names that tell them apart.
        if not others and f"_{argument.arg}".rsplit("_", 1)[1] != CALLED[kind]
    ]
    assert found == []


def _by_class(function: ast.FunctionDef | ast.AsyncFunctionDef) -> dict[str, list[ast.arg]]:
    found: dict[str, list[ast.arg]] = defaultdict(list)
    for each in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs):
        kind = "" if each.annotation is None else ast.unparse(each.annotation).removesuffix(" | None")
        if kind in CALLED:
            found[kind].append(each)
    return found
