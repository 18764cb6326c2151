"""The example package is built as a wheel, installed into a fresh environment, found by Rowtide and tested there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

from house.machine import ROOT

EXAMPLE = ROOT / "examples" / "webhook"


def run(*command: object, cwd: Path) -> str:
    """Run a command with the Rowtide of this checkout; return what it prints."""
    path = os.pathsep.join(str(ROOT / folder) for folder in ("service", "connectors"))
    ran = subprocess.run(
        [str(each) for each in command],
        cwd=cwd,
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def built(source: Path, into: Path) -> Path:
    """Build the wheel of a package. pip takes the build backend from the index that it is configured for."""
    pip = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir")
    run(*pip, into, source, cwd=into.parent)
    (wheel,) = into.glob("*.whl")
    return wheel


def environment(folder: Path) -> Path:
    """Make a virtual environment in which the packages of this one are seen; return its interpreter."""
    venv.create(folder, with_pip=False, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "parent.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")
    return folder / "bin" / "python"


def test_the_package_is_built_installed_and_tested(tmp_path: Path) -> None:
    source = Path(shutil.copytree(EXAMPLE, tmp_path / "webhook"))
    wheel = built(source, tmp_path / "dist")
    python = environment(tmp_path / "fresh")
    # The tests do not see the sources: they run with what the wheel has.
    shutil.rmtree(source / "src")
    rowtide = (python, "-c", "from rowtide.__main__ import main; main()", "connectors")
    assert "rowtide-webhook" not in run(*rowtide, "list", cwd=tmp_path)
    pip = (sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index")
    run(*pip, wheel, cwd=tmp_path)
    listed = run(*rowtide, "list", cwd=tmp_path)
    assert "webhook    message sink           requests to an HTTP server (rowtide-webhook 0.1.0)" in listed
    assert "LOGFMT         read, written" in listed
    described = run(*rowtide, "describe", "webhook", cwd=tmp_path)
    assert "package: rowtide-webhook 0.1.0" in described
    assert "message sink: at least once" in described
    assert "16 passed, 7 skipped" in run(python, "-m", "pytest", "-q", cwd=source)
