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


def played(tmp_path: Path, *arguments: str, test: int = 0, deploy: int = 0) -> tuple[int, list[str]]:
    """Return the exit code of .ci/run beside scripts that only say that they ran, and what they say."""
    (tmp_path / "run").write_text((ROOT / ".ci/run").read_text())
    for name, code in (("test", test), ("deploy", deploy)):
        (tmp_path / name).write_text(f"echo {name} CI=$CI $*\nexit {code}\n")
    done = subprocess.run(
        ["bash", str(tmp_path / "run"), *arguments], capture_output=True, text=True, check=False
    )
    return done.returncode, [line.rstrip() for line in done.stdout.splitlines()]


def test_ci_runs_the_test_command_of_the_readme_and_then_the_deployment(tmp_path: Path) -> None:
    assert "bash .ci/test" in (ROOT / "README.md").read_text()
    both = ["test CI=true", "deploy CI=true"]
    assert played(tmp_path) == (0, both)
    assert played(tmp_path, test=1) == (1, both)
    assert played(tmp_path, deploy=1) == (1, both)
    assert played(tmp_path, "-m", "kafka") == (0, ["test CI=true -m kafka"])
