"""Models by name: makes a ``ModelRun`` of ``package.module:Class``; only this module imports users' modules.

Every error of a module, a class, an option or the wiring of a model is raised as
a ModelError.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from rowtide.engine.errors import ModelError
from rowtide.engine.model import ModelRun
from rowtide.errors import RowtideError
from rowtide.expr.python.loading import LoadingError, imported
from rowtide.expr.python.modules import code_of

_TRUTHS = {"true": True, "false": False}


class ModelOptionError(ModelError):
    """An option does not exist or has an invalid value; ``option`` is its name."""

    def __init__(self, option: str, message: str, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.option = option


def model_maker(name: str, path: str, options: Mapping[str, str], folder: str = "") -> Callable[[], ModelRun]:
    """Return a function that makes runs of the model at ``path`` with ``options``; see ``load``.

    An option is text, and is converted to the type of the parameter's annotation: ``int``, ``float``,
    ``bool`` (true or false), ``Decimal`` or ``str``.

    Raises:
      ModelError: if the model cannot be found or called; the function raises it if wiring fails.
    """
    model = load(path, folder)
    values = _arguments(path, model, options)

    def make() -> ModelRun:
        try:
            return ModelRun(name, model, values)
        except RowtideError as error:
            raise ModelError(f'model "{path}" cannot be wired: {error.message}', hint=error.hint) from error
        except Exception as error:
            raise ModelError(f'model "{path}" cannot be wired: {type(error).__name__}: {error}') from error

    return make


def model_code(path: str, folder: str) -> str:
    """Return a digest of the source text of a loaded model; see ``modules.code_of``."""
    return code_of(path.partition(":")[0], folder)


def load(path: str, folder: str = "") -> Callable[..., object]:
    """Return the class or function that ``path`` names.

    ``folder``, an absolute path, is that of the pipeline's file: its module takes precedence over a module
    of the same name beside another pipeline in this process.

    Raises:
      ModelError: if it does not exist, or its module cannot be imported.
    """
    module_name, colon, name = path.partition(":")
    if not colon or not module_name or not name:
        raise ModelError(f'invalid model path "{path}"', hint="Write 'package.module:Class'.")
    try:
        module = imported(module_name, folder, "the model")
    except LoadingError as error:
        raise ModelError(error.message, hint=error.hint) from error
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    if found is None:
        raise ModelError(f'module "{module_name}" has no "{name}"', hint=_there(module))
    if not callable(found):
        raise ModelError(f'"{path}" is neither a class nor a function but {type(found).__name__}')
    model: Callable[..., object] = found
    return model


def _there(module: Any) -> str | None:
    """Return a hint with the classes that a module defines."""
    classes = [
        name
        for name, value in vars(module).items()
        if inspect.isclass(value) and value.__module__ == module.__name__ and not name.startswith("_")
    ]
    return f"It has {', '.join(classes)}." if classes else None


def _arguments(path: str, model: Callable[..., object], options: Mapping[str, str]) -> dict[str, Any]:
    """Return options converted to the types of the model's parameters.

    Raises:
      ModelError: if an option does not exist, is missing or has an invalid value.
    """
    try:
        signature = inspect.signature(model, eval_str=True)
    except Exception as error:
        # Annotations are evaluated, which can raise any error.
        raise ModelError(f'the parameters of model "{path}" cannot be read: {error}') from error
    parameters = list(signature.parameters.values())
    if not parameters or parameters[0].kind is inspect.Parameter.KEYWORD_ONLY:
        raise ModelError(f'model "{path}" must take a ModelSetup as its first parameter')
    known = {
        each.name: each
        for each in parameters[1:]
        if each.kind in (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    }
    takes_any = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters)
    values = {}
    for name, text in options.items():
        if name not in known and not takes_any:
            hint = f"It has {', '.join(known)}." if known else "It has none."
            raise ModelOptionError(name, f'model "{path}" has no option "{name}"', hint=hint)
        annotation = known[name].annotation if name in known else str
        values[name] = _value(path, name, text, annotation)
    for name, each in known.items():
        if each.default is inspect.Parameter.empty and name not in values:
            raise ModelError(f'model "{path}" needs option "{name}"')
    return values


def _value(path: str, name: str, text: str, annotation: Any) -> Any:
    readers: dict[Any, Callable[[str], Any]] = {
        int: int,
        float: float,
        Decimal: Decimal,
        bool: lambda word: _TRUTHS[word.lower()],
    }
    reader = readers.get(annotation, str)
    try:
        return reader(text)
    except (ValueError, KeyError, InvalidOperation) as error:
        raise ModelOptionError(
            name, f'option "{name}" of model "{path}": \'{text}\' is not a valid {annotation.__name__}'
        ) from error
