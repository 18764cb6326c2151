"""Elements as JSON and back, for UNNEST and ARRAY_AGG: $JSON_OF(x), $ARRAY_OF(text) and $ELEMENT(json).

The planner writes these calls, SQL has no name for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rowtide.expr.evaluation import ColumnKernel, RowKernel
from rowtide.expr.functions.arrays.shapes import with_nulls
from rowtide.expr.functions.function import CallSignature, ScalarFunction, mismatch, strict
from rowtide.expr.functions.shapes import no_columns
from rowtide.rows.arrays import Mask
from rowtide.rows.arrays_as_text import array_text
from rowtide.rows.column import Column
from rowtide.rows.types import VARCHAR, Type, array_of

JSON_OF, ARRAY_OF, ELEMENT = "$JSON_OF", "$ARRAY_OF", "$ELEMENT"


def _json_type(args: Sequence[Type]) -> Type | None:
    return VARCHAR if len(args) == 1 and args[0].can_be_element else None


def _json(signature: CallSignature) -> RowKernel:
    form = array_text(array_of(signature.args[0]))
    return lambda value: form.text((value,))[1:-1]


def _typed_by_call(args: Sequence[Type]) -> Type:
    raise mismatch(ELEMENT, args)


def _array(signature: CallSignature) -> RowKernel:
    form = array_text(signature.result)
    return lambda text: form.values(f"[{text}]")


def _element(signature: CallSignature) -> RowKernel:
    form = array_text(array_of(signature.result))
    return lambda text: form.values(f"[{text}]")[0]


def _elements(signature: CallSignature) -> ColumnKernel:
    kind = signature.result
    form = array_text(array_of(kind))

    def read(texts: Any) -> tuple[Any, Mask | None]:
        listed = form.values(f"[{','.join('null' if text is None else text for text in texts.to_pylist())}]")
        column = Column.from_values(kind, listed)
        if column.valid is None:
            return column.values, None
        # Where an element is NULL, the row function says so.
        return column.values, ~np.asarray(column.valid)

    return read


ARRAY_PARTS: Sequence[ScalarFunction] = (
    with_nulls(JSON_OF, "It takes a value that can be an element.", _json_type, _json),
    strict(ARRAY_OF, _typed_by_call, _array, no_columns),
    strict(ELEMENT, _typed_by_call, _element, _elements),
)
"""The functions of parts."""
