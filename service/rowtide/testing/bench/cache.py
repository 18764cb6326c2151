"""Where inputs of benchmarks are kept between runs."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """Give ``$ROWTIDE_CACHE``, else the user's cache folder for Rowtide."""
    given = os.environ.get("ROWTIDE_CACHE")
    if given:
        return Path(given) / "bench"
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "rowtide" / "bench"
