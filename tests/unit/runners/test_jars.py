"""Jars come through the Ivy that PySpark ships, and Java is new enough or is reported to be missing."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from xml.etree import ElementTree

import pytest

from rowtide.errors import StatementError, TransientError
from rowtide.runners.spark.ivy import (
    FETCH_ATTEMPTS,
    AbsentError,
    cache_directory,
    fetch,
    java,
    write_settings,
)


def fake_java(folder: Path, script: str) -> None:
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


def test_java_is_that_of_java_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path, """echo 'openjdk version "21.0.1" 2023-10-17' >&2""")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert java() == str(tmp_path / "bin" / "java")


@pytest.mark.parametrize(
    "answer", ['java version "1.8.0_292"', 'openjdk version "11.0.2"', "no version at all"]
)
def test_a_java_that_is_too_old_is_refused_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    fake_java(tmp_path, f"echo '{answer}' >&2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(StatementError, match="17 is needed") as caught:
        java()
    assert "apt-get install" in str(caught.value.hint)


def test_a_machine_without_java_gets_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(StatementError, match="java 17 or newer is missing"):
        java()


def test_the_settings_have_no_local_resolver_and_take_a_mirror(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROWTIDE_MAVEN_MIRROR", "https://mirror.example/maven")
    settings = ElementTree.fromstring(write_settings(tmp_path / "ivy").read_text())
    (resolver,) = settings.findall("resolvers/*")
    assert resolver.tag == "ibiblio"
    assert resolver.get("root") == "https://mirror.example/maven/"
    assert [path.name for path in (tmp_path / "ivy").iterdir()] == ["ivysettings.xml"]


def test_the_cache_is_where_it_is_said_to_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.delenv("ROWTIDE_CACHE", raising=False)
    assert cache_directory() == tmp_path / "xdg" / "rowtide"
    monkeypatch.setenv("ROWTIDE_CACHE", str(tmp_path / "own"))
    assert cache_directory() == tmp_path / "own"


def test_what_was_fetched_is_not_fetched_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROWTIDE_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    jars = tmp_path / "jars" / "some-1.0"
    jars.mkdir(parents=True)
    assert fetch("org.example", "some", "1.0") == jars


def ivy(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Let ``script`` stand for Ivy: $draft is the folder for the jars, $runs a file with one line a run."""
    pytest.importorskip("pyspark")
    version = """[ "$1" = -version ] && echo 'version "17.0.1"' >&2 && exit 0"""
    arguments = """for each; do [ "$last" = -retrieve ] && draft=${each%/*}; last=$each; done"""
    fake_java(folder, f"{version}\n{arguments}\nruns={folder}/runs; echo run >>$runs\n{script}")
    monkeypatch.setenv("JAVA_HOME", str(folder))
    monkeypatch.setenv("ROWTIDE_CACHE", str(folder / "cache"))
    monkeypatch.setattr("rowtide.runners.spark.ivy.FETCH_PAUSE_S", 0.0)


def runs(folder: Path) -> int:
    return len((folder / "runs").read_text().splitlines())


def test_a_fetch_that_fails_leaves_nothing_and_says_what_was_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = (
        """echo ":::::"; echo " [FAILED     ] org.example#some;1.0: (0ms)"; echo ":: retrieving"; exit 1"""
    )
    ivy(tmp_path, monkeypatch, f'mkdir -p "$draft"; {report}')
    with pytest.raises(
        TransientError, match=r"org\.example:some:1\.0.*cannot be fetched: \[FAILED"
    ) as caught:
        fetch("org.example", "some", "1.0")
    assert "retrieving" not in caught.value.message
    assert runs(tmp_path) == FETCH_ATTEMPTS
    assert not list((tmp_path / "cache").glob("jars/*"))


REPORT = """
module not found: org.example#some;1.0
:: org.example#some;1.0: not found
"""
UNREACHED = """
:::: ERRORS
Server access error at url http://127.0.0.1:9/ (java.net.ConnectException: Connection refused)
"""


@pytest.mark.parametrize(
    ("report", "is_absent"),
    [
        (REPORT, True),
        # Ivy calls it not found, too, if it could not ask.
        (REPORT + UNREACHED, False),
        (REPORT.replace("some;", "its-dependency;"), False),
    ],
)
def test_what_the_repository_does_not_have_is_asked_for_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, report: str, is_absent: bool
) -> None:
    ivy(tmp_path, monkeypatch, f"cat <<'END'\n{report}END\nexit 1")
    with pytest.raises(TransientError, match="not found") as caught:
        fetch("org.example", "some", "1.0")
    assert isinstance(caught.value, AbsentError) == is_absent
    assert runs(tmp_path) == (1 if is_absent else FETCH_ATTEMPTS)


def test_a_fetch_that_fails_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ivy(
        tmp_path,
        monkeypatch,
        '[ $(wc -l <$runs) -ge 3 ] || exit 1; mkdir -p "$draft"; touch "$draft/some.jar"',
    )
    assert [jar.name for jar in fetch("org.example", "some", "1.0").iterdir()] == ["some.jar"]
    assert runs(tmp_path) == FETCH_ATTEMPTS


def test_one_fetch_runs_at_a_time_and_serves_all_who_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Ivy's cache holds half a file while it downloads: a second Ivy that finds it fails.
    half = f"{tmp_path}/half"
    ivy(
        tmp_path,
        monkeypatch,
        f'mkdir {half} || exit 1; mkdir -p "$draft"; touch "$draft/some.jar"; rmdir {half}',
    )
    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(lambda at: fetch("org.example", "some", f"{at % 2}.0"), range(6)))
    assert [folder.name for folder in found] == ["some-0.0", "some-1.0"] * 3
    assert runs(tmp_path) == 2
