"""Packages that are divided by concept stay so: no folder has many modules, no two rooms read each other."""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

SERVICE = Path(__file__).parents[2] / "service" / "rowtide"
ROOMS = ("cli", "codec", "expr", "flow", "operators", "plan", "runners", "runtime", "sql")
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


def imports(node: ast.AST) -> set[str]:
    """Return the modules that this code imports when it runs; a name may be that of a package's content."""
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        return set().union(*map(imports, node.orelse))
    if isinstance(node, ast.Import):
        return {each.name for each in node.names}
    if isinstance(node, ast.ImportFrom) and node.module:
        return {f"{node.module}.{each.name}" for each in node.names}
    return set().union(*map(imports, ast.iter_child_nodes(node)))


def order_of_rooms(folder: Path, package: str) -> list[str]:
    """Return the rooms of a package, each after those that it imports.

    A room is a folder or a module that lies directly in ``folder``.

    Raises:
      CycleError: rooms that read one another in a circle.
    """
    rooms: dict[str, set[str]] = {}
    for module in sorted(folder.rglob("*.py")):
        room = module.relative_to(folder).parts[0].removesuffix(".py")
        if room != "__init__":
            read = {
                name.removeprefix(f"{package}.").split(".")[0]
                for name in imports(ast.parse(module.read_text()))
                if name.startswith(f"{package}.")
            }
            rooms.setdefault(room, set()).update(read - {room})
    known = {room: read & rooms.keys() for room, read in rooms.items()}
    return [*TopologicalSorter(known).static_order()]


PACKAGES = sorted(each.parent.name for each in SERVICE.glob("*/__init__.py"))


@pytest.mark.parametrize("package", PACKAGES)
def test_the_rooms_of_a_package_are_layers(package: str) -> None:
    """The order of the large ones is in docs/architecture.md#layers, and a contract of import-linter."""
    assert order_of_rooms(SERVICE / package, f"rowtide.{package}")


def test_rooms_that_read_one_another_are_found(tmp_path: Path) -> None:
    for name, text in {
        "one/a.py": "from p.two import b\n",
        "two/b.py": "def f():\n    import p.three\n",
        "three.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from p.one import a\n",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert order_of_rooms(tmp_path, "p") == ["three", "two", "one"]
    (tmp_path / "three.py").write_text("from p.one.a import x\n")
    with pytest.raises(CycleError, match=r"(one|two|three)"):
        order_of_rooms(tmp_path, "p")
