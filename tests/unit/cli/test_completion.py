"""Completion by the shell: `rowtide --install-completion`, and what a shell is then answered."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.core import TyperCommand, TyperOption
from typer.testing import CliRunner

from rowtide.cli.main import Root, app
from rowtide.cli.pages.reference import commands

BY_NAME: dict[str, TyperCommand] = dict(commands(app))


def completed(line: str) -> list[str]:
    """Return what bash offers at the end of a line."""
    words = line.split(" ")
    asked = {
        "_ROWTIDE_COMPLETE": "complete_bash",
        "COMP_WORDS": "\n".join(words),
        "COMP_CWORD": str(len(words) - 1),
    }
    answer = CliRunner().invoke(app, [], env=asked, prog_name="rowtide")
    assert answer.exit_code == 0, answer.output
    return answer.output.split()


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("rowtide ", list(Root.listed)),
        ("rowtide ch", ["check"]),
        ("rowtide connectors in", ["infer"]),
        ("rowtide run p.sql --runner ", ["live", "spark"]),
        ("rowtide run p.sql --runner s", ["spark"]),
        # Nothing: the shell offers files.
        ("rowtide run ", []),
        ("rowtide run p.sql --config ", []),
    ],
)
def test_commands_and_choices_are_completed(line: str, offered: list[str]) -> None:
    assert completed(line) == offered


@pytest.mark.parametrize("name", sorted(BY_NAME))
def test_the_options_of_each_command_are_completed(name: str) -> None:
    shown = [each for each in BY_NAME[name].params if isinstance(each, TyperOption) and not each.hidden]
    long = {text for each in shown for text in (*each.opts, *each.secondary_opts) if text.startswith("--")}
    assert set(completed(f"{name} --")) == {*long, "--help"}


@pytest.mark.parametrize(
    ("shell", "script", "start"),
    [
        ("bash", ".bash_completions/rowtide.sh", ".bashrc"),
        ("zsh", ".zfunc/_rowtide", ".zshrc"),
        ("fish", ".config/fish/completions/rowtide.fish", None),
    ],
)
def test_completion_is_installed_in_the_home_folder(
    shell: str, script: str, start: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    # The shell that runs the test is not the one meant.
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    answer = CliRunner().invoke(app, ["--install-completion", shell], prog_name="rowtide")
    assert answer.exit_code == 0, answer.output
    assert "_ROWTIDE_COMPLETE" in (tmp_path / script).read_text()
    if start is not None:
        assert (tmp_path / start).exists()
    shown = CliRunner().invoke(app, ["--show-completion", shell], prog_name="rowtide")
    assert shown.output.strip() == (tmp_path / script).read_text().strip()


def test_completion_is_for_the_name_of_the_command_however_it_was_called() -> None:
    told = {"PYTHONPATH": os.pathsep.join(sys.path), "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    command = [sys.executable, "-m", "rowtide", "--show-completion", "bash"]
    shown = subprocess.run(command, env=os.environ | told, capture_output=True, text=True, check=True).stdout
    assert shown.splitlines()[-1] == "complete -o default -F _rowtide_completion rowtide"
