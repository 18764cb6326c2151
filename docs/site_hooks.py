"""For mkdocs: what its pages need that a page of the repository does not.

* Links to files outside of ``docs``, which the site does not hold, become plain text. That each of them leads
  somewhere in the repository is checked by tests/house/test_docs.py.
* What belongs to an item of a list is indented by four spaces, as Python-Markdown wants it.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Any

LINK = re.compile(r"(?<!!)\[([^\]]*)\]\((?![a-z]+:)([^)#\s]+)(#[^)\s]*)?\)")
ITEM = re.compile(r" *([*-]|\d+\.) ")
INDENT = 4


def leaves(page: str, target: str) -> bool:
    """Return whether a link of a page leads out of the folder of the documentation."""
    depth = 0
    for part in (PurePosixPath(page).parent / target).parts:
        depth += -1 if part == ".." else 1
        if depth < 0:
            return True
    return False


def indented(markdown: str) -> str:
    """Return the text with the contents of list items indented by four spaces a level."""
    lines: list[str] = []
    widths: list[int] = []  # of the markers of the items that a line is in
    in_code = False
    for line in markdown.split("\n"):
        indent = len(line) - len(line.lstrip())
        while line.strip() and not in_code and widths and indent < sum(widths):
            widths.pop()
        shift = INDENT * len(widths) - sum(widths)
        lines.append(" " * shift + line if line.strip() else line)
        if line.lstrip().startswith("```"):
            in_code = not in_code
        elif not in_code and (item := ITEM.match(line)):
            widths.append(len(item[1]) + 1)
    return "\n".join(lines)


def on_page_markdown(markdown: str, *, page: Any, **_: object) -> str:
    """Return the text of a page as the site needs it; mkdocs calls this for each page."""

    def shown(link: re.Match[str]) -> str:
        return link[1] if leaves(page.file.src_uri, link[2]) else link[0]

    return indented(LINK.sub(shown, markdown))
