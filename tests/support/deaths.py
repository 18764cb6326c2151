"""Where processes of tests die: the points of a commit, and which of them the default run chooses."""

from __future__ import annotations

import pytest

from rowtide.runtime.crashpoints import POINTS

COMMIT_POINTS = [point for point in POINTS if point.startswith("commit.")]
DEATHS_IN_COMMITS = [
    pytest.param(
        point, marks=[] if point in ("commit.after_tables", "commit.after_commit") else pytest.mark.long
    )
    for point in COMMIT_POINTS
]
"""Each run dies within the transaction and after it, the long run at every point."""
