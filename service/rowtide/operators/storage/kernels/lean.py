"""Compiles kernels that only work on their array arguments.

If kernels call one another, Numba counts references to every array at every call: atomic operations that
cost more than a key lookup. These kernels count none, so they must neither create nor return an array.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from numba import njit

Kernel = TypeVar("Kernel", bound=Callable[..., Any])

_njit: Any = njit


def lean(function: Kernel) -> Kernel:
    """Compile a kernel that creates no array. Division by zero is as in NumPy."""
    compiled: Kernel = _njit(cache=True, nogil=True, error_model="numpy", _nrt=False)(function)
    return compiled


def lean_part(function: Kernel) -> Kernel:
    """Compile a function that is inlined into each calling kernel; otherwise like ``lean``."""
    compiled: Kernel = _njit(cache=True, nogil=True, error_model="numpy", forceinline=True, _nrt=False)(
        function
    )
    return compiled
