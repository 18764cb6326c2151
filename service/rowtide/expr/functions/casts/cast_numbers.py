"""CAST between numbers, and between integers and BOOLEAN.

Digits that the target does not have are rounded half away from zero. A float
becomes a DECIMAL from the shortest decimal that reads back as that float: the
DOUBLE 0.285 becomes 0.29, as the text '0.285' does, though its exact value is a
little less. It becomes an integer from its exact value. A number that is out of range, infinite or
NaN rejects the row with OVERFLOW. Zero is FALSE, other integers TRUE.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rowtide.errors import Reason, RejectedRowError
from rowtide.expr.evaluation import ColumnKernel, RowKernel
from rowtide.expr.functions.numbers import exact, floats
from rowtide.expr.functions.numbers.decimals import units
from rowtide.expr.functions.rejections import shown
from rowtide.expr.functions.type_rules import digits
from rowtide.rows.arrays import Mask
from rowtide.rows.column import scaled
from rowtide.rows.types import Kind, Type

_EXACT_IN_DOUBLE = 2**53
_EXACT_POWER_OF_TEN = 22
"""10**22 is the largest power of ten that a double holds exactly."""


def out_of_range(value: object, target: Type) -> RejectedRowError:
    """Make the error that a number does not fit its new type."""
    return RejectedRowError(Reason.OVERFLOW, f"{shown(value)} is out of range for {target}")


def row(source: Type, target: Type) -> RowKernel:
    """Return the row function of a cast between two numbers or BOOLEAN."""
    if source.kind is Kind.BOOLEAN:
        return int
    if target.kind is Kind.BOOLEAN:
        return lambda value: value != 0
    if target.is_float:
        return _row_to_float(target)
    low, high = exact.exact_range(target)
    scale = digits(target)[1]
    places = scale - (0 if source.is_float else digits(source)[1])
    up, down = 10 ** max(places, 0), 10 ** max(-places, 0)
    is_decimal = target.kind is Kind.DECIMAL

    def to_exact(value: Any) -> object:
        if isinstance(value, float):
            if not math.isfinite(value):
                raise out_of_range(value, target)
            if is_decimal:
                whole, power = floats.shortest(value, source)
                power += scale
                result = exact.divided_half_away(whole * 10 ** max(power, 0), 10 ** max(-power, 0))
            else:
                result = exact.divided_half_away(*value.as_integer_ratio())
        else:
            result = exact.divided_half_away(units(value, scale - places) * up, down)
        if not low <= result <= high:
            raise out_of_range(value, target)
        return scaled(result, scale) if is_decimal else result

    return to_exact


def _row_to_float(target: Type) -> RowKernel:
    if target.kind is Kind.DOUBLE:
        return float

    def to_single(value: Any) -> float:
        try:
            return floats.single(float(value))
        except OverflowError:
            raise out_of_range(value, target) from None

    return to_single


def columns(source: Type, target: Type) -> ColumnKernel:
    """Return the column function of a cast between two numbers or BOOLEAN."""
    if target.kind is Kind.BOOLEAN:
        return lambda values: (values != 0, None)
    if source.kind is Kind.BOOLEAN:
        dtype = target.dtype
        return lambda values: (values.astype(dtype), None)
    if source.is_float:
        return _float_to_float(target) if target.is_float else _float_to_exact(target)
    if target.is_float:
        return _exact_to_float(source, target)
    places = digits(target)[1] - digits(source)[1]

    def rescale(values: Any) -> tuple[Any, Mask | None]:
        if places >= 0:
            return exact.settled(exact.rescaled(values, places), target)
        values = exact.whole(values)
        if -places > exact.INT64_DIGITS:
            values = values.astype(object)
        divisor = np.array([10**-places], dtype=values.dtype)
        return exact.settled(exact.rounded(values, divisor), target)

    return rescale


def _float_to_float(target: Type) -> ColumnKernel:
    dtype = target.dtype

    def convert(values: Any) -> tuple[Any, Mask | None]:
        result = values.astype(dtype, copy=False)
        return result, floats.doubtful(result, values)

    return convert


def _exact_to_float(source: Type, target: Type) -> ColumnKernel:
    dtype, scale = target.dtype, digits(source)[1]
    if source.is_integer:
        # Convert by way of DOUBLE, as the row function does.
        return lambda values: (values.astype(np.float64).astype(dtype, copy=False), None)
    divisor = float(10**scale) if scale <= _EXACT_POWER_OF_TEN else None

    def convert(values: Any) -> tuple[Any, Mask | None]:
        if divisor is None:
            return np.zeros(len(values), dtype=dtype), np.ones(len(values), dtype=np.bool_)
        values, large = exact.within(values, -_EXACT_IN_DOUBLE, _EXACT_IN_DOUBLE, np.dtype(np.int64))
        # Both are exact as doubles, so one division rounds as the row function does.
        return (values.astype(np.float64) / divisor).astype(dtype, copy=False), large

    return convert


def _float_to_exact(target: Type) -> ColumnKernel:
    low, high = exact.exact_range(target)
    scale = digits(target)[1]
    factor = float(10**scale) if scale <= _EXACT_POWER_OF_TEN else None

    def convert(values: Any) -> tuple[Any, Mask | None]:
        if factor is None:
            return np.zeros(len(values), dtype=target.dtype), np.ones(len(values), dtype=np.bool_)
        wide = values.astype(np.float64, copy=False) * factor
        result = floats.nearest_wholes(wide)
        fits = (result >= low) & (result < high + 1)
        if high > exact.INT64_MAX:
            fits &= np.abs(result) < 2.0**63
        if target.kind is Kind.DECIMAL:
            # Near a half only the shortest decimal decides; large values are all near one.
            fits &= np.abs(np.abs(wide - result) - 0.5) > floats.decimal_error(values, factor)
        doubtful = None
        if not fits.all():
            doubtful = ~fits
            result = np.where(fits, result, 0.0)
        return result.astype(np.int64).astype(target.dtype, copy=False), doubtful

    return convert
