"""The commands and values of docs/howto/deploy-helm.md are run, as far as they need no cluster."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from house.chart import CHART, helm_program
from house.machine import ROOT, run

GUIDE = ROOT / "docs/howto/deploy-helm.md"
OF_A_CLUSTER = ("--wait", "--wait-for-jobs")
"""Options that ``helm template`` does not have."""
BLOCK = re.compile(r"^( *)```(yaml|bash)\n(.*?)^ *```$", flags=re.MULTILINE | re.DOTALL)


def shown() -> tuple[list[str], dict[str, str]]:
    """Return the commands that render the chart, and the files of values by name."""
    commands, values = [], {}
    for indent, language, text in BLOCK.findall(GUIDE.read_text()):
        lines = re.sub(f"^{indent}", "", text, flags=re.MULTILINE)
        if language == "yaml":
            name = lines.split("\n", 1)[0].removeprefix("# ")
            values[name] = lines
            continue
        for line in lines.replace("\\\n", " ").splitlines():
            if re.match(r"helm (install|upgrade) ", line):
                commands.append(line)
    return commands, values


COMMANDS, FILES = shown()


def test_the_guide_has_commands() -> None:
    assert len(COMMANDS) >= 6
    assert FILES.keys() == {"my-values.yaml", "shop-values.yaml"}


@pytest.mark.parametrize("command", COMMANDS, ids=lambda text: text[:60])
def test_a_command_of_the_guide_renders_objects(command: str, tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "any.sql").write_text("SELECT STREAM * FROM orders;")
    # The words after "helm install", with files in place of those that a reader has.
    words = [word for word in shlex.split(command)[2:] if word not in OF_A_CLUSTER]
    words = [re.sub(r"=[-\w]+\.sql$", f"={tmp_path}/any.sql", word) for word in words]
    places = {"helm/rowtide": str(CHART), **{name: str(tmp_path / name) for name in FILES}}
    words = [places.get(word, word) for word in words]
    done = run(helm_program(), "template", *words, "--kube-version", "1.30.0")
    assert done.returncode == 0, done.stderr
    assert "kind: Deployment" in done.stdout
