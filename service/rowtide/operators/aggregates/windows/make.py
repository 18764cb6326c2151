"""The function of each call of a window by kernels, and the form of its values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rowtide.expr.aggregates import FrameShape, aggregate_of
from rowtide.operators.aggregates.arithmetic.codes import Fixed, KernelForm, ObjectCodes
from rowtide.operators.aggregates.windows.calls import WindowKernelCall
from rowtide.operators.aggregates.windows.distinct import DistinctCounts
from rowtide.operators.aggregates.windows.percentiles import Percentile
from rowtide.operators.aggregates.windows.picks import NthKernel, Pick, RunningNth
from rowtide.operators.aggregates.windows.running import RankKernel, RunningExtremeKernel, RunningPick
from rowtide.operators.aggregates.windows.spreads import VarianceKernel
from rowtide.operators.aggregates.windows.sums import (
    CountKernel,
    DoubleSum,
    ExtremeKernel,
    SumKernel,
    TruthKernel,
    stored_type,
)
from rowtide.plan.calls import shape_of
from rowtide.plan.frames import Frame, WindowCall
from rowtide.rows.types import Type


def form_of(call: WindowCall) -> KernelForm:
    """Return the form that a call's values have in kernels: codes, if it moves objects or distinguishes them."""
    of = stored_type(call)
    counts = call.function == "COUNT" and not call.distinct
    return Fixed() if counts or of.dtype != object else ObjectCodes(of)


def make_call(call: WindowCall, form: KernelForm, frame: Frame) -> WindowKernelCall:
    """Return the function of a call by kernels.

    Raises:
      KeyError: it has none (``plan.calls``).
    """
    of = call.type if call.argument is None else call.argument.type
    found = MAKERS[call.function](Making(call, of, form, shape_of(frame)))
    if call.distinct and aggregate_of(call).distinct_matters:
        found.once = DistinctCounts()
    return found


@dataclass(frozen=True, slots=True)
class Making:
    """A call over a window of this shape, the type of its argument, and the form that it has in kernels."""

    call: WindowCall
    of: Type
    form: KernelForm
    frame: FrameShape

    @property
    def dtype(self) -> Any:
        """Return the type of the values in kernels."""
        return np.float64 if self.of.is_float else np.int64


def _count(making: Making) -> WindowKernelCall:
    return CountKernel(making.dtype if making.call.distinct else np.int64)


def _rank(making: Making) -> WindowKernelCall:
    return RankKernel(dense=making.call.function == "DENSE_RANK")


def _sum(making: Making) -> WindowKernelCall:
    call = making.call
    if making.of.is_float:
        return DoubleSum(average=call.function == "AVG")
    return SumKernel(call, making.of.scale, endless=making.frame.endless)


def _truth(making: Making) -> WindowKernelCall:
    return TruthKernel(making.call)


def _spread(making: Making) -> WindowKernelCall:
    return VarianceKernel(making.of, making.call.function)


def _percentile(making: Making) -> WindowKernelCall:
    return Percentile(making.call, making.of)


def _extreme(making: Making) -> WindowKernelCall:
    greatest = making.call.function == "MAX"
    if making.frame.endless:
        return RunningExtremeKernel(making.of, making.form, greatest=greatest)
    return ExtremeKernel(making.dtype, greatest=greatest)


def _pick(making: Making) -> WindowKernelCall:
    """Return the function of a value at a place of the frame."""
    call, of, form, endless = making.call, making.of, making.form, making.frame.endless
    ignore = call.ignore_nulls or call.function == "ANY_VALUE"
    last = call.function == "LAST_VALUE"
    from_end = last or (call.function == "LAG" and ignore)
    if call.number == 1 and not ignore and (making.frame.running or not endless):
        return RunningPick(of, form, last=last) if endless else Pick(making.dtype, last=last)
    if endless:
        return RunningNth(of, form, call.number, from_end=from_end, ignore_nulls=ignore)
    return NthKernel(making.dtype, call.number, from_end=from_end, ignore_nulls=ignore)


MAKERS: Mapping[str, Callable[[Making], WindowKernelCall]] = {
    **dict.fromkeys(("COUNT", "ROW_NUMBER"), _count),
    **dict.fromkeys(("RANK", "DENSE_RANK"), _rank),
    **dict.fromkeys(("SUM", "AVG"), _sum),
    **dict.fromkeys(("VAR_POP", "VAR_SAMP", "STDDEV_POP", "STDDEV_SAMP"), _spread),
    **dict.fromkeys(("MIN", "MAX"), _extreme),
    **dict.fromkeys(("EVERY", "BOOL_AND", "BOOL_OR"), _truth),
    **dict.fromkeys(("MEDIAN", "PERCENTILE_CONT", "PERCENTILE_DISC"), _percentile),
    **dict.fromkeys(("FIRST_VALUE", "LAST_VALUE", "ANY_VALUE", "NTH_VALUE", "LAG", "LEAD"), _pick),
}
"""Makers of the compiled calls (``plan.calls``)."""
