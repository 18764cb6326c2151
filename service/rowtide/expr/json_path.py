"""Paths into JSON values: ``$.a.b[0]``, the part of the SQL/JSON path language that names one place.

See docs/sql/streams.md#json. A path is a row of steps: the name of a member, or the index of an element.
"""

from __future__ import annotations

import re
from functools import lru_cache

JsonSteps = tuple[str | int, ...]
JsonRowSteps = tuple[str | int | None, ...]
"""The steps of a path that may name several places: None is every element, ``[*]``."""

REMEMBERED_PATHS = 256
"""The number of parsed paths in the cache, for paths that are not constants."""

_STEP = re.compile(
    r"""\s*(?:
      \.\s*(?P<name>[^\W\d][\w]*)
    | \.\s*"(?P<quoted>(?:[^"\\]|\\.)*)"
    | \[\s*(?P<index>\d{1,9})\s*\]
    | \[\s*'(?P<single>(?:[^'\\]|\\.)*)'\s*\]
    | \[\s*"(?P<double>(?:[^"\\]|\\.)*)"\s*\]
    )""",
    re.VERBOSE,
)
_EVERY = re.compile(r"\s*\[\s*\*\s*\]")
_PLAIN = re.compile(r"[^\W\d]\w*")
_MANY = re.compile(r"\s*(\[\s*\*|\.\s*\*|\.\.|\[\s*\d+\s*(,|to\b)|\[\s*\?|\?)", re.IGNORECASE)
_HINT = "Write a path such as $.user.name, $.items[0].id or $['first name']."


class JsonPathError(ValueError):
    """A text is not a path that names one place; ``hint`` says what to write."""

    def __init__(self, message: str, hint: str = _HINT) -> None:
        super().__init__(message)
        self.hint = hint


@lru_cache(maxsize=REMEMBERED_PATHS)
def parse_path(text: str) -> JsonSteps:
    """Return the steps of a path; ``$`` alone has none.

    Raises:
      JsonPathError: it is not a path, or one that may name several places.
    """
    return tuple(step for step in _parsed(text, many=False) if step is not None)


@lru_cache(maxsize=REMEMBERED_PATHS)
def parse_row_path(text: str) -> JsonRowSteps:
    """Return the steps of a path that may have ``[*]``, each element of an array.

    Raises:
      JsonPathError: it is not such a path.
    """
    return _parsed(text, many=True)


def _parsed(text: str, *, many: bool) -> JsonRowSteps:
    written = text.strip()
    if not written.startswith("$"):
        raise JsonPathError(f'JSON path "{text}" does not begin with $')
    steps: list[str | int | None] = []
    at = 1
    while at < len(written):
        every = _EVERY.match(written, at) if many else None
        if every is not None:
            steps.append(None)
            at = every.end()
            continue
        match = _STEP.match(written, at)
        if match is None:
            raise _unread(text, written, at, many=many)
        if match["index"] is not None:
            steps.append(int(match["index"]))
        elif match["name"] is not None:
            steps.append(match["name"])
        else:
            given = next(match[each] for each in ("quoted", "single", "double") if match[each] is not None)
            steps.append(re.sub(r"\\(.)", r"\1", given, flags=re.DOTALL))
        at = match.end()
    return tuple(steps)


def _unread(text: str, written: str, at: int, *, many: bool) -> JsonPathError:
    if _MANY.match(written, at) and many:
        return JsonPathError(
            f'JSON path "{text}": "{written[at:].strip()}" is not supported',
            "Write a path such as $[*] or $.items[*], and conditions of the elements into WHERE.",
        )
    if _MANY.match(written, at):
        return JsonPathError(
            f'JSON path "{text}" may name several places, which is not supported',
            "Name one place, such as $.items[0]; a column of VARCHAR holds a whole array as JSON text.",
        )
    return JsonPathError(f'JSON path "{text}": "{written[at:]}" is not a step of a path')


def show_path(steps: JsonRowSteps) -> str:
    """Return a path as ``parse_row_path`` reads it."""
    return "$" + "".join(_shown(step) for step in steps)


def _shown(step: str | int | None) -> str:
    if step is None:
        return "[*]"
    if isinstance(step, int):
        return f"[{step}]"
    if _PLAIN.fullmatch(step):
        return f".{step}"
    escaped = step.replace("\\", "\\\\").replace("'", "\\'")
    return f"['{escaped}']"
