"""Composition root: the one entry point of the command line."""

from __future__ import annotations

import gc
import signal
import sys
from collections.abc import Mapping

START_OBJECTS = 200_000
"""What a start makes, about; all of it stays. Python would look for garbage among it hundreds of times, which
took a quarter of a start."""

_USUAL = gc.get_threshold()


def main() -> None:
    """Run the command line."""
    gc.set_threshold(START_OBJECTS, *_USUAL[1:])
    gc.callbacks.append(_after_first_search)
    signal.signal(signal.SIGTERM, _terminated)
    from rowtide.cli.main import app

    app()


def _terminated(number: int, _frame: object) -> None:
    """Leave in order while no command handles the signal: it is imported, or it has begun nothing yet.

    ``run`` promises exit code 0 for it; for others it is the shell's code of the signal.
    """
    sys.exit(0 if "run" in sys.argv[1:] else 128 + number)


def _after_first_search(phase: str, _: Mapping[str, int]) -> None:
    """Leave what there is by now out of all later searches for garbage, which come as often as usual."""
    if phase == "stop":
        gc.callbacks.remove(_after_first_search)
        gc.freeze()
        gc.set_threshold(*_USUAL)
