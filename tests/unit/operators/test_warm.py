from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

import rowtide.operators.kernels as kernels
from rowtide.operators.warm import warm


def test_every_kernel_is_compiled_ahead_of_time() -> None:
    warm()
    modules = [import_module(f"{kernels.__name__}.{each.name}") for each in iter_modules(kernels.__path__)]
    cold = [
        f"{module.__name__}.{name}"
        for module in modules
        for name, kernel in vars(module).items()
        # A kernel that others call is compiled with them.
        if not name.startswith("_") and hasattr(kernel, "signatures") and not kernel.signatures
    ]
    assert modules
    assert not cold
