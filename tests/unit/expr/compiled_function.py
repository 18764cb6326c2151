"""A function that Numba compiles, for a test."""

from __future__ import annotations

from typing import Any, cast

from numba import vectorize

compiled = cast("Any", vectorize)
scaled = compiled(["float64(float64, int32)"])(lambda x, n: x * n + 0.5)
