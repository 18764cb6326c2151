"""Field patterns: which fields of a row go into a result, and under which names.

A pattern is a field name or a regular expression that matches a whole name. The
first pattern that matches a field decides about it; a field that no pattern
matches is left out.

* ``name`` passes the field;
* ``!name`` leaves it out;
* ``name/other`` passes it as ``other``, where ``$1``, ``$2`` stand for the groups
  of the expression and ``$&`` for the whole name.

A pattern that is a plain name must be the name of a field, so that typing
errors are found; an expression may match no field.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from operator import itemgetter

from rowtide.engine.errors import ModelError
from rowtide.engine.row_type import Row, RowType

Renames = list[tuple[str, str]]
"""(old name, new name) of the fields that pass, in the order of the old row type."""

EVERY_FIELD = (".*",)

_REFERENCE = re.compile(r"\$(&|\d+)")


def choose_fields(names: Sequence[str], patterns: Sequence[str]) -> Renames:
    """Return the (old name, new name) pairs of the fields that ``patterns`` pass, in the order of ``names``.

    A pattern is a field name or a regular expression that matches a whole name; the first pattern that
    matches a field decides about it. ``!name`` leaves a field out, ``name/other`` renames it; in the new
    name ``$1``, ``$2`` stand for groups of the expression and ``$&`` for the whole name.

    Raises:
      ModelError: if a field does not exist, or a pattern is not a valid regular expression.
    """
    rules = [_rule(pattern, names) for pattern in patterns]
    chosen = []
    for name in names:
        for expression, replacement in rules:
            match = expression.fullmatch(name)
            if match is not None:
                if replacement is not None:
                    chosen.append((name, _REFERENCE.sub(partial(_group, match), replacement)))
                break
    return chosen


def _group(match: re.Match[str], reference: re.Match[str]) -> str:
    which = reference.group(1)
    try:
        return match.group(0 if which == "&" else int(which)) or ""
    except IndexError as error:
        raise ModelError(f'field pattern "{match.re.pattern}" has no group {which}') from error


def _rule(pattern: str, names: Sequence[str]) -> tuple[re.Pattern[str], str | None]:
    """Return the expression of a pattern and the new name; None if it leaves the field out."""
    is_blocked = pattern.startswith("!")
    expression, slash, replacement = pattern.removeprefix("!").partition("/")
    if re.fullmatch(r"\w+", expression) and expression not in names:
        raise ModelError(
            f'field pattern "{pattern}": field "{expression}" does not exist',
            hint=f"The fields are {', '.join(names)}.",
        )
    if "\\" in replacement:
        raise ModelError(
            f'field pattern "{pattern}": "{replacement}" is not a field name',
            hint="Write $1, $2 for groups of the expression, and $& for the whole name.",
        )
    try:
        compiled = re.compile(expression)
    except re.error as error:
        raise ModelError(f'field pattern "{pattern}" is not a valid regular expression: {error}') from error
    return compiled, None if is_blocked else replacement if slash else "$&"


def filter_fields(names: Sequence[str], patterns: Sequence[str]) -> list[str | None]:
    """Return the new name of each field, or None if it is left out; see ``choose_fields``."""
    renamed = dict(choose_fields(names, patterns))
    return [renamed.get(name) for name in names]


def project(*sources: tuple[RowType, Renames]) -> tuple[RowType, Callable[..., Row]]:
    """Return the type of a projected row and the function that makes it from one row of each source.

    The fields of the result are those of the first source, then those of the second, and so on. None in
    place of a row stands for a row of NULLs.

    Raises:
      ModelError: if a field does not exist, or two fields of the result have the same name.
    """
    fields = [
        (new, row_type.types[row_type.index(old)]) for row_type, renames in sources for old, new in renames
    ]
    result = RowType.of(fields)
    offsets = [sum(len(row_type) for row_type, _ in sources[:place]) for place in range(len(sources))]
    places = [
        offset + row_type.index(old)
        for offset, (row_type, renames) in zip(offsets, sources, strict=True)
        for old, _ in renames
    ]
    pick = picker(places)
    make = result.make
    nulls = [(None,) * len(row_type) for row_type, _ in sources]

    if len(sources) == 1:
        return result, lambda row: make(pick(nulls[0] if row is None else row))
    if len(sources) == 2:
        no_left, no_right = nulls

        def join(left: Row, right: Row) -> Row:
            return make(pick((no_left if left is None else left) + (no_right if right is None else right)))

        return result, join

    def project_all(*rows: Row) -> Row:
        if len(rows) != len(sources):
            raise ModelError(f"{len(rows)} rows for a projection of {len(sources)}")
        values: tuple[object, ...] = ()
        for row, null in zip(rows, nulls, strict=True):
            values += null if row is None else tuple(row)
        return make(pick(values))

    return result, project_all


def picker(places: Sequence[int]) -> Callable[[Sequence[object]], Sequence[object]]:
    """Return a fast function from a sequence of values to those at ``places``."""
    if not places:
        return lambda values: ()
    if len(places) == 1:
        only = places[0]
        return lambda values: (values[only],)
    return itemgetter(*places)
