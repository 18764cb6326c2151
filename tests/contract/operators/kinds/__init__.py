"""Operators whose cases and model are in one file of this folder: ``KIND``, ``CASES`` and ``MODEL``.

Such a file is found by being here. It draws from ``contract.operators.inputs`` and derives its model from one of
``contract.operators.stream_models``; ``cases`` and ``models`` import it, so it imports neither.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from hypothesis import strategies as st

from contract.operators.inputs import Case
from contract.operators.model import Model
from rowtide.operators.contract import OperatorSite

_FOUND = [import_module(f"{__name__}.{each.name}") for each in iter_modules(__path__)]
CASES_OF: dict[type, st.SearchStrategy[Case]] = {each.KIND: each.CASES for each in _FOUND}
MODELS_OF: dict[type, Callable[[Any, OperatorSite], Model]] = {each.KIND: each.MODEL for each in _FOUND}
