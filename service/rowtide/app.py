"""Composition root: the one entry point of the command line."""

from __future__ import annotations


def main() -> None:
    """Run the command line."""
    from rowtide.cli.main import app

    app()
