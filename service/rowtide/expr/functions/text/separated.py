"""CONCAT_WS: texts with a separator in between; NULLs are left out; a NULL separator makes it NULL."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from rowtide.expr.evaluation import ColumnEvaluator, Errors, EvaluatedPart, RowEvaluator, first_errors
from rowtide.expr.functions.function import CallSignature, ScalarFunction, as_given, mismatch
from rowtide.rows.arrays import Mask
from rowtide.rows.rowop import Row
from rowtide.rows.tray import Tray
from rowtide.rows.types import VARCHAR, Type


def _concat_ws() -> ScalarFunction:
    def resolve(args: Sequence[Type]) -> Type:
        if len(args) < 2 or not all(arg.is_text for arg in args):
            raise mismatch("CONCAT_WS", args, hint="CAST values of other types to VARCHAR.")
        return VARCHAR

    def row(signature: CallSignature, args: Sequence[RowEvaluator]) -> RowEvaluator:
        del signature

        def joined(row: Row, rowtime: int) -> object:
            separator, *texts = (arg(row, rowtime) for arg in args)
            if not isinstance(separator, str):
                return None
            return separator.join(text for text in texts if isinstance(text, str))

        return joined

    def columnar(signature: CallSignature, args: Sequence[ColumnEvaluator]) -> ColumnEvaluator:
        del signature

        def joined(tray: Tray, active: Mask | None) -> EvaluatedPart:
            errors: Errors | None = None
            columns = []
            parts = [arg(tray, active) for arg in args]
            for part in parts:
                errors = first_errors(errors, part.errors)
                constant = len(part.values) == 1 and len(tray) != 1
                columns.append(part.values[0] if constant else part.values)
            separator, *texts = columns
            if all(isinstance(text, pa.Array) for text in texts):
                # Arrow leaves out the rows without anything to join.
                nothing = reduce(pc.and_, map(pc.is_null, texts))
                texts[0] = pc.if_else(nothing, "", texts[0])
            values = pc.binary_join_element_wise(*texts, separator, null_handling="skip")
            return EvaluatedPart(values, parts[0].valid, errors)

        return joined

    return ScalarFunction("CONCAT_WS", resolve, columnar, row, as_given)


SEPARATED: Sequence[ScalarFunction] = (_concat_ws(),)
