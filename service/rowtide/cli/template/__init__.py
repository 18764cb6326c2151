"""Templates that commands write into a new folder: here that of a package with a connector or a format.

``rowtide connectors new`` writes it; ``project`` has the template of ``rowtide init``.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from rowtide.errors import StatementError

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
    texts = {path: filled(_HERE / f"{template}.template", words) for path, template in templates.items()}
    about = f'"""The {kind} {name} of Rowtide."""\n'
    return {**texts, f"src/{module}/__init__.py": about, f"src/{module}/py.typed": ""}


def filled(template: Path, words: Mapping[str, str]) -> str:
    """Return the text of a template with these words for their names in double braces."""
    text = template.read_text(encoding="utf-8")
    for word, value in words.items():
        text = text.replace("{{" + word + "}}", value)
    return text


def write_folder(folder: Path, files: Mapping[str, str]) -> None:
    """Write files into a folder that does not exist or is empty: all of them or none.

    Raises:
      StatementError: the folder has files, or cannot be written.
    """
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise StatementError(
                f'"{folder}" already exists',
                hint="Choose another name, another folder with --in, or remove it.",
            )
        with tempfile.TemporaryDirectory(prefix=".rowtide-new-", dir=folder.parent) as made:
            whole = Path(made, folder.name)
            for path, text in files.items():
                file = whole / path
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text, encoding="utf-8")
            if folder.exists():
                folder.rmdir()
            shutil.move(whole, folder)
    except OSError as error:
        raise StatementError(f'"{folder}" cannot be written: {error.strerror}') from error
