"""Every aggregate and window function, declared once: its types, its meaning, its forms.

The planner finds what SQL names in ``SPELLED``; plans and operators ask ``aggregate_of`` for the function of a call.
"""

from __future__ import annotations

from rowtide.expr.aggregates.aggregate import (
    Aggregate,
    Calling,
    CallingOver,
    Family,
    FrameShape,
    MakeSketch,
    Sketch,
)
from rowtide.expr.aggregates.registry import AGGREGATES, OF_GROUPS, ONLY_OVER, SPELLED, aggregate_of, spelled

__all__ = [
    "AGGREGATES",
    "OF_GROUPS",
    "ONLY_OVER",
    "SPELLED",
    "Aggregate",
    "Calling",
    "CallingOver",
    "Family",
    "FrameShape",
    "MakeSketch",
    "Sketch",
    "aggregate_of",
    "spelled",
]
