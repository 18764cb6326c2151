"""The helm chart as it is rendered, for the tests of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from house.machine import ROOT, program, run

CHART = ROOT / "helm/rowtide"
VALUES = Path(__file__).parent / "helm"
GOOD = sorted((VALUES / "good").glob("*.yaml"))
BAD = sorted((VALUES / "bad").glob("*.yaml"))
KUBERNETES = ("1.29", "1.33", "1.37")
"""The oldest that the chart accepts, one in between, the newest whose schemas are to be had."""

Manifest = dict[str, Any]


def helm_program() -> str:
    return program("helm", "bash .ci/tools builds it where Go is installed")


def rendered(helm: str, values: Path, *arguments: str, release: str = "orders") -> list[Manifest]:
    """Return the objects that the chart makes of ``values``."""
    command = (helm, "template", release, str(CHART), "--kube-version", "1.30.0", "-f", str(values))
    done = run(*command, *arguments)
    assert done.returncode == 0, done.stderr
    return [manifest for manifest in yaml.safe_load_all(done.stdout) if manifest]


def of_kind(manifests: list[Manifest], kind: str) -> list[Manifest]:
    return [manifest for manifest in manifests if manifest["kind"] == kind]


def pod_specs(manifests: list[Manifest]) -> list[Manifest]:
    pods = of_kind(manifests, "Deployment") + of_kind(manifests, "Job")
    return [manifest["spec"]["template"]["spec"] for manifest in pods]
