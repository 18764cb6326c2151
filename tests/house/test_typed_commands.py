"""What pages, messages and hints say to type is a command that there is, with arguments that it takes."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer

from house.machine import ROOT
from rowtide.cli.main import app
from rowtide.cli.pages.reference import commands

PAGES = sorted(
    page
    for folder in ("", "docs/", "docs/*/", "helm/**/", "examples/**/", "benchmarks/", "service/**/project/")
    for page in (*ROOT.glob(f"{folder}*.md"), *ROOT.glob(f"{folder}readme.md.template"))
    # A decision is about its day.
    if page.parent.name != "decisions"
)
MODULES = sorted(
    file
    for package in ("service/rowtide", "connectors/rowtide_connectors")
    for file in (ROOT / package).rglob("*.py")
)
BLOCK = re.compile(r"^ *```(?:bash|console)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"^( *)```.*?^\1```$", re.MULTILINE | re.DOTALL)
MENTION = re.compile(r"`(rowtide [^`]+)`")
DEFAULTS = {"rowtide positions": "rowtide positions show"}
"""Groups with a command that need not be named."""


@cache
def known() -> dict[str, Any]:
    """Return each command by its full name."""
    return dict(commands(app))


def words_of(text: str) -> list[str]:
    """Return the words of a command as a shell reads them, up to the end of the command."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words = []
    for word in lexer:
        if set(word) <= set("();<>|&"):
            break
        words.append(word)
    return words


def refusal(text: str, *, whole: bool) -> str | None:
    """Return why a command cannot be typed, if so.

    A mention, which is not ``whole``, may leave out arguments, and values may be placeholders.
    """
    words = words_of(text)
    if words[1].startswith("-"):
        return (
            None if words[1] in ("--help", "--version", "--debug") or "completion" in words[1] else words[1]
        )
    name = f"{words.pop(0)} {words.pop(0)}"
    group = sorted(each for each in known() if each.startswith(f"{name} "))
    if group:
        if not words and not whole:
            return None
        # The command of a group may come after the pipeline.
        named = next((each for each in words if f"{name} {each}" in group), None)
        if named is not None:
            words.remove(named)
            name = f"{name} {named}"
        name = DEFAULTS.get(name, name)
    if name not in known():
        return f"command {name} does not exist"
    try:
        known()[name].make_context(name, words)
    except typer.BadParameter as error:
        return error.format_message() if whole else None
    except typer.TyperException as error:
        said = error.format_message()
        return None if not whole and re.search(r"requires \S+ argument", said) else said
    except typer.Exit:
        return None
    return None


def typed_lines(page: str) -> Iterator[str]:
    """Yield the commands of a page's blocks, each in one line."""
    for block in BLOCK.findall(page):
        for line in block.replace("\\\n", " ").splitlines():
            if re.match(r" *(\$ )?rowtide ", line):
                yield line.strip().removeprefix("$ ")


def texts(module: ast.Module) -> Iterator[str]:
    """Yield every text of a module; ``1`` stands for what is put into it."""
    inside = set[ast.AST]()
    for node in ast.walk(module):
        if isinstance(node, ast.JoinedStr):
            inside |= set(node.values)
            yield "".join(str(each.value) if isinstance(each, ast.Constant) else "1" for each in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in inside:
            yield node.value


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_of_a_page_can_be_typed(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    refused = {line: refusal(line, whole=True) for line in typed_lines(text)}
    refused |= {each: refusal(each, whole=False) for each in MENTION.findall(CODE.sub("", text))}
    assert {line: why for line, why in refused.items() if why is not None} == {}


def test_commands_of_messages_and_hints_can_be_typed() -> None:
    found = {
        mention: str(file.relative_to(ROOT))
        for file in MODULES
        for text in texts(ast.parse(file.read_text(encoding="utf-8")))
        for mention in MENTION.findall(text)
    }
    refused = {mention: (refusal(mention, whole=False), place) for mention, place in found.items()}
    assert {mention: why for mention, why in refused.items() if why[0] is not None} == {}
    assert len(found) > 40


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("rowtide chek pipeline.sql", "command rowtide chek does not exist"),
        ("rowtide errors resubmitt pipeline.sql", "command rowtide errors does not exist"),
        ("rowtide check pipeline.sql --konfig c.toml", "No such option"),
        ("rowtide check a.sql b.sql", "unexpected extra argument"),
        ("rowtide errors show pipeline.sql first", "Invalid value"),
        ("rowtide check", "Missing argument"),
        ("rowtide run pipeline.sql > out.log &", None),
        ("rowtide positions pipeline.sql skip orders 0 12", None),
        ("rowtide positions pipeline.sql", None),
    ],
)
def test_a_command_that_cannot_be_typed_is_found(line: str, why: str | None) -> None:
    found = refusal(line, whole=True)
    assert found is None if why is None else why in (found or "")
