"""MODE."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from rowtide.expr.aggregates.aggregate import Aggregate, Calling, Compiled, is_plain_or_text, of_argument


def _mode(call: Calling, values: Sequence[Any]) -> object:
    del call
    counts = Counter(values)
    return max(counts, key=counts.__getitem__)


MODES = (
    Aggregate(
        "MODE",
        "the type of `x`: the most frequent value, and the first one if several are",
        of_argument,
        order_matters=True,
        compiled=Compiled(group=is_plain_or_text),
        of_values=_mode,
    ),
)
