"""Compiling kernels that only work on arrays which they are given.

Where kernels call one another, Numba counts references to every array at every call: atomic operations
that cost more than finding a key does. These count none, so they must neither make an array nor give one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from numba import njit

Kernel = TypeVar("Kernel", bound=Callable[..., Any])

_njit: Any = njit


def lean(function: Kernel) -> Kernel:
    """Compile a kernel that makes no array; a quotient of zero is NumPy's."""
    compiled: Kernel = _njit(cache=True, nogil=True, error_model="numpy", _nrt=False)(function)
    return compiled


def lean_part(function: Kernel) -> Kernel:
    """Compile what becomes a part of each kernel that calls it; else as ``lean``."""
    compiled: Kernel = _njit(cache=True, nogil=True, error_model="numpy", forceinline=True, _nrt=False)(
        function
    )
    return compiled
