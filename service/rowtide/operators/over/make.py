"""What computes each call of a window by kernels, and in which form it has its values."""

from __future__ import annotations

import numpy as np

from rowtide.operators.over.by_row.functions import SPREADS
from rowtide.operators.over.calls import (
    CountKernel,
    DoubleSum,
    ExtremeKernel,
    SumKernel,
    TruthKernel,
    stored_type,
)
from rowtide.operators.over.codes import Fixed, KernelForm, ObjectCodes
from rowtide.operators.over.distinct import DistinctCounts
from rowtide.operators.over.held import WindowKernelCall
from rowtide.operators.over.picks import NthKernel, Pick, RunningNth
from rowtide.operators.over.running import RankKernel, RunningExtremeKernel, RunningPick
from rowtide.operators.over.sorted_values import Percentile
from rowtide.operators.over.spreads import VarianceKernel
from rowtide.plan.frames import CURRENT_ROW, EdgeUnit, Frame, WindowCall
from rowtide.rows.types import Type


def form_of(call: WindowCall) -> KernelForm:
    """Return the form that a call's values have in kernels: codes, if it moves objects or distinguishes them."""
    of = stored_type(call)
    counts = call.function == "COUNT" and not call.distinct
    return Fixed() if counts or of.dtype != object else ObjectCodes(of)


def make_call(call: WindowCall, form: KernelForm, frame: Frame) -> WindowKernelCall:
    """Return what computes a call by kernels.

    Raises:
      KeyError: there are none (``plan.paths``).
    """
    of = call.type if call.argument is None else call.argument.type
    endless = frame.start.unit is EdgeUnit.UNBOUNDED
    found = _make(call, of, form, endless=endless, at_once=endless and frame.end == CURRENT_ROW)
    if call.distinct and call.function not in ("MIN", "MAX"):
        found.once = DistinctCounts()
    return found


def _make(call: WindowCall, of: Type, form: KernelForm, *, endless: bool, at_once: bool) -> WindowKernelCall:
    dtype = np.float64 if of.is_float else np.int64
    match call.function:
        case "COUNT" | "ROW_NUMBER":
            return CountKernel(dtype if call.distinct else np.int64)
        case "RANK" | "DENSE_RANK":
            return RankKernel(dense=call.function == "DENSE_RANK")
        case "SUM" | "AVG" if of.is_float:
            return DoubleSum(average=call.function == "AVG")
        case "SUM" | "AVG":
            return SumKernel(call, of.scale, endless=endless)
        case "EVERY" | "BOOL_AND" | "BOOL_OR":
            return TruthKernel(call)
        case function if function in SPREADS:
            return VarianceKernel(of, function)
        case "MEDIAN" | "PERCENTILE_CONT" | "PERCENTILE_DISC":
            return Percentile(call, of)
        case "MIN" | "MAX":
            greatest = call.function == "MAX"
            return (
                RunningExtremeKernel(of, form, greatest=greatest)
                if endless
                else ExtremeKernel(dtype, greatest=greatest)
            )
        case "FIRST_VALUE" | "LAST_VALUE" | "NTH_VALUE" | "LAG" | "LEAD" | "ANY_VALUE":
            return _pick(call, of, form, endless=endless, at_once=at_once)
    raise KeyError(call.function)


def _pick(call: WindowCall, of: Type, form: KernelForm, *, endless: bool, at_once: bool) -> WindowKernelCall:
    """Return what computes a value at a place of the frame."""
    dtype = np.float64 if of.is_float else np.int64
    ignore = call.ignore_nulls or call.function == "ANY_VALUE"
    last = call.function == "LAST_VALUE"
    from_end = last or (call.function == "LAG" and ignore)
    if call.number == 1 and not ignore and (at_once or not endless):
        return RunningPick(of, form, last=last) if endless else Pick(dtype, last=last)
    if endless:
        return RunningNth(of, form, call.number, from_end=from_end, ignore_nulls=ignore)
    return NthKernel(dtype, call.number, from_end=from_end, ignore_nulls=ignore)
