"""Citations lead to pages of this repository: what a comment or docstring names, a reader can open.

Code and tests cite a section of the documentation as ``docs/page.md#anchor``; further sections of the
same page follow as ``, #anchor``. A work outside of the repository is cited by its title and section.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from house.machine import ROOT
from house.test_docs import anchors

FOLDERS = ("service", "connectors", "tests", "docs", "examples", "benchmarks", "docker", "helm", ".ci")
KINDS = {".py", ".md", ".yaml", ".txt", ".sql", ".toml", ".mako", ""}
CITATION = re.compile(r"\bdocs/([\w/-]+\.md)((?:#[\w-]+)(?:,\s+#[\w-]+)*)?")
LINE_BREAK = re.compile(r"\n\s*(?:# )?")
FORBIDDEN = {
    "rules that are numbered outside of the repository": r"sql-decisions|\b(?:engine|sql)[- ]decisions? \d",
    "numbered documents outside of the repository": r"\bseed 00\d|\bguide lines \d|\bvectors(?:\.md| \d)",
    "numbers of an inventory": r"\b(?:LJ|RN|JT|SA|AO|SJ|CL|AG|TB|IT|FP|AT|CX|CD|TM)-\d\d\b",
    "numbers of issues and complaints": r"\bissue #?\d|\bcomplaints? [A-Z]\d",
}
"""What is forbidden, and what shows it; without regard to case. Titles of sections take their place."""
NUMBERED_DECISION = re.compile(r"(?<!\[)\bdecisions? \d+\b(?!\])")
"""In code: a decision record is cited by its page, in documentation by a link."""


def sources() -> Iterator[tuple[str, str]]:
    """Yield each text of the repository with its path."""
    paths = [*ROOT.glob("*.md"), *(path for folder in FOLDERS for path in (ROOT / folder).rglob("*"))]
    for path in paths:
        if (
            path.is_file()
            and path.suffix in KINDS
            and "__pycache__" not in path.parts
            and path != Path(__file__)
        ):
            yield str(path.relative_to(ROOT)), path.read_text(errors="replace")


SOURCES = dict(sources())


def test_every_citation_names_a_page_and_a_section_that_exist() -> None:
    wrong = []
    known: dict[str, set[str]] = {}
    for path, text in SOURCES.items():
        for page, sections in CITATION.findall(LINE_BREAK.sub(" ", text)):
            if page not in known:
                file = ROOT / "docs" / page
                known[page] = anchors(file) if file.exists() else set()
            missing = [each for each in re.findall(r"#([\w-]+)", sections) if each not in known[page]]
            if missing or not known[page]:
                wrong.append(f"{path}: docs/{page} {' '.join(missing)}".rstrip())
    assert wrong == []


NAMED_PATH = re.compile(
    r"`([a-z]\w+/[\w./-]*\w\.(?:py|sql|yaml|toml|md)|(?:service|connectors|tests)/[\w./-]+)`"
)
PLACEHOLDER = re.compile(r"\bname\b|_name_|_name\.")
"""In recipes ``name`` stands for what the reader adds."""
ABOVE = ("", "service/rowtide", "connectors", "docs", "tests")
"""Where a path of a page may begin."""


def test_files_that_a_page_names_exist() -> None:
    """The changelog and decision records speak of their own day."""
    wrong = [
        f"{path}: {named}"
        for path, text in SOURCES.items()
        if path.endswith(".md") and not path.startswith(("CHANGELOG.md", "docs/decisions/"))
        for named in NAMED_PATH.findall(text)
        if not PLACEHOLDER.search(named) and not any((ROOT / above / named).exists() for above in ABOVE)
    ]
    assert wrong == []


NAMED_IN_CODE = re.compile(r"``((?:[a-z]\w*\.)+\w+)(?:\(\))?``")
MODULES = {
    Path(name).with_suffix("").parts[1:]: text
    for name, text in SOURCES.items()
    if name.startswith(("service/", "connectors/")) and name.endswith(".py")
}
ROOMS = {room for parts in MODULES for room in parts[1:-1]}


def _is_there(named: Sequence[str]) -> bool:
    """Return whether a module ends with the first of these names, and its text has the others."""
    for at in range(len(named), 0, -1):
        ends = (tuple(named[:at]), (*named[:at], "__init__"))
        homes = [text for parts, text in MODULES.items() if any(parts[-len(end) :] == end for end in ends)]
        if any(all(re.search(rf"\b{name}\b", text) for name in named[at:]) for text in homes):
            return True
    return False


def test_modules_that_a_docstring_names_exist() -> None:
    wrong = []
    for parts, text in MODULES.items():
        for named in NAMED_IN_CODE.findall(text):
            names = named.removeprefix("rowtide.").split(".")
            if names[0] in ROOMS and not _is_there(names):
                wrong.append(f"{'.'.join(parts)}: {named}")
    assert wrong == []


def test_there_are_citations() -> None:
    """The patterns find something, in code and in tests."""
    cited = [path for path, text in SOURCES.items() if re.search(r"docs/sql/semantics\.md#", text)]
    assert len([path for path in cited if path.startswith("service/")]) > 20
    assert len([path for path in cited if path.startswith("tests/")]) > 10


@pytest.mark.parametrize("pattern", FORBIDDEN.values(), ids=FORBIDDEN)
def test_nothing_is_cited_that_a_reader_cannot_open(pattern: str) -> None:
    found = [
        f"{path}: {match[0]}"
        for path, text in SOURCES.items()
        for match in re.finditer(pattern, LINE_BREAK.sub(" ", text), flags=re.IGNORECASE)
    ]
    assert found == []


def test_code_cites_no_decision_by_its_number() -> None:
    found = [
        f"{path}: {match[0]}"
        for path, text in SOURCES.items()
        if path.endswith((".py", ".yaml"))
        for match in NUMBERED_DECISION.finditer(text)
    ]
    assert found == []
