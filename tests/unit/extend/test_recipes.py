"""docs/extend: each page is followed literally, and what it adds works.

Blocks of a page whose first line names a file are written, those with ``---`` and a file change that file. A
process then finds the changed modules before those of the checkout.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.package import install

ROOT = Path(__file__).parents[3]
PAGES = sorted((ROOT / "docs" / "extend").glob("*.md"))
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
PATH = re.compile(r"`((?:service|tests|docs)/[\w/.-]+\.\w+)`")
FOLLOW = """
import sys
from importlib.abc import MetaPathFinder
from importlib.util import spec_from_file_location
from pathlib import Path

class Changed(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        file = Path(sys.path[0], "service", *name.split(".")).with_suffix(".py")
        return spec_from_file_location(name, file) if file.exists() else None

sys.meta_path.insert(0, Changed())
from rowtide.__main__ import main
main()
"""


def followed(page: str, root: Path) -> str | None:
    """Make the changes of a page below ``root``; return its scenario, if it has one."""
    scenario = None
    for language, text in BLOCK.findall((ROOT / "docs" / "extend" / page).read_text()):
        first, _, rest = text.partition("\n")
        if language == "yaml":
            scenario = text
        elif language == "python" and first.startswith("# "):
            write(root / first.removeprefix("# "), rest)
        elif language == "diff":
            name = first.removeprefix("--- ")
            file = root / name
            source = (file if file.exists() else ROOT / name).read_text()
            lines = rest.splitlines(keepends=True)
            before = "".join(line[1:] for line in lines if not line.startswith("+"))
            after = "".join(line[1:] or "\n" for line in lines if not line.startswith("-"))
            assert source.count(before) == 1, f"{page}: {name} has no such lines\n{before}"
            write(file, source.replace(before, after))
    write(root / "follow.py", FOLLOW)
    return scenario


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def rowtide(root: Path, *args: str) -> str:
    """Run a command with the changes below ``root``."""
    ran = subprocess.run(
        [sys.executable, str(root / "follow.py"), *args],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(root), *sys.path])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.mark.parametrize("page", ["function.md", "aggregate.md", "operator.md", "format.md"])
def test_a_page_with_a_scenario_is_followed(page: str, tmp_path: Path) -> None:
    scenario = followed(page, tmp_path)
    assert scenario is not None
    write(tmp_path / "example.yaml", scenario)
    assert "1 passed, 0 failed" in rowtide(tmp_path, "test", str(tmp_path / "example.yaml"))


def test_the_page_of_commands_is_followed(tmp_path: Path) -> None:
    followed("command.md", tmp_path)
    write(tmp_path / "p.sql", "CREATE STREAM s (n INTEGER); CREATE VIEW v AS SELECT STREAM n FROM s;")
    assert rowtide(tmp_path, "relations", str(tmp_path / "p.sql")).split() == ["S", "V"]
    assert "List the names of the relations" in rowtide(tmp_path, "--help")


def test_the_page_of_connectors_is_followed(tmp_path: Path) -> None:
    followed("connector.md", tmp_path)
    entry = re.search(r'`(parrot = "[\w:]+")`', (ROOT / "docs/extend/connector.md").read_text())
    assert entry is not None
    point = entry.group(1).replace('"', "")
    name, _, value = point.partition(" = ")
    install(tmp_path, "parrot", "rowtide.connectors", {name: value})
    assert "topics that repeat what they are sent" in rowtide(tmp_path, "connectors", "list")
    statements = (
        "CREATE SERVER p FOREIGN DATA WRAPPER PARROT;"
        "CREATE FOREIGN STREAM s (n INTEGER) SERVER p OPTIONS (topic 's');"
    )
    write(tmp_path / "p.sql", statements)
    assert "is accepted" in rowtide(tmp_path, "check", str(tmp_path / "p.sql"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_a_page_names_exist(page: Path) -> None:
    named = {each for each in PATH.findall(page.read_text()) if "name" not in each}
    assert {each for each in named if not (ROOT / each).exists()} == set()
