"""The scripts of .ci: they parse, stop at the first error and say how they are used."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DEPLOY = [ROOT / "tests/deploy" / name for name in ("engine", "images", "cluster")]
SCRIPTS = [*sorted(path for path in (ROOT / ".ci").iterdir() if path.is_file()), *DEPLOY]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_a_script_parses_and_stops_at_the_first_error(script: Path) -> None:
    subprocess.run(["bash", "-n", str(script)], check=True)
    lines = script.read_text().splitlines()
    assert lines[0] == "#!/usr/bin/env bash"
    assert "set -euo pipefail" in lines
    assert os.access(script, os.X_OK)


def test_setup_refuses_what_it_does_not_know() -> None:
    done = subprocess.run(
        ["bash", str(ROOT / ".ci/setup"), "everything"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (2, "usage: bash .ci/setup run|dev\n")


def test_ci_runs_the_test_command_of_the_readme() -> None:
    assert "bash .ci/test" in (ROOT / "README.md").read_text()
    assert 'bash "$(dirname "$0")/test" "$@"' in (ROOT / ".ci/run").read_text()
