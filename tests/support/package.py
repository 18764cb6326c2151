"""Packages that add connectors and formats: modules with entry points in a folder, as an installer leaves them."""

from __future__ import annotations

from pathlib import Path


def install(folder: Path, package: str, group: str, points: dict[str, str], **modules: str) -> None:
    """Write the modules of a package, and its metadata with the entry points of a group.

    Args:
      folder: a folder of ``sys.path``.
      package: the package's name; its version is 1.0.
      group: the group of the entry points.
      points: entry points by name.
      modules: the text of each module by name.
    """
    for name, text in modules.items():
        (folder / f"{name}.py").write_text(text)
    info = folder / f"{package.replace('-', '_')}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    lines = "".join(f"{name} = {value}\n" for name, value in points.items())
    (info / "entry_points.txt").write_text(f"[{group}]\n{lines}")
