"""What the tests on Spark share."""

from __future__ import annotations

import pytest

from rowtide.runners.spark import frames


@pytest.fixture(autouse=True)
def rows_are_split(monkeypatch: pytest.MonkeyPatch) -> None:
    """Split rows into parts however few they are: those of tests would all go to one task."""
    monkeypatch.setattr(frames, "FEW_ROWS", 0)
