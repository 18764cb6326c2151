"""Plain technical English in code and docs, and a docstring for every public function that is not an override."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from house.machine import ROOT

pytestmark = pytest.mark.xdist_group("words")
"""One process parses the modules."""

PACKAGES = ("service/rowtide", "connectors/rowtide_connectors")
MODULES = sorted(file for package in PACKAGES for file in (ROOT / package).rglob("*.py"))
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/**/*.md"),
        *(ROOT / page for page in ("tests/README.md", "benchmarks/README.md", "helm/rowtide/README.md")),
        *(ROOT / file for file in ("helm/rowtide/values.yaml", "docker/compose.yaml")),
    ]
)

FORBIDDEN = {
    r"\banew\b": "again, restart, recreate",
    r"\bwork(s|ed|ing)? off\b": "process",
    r"\btells? apart\b": "distinguish",
    r"\btold\b": "report; a variable is named by what it holds",
    r"\bsee the (protocol|contract)\b": "(no docstring)",
    r"\bnobody\b": "no one, or the thing that acts",
    r"\bwhoever\b": "the caller, the client",
    r"\bfor ever\b": "forever",
    r"\bcould not do with\b": "could not process",
    r"\bstands? above\b": "override",
    r"\blets? it go on\b|\bto say (?:it|so) shortly before\b": "continue, apply",
    r"\bsay it again\b": "run the command again",
    r"\bgo(es)? on\b(?! \w+ing)": "continue",
    r"\bclock on the wall\b|\btime on the wall\b": "wall clock",
    r"\btells? (what|how|whether|which|where|why)\b": "return, report",
    r"\bmeets? nothing\b": "matches nothing",
    r"\bgive how (many|much)\b": "return the number of",
    r"\bin the place of (a|that|the)\b": "instead of, replaces",
    r"\bput aside\b|\bkept aside\b": "staged",
    r"\b(comes?|came) round\b": "turn of the loop",
    r"\blooks? on while\b|\blets? (it|them|a query) look on\b": "subscriber",
    r"\ba row a (key|group|period|session)\b": "one row for each",
    r"\btakes? note\b": "note",
    r"\bbegins? from nothing\b": "start from the beginning",
    r"\btakes? over for good\b|\bfor good\b": "permanently",
    r"\ball the same\b": "nevertheless",
    r"\bare to be used\b|\bis to be used\b": "is used",
    r"\bsays? what the compiled form means\b": "is the reference of the compiled form",
}
"""Phrases that a reader has to decode, and what to write."""
IN_MESSAGES = {
    r"\b(?:is|are) no [a-z]": '"x" is not a Y, or: invalid Y: "x"',
    r"\b[Tt]here (?:is|are) no [a-z]+ ?(?:\"|$)": 'Y "x" does not exist',
    r"\bthis is (?:no|not) [a-z]": "invalid Y",
    r"\bcannot stand\b|\bstands? (?:twice|here|at)\b": "is not allowed in, appears twice, is at",
    r"\bbehind\b": "after, below (a bound), lag",
    r"(?:^|[.] )Say\b": "Add --option, Write",
    r"\bGive (?:the|it|a)\b": "Set, Pass, Add",
    r"\bexists? already\b|\bthere already\b": "already exists",
}
"""Phrases that a message or hint of an error does not have, and what to write."""
BEGINNINGS = re.compile(r"(Give|Tell|See that|Take note|Do what|Let go|Forget)\b")
"""First words of a docstring that Return, Yield, Report, Check, Note and Drop replace."""


@cache
def lines() -> list[tuple[str, str]]:
    """Return every line of code and docs, with its place."""
    return [
        (f"{file.relative_to(ROOT)}:{number}", line)
        for file in (*MODULES, *PAGES)
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1)
    ]


@cache
def tree_of(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


@cache
def all_messages() -> list[tuple[str, str]]:
    """Return every message and hint of an error, with its place."""
    return [
        (f"{file.relative_to(ROOT)}:{line}", text)
        for file in MODULES
        for line, text in messages(tree_of(file))
    ]


def docstrings(tree: ast.Module) -> Iterator[tuple[ast.AST, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text is not None:
                yield node, text


@pytest.mark.parametrize("phrase", FORBIDDEN)
def test_code_and_docs_have_no_phrase_that_must_be_decoded(phrase: str) -> None:
    pattern = re.compile(phrase, flags=re.IGNORECASE)
    found = [f"{place}: {line.strip()[:90]}" for place, line in lines() if pattern.search(line)]
    assert found == [], f"write: {FORBIDDEN[phrase]}"


def _last_name(called: ast.expr) -> str:
    return called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")


def messages(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the texts that a user reads when something is refused: of ``raise`` and of ``SomeError(..)``."""
    seen: set[int] = set()
    for node in ast.walk(tree):
        named = isinstance(node, ast.Call) and _last_name(node.func).endswith("Error")
        if not (named or isinstance(node, ast.Raise)):
            continue
        for part in ast.walk(node):
            if id(part) in seen:
                continue
            if isinstance(part, ast.JoinedStr):
                seen.update(id(each) for each in ast.walk(part))
                values = (each.value if isinstance(each, ast.Constant) else "..." for each in part.values)
                yield part.lineno, "".join(map(str, values))
            elif isinstance(part, ast.Constant) and isinstance(part.value, str):
                seen.add(id(part))
                yield part.lineno, part.value


@pytest.mark.parametrize("phrase", IN_MESSAGES)
def test_messages_of_errors_have_no_phrase_that_must_be_decoded(phrase: str) -> None:
    pattern = re.compile(phrase)
    found = [f"{place}: {text[:90]}" for place, text in all_messages() if pattern.search(text)]
    assert found == [], f"write: {IN_MESSAGES[phrase]}"


def test_a_message_with_such_a_phrase_is_found() -> None:
    tree = ast.parse("raise StatementError(f'\"{name}\" is no time', hint='Say it.')")
    assert [text for _, text in messages(tree)] == ['"..." is no time', "Say it."]


def test_docstrings_begin_with_the_field_s_verbs() -> None:
    odd = [
        f"{file.relative_to(ROOT)}: {text.splitlines()[0][:90]}"
        for file in MODULES
        for node, text in docstrings(tree_of(file))
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
