"""The locks: hashed, of one mind, up to pyproject.toml, and without the name of a package host."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
LOCKS = ("run", "service", "spark", "dev", "uv", "build", "sbom")
PIN = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)==(?P<version>\S+?)(?:\s*;\s*(?P<marker>.+?))?\s*\\$")


def pins(lock: str) -> dict[str, set[str]]:
    """Return the versions that a lock pins, by canonical package name (several: one a marker)."""
    found: dict[str, set[str]] = {}
    for line in (ROOT / "requirements" / f"{lock}.txt").read_text().splitlines():
        if match := PIN.match(line):
            found.setdefault(canonicalize_name(match["name"]), set()).add(match["version"])
    return found


def declared(*extras: str) -> list[Requirement]:
    """Return what pyproject.toml asks for, with these extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    texts = [*project["dependencies"]]
    for extra in extras:
        texts += project["optional-dependencies"][extra]
    return [wanted for wanted in map(Requirement, texts) if canonicalize_name(wanted.name) != "rowtide"]


@pytest.mark.parametrize(
    ("lock", "extras"),
    [
        ("run", ("demo", "mysql", "protobuf", "bson")),
        ("service", ("mysql", "protobuf", "bson")),
        ("spark", ("demo", "mysql", "protobuf", "bson", "spark")),
        ("dev", ("demo", "mysql", "protobuf", "bson", "spark", "dev")),
    ],
)
def test_a_lock_satisfies_everything_that_pyproject_declares(lock: str, extras: tuple[str, ...]) -> None:
    pinned = pins(lock)
    unmet = [
        str(wanted)
        for wanted in declared(*extras)
        if not any(wanted.specifier.contains(v) for v in pinned.get(canonicalize_name(wanted.name), ()))
    ]
    assert unmet == [], "run: bash .ci/lock"


def test_what_builds_the_package_is_pinned() -> None:
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    pinned = pins("build")
    for requirement in map(Requirement, wanted):
        (version,) = pinned[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(version), "run: bash .ci/lock"


def test_what_is_tested_is_what_is_run() -> None:
    service, run, spark, dev = (pins(lock) for lock in ("service", "run", "spark", "dev"))
    assert {name: run.get(name) for name in service} == service
    assert {name: spark.get(name) for name in run} == run
    assert {name: dev.get(name) for name in spark} == spark


@pytest.mark.parametrize("lock", LOCKS)
def test_every_line_of_a_lock_is_a_pin_a_hash_or_a_comment(lock: str) -> None:
    lines = (ROOT / "requirements" / f"{lock}.txt").read_text().splitlines()
    hashed = re.compile(r"^    --hash=sha256:[0-9a-f]{64}( \\)?$")
    assert [x for x in lines if not (PIN.match(x) or hashed.match(x) or x.lstrip().startswith("#"))] == []


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_names_no_package_host(lock: str) -> None:
    text = (ROOT / "requirements" / f"{lock}.txt").read_text()
    assert re.findall(r"\S*://\S*|--(?:extra-)?index-url.*|--find-links.*", text) == []
