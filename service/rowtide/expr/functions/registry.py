"""All scalar functions by name; each is declared once, in the module of its idea."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence

from rowtide.errors import StatementError
from rowtide.expr.functions.arguments import ARGUMENTS
from rowtide.expr.functions.arrays.changes import ARRAY_CHANGES
from rowtide.expr.functions.arrays.elements import ELEMENTS, quantified_name
from rowtide.expr.functions.arrays.parts import ARRAY_PARTS
from rowtide.expr.functions.casts.cast import CASTS
from rowtide.expr.functions.comparison import COMPARISONS, ROW_COMPARISONS
from rowtide.expr.functions.conditional import CONDITIONALS
from rowtide.expr.functions.containment import CONTAINMENT
from rowtide.expr.functions.function import ScalarFunction
from rowtide.expr.functions.logic import LOGIC
from rowtide.expr.functions.numbers.arithmetic import ARITHMETIC
from rowtide.expr.functions.numbers.bits import BITS
from rowtide.expr.functions.numbers.divisors import DIVISORS
from rowtide.expr.functions.numbers.powers import POWERS
from rowtide.expr.functions.numbers.rounding import ROUNDING
from rowtide.expr.functions.ordered import ORDERED_TEXTS
from rowtide.expr.functions.pairs import PAIRS
from rowtide.expr.functions.text.characters import CHARACTERS
from rowtide.expr.functions.text.codes import CODES
from rowtide.expr.functions.text.compared import COMPARED
from rowtide.expr.functions.text.json_making import JSON_MAKING
from rowtide.expr.functions.text.json_text import JSON_TEXT, JSON_VALUES
from rowtide.expr.functions.text.patterns import PATTERNS
from rowtide.expr.functions.text.quoted import QUOTED
from rowtide.expr.functions.text.separated import SEPARATED
from rowtide.expr.functions.text.similar import SIMILAR
from rowtide.expr.functions.text.text import TEXT
from rowtide.expr.functions.text.text_parts import TEXT_PARTS
from rowtide.expr.functions.text.urls import URLS
from rowtide.expr.functions.times.made import MADE
from rowtide.expr.functions.times.periods import PERIODS
from rowtide.expr.functions.times.times import TIMES
from rowtide.expr.functions.times.times_as_text import TIMES_AS_TEXT
from rowtide.expr.functions.times.zones import ZONES
from rowtide.rows.types import Type

_DECLARED = {
    function.name: function
    for function in (
        *ARITHMETIC,
        *COMPARISONS,
        *LOGIC,
        *CONDITIONALS,
        *CASTS,
        *TEXT,
        *TEXT_PARTS,
        *CHARACTERS,
        *PATTERNS,
        *SIMILAR,
        *SEPARATED,
        *CODES,
        *COMPARED,
        *QUOTED,
        *URLS,
        *JSON_TEXT,
        *JSON_MAKING,
        *CONTAINMENT,
        *TIMES,
        *TIMES_AS_TEXT,
        *PERIODS,
        *ZONES,
        *ROUNDING,
        *POWERS,
        *BITS,
        *PAIRS,
        *ORDERED_TEXTS,
        *ARGUMENTS,
        *DIVISORS,
        *MADE,
        *ELEMENTS,
        *ARRAY_CHANGES,
        *ARRAY_PARTS,
    )
}
_OTHER_NAMES = {
    "MOD": "%",
    "CEILING": "CEIL",
    "POW": "POWER",
    "CHARACTER_LENGTH": "CHAR_LENGTH",
    "LENGTH": "CHAR_LENGTH",
    "LEN": "CHAR_LENGTH",
    "SUBSTR": "SUBSTRING",
    "TRUNC": "TRUNCATE",
    "UCASE": "UPPER",
    "LCASE": "LOWER",
    "REGEX_REPLACE": "REGEXP_REPLACE",
    "BTRIM": "TRIM",
    "TRIM_LEADING": "LTRIM",
    "TRIM_TRAILING": "RTRIM",
    "ARRAY_CAT": "ARRAY_CONCAT",
    "TO_JSONB": "TO_JSON",
    "JSON_OBJECT_KEYS": "JSON_KEYS",
    "JSONB_ARRAY_LENGTH": "JSON_ARRAY_LENGTH",
}

FUNCTIONS: Mapping[str, ScalarFunction] = _DECLARED | {
    other: _DECLARED[name] for other, name in _OTHER_NAMES.items()
}
"""Every function under its names, upper case. Operators have their SQL spelling; the sign is NEGATE."""


MAY_BE_NULL = frozenset(
    {
        *(
            "NULLIF",
            "TRY_CAST",
            "REGEXP_SUBSTR",
            "REGEXP_EXTRACT",
            "SUBSTRING SIMILAR",
            "$VALUE",
            "SPLIT_INDEX",
            "PARSE_URL",
        ),
        *(*JSON_VALUES.values(), "JSON_QUERY", "->", "->>", "JSON_KEYS", "JSON_ARRAY_LENGTH", "KAFKA_HEADER"),
        *("[]", "ARRAY_POSITION", "ARRAY_MIN", "ARRAY_MAX", "$ELEMENT"),
        *(
            quantified_name(comparison, every=every)
            for comparison in ROW_COMPARISONS
            for every in (False, True)
        ),
    }
)
"""Functions that may be NULL where no argument is."""


class UnknownFunction(StatementError):
    """A function of this name does not exist."""

    def __init__(self, name: str) -> None:
        near = suggestion(name)
        super().__init__(
            f'function "{name}" does not exist', hint=None if near is None else f'Did you mean "{near}"?'
        )


def find(name: str) -> ScalarFunction:
    """Return the function called ``name``, in upper case.

    Raises:
      UnknownFunction: it does not exist; the hint names the nearest one.
    """
    function = FUNCTIONS.get(name)
    if function is None:
        raise UnknownFunction(name)
    return function


_NOT_CALLED = frozenset(
    {
        "AND",
        "OR",
        "NOT",
        "LIKE",
        "ILIKE",
        "CASE",
        "NEGATE",
        "FLOOR_TO",
        "CEIL_TO",
        "TRIM_LEADING",
        "TRIM_TRAILING",
    }
)
"""Functions that SQL does not write as name and parentheses."""


def callable_names() -> list[str]:
    """Return the functions that SQL writes as a name and parentheses."""
    return [known for known in FUNCTIONS if known.isidentifier() and known not in _NOT_CALLED]


def suggestion(name: str) -> str | None:
    """Return the function name nearest to ``name``, if one is near."""
    near = difflib.get_close_matches(name.upper(), callable_names(), n=1, cutoff=0.7)
    return near[0] if near else None


def resolve(name: str, arg_types: Sequence[Type]) -> Type:
    """Return the type of function ``name`` for arguments of these types; of CAST for (source, target).

    Raises:
      UnknownFunction: the function does not exist.
      TypeMismatch: it does not take these types.
    """
    return find(name).resolve(arg_types)
