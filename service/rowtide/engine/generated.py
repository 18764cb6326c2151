"""Generated functions: source text put together from arguments, compiled once, and kept to be read.

Worth it where the same loop over fields would run for every row. What comes
from outside goes into the text through ``repr`` only, or by name.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

from rowtide.engine.errors import ModelError

_numbers = count(1)


def generated(name: str, parameters: Sequence[str], lines: Sequence[str], **known: Any) -> Callable[..., Any]:
    """Compile a function of ``parameters`` with ``lines`` as its body; ``known`` are the names it may use.

    Its text is its attribute ``source``, and is shown by tracebacks.

    Raises:
      ModelError: if the text does not compile; with the text.
    """
    body = [f"    {line}" for line in lines] or ["    return None"]
    source = "\n".join([f"def {name}({', '.join(parameters)}):", *body, ""])
    file = f"<generated {name} {next(_numbers)}>"
    names: dict[str, Any] = dict(known)
    try:
        exec(compile(source, file, "exec"), names)
    except SyntaxError as error:
        raise ModelError(f'generated function "{name}" does not compile: {error}\n{source}') from error
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    made: Callable[..., Any] = names[name]
    made.source = source  # type: ignore[attr-defined]
    return made
