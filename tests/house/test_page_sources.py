"""The sources of the page: their lock names no host and pins everything, and licences are noticed."""

from __future__ import annotations

import json
import re

from house.machine import ROOT

SOURCES = ROOT / "service/page"
ASSETS = ROOT / "service/rowtide/web/page/assets"


def test_the_lock_names_no_host_of_a_package() -> None:
    lock = json.loads((SOURCES / "package-lock.json").read_text())
    packages = {name: each for name, each in lock["packages"].items() if name}
    assert packages
    # npm install --omit-lockfile-registry-resolved
    assert [name for name, each in packages.items() if "resolved" in each] == []
    assert [name for name, each in packages.items() if not each["integrity"].startswith("sha512-")] == []


def test_packages_are_named_with_one_version() -> None:
    package = json.loads((SOURCES / "package.json").read_text())
    lock = json.loads((SOURCES / "package-lock.json").read_text())["packages"]
    for name, version in {**package["dependencies"], **package["devDependencies"]}.items():
        assert re.fullmatch(r"\d+\.\d+\.\d+", version), name
        assert lock[f"node_modules/{name}"]["version"] == version


def test_the_licences_of_what_the_page_contains_are_noticed() -> None:
    notices = (ASSETS / "notices.txt").read_text()
    package = json.loads((SOURCES / "package.json").read_text())
    named = re.findall(r"^(@?[\w/-]+) (\d\S*) \(MIT\)$", notices, re.MULTILINE)
    assert package["dependencies"].items() <= dict(named).items()
    assert notices.count("Permission is hereby granted") == len(named)
