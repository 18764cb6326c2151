"""Users' modules: finds them by name or beside a pipeline's file, and computes a digest of their text.

The old and the new file of one pipeline can each have a module of the same name
beside them. Python has one module for a name, so the second one is loaded
separately, together with what it imports from its own folder.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import io
import sys
import tokenize
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.machinery import FileFinder, PathFinder, SourceFileLoader
from types import ModuleType
from typing import Any

_OURS = __name__.partition(".")[0]
_folders: list[str] = []
"""The folders of pipelines in which modules have been searched for, as absolute paths."""
_apart: dict[str, dict[str, ModuleType]] = {}
"""The modules of a folder that were loaded separately, by name."""
_codes: dict[tuple[str, str], str] = {}
"""The digests of modules by folder and name, as of the first request: that is the code that runs."""


def absolute(folder: str) -> str:
    """Return the absolute path of a folder."""
    path: str = FileFinder(folder).path
    return path


def module_of(name: str, folder: str) -> ModuleType:
    """Import a module as Python finds it, or from ``folder`` if another pipeline has one of this name.

    Raises:
      ImportError: if it does not exist; and every error that the module raises.
    """
    if not folder:
        return importlib.import_module(name)
    if folder not in _folders:
        _folders.append(folder)
    top = name.partition(".")[0]
    known = sys.modules.get(top)
    spec = PathFinder.find_spec(top, [folder])
    is_here = known is None or spec is None or _origin(known) == spec.origin
    if is_here or not any(_is_in(known, other) for other in _folders if other != folder):
        return importlib.import_module(name)
    held = _apart.setdefault(folder, {})
    if name not in held:
        with _alone(folder, held):
            importlib.import_module(name)
    return held[name]


@contextmanager
def _alone(folder: str, held: dict[str, ModuleType]) -> Iterator[None]:
    """Let imports find the modules in ``folder``, not those of other pipelines; keep them in ``held``."""
    others = [other for other in _folders if other != folder]
    aside = {
        name: module
        for name, module in list(sys.modules.items())
        if any(_is_in(module, other) for other in others)
    }
    for name in aside:
        del sys.modules[name]
    sys.modules.update(held)
    sys.path.insert(0, folder)
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path.remove(folder)
        own = {name: module for name, module in list(sys.modules.items()) if _is_in(module, folder)}
        for name in own:
            del sys.modules[name]
        held.update(own)
        sys.modules.update(aside)


def code_of(name: str, folder: str) -> str:
    """Return a digest of the text of a module and of the modules that it imports from its package or folder.

    Comments and blank lines do not count. Empty for modules without source text.
    """
    key = (folder, name)
    if key not in _codes:
        texts: dict[str, str] = {}
        _collect(module_of(name, folder), folder, {**sys.modules, **_apart.get(folder, {})}, texts)
        found = hashlib.sha256(repr(sorted(texts.items())).encode()).hexdigest()[:16]
        _codes[key] = found if any(texts.values()) else ""
    return _codes[key]


def _collect(
    module: ModuleType, folder: str, modules: Mapping[str, ModuleType], texts: dict[str, str]
) -> None:
    name = module.__name__
    if name in texts:
        return
    text = _text_of(module)
    texts[name] = "" if text is None else _without_comments(text)
    if text is None:
        return
    for imported in _imports(text, module):
        other = modules.get(imported)
        if other is not None and _is_own(other, module, folder):
            _collect(other, folder, modules, texts)


def _text_of(module: ModuleType) -> str | None:
    """Return the source text of a module; None: it has none."""
    loader: Any = getattr(module.__spec__, "loader", None)
    origin = _origin(module)
    if not hasattr(loader, "get_source"):
        # Loaders of others, such as pytest's, load a file and do not give its text.
        if origin is None or not origin.endswith(".py"):
            return None
        loader = SourceFileLoader(module.__name__, origin)
    try:
        text: str | None = loader.get_source(module.__name__)
    except (ImportError, OSError):
        return None
    return text


def _imports(text: str, module: ModuleType) -> Iterator[str]:
    """Return the names of modules that a text may import: for ``from a import b`` both a and a.b."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _with_parents(alias.name)
        elif isinstance(node, ast.ImportFrom):
            package = module.__spec__.parent if module.__spec__ is not None else ""
            above = (package or "").rsplit(".", node.level - 1)[0] if node.level else ""
            base = ".".join(filter(None, (above, node.module)))
            yield from _with_parents(base)
            for alias in node.names:
                yield f"{base}.{alias.name}"


def _with_parents(name: str) -> Iterator[str]:
    parts = name.split(".")
    for end in range(1, len(parts) + 1):
        yield ".".join(parts[:end])


def _is_own(other: ModuleType, module: ModuleType, folder: str) -> bool:
    """Return whether another module belongs to the same package or the same pipeline's folder."""
    same_package = other.__name__.partition(".")[0] == module.__name__.partition(".")[0]
    return same_package or bool(folder and _is_in(other, folder) and _is_in(module, folder))


def _origin(module: ModuleType) -> str | None:
    origin: str | None = getattr(getattr(module, "__spec__", None), "origin", None)
    return origin


def _is_in(module: ModuleType | None, folder: str) -> bool:
    """Return whether a module is directly in a folder: a venv with libraries can be below it."""
    origin = None if module is None else _origin(module)
    if module is None or origin is None:
        return False
    top = module.__name__.partition(".")[0]
    return top != _OURS and origin.startswith((f"{folder}/{top}.", f"{folder}/{top}/"))


def _without_comments(text: str) -> str:
    """Return a text without comments, blank lines and trailing spaces, except inside strings."""
    lines = text.splitlines()
    inside: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        (first, start), (last, _) = token.start, token.end
        if token.type == tokenize.COMMENT:
            lines[first - 1] = lines[first - 1][:start]
        elif last > first and token.type not in (tokenize.NL, tokenize.NEWLINE):
            inside.update(range(first, last))
    kept = [line if at in inside else line.rstrip() for at, line in enumerate(lines, start=1)]
    return "\n".join(
        line for at, line in enumerate(kept, start=1) if line or at in inside or at - 1 in inside
    )
