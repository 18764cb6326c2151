"""npm, and the sources of the page with their packages as it installs them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from real.parts import missing

SOURCES = Path(__file__).parents[2] / "service/page"


def npm(folder: Path, *arguments: str) -> str:
    """Run npm in a folder; return what it prints."""
    command = shutil.which("npm")
    if command is None:
        missing("npm", "get it with: bash .ci/tools")
    ran = subprocess.run(
        [command, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.fixture(scope="session")
def page_sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the sources with exactly the locked packages."""
    copy = tmp_path_factory.mktemp("page") / "sources"
    shutil.copytree(SOURCES, copy, ignore=shutil.ignore_patterns("node_modules"))
    npm(copy, "ci", "--ignore-scripts", "--no-audit", "--no-fund")
    return copy


@pytest.fixture(scope="session")
def axe(page_sources: Path) -> str:
    """The script of axe-core."""
    return (page_sources / "node_modules/axe-core/axe.min.js").read_text()
