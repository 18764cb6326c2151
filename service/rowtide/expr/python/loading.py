"""Find what a path such as 'package.module:name' names. Every error of a user's module is a LoadingError."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from rowtide.errors import StatementError
from rowtide.expr.python.modules import module_of


class LoadingError(StatementError):
    """A module cannot be imported, or does not have what a path names."""


def look_in(folder: str) -> None:
    """Search for modules in ``folder`` too, after all other places."""
    if folder not in sys.path:
        sys.path.append(folder)
        importlib.invalidate_caches()


def imported(name: str, folder: str, what: str) -> ModuleType:
    """Import a module, which takes precedence over one of the same name beside another pipeline.

    ``folder``, an absolute path, is that of the pipeline's file. ``what`` is what the module is of, for
    messages.

    Raises:
      LoadingError: it does not exist, or cannot be imported.
    """
    try:
        return module_of(name, folder)
    except ModuleNotFoundError as error:
        hint = None
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            hint = "Modules are looked for on Python's path and beside the pipeline's file."
        raise LoadingError(f'module "{name}" of {what} cannot be imported: {error}', hint=hint) from error
    except Exception as error:
        # A user's module can raise any error.
        raise LoadingError(
            f'module "{name}" of {what} cannot be imported: {type(error).__name__}: {error}'
        ) from error


def function_path(text: str) -> str:
    """Return 'module:function' of 'package.module.function' or 'package.module:function'.

    Raises:
      LoadingError: the text is neither.
    """
    module, mark, name = text.partition(":") if ":" in text else text.rpartition(".")
    parts = [*module.split("."), *name.split(".")]
    if not mark or not all(part.isidentifier() for part in parts):
        raise LoadingError(f'invalid function path "{text}"', hint="Write 'module.function'.")
    return f"{module}:{name}"


def load_function(path: str, folder: str) -> Callable[..., Any]:
    """Return the function that ``path``, 'module:function', names.

    Raises:
      LoadingError: it does not exist or cannot be called, or its module cannot be imported.
    """
    module_name, _, name = path.partition(":")
    module = imported(module_name, folder, "the function")
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    if found is None:
        raise LoadingError(f'module "{module_name}" has no "{name}"', hint=_functions_of(module))
    if not callable(found):
        raise LoadingError(f'"{path}" is not a function but {type(found).__name__}')
    function: Callable[..., Any] = found
    return function


def check_arguments(path: str, function: Callable[..., Any], names: Sequence[str]) -> None:
    """Check that a function can be called with as many arguments as ``names``, and returns a value.

    Raises:
      LoadingError: it takes another number of arguments, or is a coroutine or a generator.
    """
    if inspect.isclass(function) and callable(getattr(function, "add", None)):
        raise LoadingError(
            f'"{path}" is a class with the method "add"',
            hint="CREATE AGGREGATE FUNCTION declares an aggregate, RETURNS TABLE (..) a table function.",
        )
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        raise LoadingError(f'"{path}" is asynchronous', hint="Write def instead of async def.")
    if inspect.isgeneratorfunction(function):
        raise LoadingError(f'"{path}" is a generator', hint="Write return instead of yield.")
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError):
        # Built-in functions may not say what they take.
        return
    try:
        signature.bind(*names)
    except TypeError as error:
        given = f"{len(names)} argument{'' if len(names) == 1 else 's'}"
        raise LoadingError(
            f'"{path}" cannot be called with {given}: {error}', hint=f"It is {_shown(path, signature)}."
        ) from error


def _shown(path: str, signature: inspect.Signature) -> str:
    plain = [each.replace(annotation=inspect.Parameter.empty) for each in signature.parameters.values()]
    shown = signature.replace(parameters=plain, return_annotation=inspect.Signature.empty)
    return f"{path.partition(':')[2]}{shown}"


def _functions_of(module: ModuleType) -> str | None:
    """Return a hint with the functions that a module defines."""
    names = [
        name
        for name, value in vars(module).items()
        if inspect.isfunction(value) and value.__module__ == module.__name__ and not name.startswith("_")
    ]
    return f"It has {', '.join(names)}." if names else None
