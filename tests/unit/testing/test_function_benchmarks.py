"""The benchmarks of functions in Python compute what NumPy alone computes, in every form."""

from __future__ import annotations

from pathlib import Path

import pytest

from rowtide.bench.functions import EVENTS, function_in
from rowtide.clock import SystemClock


# One process compiles the functions.
@pytest.mark.xdist_group("functions")
@pytest.mark.parametrize("form", EVENTS)
def test_every_form_gives_the_reference(form: str, tmp_path: Path) -> None:
    outcome = function_in(form, 20_001, tmp_path, SystemClock())
    assert (outcome.rows_out, outcome.check) == (20_001, "ok")
