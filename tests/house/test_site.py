"""The documentation builds as a site, without a warning: each page has a place, links lead somewhere."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from house.machine import ROOT, program, run


def hooks() -> ModuleType:
    spec = importlib.util.spec_from_file_location("site_hooks", ROOT / "docs/site_hooks.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_site_builds_without_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mkdocs = program("mkdocs", "bash .ci/setup dev installs it")
    monkeypatch.setenv("NO_MKDOCS_2_WARNING", "1")
    done = run(
        mkdocs, "build", "--strict", "--config-file", str(ROOT / "mkdocs.yml"), "--site-dir", str(tmp_path)
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "sql/semantics/index.html").exists()
    assert (tmp_path / "images/dataflow.svg").exists()
    # Steps with code between them are one list.
    assert (tmp_path / "howto/deploy-helm/index.html").read_text().count("<ol>") == 1


@pytest.mark.parametrize(
    ("page", "target", "outside"),
    [
        ("index.md", "../README.md", True),
        ("index.md", "sql/README.md", False),
        ("sql/joins.md", "../glossary.md", False),
        ("sql/README.md", "../../service/rowtide", True),
        ("sql/README.md", "../sql/joins.md", False),
    ],
)
def test_only_links_out_of_the_documentation_become_text(page: str, target: str, outside: bool) -> None:
    assert hooks().leaves(page, target) is outside


def test_contents_of_items_are_indented_by_four_spaces() -> None:
    code = ["```text", "* h", "  i", "```"]
    page = [
        "1. a",
        "   b",
        "",
        "   ```sql",
        "   SELECT",
        "     1",
        "   ```",
        "* c",
        "  d",
        "  * e",
        "    f",
        "g",
    ]
    shown = ["1. a", "    b", "", "    ```sql", "    SELECT", "      1", "    ```"]
    shown += ["* c", "    d", "    * e", "        f", "g"]
    assert hooks().indented("\n".join([*page, *code])).split("\n") == [*shown, *code]
