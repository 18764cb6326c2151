"""Compiled loops over columns. Numba is imported here and nowhere else.

Kernels are compiled once for each combination of argument types and cached on
disk; ``operators.warm`` compiles the usual combinations ahead of time.
"""
