"""The process of a command: when it looks for garbage."""

import subprocess
import sys

import pytest


def test_what_a_start_makes_is_not_searched_for_garbage_and_the_rest_is_as_usual() -> None:
    program = (
        "import gc, sys\n"
        "usual = gc.get_threshold()\n"
        "from rowtide.__main__ import main\n"
        "from rowtide.startup import START_OBJECTS\n"
        "sys.argv = ['rowtide', 'check', '--help']\n"
        "searches = []\n"
        "gc.callbacks.append(lambda phase, found: searches.append((phase, found['collected'])))\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "loop = []; loop.append(loop); del loop\n"
        "print(searches, gc.get_threshold()[0] == START_OBJECTS, file=sys.stderr)\n"
        "gc.collect()\n"
        "print(gc.get_threshold() == usual, gc.get_freeze_count() > 10_000, file=sys.stderr)\n"
        "later = []; later.append(later); del later\n"
        "gc.collect()\n"
        "print(searches, len(gc.callbacks), file=sys.stderr)\n"
    )
    environment = {"PYTHONPATH": ":".join(sys.path)}
    run = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    searches = "[('start', 0), ('stop', 0), ('start', 0), ('stop', 1)] 1"
    assert run.stderr.splitlines() == ["[] True", "True True", searches]


@pytest.mark.parametrize(("command", "code"), [("run", 0), ("check", 143)])
def test_a_sigterm_while_the_command_is_imported_ends_it_in_order(command: str, code: int) -> None:
    program = """
import os, signal, sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "rowtide.cli.main":
            os.kill(os.getpid(), signal.SIGTERM)
sys.meta_path.insert(0, Finder())
from rowtide.__main__ import main
main()
"""
    ended = subprocess.run(
        [sys.executable, "-c", program, command, "no.sql"], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stderr) == (code, "")
