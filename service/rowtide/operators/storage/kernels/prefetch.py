"""Prefetches memory before it is needed, so that many loads overlap.

A prefetch reads nothing: an element that is not read later costs a little and is never an error.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

READ, KEEP, DATA = 0, 3, 1
"""Arguments of LLVM's prefetch: for reading; into all caches; data, not instructions."""
BLOCK = 256
NEAR = 1 << 15
"""This number of values is in the cache anyway."""


def _prefetch(_typing: Any, array: Any, index: Any) -> Any:
    """Prefetch the memory of ``array[index]``, or of the beginning of a matrix row. Nothing is checked."""

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        get_function: Any = cgutils.get_or_insert_function
        held = context.make_array(signature.args[0])(context, builder, given[0])
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        step = builder.extract_value(held.strides, 0)
        place = builder.gep(builder.bitcast(held.data, byte), [builder.mul(given[1], step)])
        called = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        function = get_function(builder.module, called, "llvm.prefetch.p0i8")
        builder.call(function, [place, *(ir.Constant(number, each) for each in (READ, KEEP, DATA))])
        return context.get_dummy_value()

    return types.void(array, types.intp), generate


prefetch: Any = intrinsic(_prefetch)
"""``prefetch(array, index)``: prefetch the memory of ``array[index]``."""


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True)
def prefetch_block(array: Any, places: NDArray[np.int64], row: int) -> None:
    """Prefetch the elements of ``array`` at the ``places`` of ``BLOCK`` rows, at the first row of each block.

    A separate loop, as short as possible: the longer it is, the fewer loads overlap. Small arrays are in
    the cache anyway.
    """
    if row & (BLOCK - 1) == 0 and len(array) > NEAR:
        for one in range(row, min(row + BLOCK, len(places))):
            prefetch(array, places[one])
