"""The documentation is true: links lead somewhere, generated pages are current, the code map is complete."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.metadata import requires
from itertools import pairwise
from pathlib import Path

import pytest
import typer
import yaml
from typer.testing import CliRunner

import rowtide.engine
from house.machine import ROOT
from rowtide.bench.kafka import PIPELINE
from rowtide.cli.author import connectors
from rowtide.cli.lazy_commands import LazyCommand
from rowtide.cli.main import Root, app
from rowtide.cli.pages.connector_reference import connectors_page
from rowtide.cli.pages.reference import command_page, commands
from rowtide.cli.pages.sql_reference import features_page, read_pages
from rowtide.cli.pages.type_reference import types_page
from rowtide.engine.reference import engine_page, undocumented

FOLDERS_OF_PAGES = ("", "docs/**/", "helm/**/", "tests/", "benchmarks/")
PAGES = sorted(page for folder in FOLDERS_OF_PAGES for page in ROOT.glob(f"{folder}*.md"))
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"^( *)```.*?^\1```$", flags=re.MULTILINE | re.DOTALL)
PACKAGES = ("service/rowtide", "connectors/rowtide_connectors")


def anchors(page: Path) -> set[str]:
    """Return the anchors that a page's headings make."""
    headings = re.findall(r"^#+ (.+)$", CODE.sub("", page.read_text()), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    dead = []
    for link in LINK.findall(CODE.sub("", page.read_text())):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            dead.append(link)
    assert dead == []


def test_the_reference_of_the_command_line_is_current() -> None:
    page = ROOT / "docs/reference/command-line.md"
    assert page.read_text() == command_page(app), (
        "python -m rowtide.cli.pages.reference > docs/reference/command-line.md"
    )


def test_the_reference_of_the_engine_is_current_and_has_all_public_names() -> None:
    page = ROOT / "docs/reference/engine.md"
    assert page.read_text() == engine_page(), "python -m rowtide.engine.reference > docs/reference/engine.md"
    shown = re.findall(r"^### (\w+)$", page.read_text(), flags=re.MULTILINE)
    assert sorted(shown) == sorted(rowtide.engine.__all__)
    assert undocumented() == []


def test_the_reference_of_the_connectors_is_current() -> None:
    page = ROOT / "docs/reference/connectors.md"
    assert page.read_text() == connectors_page(), (
        "python -m rowtide.cli.pages.connector_reference > docs/reference/connectors.md"
    )


def test_the_reference_of_types_is_current() -> None:
    page = ROOT / "docs/reference/type-mapping.md"
    assert page.read_text() == types_page(), (
        "python -m rowtide.cli.pages.type_reference > docs/reference/type-mapping.md"
    )


def test_the_reference_of_sql_is_current() -> None:
    page = ROOT / "docs/reference/sql-features.md"
    assert page.read_text() == features_page(read_pages(ROOT / "docs/sql")), (
        "python -m rowtide.cli.pages.sql_reference docs/sql > docs/reference/sql-features.md"
    )


@pytest.mark.parametrize("typed", [path for path, _ in commands(app)])
def test_every_command_has_help_with_an_example_of_itself(typed: str) -> None:
    answer = CliRunner().invoke(app, [*typed.split()[1:], "--help"], env={"COLUMNS": "200"})
    assert answer.exit_code == 0
    assert f"Example: {typed}" in answer.output


@pytest.mark.parametrize("typed", ["rowtide", "rowtide positions", *(path for path, _ in commands(app))])
def test_help_shows_a_flag_without_a_value_and_wraps_each_paragraph_once(typed: str) -> None:
    answer = CliRunner().invoke(app, [*typed.split()[1:], "--help"], env={"COLUMNS": "5000"})
    assert "<bool>" not in answer.output
    about = re.split(r"╭|Options:", answer.output)[0].strip().split("Usage:")[1].splitlines()[1:]
    paragraphs = [line for line in about if line.strip()]
    assert all(not before.strip() or not line.strip() for before, line in pairwise(about))
    assert paragraphs


HEAVY = {"numba", "llvmlite", "pandas", "pyspark", "confluent_kafka", "sqlalchemy", "alembic", "psycopg"}
HEAVY |= {"uvicorn", "starlette", "structlog", "fastavro"}
"""What a command loads only to read a topic, write to a database or serve pages."""


def loaded_by(*arguments: str) -> set[str]:
    """Return the modules that a command has loaded in its process."""
    program = (
        "import sys\nfrom rowtide.cli.main import app\n"
        "try:\n    app(sys.argv[1:])\nexcept SystemExit as end:\n    assert not end.code\n"
        "print('\\n'.join(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": f"{ROOT / 'service'}:{ROOT / 'connectors'}"},
    )
    loaded = set(done.stderr.split())
    assert "rowtide.cli.main" in loaded
    return loaded


COMMANDS = {
    f"rowtide.cli.{name}"
    for name in (
        "operate.apply",
        "author.check",
        "author.connectors",
        "operate.errors",
        "operate.positions",
        "run.run",
    )
}


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_help_loads_nothing_heavy_and_no_command(option: str) -> None:
    assert loaded_by(option).isdisjoint(HEAVY | COMMANDS | {"numpy", "pyarrow", "sqlglot"})


def test_the_list_of_commands_shows_the_first_paragraph_of_their_help() -> None:
    groups = [typer.main.get_group(app), typer.main.get_group(connectors.app)]
    lazy = [each for group in groups for each in group.commands.values() if isinstance(each, LazyCommand)]
    assert len(lazy) == len(Root.listed) + len(connectors.Connectors.listed)
    for each in lazy:
        command = each.load()
        assert (command.name, (command.help or "").split("\n\n")[0]) == (each.name, each.help)


def test_the_doctor_does_without_the_packages_that_it_looks_for() -> None:
    required = {re.split(r"[^\w.-]", each)[0].replace("-", "_").lower() for each in requires("rowtide") or []}
    assert "sqlalchemy" in required
    assert loaded_by("doctor").isdisjoint((required | {"yaml"}) - {"typer", "rich", "rowtide"})


def test_a_check_loads_nothing_that_it_does_not_ask(tmp_path: Path) -> None:
    file = tmp_path / "w2.sql"
    file.write_text(PIPELINE.format(broker="no:9092", database="sqlite:///no.db", topic="t", table="w"))
    assert loaded_by("check", str(file)).isdisjoint(
        HEAVY | COMMANDS - {"rowtide.cli.author.check"} | {"rich"}
    )


def test_the_code_map_names_every_package_and_nothing_that_is_not_there() -> None:
    text = (ROOT / "docs/architecture.md").read_text()
    block = next(
        block for block in re.findall(r"```text\n(.*?)```", text, flags=re.DOTALL) if PACKAGES[0] in block
    )
    named: set[str] = set()
    above: list[str] = []
    for line in block.splitlines():
        depth = (len(line) - len(line.lstrip())) // 2
        above = [*above[:depth], line.split()[0].rstrip("/")]
        named.add("/".join(above))
    assert [path for path in named if not (ROOT / path).exists()] == []
    # The packages of the first level; those within them are named where it helps.
    packages = {
        str(init.parent.relative_to(ROOT)) for top in PACKAGES for init in (ROOT / top).glob("*/__init__.py")
    }
    assert packages - named == set()


def test_every_folder_of_modules_is_a_package_and_so_is_installed() -> None:
    folders = {module.parent for top in PACKAGES for module in (ROOT / top).rglob("*.py")}
    assert [str(folder) for folder in folders if not (folder / "__init__.py").exists()] == []


def test_every_file_beside_the_modules_is_installed_with_them() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    patterns = settings["package-data"]["*"]
    beside = [
        path
        for top in PACKAGES
        for path in (ROOT / top).rglob("*.*")
        if path.suffix != ".py" and "__pycache__" not in path.parts
    ]
    assert [str(path) for path in beside if not any(path.match(pattern) for pattern in patterns)] == []


def test_a_module_of_more_than_600_lines_says_why() -> None:
    unexplained = []
    for top in (*PACKAGES, "tests", "docker"):
        for module in (ROOT / top).rglob("*.py"):
            text = module.read_text()
            if text.count("\n") > 600 and "600 lines" not in text[:3000]:
                unexplained.append(str(module.relative_to(ROOT)))
    assert unexplained == []


def test_every_place_that_names_the_version_names_the_same() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    chart = yaml.safe_load((ROOT / "helm/rowtide/Chart.yaml").read_text())
    compose = yaml.safe_load((ROOT / "docker/compose.yaml").read_text())
    images = {service["image"] for service in compose["services"].values() if "build" in service}
    assert chart["appVersion"] == version
    assert images == {f"rowtide:{version}", f"rowtide-spark:{version}"}
    assert f"## {version} " in (ROOT / "CHANGELOG.md").read_text()
