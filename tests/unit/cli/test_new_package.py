"""``rowtide connectors new``: a package that works as written, and nothing half-written."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from house.machine import ROOT
from rowtide.cli.main import app
from support.package import install


def new(folder: Path, *args: str) -> Result:
    return CliRunner().invoke(app, ["connectors", "new", "--in", str(folder), *args])


def contents(folder: Path) -> set[str]:
    return {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}


@pytest.mark.parametrize(
    ("kind", "file", "tests"),
    [("--connector", "connector", "17 passed, 3 skipped"), ("--codec", "codec", "12 passed")],
)
def test_a_package_passes_its_tests_and_is_short(tmp_path: Path, kind: str, file: str, tests: str) -> None:
    written = new(tmp_path, "my_weather", kind)
    assert written.exit_code == 0, written.output
    package = tmp_path / "rowtide-my-weather"
    assert f"{package}: a package with the " in written.output
    assert contents(package) == {
        "README.md",
        "pyproject.toml",
        "src/rowtide_my_weather/__init__.py",
        f"src/rowtide_my_weather/{file}.py",
        "src/rowtide_my_weather/py.typed",
        "tests/test_my_weather.py",
    }
    assert not [name for name in contents(package) if "{{" in (package / name).read_text()]
    module = package / f"src/rowtide_my_weather/{file}.py"
    assert len(module.read_text().splitlines()) < 100
    for command in (["check", "--select", "E,F,I,B,UP,SIM"], ["format", "--check"]):
        ruff = ["ruff", *command, "--isolated", "--line-length", "120", str(package)]
        subprocess.run(ruff, check=True, capture_output=True)
    # What an installer makes of pyproject.toml.
    ((group, points),) = tomllib.loads((package / "pyproject.toml").read_text())["project"][
        "entry-points"
    ].items()
    install(package / "src", "rowtide-my-weather", group, points)
    path = os.pathsep.join([str(package / "src"), str(ROOT / "service"), str(ROOT / "connectors")])
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=package,
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert tests in ran.stdout, ran.stdout + ran.stderr


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["Weather"], '"Weather" is not a valid name of a connector'),
        (["1st"], "is not a valid name"),
        (["a-b"], "is not a valid name"),
        (["a__b"], "is not a valid name"),
        (["../up"], "is not a valid name"),
        (["x" * 41], "is not a valid name"),
        (["class"], '"class" is a keyword of Python'),
        (["kafka"], 'connector "kafka" already exists'),
        (["json", "--codec"], 'format "json" already exists'),
    ],
)
def test_a_name_that_cannot_be_used_is_refused(tmp_path: Path, args: list[str], said: str) -> None:
    answer = new(tmp_path, *args)
    assert answer.exit_code == 2
    assert said in answer.output
    assert "hint: " in answer.output
    assert list(tmp_path.iterdir()) == []


def test_a_connector_may_have_the_name_of_a_format(tmp_path: Path) -> None:
    assert new(tmp_path, "json").exit_code == 0


def test_an_existing_folder_stays_as_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "rowtide-weather"
    folder.mkdir()
    (folder / "notes").write_text("mine")
    answer = new(tmp_path, "weather")
    assert answer.exit_code == 2
    assert f'"{folder}" already exists' in answer.output
    assert contents(tmp_path) == {"rowtide-weather/notes"}


def test_a_folder_that_cannot_be_written_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = new(tmp_path / "nowhere", "weather")
    assert answer.exit_code == 2
    assert "cannot be written: No such file or directory" in answer.output

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("shutil.move", full)
    answer = new(tmp_path, "weather")
    assert answer.exit_code == 2
    assert "cannot be written: No space left on device" in answer.output
    assert list(tmp_path.iterdir()) == []
