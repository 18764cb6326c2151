"""Plain technical English in code and docs, and a docstring for every public function that is not an override."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from house.machine import ROOT

PACKAGES = ("service/rowtide", "connectors/rowtide_connectors")
MODULES = sorted(file for package in PACKAGES for file in (ROOT / package).rglob("*.py"))
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])

FORBIDDEN = {
    r"\banew\b": "again, restart, recreate",
    r"\bwork(s|ed|ing)? off\b": "process",
    r"\btold apart\b|\btells? apart\b": "distinguish",
    r"\b(is|are|was|were|be|been) told\b": "report",
    r"\bsee the (protocol|contract)\b": "(no docstring)",
    r"\bnobody\b": "no one, or the thing that acts",
    r"\bwhoever\b": "the caller, the client",
}
"""Phrases that a reader has to decode, and what to write."""
BEGINNINGS = re.compile(r"(Give|Tell)\b")
"""First words of a docstring that Return, Yield, Report and Pass replace."""


def docstrings(tree: ast.Module) -> Iterator[tuple[ast.AST, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text is not None:
                yield node, text


@pytest.mark.parametrize("phrase", FORBIDDEN)
def test_code_and_docs_have_no_phrase_that_must_be_decoded(phrase: str) -> None:
    pattern = re.compile(phrase, flags=re.IGNORECASE)
    found = [
        f"{file.relative_to(ROOT)}:{number}: {line.strip()[:90]}"
        for file in (*MODULES, *PAGES)
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1)
        if pattern.search(line)
    ]
    assert found == [], f"write: {FORBIDDEN[phrase]}"


def test_docstrings_begin_with_the_field_s_verbs() -> None:
    odd = [
        f"{file.relative_to(ROOT)}: {text.splitlines()[0][:90]}"
        for file in MODULES
        for node, text in docstrings(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and BEGINNINGS.match(text)
    ]
    assert odd == []


def test_a_public_method_is_documented_where_it_is_declared() -> None:
    """A method without a docstring has the name of a documented one: it implements or overrides that."""
    documented: set[str] = set()
    bare: list[tuple[Path, str, str]] = []
    for file in MODULES:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.ClassDef):
                continue
            for each in node.body:
                if not isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) or each.name.startswith("_"):
                    continue
                if ast.get_docstring(each) is not None:
                    documented.add(each.name)
                elif not node.name.startswith("_"):
                    bare.append((file, node.name, each.name))
    missing = [
        f"{file.relative_to(ROOT)}: {owner}.{name}" for file, owner, name in bare if name not in documented
    ]
    assert missing == []
