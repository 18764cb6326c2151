"""Jars by Maven coordinates, through the Ivy that PySpark ships; Maven itself is not needed.

Ivy's default settings read the local Maven cache first and fail if it has a POM without its jar, so
these settings have no local resolver. This module does not import pyspark and can be used before any
JVM is up.
"""

from __future__ import annotations

import fcntl
import importlib.util
import os
import re
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from rowtide.errors import StatementError, TransientError

MIN_JAVA = 17
"""The oldest Java that Spark 4 and Kafka 4 run on."""

FETCH_TIMEOUT_S = 600
"""One fetch takes 8 to 45 s; a slow mirror gets ten minutes before we give up."""

FETCH_ATTEMPTS = 3

FETCH_PAUSE_S = 2.0
"""How long to wait before a fetch is tried again."""

_PROBLEM = re.compile(r"\[FAILED|not found|ERROR|UNRESOLVED|exception", re.IGNORECASE)
"""The lines of Ivy's report that say what went wrong; the others frame them or count."""

_SETTINGS = """\
<ivysettings>
  <settings defaultResolver="central"/>
  <caches defaultCacheDir="{cache}"/>
  <resolvers>
    <ibiblio name="central" m2compatible="true" usepoms="true"{root}/>
  </resolvers>
</ivysettings>
"""

JAVA_HINT = (
    f"Install Java {MIN_JAVA} or 21, on Debian: apt-get install openjdk-{MIN_JAVA}-jre-headless; "
    "or set JAVA_HOME to one that is there."
)


class AbsentError(TransientError):
    """The repository answers, and does not have the artifact: asking again at once is in vain."""


def cache_directory() -> Path:
    """Return the folder of jars and tools: $ROWTIDE_CACHE, else ``rowtide`` in the user's cache directory."""
    if chosen := os.environ.get("ROWTIDE_CACHE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rowtide"


def java() -> str:
    """Return the path of a ``java`` that is new enough.

    Raises:
      StatementError: Java is missing or too old; the hint says how to install it.
    """
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")
    if found is None:
        raise StatementError(f"java {MIN_JAVA} or newer is missing", hint=JAVA_HINT)
    printed = subprocess.run([found, "-version"], capture_output=True, text=True, check=False)
    version = re.search(r'version "(?:1\.)?(\d+)', printed.stderr + printed.stdout)
    if version is None or int(version[1]) < MIN_JAVA:
        shown = version[1] if version else "of an unknown version"
        raise StatementError(f'java at "{found}" is {shown}, {MIN_JAVA} is needed', hint=JAVA_HINT)
    return found


def write_settings(directory: Path) -> Path:
    """Write Ivy settings without the local Maven resolver into ``directory``; return the file's path.

    ROWTIDE_MAVEN_MIRROR, if set, is the address of the repository to use instead of Maven Central.
    """
    directory.mkdir(parents=True, exist_ok=True)
    mirror = os.environ.get("ROWTIDE_MAVEN_MIRROR")
    root = f' root="{mirror.rstrip("/")}/"' if mirror else ""
    path = directory / "ivysettings.xml"
    path.write_text(_SETTINGS.format(cache=directory / "cache", root=root), encoding="utf-8")
    return path


def directory_of(name: str, version: str) -> Path:
    """Return the folder of the jars of an artifact, after they are fetched."""
    return cache_directory() / "jars" / f"{name}-{version}"


def fetch(organisation: str, name: str, version: str) -> Path:
    """Return a directory with the jar of these coordinates and its dependencies. Fetches them once.

    A fetch that fails is tried again, ``FETCH_ATTEMPTS`` times in all: a repository drops a connection now
    and then. One process fetches at a time and the others wait for it, because processes that share Ivy's
    cache break each other's downloads.

    Raises:
      StatementError: Java or PySpark is missing.
      AbsentError: the repository does not have this artifact in this version.
      TransientError: the repository could not be reached, or lacks something.
    """
    target = directory_of(name, version)
    if target.is_dir():
        return target
    ivy = cache_directory() / "ivy"
    ivy.mkdir(parents=True, exist_ok=True)
    draft = target.with_name(f".{target.name}.draft")
    with (ivy / "lock").open("w") as lock:
        # Closing the file, or the end of the process, gives the lock back.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if target.is_dir():
            return target
        command: Sequence[str] = (
            *(java(), "-jar", str(_ivy_jar()), "-settings", str(write_settings(ivy))),
            *("-dependency", organisation, name, version),
            *("-retrieve", f"{draft}/[artifact]-[revision].[ext]"),
            *("-types", "jar", "bundle", "-confs", "default"),
        )
        for left in reversed(range(FETCH_ATTEMPTS)):
            try:
                _retrieve(command, draft, f"{organisation}:{name}:{version}")
                return draft.rename(target)
            except AbsentError:
                raise
            except TransientError:
                if not left:
                    raise
                time.sleep(FETCH_PAUSE_S)
            finally:
                shutil.rmtree(draft, ignore_errors=True)
    raise AssertionError("not reached: the last attempt returns or raises")


def _retrieve(command: Sequence[str], draft: Path, coordinates: str) -> None:
    # What a process that was killed has left is not complete.
    shutil.rmtree(draft, ignore_errors=True)
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise TransientError(
            f'jars of "{coordinates}" were not fetched within {FETCH_TIMEOUT_S} s'
        ) from error
    if done.returncode != 0 or not draft.is_dir():
        problems = [line.strip() for line in done.stdout.splitlines() if _PROBLEM.search(line)]
        # Ivy says so, too, of what it could not ask for; then it also reports errors.
        is_absent = f"#{coordinates.split(':', 1)[1].replace(':', ';')}: not found" in done.stdout
        kind = AbsentError if is_absent and ":::: ERRORS" not in done.stdout else TransientError
        raise kind(
            f'jars of "{coordinates}" cannot be fetched: '
            + "; ".join(problems[:5] or [(done.stderr or done.stdout).strip()[-500:]]),
            hint="Check that Maven Central can be reached, or name another repository in ROWTIDE_MAVEN_MIRROR.",
        )


def _ivy_jar() -> Path:
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise StatementError(
            'package "pyspark" is missing', hint='Install it with: pip install "rowtide[spark]"'
        )
    found = sorted((Path(spec.origin).parent / "jars").glob("ivy-*.jar"))
    if not found:
        raise StatementError(f'pyspark at "{Path(spec.origin).parent}" has no Ivy jar')
    return found[-1]
