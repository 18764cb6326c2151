"""Composition root: the one entry point of the command line."""

from __future__ import annotations

import gc
from collections.abc import Mapping

START_OBJECTS = 200_000
"""What a start makes, about; all of it stays. Python would look for garbage among it hundreds of times, which
took a quarter of a start."""

_USUAL = gc.get_threshold()


def main() -> None:
    """Run the command line."""
    gc.set_threshold(START_OBJECTS, *_USUAL[1:])
    gc.callbacks.append(_after_first_search)
    from rowtide.cli.main import app

    app()


def _after_first_search(phase: str, _: Mapping[str, int]) -> None:
    """Leave what there is by now out of all later searches for garbage, which come as often as usual."""
    if phase == "stop":
        gc.callbacks.remove(_after_first_search)
        gc.freeze()
        gc.set_threshold(*_USUAL)
