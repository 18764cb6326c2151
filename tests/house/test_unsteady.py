"""What failed on real parts runs once more, alone, and the run says so: tests/unsteady.py."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import unsteady

IN_A_GROUP = """
from pathlib import Path
import pytest

@pytest.mark.xdist_group("servers")
@pytest.mark.parametrize("of", ["orders@1", "a b"])
def test_it(of):
    before = Path(__file__).with_name(f"{of}.before")
    is_again = before.exists()
    before.touch()
    assert is_again, "not yet"
"""
PASSES = "def test_it():\n    pass\n"
FAILS = 'def test_it():\n    print("said before")\n    assert "a" == "b"\n'
FAILS_ONCE = """
from pathlib import Path

def test_it():
    before = Path(__file__).with_suffix(".before")
    is_again = before.exists()
    before.touch()
    assert is_again, "not yet"
"""
ENDS_THE_PROCESS = "import os\n\ndef test_it():\n    os._exit(1)\n"


def played(tmp_path: Path, *arguments: str, **files: str) -> tuple[int, str]:
    """Return the exit code and the output of a run of these test files: ``folder__name`` to text."""
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["unsteady"]\n')
    for name, text in files.items():
        path = tmp_path / "tests" / f"{name.replace('__', '/test_')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    module = Path(unsteady.__file__)
    done = subprocess.run(
        [sys.executable, str(module), "-p", "no:cacheprovider", "-p", "xdist", *arguments],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(module.parent), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


@pytest.mark.parametrize("processes", ["0", "2"])
def test_what_fails_on_real_parts_and_passes_alone_is_listed(tmp_path: Path, processes: str) -> None:
    code, said = played(tmp_path, "-n", processes, integration__moving=FAILS_ONCE, unit__still=PASSES)
    assert code == 0
    assert "1 failed, 1 passed" in said
    assert "== unsteady: 1 failed, then passed alone" in said
    assert "tests/integration/test_moving.py::test_it failed at call, then passed alone" in said
    assert "AssertionError: not yet" in said.rpartition("== unsteady")[2]


def test_a_test_of_a_group_is_found_again(tmp_path: Path) -> None:
    code, said = played(
        tmp_path, "-n", "2", "--dist", "loadgroup", integration__moving=IN_A_GROUP, unit__still=PASSES
    )
    assert code == 0
    assert "== unsteady: 2 failed, then passed alone" in said


def test_what_fails_twice_fails_the_run_with_the_log_of_the_first(tmp_path: Path) -> None:
    code, said = played(tmp_path, integration__broken=FAILS)
    assert code == 1
    assert "== unsteady: 1 failed, not all of them passed alone" in said
    assert "said before" in said.rpartition("== unsteady")[2]


@pytest.mark.parametrize("folder", ["unit", "property", "golden", "simulation", "house", "contract"])
def test_a_test_without_real_parts_has_no_second_run(tmp_path: Path, folder: str) -> None:
    code, said = played(tmp_path, **{f"{folder}__moving": FAILS_ONCE})
    assert (code, "unsteady" in said) == (1, False)


def test_one_failure_without_real_parts_lets_nothing_run_again(tmp_path: Path) -> None:
    code, said = played(tmp_path, integration__moving=FAILS_ONCE, unit__broken=FAILS)
    assert (code, "unsteady" in said) == (1, False)


def test_many_failures_are_no_chance(tmp_path: Path) -> None:
    files = {f"integration__moving_{number}": FAILS_ONCE for number in range(unsteady.MOST + 1)}
    code, said = played(tmp_path, **files)
    assert (code, "unsteady" in said) == (1, False)


def test_a_test_that_ends_its_process_has_no_second_run(tmp_path: Path) -> None:
    code, said = played(tmp_path, "-n", "1", integration__killer=ENDS_THE_PROCESS)
    assert (code, "unsteady" in said) == (1, False)


def test_a_module_that_cannot_be_read_has_no_second_run(tmp_path: Path) -> None:
    code, said = played(tmp_path, integration__wrong="import nothing_of_this_name\n", unit__still=PASSES)
    assert (code, "unsteady" in said) == (2, False)


def test_a_green_run_says_nothing_of_it(tmp_path: Path) -> None:
    code, said = played(tmp_path, integration__still=PASSES)
    assert (code, "unsteady" in said) == (0, False)


@pytest.mark.parametrize(
    ("test", "marks", "may"),
    [
        ("tests/contract/connectors/test_sources.py::test_a[kafka]", {"kafka"}, True),
        ("tests/contract/connectors/test_sources.py::test_a[memory]", set(), False),
        ("tests/deploy/test_compose.py::test_a", {"deploy"}, True),
        ("tests/unit/runtime/test_a.py::test_integration", {"kafka"}, False),
        ("tests/property/expr/test_a.py::test_a", {"postgres"}, False),
    ],
)
def test_who_may_run_again(test: str, marks: set[str], may: bool) -> None:
    assert unsteady.may_run_again(test, frozenset(marks)) is may
