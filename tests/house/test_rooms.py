"""Packages that are divided by concept stay so: no folder of theirs has many modules."""

from __future__ import annotations

from pathlib import Path

import pytest

SERVICE = Path(__file__).parents[2] / "service" / "rowtide"
ROOMS = ("codec", "expr", "flow", "operators", "plan", "runners", "runtime", "sql")
MOST = 15
"""Modules of a folder, without its ``__init__``."""


def folders(package: Path) -> list[Path]:
    return sorted({module.parent for module in package.rglob("*.py")})


@pytest.mark.parametrize("package", ROOMS)
def test_no_folder_has_many_modules(package: str) -> None:
    found = folders(SERVICE / package)
    assert found, package
    counts = {
        folder.relative_to(SERVICE).as_posix(): len({*folder.glob("*.py")} - {folder / "__init__.py"})
        for folder in found
    }
    # Divide a larger folder by concept, in a commit of its own, or let two modules that are one idea be one.
    assert {name: count for name, count in counts.items() if count > MOST} == {}
