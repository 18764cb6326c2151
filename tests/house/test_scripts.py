"""The scripts of .ci: they parse, stop at the first error and say how they are used."""

from __future__ import annotations

import os
import re
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


def test_each_long_test_is_in_a_part_of_the_long_run() -> None:
    # .ci/long calls .ci/deploy for the tests of the deployment.
    folders = (*re.findall(r"tests/[a-z/]+", (ROOT / ".ci/long").read_text()), "tests/deploy")
    marked = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "tests").rglob("test_*.py")
        if re.search(r"mark\.long|seeds\(", path.read_text())
    }
    assert len(marked) > 20
    assert {
        path for path in marked if not path.startswith(tuple(f"{folder}/" for folder in folders))
    } == set()


def test_green_says_whether_this_very_tree_has_passed(tmp_path: Path) -> None:
    clone, cache = tmp_path / "clone", tmp_path / "cache"
    (clone / ".ci").mkdir(parents=True)
    (clone / ".ci/green").write_text((ROOT / ".ci/green").read_text())
    environment = {**os.environ, "ROWTIDE_CACHE": str(cache)}

    def git(*arguments: str) -> str:
        command = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments]
        return subprocess.run(command, cwd=clone, capture_output=True, text=True, check=True).stdout.strip()

    def green() -> tuple[int, str]:
        done = subprocess.run(
            ["bash", ".ci/green"], cwd=clone, env=environment, capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout + done.stderr

    git("init", "--quiet")
    git("add", "--all")
    git("commit", "--quiet", "--message", "one")
    tree = git("rev-parse", "HEAD^{tree}")
    assert green() == (
        1,
        f"Tree {tree} has not passed .ci/test on a fresh clone on this machine.\n",
    )
    cache.mkdir()
    (cache / "green").write_text(f"{tree} 2026-01-02T03:04:05Z 840\n")
    assert green() == (0, f"Tree {tree} passed on 2026-01-02T03:04:05Z in 14 minutes.\n")
    # What is not committed counts, and stays as it is.
    (clone / "new.txt").write_text("new\n")
    code, said = green()
    assert code == 1
    assert f"Tree {tree} passed last, on 2026-01-02T03:04:05Z.\nWhat differs from it:\n new.txt | 1 +" in said
    assert git("status", "--porcelain") == "?? new.txt"
