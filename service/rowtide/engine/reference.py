"""docs/reference/engine.md, generated from the public names of ``rowtide.engine``.

``python -m rowtide.engine.reference > docs/reference/engine.md``
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from enum import Enum
from importlib import import_module
from textwrap import indent
from types import ModuleType
from typing import Any, ForwardRef

from msgspec import Struct

from rowtide import engine

HEAD = """\
# The procedural engine: reference

Every public name of `rowtide.engine`. `python -m rowtide.engine.reference` writes this page, and a test checks
that it is current. [The procedural engine](../engine.md) explains how the parts work together.
"""

SECTIONS = {
    "Rows and opcodes": ("row_type", "rowop", "projection"),
    "Labels and units": ("unit", "label", "frame", "loop", "scheduling", "trace"),
    "Tables": ("table", "table_type", "index_type", "view", "handle", "copies", "expiry"),
    "Aggregators": ("aggregator", "functions"),
    "Joins": ("lookup_join", "join_two", "collapse"),
    "Templates and generated functions": ("templates", "generated"),
    "Models in a pipeline, and from text": ("model", "driver"),
    "Errors": ("errors",),
}
"""The headings of the page, with the modules (by their last name) whose names are under each."""

KEYWORD_ONLY, POSITIONAL_ONLY = inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_ONLY
VAR_KEYWORD, VAR_POSITIONAL = inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL

WIDTH = 100
"""Longer signatures have one parameter on each line."""


def engine_page() -> str:
    """Return the page as Markdown: section by section, names in alphabetical order."""
    homes = _homes()
    parts = [HEAD]
    for title, modules in SECTIONS.items():
        parts.append(f"\n## {title}\n")
        for name in sorted(engine.__all__, key=str.lower):
            if homes[name].rpartition(".")[2] in modules:
                parts.append(f"\n### {name}\n\n{_entry(name, import_module(homes[name]))}")
    return "".join(parts)


def undocumented() -> list[str]:
    """Return the public names of the engine, and the public members of its classes, without a docstring."""
    missing = []
    for name, home in _homes().items():
        thing = getattr(engine, name)
        if _is_value(name, thing):
            missing += [] if _note(import_module(home), name)[1] else [name]
            continue
        missing += [] if _doc(thing) else [name]
        if inspect.isclass(thing):
            missing += [f"{name}.{member}" for member, held in _members(thing) if not _doc(held)]
    return missing


def _homes() -> dict[str, str]:
    """Return the module that each public name is imported from, as the package's own text says."""
    homes = {
        alias.name: node.module or ""
        for node in ast.parse(inspect.getsource(engine)).body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    return {name: homes[name] for name in engine.__all__}


def _is_value(name: str, thing: object) -> bool:
    """Return whether a public name is a constant or an alias, not a class or function."""
    return not (inspect.isclass(thing) or inspect.isfunction(thing)) or thing.__name__ != name


def _entry(name: str, home: ModuleType) -> str:
    thing = getattr(engine, name)
    if _is_value(name, thing):
        assigned, note = _note(home, name)
        return _code(assigned) + _markdown(note)
    if inspect.isfunction(thing):
        return _code(_signature(name, thing)) + _markdown(_doc(thing))
    bases = ", ".join(base.__name__ for base in thing.__bases__ if base.__module__.startswith("rowtide."))
    lines = [_code(f"class {_class_line(name, thing)}")]
    lines.append(_markdown(_doc(thing)))
    if bases:
        lines.append(f"\nExtends `{bases}`.\n")
    if issubclass(thing, Enum):
        lines.append("\n" + "".join(f"* `{name}.{one.name}`: {one.value!r}\n" for one in thing))
    members = [_member(member, held) for member, held in _members(thing)]
    if members:
        lines.append("\n" + "\n".join(members))
    return "".join(lines)


def _class_line(name: str, thing: type) -> str:
    if issubclass(thing, Struct):
        fields = [f"{field}: {kind}" for field, kind in thing.__annotations__.items()]
        return f"{name}({', '.join(fields)})"
    made_by_users = not issubclass(thing, (Enum, Exception)) and not getattr(thing, "_is_protocol", False)
    return _signature(name, thing) if made_by_users else name


def _members(thing: type) -> Iterator[tuple[str, Any]]:
    """Yield the public methods and properties of a class, without those that its public bases have."""
    inherited = {member for base in thing.__mro__[1:] for member in vars(base)}
    for member, held in vars(thing).items():
        is_callable = isinstance(held, (property, classmethod, staticmethod)) or inspect.isfunction(held)
        if is_callable and not member.startswith("_") and member not in inherited:
            yield member, held


def _member(name: str, held: Any) -> str:
    if isinstance(held, property):
        returned = inspect.signature(_getter(held)).return_annotation
        shown = f"{name}: {returned}"
    else:
        function = held.__func__ if isinstance(held, (classmethod, staticmethod)) else held
        shown = _signature(name, function, width=None)
    return f"* `{shown}`\n\n{indent(_markdown(_doc(held)), '  ')}"


def _getter(held: property) -> Callable[..., Any]:
    assert held.fget is not None
    return held.fget


def _signature(name: str, thing: Callable[..., Any], width: int | None = WIDTH) -> str:
    """Return a call of ``thing`` with its declared parameters, without ``self``."""
    signature = inspect.signature(thing)
    parameters = [each for each in signature.parameters.values() if each.name not in {"self", "cls"}]
    kinds = [parameter.kind for parameter in parameters]
    shown = [_parameter(parameter) for parameter in parameters]
    if KEYWORD_ONLY in kinds and VAR_POSITIONAL not in kinds:
        shown.insert(kinds.index(KEYWORD_ONLY), "*")
    if POSITIONAL_ONLY in kinds:
        shown.insert(kinds.count(POSITIONAL_ONLY), "/")
    returned = signature.return_annotation
    arrow = "" if returned is signature.empty or inspect.isclass(thing) else f" -> {_type(returned)}"
    line = f"{name}({', '.join(shown)}){arrow}"
    if width is None or len(line) <= width:
        return line
    return "\n".join([f"{name}(", *(f"    {one}," for one in shown), f"){arrow}"])


def _parameter(parameter: inspect.Parameter) -> str:
    stars = "*" if parameter.kind is VAR_POSITIONAL else "**" if parameter.kind is VAR_KEYWORD else ""
    shown = f"{stars}{parameter.name}"
    annotated = parameter.annotation is not parameter.empty
    if annotated:
        shown += f": {_type(parameter.annotation)}"
    if parameter.default is not parameter.empty:
        shown += f"{' = ' if annotated else '='}{_default(parameter.default)}"
    return shown


def _type(annotation: object) -> str:
    if isinstance(annotation, ForwardRef):
        return annotation.__forward_arg__
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def _default(value: object) -> str:
    if isinstance(value, Enum):
        return f"{type(value).__name__}.{value.name}"
    return "..." if callable(value) else repr(value)


def _note(home: ModuleType, name: str) -> tuple[str, str]:
    """Return the assignment of a constant or an alias, and the string literal below it."""
    body = ast.parse(inspect.getsource(home)).body
    for node, below in zip(body, [*body[1:], None], strict=True):
        if not isinstance(node, (ast.Assign, ast.AnnAssign)):
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if name in {one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name)}:
            value = getattr(home, name)
            if isinstance(value, Enum):
                member = f"{type(value).__name__}.{value.name}"
                return f"{name} = {member}", f"Short for ``{member}``."
            note = ""
            if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
                note = inspect.cleandoc(str(below.value.value))
            return ast.unparse(node), note
    raise LookupError(f"{home.__name__} does not assign {name}")


def _doc(thing: Any) -> str:
    """Return the docstring of ``thing`` itself, not an inherited one."""
    text = thing.__doc__ or ""
    is_generated = inspect.isclass(thing) and text.startswith(f"{thing.__name__}(")
    return "" if is_generated else inspect.cleandoc(text)


def _code(text: str) -> str:
    return f"```python\n{text}\n```\n\n"


def _markdown(doc: str) -> str:
    """Return a docstring as Markdown: sections such as ``Raises`` as lists, code in backquotes."""
    paragraphs = []
    for paragraph in doc.split("\n\n"):
        section = re.match(r"(Args|Returns|Raises):\n", paragraph)
        if section:
            entries = re.split(r"\n  (?=\S)", paragraph[section.end() - 1 :])[1:]
            paragraphs.append(f"{section[1]}:\n\n" + "\n".join(f"* {_joined(each)}" for each in entries))
        else:
            paragraphs.append(
                paragraph if re.search(r"^[*-] ", paragraph, re.MULTILINE) else _joined(paragraph)
            )
    return "\n\n".join(paragraphs).replace("``", "`") + "\n"


def _joined(text: str) -> str:
    return " ".join(text.split())


if __name__ == "__main__":
    sys.stdout.write(engine_page())
