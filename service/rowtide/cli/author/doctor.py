"""``rowtide doctor``: what this machine has and lacks, and what to do about it.

A finding is *needed* if nothing runs without it; other findings have a purpose.
The check fails only if something needed is missing.
"""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Annotated

import typer

from rowtide.cli.errors import read_text, shown_to_user
from rowtide.config.reading import load_settings
from rowtide.errors import StatementError
from rowtide.runners.spark.ivy import java
from rowtide.runners.spark.session import connector_directory, earlier_versions, importable, worker_python

EXAMPLE = "Example: rowtide doctor pipeline.sql --config config.toml"

WORKER_TIMEOUT_S = 60
"""A worker's packages load within seconds, on a busy machine too."""
TRIED = "import sys, pyarrow, pyspark, rowtide; print(*sys.version_info[:2], sep='.')"
"""What a worker of Spark must be able to do; it prints the version, which must be that of the driver."""
DOCKER_TIMEOUT_S = 5
"""A Docker engine answers at once; a client without one may try for a long time."""


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """One check: what was found, or what to do. ``purpose`` is the feature that needs it."""

    name: str
    needed: bool
    ok: bool
    found: str
    purpose: str
    advice: str | None = None

    def line(self) -> str:
        """Return the finding as a line for the terminal, with its advice below it."""
        mark = "ok" if self.ok else ("MISSING" if self.needed else "missing")
        text = f"{mark:<8} {self.name:<12} {self.found}"
        if not self.ok:
            text += f" (for {self.purpose})"
            if self.advice is not None:
                text += f"\n{'':<21} {self.advice}"
        return text


def doctor(
    pipeline: Annotated[
        Path | None,
        typer.Argument(help="Also try its servers, streams and tables.", metavar="PIPELINE.sql"),
    ] = None,
    config: Annotated[
        Path | None, typer.Option("--config", help="The pipeline's configuration, a TOML file.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write the findings as JSON.")] = False,
) -> None:
    """Report what this machine has and lacks, and what to install.

    Exit code 0: nothing is missing. 1: something needed is missing. 2: the pipeline is refused.
    """
    findings = list(examine())
    if pipeline is not None:
        findings += _pipeline(pipeline, config)
    healthy = all(finding.ok for finding in findings if finding.needed)
    if as_json:
        shown = [asdict(each) | {"advice": None if each.ok else each.advice} for each in findings]
        typer.echo(json.dumps({"ok": healthy, "findings": shown}, indent=2))
    else:
        for finding in findings:
            typer.echo(finding.line())
    raise typer.Exit(0 if healthy else 1)


def examine() -> Iterator[DoctorFinding]:
    """Run all checks, the needed ones first."""
    yield _python()
    yield _packages()
    yield _java()
    yield from _spark()
    yield _docker()


def _python() -> DoctorFinding:

    return DoctorFinding(
        "python",
        needed=True,
        ok=sys.version_info >= (3, 11),
        found=f"{platform.python_version()} at {sys.executable}",
        purpose="everything",
        advice="Install Python 3.11 or newer.",
    )


def _packages() -> DoctorFinding:
    """Check that every package that the installed distribution requires is installed."""
    try:
        wanted = metadata.requires("rowtide") or []
        installed = f"rowtide {metadata.version('rowtide')}"
    except metadata.PackageNotFoundError:
        wanted, installed = [], "rowtide from a checkout, not installed"
    missing = []
    for requirement in wanted:
        name, _, marker = requirement.partition(";")
        if "extra" in marker:
            continue
        package = re.split(r"[\s\[<>=!~(]", name.strip(), maxsplit=1)[0]
        try:
            metadata.version(package)
        except metadata.PackageNotFoundError:
            missing.append(package)
    return DoctorFinding(
        "packages",
        needed=True,
        ok=not missing,
        found=f"without {', '.join(missing)}" if missing else installed,
        purpose="everything",
        advice="In a clone of the repository, run: bash .ci/setup run",
    )


def _java() -> DoctorFinding:

    purpose = "rowtide backfill, and tests on real Kafka"
    try:
        return DoctorFinding("java", needed=False, ok=True, found=java(), purpose=purpose)
    except StatementError as error:
        return DoctorFinding(
            "java", needed=False, ok=False, found=error.message, purpose=purpose, advice=error.hint
        )


def _spark() -> Iterator[DoctorFinding]:
    """Check for PySpark and, if it is installed, for the jars of its Kafka connector."""
    try:
        spark = metadata.version("pyspark")
    except metadata.PackageNotFoundError:
        yield DoctorFinding(
            "pyspark",
            needed=False,
            ok=False,
            found="not installed",
            purpose="rowtide backfill",
            advice='Install it with: pip install "rowtide[spark]"',
        )
        return
    yield DoctorFinding("pyspark", needed=False, ok=True, found=spark, purpose="rowtide backfill")
    yield _workers()
    wanted = connector_directory(spark)
    jars = next(filter(Path.is_dir, map(connector_directory, (spark, *earlier_versions(spark)))), wanted)
    yield DoctorFinding(
        "spark jars",
        needed=False,
        ok=jars.is_dir(),
        found=f"fetched into {jars}" if jars.is_dir() else f"{wanted.name} not fetched yet",
        purpose="rowtide backfill",
        advice="The first backfill fetches them from Maven Central, or from ROWTIDE_MAVEN_MIRROR; "
        "the setting spark.jars names a folder that has them.",
    )


def _workers() -> DoctorFinding:
    """Try the Python that workers of Spark run on this machine."""
    python, own = worker_python(), "{}.{}".format(*sys.version_info[:2])
    try:
        tried = subprocess.run(
            [python, "-c", TRIED],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(importable())},
            capture_output=True,
            text=True,
            timeout=WORKER_TIMEOUT_S,
            check=False,
        )
        said = (tried.stdout if tried.returncode == 0 else tried.stderr).strip().rpartition("\n")[2]
    except (OSError, subprocess.TimeoutExpired) as error:
        said = str(error)
    return DoctorFinding(
        "workers",
        needed=False,
        ok=said == own,
        found=f"{python}: {said}",
        purpose="rowtide backfill",
        advice=f"They need Python {own} with the packages of Rowtide: unset PYSPARK_PYTHON, or export PYSPARK_PYTHON="
        f"{sys.executable}",
    )


def _docker() -> DoctorFinding:

    try:
        asked = subprocess.run(
            ["docker", "version", "--format", "{{.Server.Version}}"],
            capture_output=True,
            text=True,
            timeout=DOCKER_TIMEOUT_S,
            check=False,
        )
        found = asked.stdout.strip() if asked.returncode == 0 else "no engine answers"
        ok = asked.returncode == 0
    except FileNotFoundError:
        ok, found = False, "not installed"
    except subprocess.TimeoutExpired:
        ok, found = False, f"no engine answered within {DOCKER_TIMEOUT_S} s"
    return DoctorFinding(
        "docker",
        needed=False,
        ok=ok,
        found=found,
        purpose="docker/compose.yaml",
        advice="Install and start Docker; the service itself does not need it.",
    )


def _pipeline(pipeline: Path, config: Path | None) -> Iterator[DoctorFinding]:
    """Try all servers, streams and tables of a pipeline, as ``rowtide connectors check`` does."""
    # Imported here: the other checks must run without the packages that are missing.
    from rowtide.cli.author.connectors import try_everything
    from rowtide.runtime.configured import configured
    from rowtide.sql.pipeline import plan_pipeline

    with shown_to_user():
        plan = plan_pipeline(read_text(pipeline), file=str(pipeline))
        plan = configured(plan, load_settings(config))
    for tried in try_everything(plan):
        yield DoctorFinding(
            f"{tried.kind} {tried.name}",
            needed=True,
            ok=tried.ok,
            found=tried.answer,
            purpose="the pipeline",
            advice=tried.hint,
        )
