"""docs/reference/sql-features.md, generated from what the grammar, the aggregates and the functions declare.

``python -m rowtide.cli.pages.sql_reference docs/sql > docs/reference/sql-features.md``
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import get_args

from rowtide.expr.aggregates import AGGREGATES, SPELLED, Aggregate, Family
from rowtide.expr.aggregates.aggregate import never, never_over
from rowtide.sql.expressions.aggregate_list import GROUP_WINDOWS, WINDOW_EDGES
from rowtide.sql.expressions.function_calls import scalar_functions
from rowtide.sql.grammar import habits
from rowtide.sql.grammar.clauses.aggregate_forms import OTHER_NAMES
from rowtide.sql.grammar.statements import QueryStatement, Statement

HEAD = """\
# Features of SQL

Every statement, aggregate and function, with the page that describes it, and what to write for names of other
systems. `python -m rowtide.cli.pages.sql_reference docs/sql` writes this page, and a test checks that it is current.
[Limitations](../limitations.md) lists what is refused.
"""
_STATEMENTS = """
## Statements

A statement of a *file* stands in a pipeline file and at the prompt of `rowtide sql`.

| statement | where | page |
|---|---|---|
"""
_AGGREGATES = """
## Aggregates and window functions

*Groups* are GROUP BY with a period, *changes* are EMIT CHANGES and queries over tables, *windows* are OVER. `compiled`
runs as machine code for numbers and times, at least without DISTINCT; `yes` runs row by row.

| function | groups | changes | windows | page |
|---|---|---|---|---|
"""
_FUNCTIONS = """
## Functions

| functions | page |
|---|---|
"""
_ELSEWHERE = """
## Names of other systems

A statement that uses one of these is refused with this hint.

| name | hint |
|---|---|
"""
_CALLED_OTHERWISE = frozenset({"AND", "OR", "NOT", "CASE", "COUNT"})

Pages = Mapping[str, str]
"""The text of each page of docs/sql, by its name."""


def features_page(pages: Pages) -> str:
    """Return the page as Markdown.

    Raises:
      LookupError: no page describes a feature.
    """
    return "".join(
        (
            HEAD,
            _STATEMENTS,
            *(_row(_code(text), where, _link(pages, page)) for text, where, page in _statements(pages)),
            _AGGREGATES,
            *(_aggregate(each, pages) for each in AGGREGATES.values() if each.names),
            _FUNCTIONS,
            *(_row(names, page) for names, page in _functions(pages)),
            _ELSEWHERE,
            *(_row(names, hint) for names, hint in _elsewhere()),
        )
    )


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |\n"


def _code(text: str) -> str:
    return "`" + text.replace("|", "\\|") + "`"


def _statements(pages: Pages) -> Iterator[tuple[str, str, str]]:
    """Yield each statement as it is written, where it stands, and the name of its page."""
    for kind in get_args(Statement):
        docstring = " ".join((kind.__doc__ or "").split())
        if kind is QueryStatement:
            docstring = "SELECT .. FROM ..; only for a prompt"
        written = re.split(r"(?<!\.)[.;:](?: |$)|; ", docstring, maxsplit=1)[0].replace("``", "")
        where = "prompt" if "only for a prompt" in docstring else "file"
        yield written, where, _page_of_statement(written, pages)


def _page_of_statement(written: str, pages: Pages) -> str:
    """Return the name of the page whose syntax has the most words of a statement in one line."""
    words = re.findall(r"\b[A-Z]+\b", re.sub(r"\[[^]]*\]| or [A-Z]+", "", written))
    found = dict[str, int]()
    for name, text in pages.items():
        blocks = "".join(re.findall(r"```text\n(.*?)```", text, re.DOTALL)).splitlines()
        lines = [*blocks, *re.findall(r"^`([^`]+)`", text, re.MULTILINE)]
        of_kind = [line for line in lines if re.match(rf"{words[0]}\b", line)]
        found[name] = max((sum(word in line for word in words) for line in of_kind), default=0)
    best = max(found.values())
    if best < min(2, len(words)):
        raise LookupError(f"no page has the syntax of {written}")
    own = (name for name, count in found.items() if count and _title(pages[name]) == words[0])
    return next(own, next(name for name, count in found.items() if count == best))


def _aggregate(of: Aggregate, pages: Pages) -> str:
    ranks = of.family is Family.RANK
    cells = (
        _form(there=of.in_groups, compiled=of.compiled.group is not never),
        _form(there=of.in_groups, compiled=of.compiled.running is not never),
        _form(there=of.over_windows, compiled=ranks or of.compiled.window is not never_over),
    )
    page = "group-by.md" if of.in_groups else "windows.md"
    if not any(name in pages[page] for name in of.names):
        raise LookupError(f"{page} does not describe {of.name}")
    written = of.written or tuple(f"{name}(x)" for name in of.names)
    anchor = "#aggregates" if of.in_groups else ""
    return _row(" ".join(map(_code, written)), *cells, f"[{_title(pages[page])}](../sql/{page}{anchor})")


def _form(*, there: bool, compiled: bool) -> str:
    return ("compiled" if compiled else "yes") if there else "no"


def _functions(pages: Pages) -> Iterator[tuple[str, str]]:
    """Yield the scalar functions of each section of the pages, with a link to it."""
    found = defaultdict[str, list[str]](list)
    names = {*scalar_functions(), *OTHER_NAMES, *GROUP_WINDOWS, *WINDOW_EDGES} - {
        *_CALLED_OTHERWISE,
        *SPELLED,
    }
    for name in sorted(names):
        if not name.startswith("$"):
            found[_section(name, pages)].append(name)
    for link in sorted(found):
        yield " ".join(map(_code, found[link])), link


def _section(name: str, pages: Pages) -> str:
    """Return a link to the section that describes a function: in the first cell of a table, or else in a list."""
    named = rf"`(?:[^`|]*[ (])?{re.escape(name)}\b"
    for pattern in (rf"\| [^|]*{named}", rf"[*| ].*{named}"):
        for page in ("expressions.md", "group-by.md", "temporal-predicates.md", "windows.md"):
            heading = _title(pages[page])
            for line in pages[page].splitlines():
                if line.startswith("## "):
                    heading = line[3:]
                if re.match(pattern, line):
                    return f"[{heading}](../sql/{page}{_anchor(heading, pages[page])})"
    raise LookupError(f"no page describes the function {name}")


def _anchor(heading: str, page: str) -> str:
    return "" if heading == _title(page) else "#" + re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def _title(page: str) -> str:
    return page.splitlines()[0].removeprefix("# ")


def _link(pages: Pages, page: str) -> str:
    return f"[{_title(pages[page])}](../sql/{page})"


def _elsewhere() -> Iterator[tuple[str, str]]:
    """Yield names of functions and types that do not exist, those with one hint together."""
    by_hint = defaultdict[str, list[str]](list)
    for name, hint in (*habits.FUNCTIONS.items(), *habits.TYPES.items()):
        by_hint[hint].append(name)
    for hint, names in by_hint.items():
        yield " ".join(map(_code, sorted(names))), hint.replace("|", "\\|")


def read_pages(folder: Path) -> Pages:
    """Return the pages of docs/sql."""
    return {each.name: each.read_text(encoding="utf-8") for each in sorted(folder.glob("*.md"))}


if __name__ == "__main__":
    sys.stdout.write(features_page(read_pages(Path(sys.argv[1]))))
