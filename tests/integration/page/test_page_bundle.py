"""The bundle that is committed is what its sources give, byte for byte, and is part of the wheel."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from house.machine import ROOT
from real.npm import npm

pytestmark = pytest.mark.browser
ASSETS = ROOT / "service/rowtide/web/page/assets"


def contents(folder: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in folder.iterdir()}


def test_the_sources_give_the_committed_bundle(page_sources: Path, tmp_path: Path) -> None:
    npm(page_sources, "run", "build", "--", "--into", str(tmp_path / "assets"))
    built, committed = contents(tmp_path / "assets"), contents(ASSETS)
    assert sorted(built) == sorted(committed), "cd service/page && npm ci && npm run build"
    assert [name for name in built if built[name] != committed[name]] == []


def test_the_types_are_right_and_the_functions_do_what_they_say(page_sources: Path) -> None:
    npm(page_sources, "run", "check")
    assert "# fail 0" in npm(page_sources, "test")


def test_the_wheel_has_the_bundle_and_no_sources(tmp_path: Path) -> None:
    made = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", tmp_path, ROOT],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as opened:
        names = opened.namelist()
        bundle = {name: opened.read(f"rowtide/web/page/assets/{name}") for name in contents(ASSETS)}
    assert bundle == contents(ASSETS)
    assert [name for name in names if not name.startswith("rowtide")] == []
