"""Programs that the checks of the house call, and what happens where one is missing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def program(name: str, how: str) -> str:
    """Return the path of a program: of this environment, of PATH, or of the cache that .ci/tools fills.

    Where it is missing the test fails in CI and is skipped elsewhere; ``how`` says how to get it.
    """
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    cache = Path(os.environ.get("ROWTIDE_CACHE") or Path(home) / "rowtide")
    places = [str(Path(sys.executable).parent), os.environ.get("PATH", ""), str(cache / "bin")]
    found = shutil.which(name, path=os.pathsep.join(places))
    if found is None:
        missing = f"{name} is missing: {how}"
        if os.environ.get("CI") == "true":
            pytest.fail(missing)
        pytest.skip(missing)
    return found


def run(*command: str) -> subprocess.CompletedProcess[str]:
    """Run a program to its end and give its exit code and what it wrote."""
    return subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
