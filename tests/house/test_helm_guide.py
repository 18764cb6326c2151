"""The commands and values for Helm on any page are run, as far as they need no cluster."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from house.chart import CHART, helm_program
from house.machine import ROOT, run

GUIDE = "docs/howto/deploy-helm.md"
PAGES = (GUIDE, "docs/howto/high-availability.md", "docs/howto/upgrade.md", "helm/rowtide/README.md")
OF_A_CLUSTER = ("--wait", "--wait-for-jobs")
"""Options that ``helm template`` does not have."""
REUSED = ("--values", "my-values.yaml", "--set-file", "pipeline.sql=pipeline.sql")
"""What ``--reuse-values`` stands for: the values of the installation that the guide shows first."""
BLOCK = re.compile(r"^( *)```(yaml|bash)\n(.*?)^ *```$", flags=re.MULTILINE | re.DOTALL)


def shown(page: str) -> tuple[list[str], dict[str, str]]:
    """Return the commands of a page that render the chart, and its files of values by name."""
    commands, values = [], {}
    for indent, language, text in BLOCK.findall((ROOT / page).read_text()):
        lines = re.sub(f"^{indent}", "", text, flags=re.MULTILINE)
        name = lines.split("\n", 1)[0].removeprefix("# ")
        if language == "yaml" and name.endswith("values.yaml"):
            values[name] = lines
            continue
        for line in lines.replace("\\\n", " ").splitlines():
            if re.match(r"helm (install|upgrade) ", line):
                commands.append(line)
    return commands, values


FILES = shown(GUIDE)[1]
COMMANDS = [(page, command) for page in PAGES for command in shown(page)[0]]


def test_every_page_with_commands_for_helm_is_tried() -> None:
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("helm/**/*.md")]
    found = {str(page.relative_to(ROOT)) for page in pages}
    assert {page for page in found if shown(page)[0]} == {*PAGES}
    assert FILES.keys() == {"my-values.yaml", "shop-values.yaml"}


@pytest.mark.parametrize(("page", "command"), COMMANDS, ids=lambda text: text[:60])
def test_a_command_of_a_page_renders_objects(page: str, command: str, tmp_path: Path) -> None:
    files = FILES | shown(page)[1]
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "any.sql").write_text("SELECT STREAM * FROM orders;")
    # The words after "helm install", with files in place of those that a reader has.
    words = [word for word in shlex.split(command)[2:] if word not in OF_A_CLUSTER]
    if "--reuse-values" in words:
        at = words.index("--reuse-values")
        words[at : at + 1] = REUSED
    words = [re.sub(r"=[-\w]+\.sql$", f"={tmp_path}/any.sql", word) for word in words]
    places = {"helm/rowtide": str(CHART), **{name: str(tmp_path / name) for name in files}}
    words = [places.get(word, word) for word in words]
    done = run(helm_program(), "template", *words, "--kube-version", "1.30.0")
    assert done.returncode == 0, done.stderr
    assert "kind: Deployment" in done.stdout
