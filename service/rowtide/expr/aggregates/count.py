"""COUNT."""

from __future__ import annotations

import numpy as np

from rowtide.expr.aggregates.aggregate import Aggregate, Calling, CallingOver, Compiled, FrameShape
from rowtide.rows.types import BIGINT, Type


def _bigint(argument: Type | None) -> Type | None:
    del argument
    return BIGINT


def _in_groups(call: Calling) -> bool:
    """Texts are distinguished by their codes, wide decimals by themselves."""
    of = None if call.argument is None else call.argument.type
    return not call.distinct or of is None or of.is_variable_width or of.dtype != np.dtype(object)


def _repeats(call: Calling) -> bool:
    return not call.distinct


def _over(call: CallingOver, frame: FrameShape) -> bool:
    del call, frame
    return True


COUNTS = (
    Aggregate(
        "COUNT",
        "BIGINT: the number of rows; of rows in which `x` is not NULL",
        _bigint,
        written=("COUNT(*)", "COUNT(x)"),
        never_null=True,
        few_of_rows=True,
        few_of_changes=True,
        compiled=Compiled(group=_in_groups, running=_repeats, retracting=_repeats, window=_over),
    ),
)
