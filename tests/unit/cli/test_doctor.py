"""``rowtide doctor`` says what is missing, what for, and what to do; only what is needed makes it say no."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rowtide.cli.main import app


@pytest.fixture
def bare_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No Java, no Docker, nothing fetched."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("ROWTIDE_CACHE", str(tmp_path / "cache"))


def test_a_machine_without_java_and_docker_can_run_a_pipeline_and_is_told_what_it_cannot(
    bare_machine: None,
) -> None:
    reported = CliRunner().invoke(app, ["doctor"])
    assert reported.exit_code == 0
    lines = reported.output.splitlines()
    assert [line.split()[0] for line in lines if "python " in line] == ["ok"]
    java = next(number for number, line in enumerate(lines) if line.startswith("missing  java"))
    assert "for rowtide backfill" in lines[java]
    assert "apt-get install openjdk-17-jre-headless" in lines[java + 1]
    assert any(line.startswith("missing  docker") and "not installed" in line for line in lines)


def test_systemd_cron_and_pipx_may_start_it_without_path_and_home() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "rowtide", "doctor"],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert (done.returncode, done.stderr) == (0, "")
    version = "{}.{}".format(*sys.version_info[:2])
    assert f"ok       python       {platform.python_version()} at {sys.executable}" in done.stdout
    assert f"ok       workers      {sys.executable}: {version}" in done.stdout


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (None, "ok       workers      {own}: {version}"),
        (
            "echo Traceback >&2; echo 'ImportError: no rowtide' >&2; exit 1",
            "{named}: ImportError: no rowtide",
        ),
        ("echo 3.7", "missing  workers      {named}: 3.7 (for rowtide backfill)"),
        ("", "missing  workers      {named}:  (for rowtide backfill)"),
    ],
)
def test_the_python_of_workers_is_tried(
    script: str | None, said: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    named = tmp_path / "python"
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    if script is not None:
        named.write_text(f"#!/bin/sh\n{script}\n")
        named.chmod(0o755)
        monkeypatch.setenv("PYSPARK_PYTHON", str(named))
    output = CliRunner().invoke(app, ["doctor"]).output
    version = "{}.{}".format(*sys.version_info[:2])
    assert said.format(own=sys.executable, named=named, version=version) in output
    assert ("unset PYSPARK_PYTHON" in output) == (script is not None)


def test_a_missing_package_makes_the_answer_no(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = ["typer>=0.12", "no-such-package>=1", 'an-extra; extra == "dev"']
    monkeypatch.setattr(importlib.metadata, "requires", lambda _name: wanted)
    present = importlib.metadata.version
    monkeypatch.setattr(
        importlib.metadata, "version", lambda name: "0.1.0" if name == "rowtide" else present(name)
    )
    reported = CliRunner().invoke(app, ["doctor"])
    assert reported.exit_code == 1
    assert "MISSING  packages     without no-such-package (for everything)" in reported.output


def test_json_says_the_same_as_the_text(bare_machine: None) -> None:
    answer = json.loads(CliRunner().invoke(app, ["doctor", "--json"]).output)
    text = CliRunner().invoke(app, ["doctor"]).output
    assert answer["ok"] is True
    assert answer["findings"]
    for finding in answer["findings"]:
        assert f"{finding['name']:<12} {finding['found']}" in text
        assert (finding["advice"] is None) == finding["ok"]
        assert finding["ok"] or finding["advice"] in text


@pytest.fixture
def pipeline(tmp_path: Path) -> Path:
    """A pipeline whose broker answers and whose database does not."""
    path = tmp_path / "pipeline.sql"
    path.write_text(
        "CREATE SERVER here FOREIGN DATA WRAPPER MEMORY OPTIONS (broker 'doctor');\n"
        "CREATE SERVER nowhere FOREIGN DATA WRAPPER KAFKA\n"
        "  OPTIONS (bootstrap_servers '127.0.0.1:1', timeout_s '5');\n"
    )
    return path


def test_each_server_of_a_pipeline_is_tried_and_one_that_is_down_makes_the_answer_no(
    pipeline: Path, tmp_path: Path
) -> None:
    config = tmp_path / "config.toml"
    config.write_text('[servers.nowhere]\ntimeout_s = "0.2"\n')
    reported = subprocess.run(
        [sys.executable, "-m", "rowtide", "doctor", str(pipeline), "--config", str(config)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert reported.returncode == 1
    assert 'ok       server HERE  broker "doctor" in this process' in reported.stdout
    assert "MISSING  server NOWHERE" in reported.stdout
    # The Kafka client tries on and on, and would tell of every try.
    assert reported.stderr == ""


def test_a_pipeline_that_is_refused_is_a_usage_error_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "wrong.sql"
    path.write_text("CREATE SERVR here;\n")
    reported = CliRunner().invoke(app, ["doctor", str(path)])
    assert reported.exit_code == 2
    assert f"{path}:1:8: error:" in reported.output
