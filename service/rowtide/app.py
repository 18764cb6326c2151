"""Composition root: the one entry point of the command line."""

from __future__ import annotations

import gc

YOUNG_OBJECTS = 200_000
"""So many objects may be new before Python looks for unreachable cycles among them, not 700: a start makes
about as many, which all stay. Looking at them over and over took a quarter of it, and found nothing."""


def main() -> None:
    """Run the command line."""
    gc.set_threshold(YOUNG_OBJECTS, *gc.get_threshold()[1:])
    from rowtide.cli.main import app

    app()
