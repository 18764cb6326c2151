"""The images as they are built: what they hold, how large they are, and that they run as they are meant to."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from deploy.kit import ROOT, SERVICE_IMAGE, SPARK_IMAGE, docker, log, needs

pytestmark = [pytest.mark.deploy, pytest.mark.timeout(600)]

MB = 1_000_000
SIZES = {SERVICE_IMAGE: 650 * MB, SPARK_IMAGE: 1_500 * MB}
"""The most that an image may have, as Docker counts."""


@pytest.fixture(params=[SERVICE_IMAGE, SPARK_IMAGE])
def image(request: pytest.FixtureRequest) -> str:
    needs("spark" if request.param == SPARK_IMAGE else "engine")
    return str(request.param)


def inspected(image: str) -> dict[str, Any]:
    (found,) = json.loads(docker("image", "inspect", image).stdout)
    assert isinstance(found, dict)
    return found


def test_an_image_is_as_small_as_promised(image: str) -> None:
    size = inspected(image)["Size"]
    log.info("%s: %.0f MB", image, size / MB)
    assert size <= SIZES[image], f"{size / MB:.0f} MB"


def test_an_image_runs_on_a_read_only_file_system_without_privileges(image: str) -> None:
    confined = ("--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges:true", "--network=none")
    done = docker("run", "--rm", *confined, image, "--version")
    assert done.stdout == "rowtide 0.1.0\n"
    assert done.stderr == ""
    assert docker("run", "--rm", "--entrypoint", "id", image, "--user").stdout == "10001\n"


def test_an_image_has_the_compiled_kernels_and_no_installer(image: str) -> None:
    kept = docker("run", "--rm", "--entrypoint", "sh", image, "-c", "find /opt/rowtide/kernels -name '*.nbc'")
    assert kept.stdout.count("\n") > 20
    done = docker("run", "--rm", "--entrypoint", "python", image, "-m", "pip", "--version", check=False)
    assert "No module named pip" in done.stderr


def test_a_query_in_a_container_compiles_nothing(image: str) -> None:
    """Kernels that fit the machine are loaded: nothing is added to those that the image has."""
    count = "find $NUMBA_CACHE_DIR -name '*.nbc' | wc -l"
    script = f"rowtide-entrypoint --version; {count}; rowtide-entrypoint test /scenario.yaml >&2; {count}"
    scenario = ROOT / "tests/scenarios/sql"
    mounted = ("--volume", f"{next(iter(sorted(scenario.glob('*.yaml'))))}:/scenario.yaml:ro")
    done = docker("run", "--rm", *mounted, "--entrypoint", "sh", image, "-euc", script)
    _, before, after = done.stdout.split("\n")[:3]
    assert int(before) > 20
    assert before == after, done.stderr


def test_an_image_lists_the_packages_that_it_has(image: str) -> None:
    listed = json.loads(
        docker("run", "--rm", "--entrypoint", "cat", image, "/opt/rowtide/sbom.cdx.json").stdout
    )
    names = "import importlib.metadata as m; print(*(f'{d.name}=={d.version}' for d in m.distributions()))"
    held = docker("run", "--rm", "--entrypoint", "python", image, "-c", names).stdout.split()
    assert listed["bomFormat"] == "CycloneDX"
    found = [listed["metadata"]["component"], *listed["components"]]
    assert {f"{each['name']}=={each['version']}" for each in found} == set(held)
    assert len(held) > 30


def test_the_commands_of_the_readme_work_as_they_are_written() -> None:
    needs("engine")
    readme = (ROOT / "README.md").read_text()
    commands = [line for line in readme.splitlines() if line.startswith("docker run ")]
    assert commands
    for command in commands:
        done = subprocess.run(
            command,
            shell=True,
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        assert done.returncode == 0, done.stderr


def test_the_service_reports_its_health() -> None:
    """The image's check fails where no service runs, and says why."""
    needs("engine")
    config = inspected(SERVICE_IMAGE)["Config"]
    assert config["Healthcheck"]["Test"] == ["CMD", "rowtide-health"]
    done = docker("run", "--rm", "--entrypoint", "rowtide-health", SERVICE_IMAGE, check=False)
    assert done.returncode == 1
    assert "port 8081" in done.stderr
    assert "port 8080" in done.stderr
