"""Generated functions: source text that is built from arguments, compiled once and kept for reading.

They are faster than a loop over fields that runs for every row. Values from
outside enter the text only through ``repr`` or as named values.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

from rowtide.engine.errors import ModelError

_numbers = count(1)


def generated(name: str, parameters: Sequence[str], lines: Sequence[str], **known: Any) -> Callable[..., Any]:
    """Compile a function with ``parameters`` whose body is ``lines``; it can use the names in ``known``.

    The attribute ``source`` of the function is its text, which tracebacks show too.

    Raises:
      ModelError: if the text does not compile; the message contains it.
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
