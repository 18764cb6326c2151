"""The process of a command: when it looks for garbage."""

import subprocess
import sys

import pytest


def test_garbage_is_looked_for_once_after_a_start_and_then_as_usual() -> None:
    program = (
        "import gc, sys\n"
        "usual = gc.get_threshold()\n"
        "from rowtide.app import main\n"
        "from rowtide.startup import START_OBJECTS\n"
        "sys.argv = ['rowtide', 'check', '--help']\n"
        "searches = []\n"
        "gc.callbacks.append(lambda phase, _: searches.append(phase))\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print(searches, gc.get_threshold()[0] == START_OBJECTS, file=sys.stderr)\n"
        "gc.collect()\n"
        "print(gc.get_threshold() == usual, gc.get_freeze_count() > 10_000, file=sys.stderr)\n"
        "gc.collect()\n"
        "print(searches, file=sys.stderr)\n"
    )
    environment = {"PYTHONPATH": ":".join(sys.path)}
    run = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert run.stderr.splitlines() == ["[] True", "True True", "['start', 'stop', 'start', 'stop']"]


@pytest.mark.parametrize(("command", "code"), [("run", 0), ("check", 143)])
def test_a_sigterm_while_the_command_is_imported_ends_it_in_order(command: str, code: int) -> None:
    program = """
import os, signal, sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "rowtide.cli.main":
            os.kill(os.getpid(), signal.SIGTERM)
sys.meta_path.insert(0, Finder())
from rowtide.app import main
main()
"""
    ended = subprocess.run(
        [sys.executable, "-c", program, command, "no.sql"], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stderr) == (code, "")
