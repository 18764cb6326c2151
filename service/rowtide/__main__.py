"""The entry point of the command line; ``python -m rowtide`` is ``rowtide``."""

from __future__ import annotations

import signal
import sys

from rowtide.startup import search_garbage_after_start


def main() -> None:
    """Run the command line."""
    search_garbage_after_start()
    signal.signal(signal.SIGTERM, _terminated)
    from rowtide.cli.main import app

    # Also as ``python -m rowtide``: completion is installed for this name.
    app(prog_name="rowtide")


def _terminated(number: int, _frame: object) -> None:
    """Leave in order while no command handles the signal: it is imported, or it has begun nothing yet.

    ``run`` promises exit code 0 for it; for others it is the shell's code of the signal.
    """
    sys.exit(0 if "run" in sys.argv[1:] else 128 + number)


if __name__ == "__main__":
    main()
