"""Asking for memory before it is needed: so many loads are waited for together, not each by itself.

It reads nothing, so a place that nothing is read from later costs a little and is never wrong.
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
"""As LLVM has it: for reading; into all caches; no instructions."""
BLOCK = 256
NEAR = 1 << 15
"""As many numbers are in the cache anyway."""


def _prefetch(_typing: Any, array: Any, index: Any) -> Any:
    """Ask for the memory of ``array[index]``, where a row of a matrix begins; nothing is checked."""

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
"""``prefetch(array, index)``: ask for the memory of ``array[index]``."""


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True)
def prefetch_block(array: Any, places: NDArray[np.int64], row: int) -> None:
    """Ask for the elements of ``array`` at the ``places`` of ``BLOCK`` rows, at the first row of each block.

    A loop by itself, as short as can be: the longer it is, the fewer loads are waited for at a time. Small
    arrays are in the cache anyway.
    """
    if row & (BLOCK - 1) == 0 and len(array) > NEAR:
        for one in range(row, min(row + BLOCK, len(places))):
            prefetch(array, places[one])
