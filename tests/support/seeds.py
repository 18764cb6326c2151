"""Seeds of tests: a few of them in each run of the tests, all in the long run (``.ci/long``)."""

from __future__ import annotations

import pytest


def seeds(count: int, *, few: int) -> list[object]:
    """Return so many seeds, from 0 on; each run of the tests takes the first ``few``."""
    return [pytest.param(seed, marks=[] if seed < few else [pytest.mark.long]) for seed in range(count)]
