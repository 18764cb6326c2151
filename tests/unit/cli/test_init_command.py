"""``rowtide init``: a project whose checks pass as it is written, and which runs on the servers that it names."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

import rowtide
from house.machine import ROOT, program, run
from rowtide.cli.main import app

NAME = "corner-shop"


def invoked(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    done = invoked("init", NAME, "--in", str(tmp_path))
    assert done.exit_code == 0, done.output
    return tmp_path / NAME


def test_what_the_command_says_to_type_next_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shop").mkdir()
    done = invoked("init", "shop", "--in", str(tmp_path))
    assert done.exit_code == 0, done.output
    commands = [line.split() for line in done.output.splitlines() if line.startswith("  ")]
    assert commands[0] == ["cd", str(tmp_path / "shop")]
    assert len(commands) == 3
    monkeypatch.chdir(tmp_path / "shop")
    for command in commands[1:]:
        assert command[0] == "rowtide"
        answer = invoked(*command[1:])
        assert answer.exit_code == 0, answer.output
        assert "warning" not in answer.output


def test_the_commands_of_readme_and_workflow_are_commands_that_pass(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project)
    workflow = yaml.safe_load((project / ".github/workflows/test.yaml").read_text())
    steps = [step["run"] for step in workflow["jobs"]["test"]["steps"] if "run" in step]
    lines = [
        line
        for line in (*steps, *(project / "README.md").read_text().splitlines())
        if line.startswith("rowtide ")
    ]
    assert len(lines) == 6
    for line in lines:
        if not line.startswith("rowtide run "):
            answer = invoked(*line.split()[1:])
            assert answer.exit_code == 0, f"{line}\n{answer.output}"


def test_the_readme_shows_what_the_sample_gives(project: Path) -> None:
    rows = [json.loads(line) for line in (project / "sample.jsonl").read_text().splitlines()]
    with rowtide.Pipeline.from_file(project / "pipeline.sql", config=project / "config.toml") as pipeline:
        for row in rows:
            pipeline.insert("orders", [row])
        contents = sorted(pipeline.table("orders_per_minute"))
        assert len(pipeline.errors()) == 0
    shown = re.findall(
        r"^ (\S+ \S+) \| (\w+) +\| +(\d+) \| +(\d+)$", (project / "README.md").read_text(), re.MULTILINE
    )
    assert shown == [
        (f"{end:%Y-%m-%d %H:%M:%S}", product, str(count), str(sum_)) for end, product, count, sum_ in contents
    ]


def test_the_compose_file_fits_the_specification_and_the_settings(project: Path) -> None:
    check = program("check-jsonschema", "pip install check-jsonschema")
    done = run(check, "--builtin-schema", "vendor.compose-spec", str(project / "compose.yaml"))
    assert done.returncode == 0, done.stdout
    compose: dict[str, Any] = yaml.safe_load((project / "compose.yaml").read_text())
    settings = tomllib.loads((project / "config.toml").read_text())
    assert compose["name"] == settings["pipeline"]["name"] == NAME
    services = compose["services"]
    assert (
        settings["servers"]["broker"]["bootstrap_servers"]
        in services["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"]
    )
    assert (
        settings["servers"]["warehouse"]["password"]
        == services["postgres"]["environment"]["POSTGRES_PASSWORD"]
    )
    ours = yaml.safe_load((ROOT / "docker/compose.yaml").read_text())["services"]
    for name in ("kafka", "topics", "postgres", "service"):
        assert services[name]["image"] == ours[name]["image"]
    for service in services.values():
        for waited, wait in service.get("depends_on", {}).items():
            assert ("healthcheck" in services[waited]) == (wait["condition"] == "service_healthy")


def test_the_workflow_fits_the_schema_of_github(project: Path) -> None:
    check = program("check-jsonschema", "pip install check-jsonschema")
    file = project / ".github/workflows/test.yaml"
    done = run(check, "--builtin-schema", "vendor.github-workflows", str(file))
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    "name", ["", "Shop", "1shop", "shop-", "my shop", "my--shop", "../shop", "shop.sql", "büro", "a" * 41]
)
def test_a_name_that_cannot_be_used_is_refused(tmp_path: Path, name: str) -> None:
    answer = invoked("init", name, "--in", str(tmp_path))
    assert answer.exit_code == 2
    assert "hint: Use at most 40 small letters" in answer.output
    assert list(tmp_path.iterdir()) == []


def test_a_folder_with_files_and_a_file_stay_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop/notes").write_text("mine")
    (tmp_path / "store").write_text("mine")
    for name in ("shop", "store"):
        answer = invoked("init", name, "--in", str(tmp_path))
        assert answer.exit_code == 2
        assert "already exists" in answer.output
        assert "hint: " in answer.output
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["notes", "shop", "store"]
    assert "cannot be written" in invoked("init", "shop", "--in", str(tmp_path / "nowhere")).output
