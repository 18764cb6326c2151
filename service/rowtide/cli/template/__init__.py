"""The template of a package with a connector or a format: ``rowtide connectors new`` writes it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

_HERE = Path(__file__).parent
_KINDS = {
    "connector": {"group": "rowtide.connectors", "file": "connector", "object": "CONNECTOR"},
    "format": {"group": "rowtide.formats", "file": "codec", "object": "FORMAT"},
}


def package_name(name: str) -> str:
    """Return the name of the package with a connector or format ``name``."""
    return f"rowtide-{name.replace('_', '-')}"


def files_of(kind: str, name: str) -> Mapping[str, str]:
    """Return the text of each file of a package, by its path in the package's folder.

    Args:
      kind: "connector" or "format".
      name: its name in small letters, digits and underscores.
    """
    module = f"rowtide_{name}"
    words = {
        **_KINDS[kind],
        "kind": kind,
        "name": name,
        "NAME": name.upper(),
        "Name": "".join(part.capitalize() for part in name.split("_")),
        "module": module,
        "package": package_name(name),
    }
    file = words["file"]
    templates = {
        "pyproject.toml": "pyproject.toml",
        "README.md": f"{file}.md",
        f"src/{module}/{file}.py": f"{file}.py",
        f"tests/test_{name}.py": f"test_{file}.py",
    }
    texts = {path: _filled(template, words) for path, template in templates.items()}
    about = f'"""The {kind} {name} of Rowtide."""\n'
    return {**texts, f"src/{module}/__init__.py": about, f"src/{module}/py.typed": ""}


def _filled(template: str, words: Mapping[str, str]) -> str:
    text = (_HERE / f"{template}.template").read_text(encoding="utf-8")
    for word, value in words.items():
        text = text.replace("{{" + word + "}}", value)
    return text
