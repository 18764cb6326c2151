"""The matrix of connectors and formats is current, and everything in it is tested."""

from __future__ import annotations

import os
import subprocess
import sys

from house.connector_matrix import NOT_TESTED
from house.machine import ROOT


def test_the_matrix_is_current_and_every_part_has_a_contract_suite() -> None:
    folders = os.pathsep.join(str(ROOT / each) for each in ("service", "connectors", "tests"))
    written = subprocess.run(
        [sys.executable, "-m", "house.connector_matrix"],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": folders},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    page = ROOT / "docs/connectors/README.md"
    assert page.read_text() == written, (
        "PYTHONPATH=service:connectors:tests python -m house.connector_matrix > docs/connectors/README.md"
    )
    assert NOT_TESTED not in written
