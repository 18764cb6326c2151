"""``rowtide`` as a separate process, as a user starts it."""

from __future__ import annotations

import compileall
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO

import rowtide
import rowtide_connectors
from rowtide.clock import Clock
from rowtide.errors import TransientError
from rowtide.testing.processes import ENDS_WITH_PARENT

PATIENCE_S = 900.0
POLL_S = 0.005


def compile_modules() -> None:
    """Keep the byte code of our modules, as an installer does; a checkout may have none."""
    for package in (rowtide, rowtide_connectors):
        for folder in package.__path__:
            compileall.compile_dir(Path(folder), quiet=2)


def started(arguments: Sequence[str], log: BinaryIO) -> subprocess.Popen[bytes]:
    """Start ``rowtide`` with ``arguments``; it ends with this process."""
    path = os.pathsep.join(each for each in sys.path if each)
    return subprocess.Popen(
        [*ENDS_WITH_PARENT, sys.executable, "-m", "rowtide", *arguments],
        stdout=log,
        stderr=log,
        stdin=subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": path},
    )


def wait_until(is_there: Callable[[], bool], process: subprocess.Popen[bytes], clock: Clock) -> None:
    """Poll every five milliseconds until the result exists.

    Raises:
      TransientError: the process has ended, or a quarter of an hour has passed.
    """
    deadline = clock.monotonic() + PATIENCE_S
    while not is_there():
        if process.poll() is not None:
            raise TransientError(f"the service ended with exit code {process.returncode}")
        if clock.monotonic() > deadline:
            raise TransientError(f"the service is not there after {PATIENCE_S:.0f} s")
        clock.sleep(POLL_S)
