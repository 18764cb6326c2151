"""The Spark session: PySpark found or its absence explained, connector jars of the same minor version."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import rowtide
import rowtide_connectors
from rowtide.errors import StatementError, TransientError
from rowtide.runners.spark import ivy

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KAFKA_CONNECTOR = ("org.apache.spark", "spark-sql-kafka-0-10_2.13")
CONNECTOR_JARS = ("spark-sql-kafka-0-10_2.13", "spark-token-provider-kafka-0-10_2.13")
"""The jars of that connector that have its version."""
CLIENT_JARS = ("kafka-clients", "commons-pool2")
"""Its dependencies that PySpark does not ship. The versions follow from the connector's."""
BATCH_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
"""The Spark setting of how many rows a task gets at once."""
BLOCKS_AT_ONCE = 16
"""Blocks that a task, or the driver, gets from Spark at once: each may have a few hundred kilobytes."""
MESSAGES_AT_ONCE = 16_384
"""Messages that a task gets at once. Trays of about this size are fastest."""
BRIEF_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For a JVM that ends before its second compiler pays off: a third less CPU until the first result."""

WORKER_PYTHON = "spark.pyspark.python"
"""The Spark setting of the Python of workers. Spark itself obeys it only in programs that spark-submit starts."""

OWN_CONF = {
    "spark.sql.session.timeZone": "UTC",
    BATCH_ROWS: str(BLOCKS_AT_ONCE),
}
"""Spark settings on which rows, or the memory of tasks, depend."""
CONF_OPTIONS = {
    "spark.master": "Use --master.",
    "spark.sql.shuffle.partitions": "Use --parts.",
    "spark.submit.pyFiles": "Use --py-files.",
    "spark.ui.enabled": "Use --ui.",
}
"""Spark settings that are options of ours."""


@dataclass(frozen=True, slots=True)
class KafkaJars:
    """The jars of Kafka's connector, which PySpark does not ship: they are in ``folder``, or are fetched once."""

    folder: str | None = None


def open_session(
    master: str,
    *,
    parts: int | None = None,
    conf: Mapping[str, str] | None = None,
    py_files: Sequence[str] = (),
    ui: bool = False,
    kafka: KafkaJars | None = None,
    is_brief: bool = False,
) -> SparkSession:
    """Open the session of a command, or return the one that is open.

    Args:
      master: Spark's master URL, such as ``local[2]``.
      parts: number of parts into which rows are split by key; default: the number of cores.
      conf: Spark settings of the user, above ours.
      py_files: Python files and archives that every worker gets.
      ui: serve Spark's web UI while the session is open.
      kafka: needed where messages will be read from Kafka.
      is_brief: it processes small inputs only, such as those of tests.

    Raises:
      StatementError: PySpark or Java is not installed, or a setting is refused; the hint says what to do.
      TransientError: the connector's jars cannot be fetched, or Spark does not start.
    """
    try:
        import pyspark
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise StatementError(
            "PySpark is not installed", hint="Install it with: pip install 'rowtide[spark]'"
        ) from error
    ivy.java()
    given = dict(conf or {})
    check_conf(given)
    settings = OWN_CONF | {
        # A stage is one shuffle with a given number of tasks: nothing to adapt, and adapting is a job more.
        "spark.sql.adaptive.enabled": "false",
        "spark.ui.enabled": "true" if ui else "false",
        "spark.executorEnv.PYTHONPATH": ":".join(importable()),
    }
    if is_brief:
        settings["spark.driver.extraJavaOptions"] = BRIEF_JVM
        settings["spark.ui.showConsoleProgress"] = "false"
    settings |= given
    if kafka is not None:
        # The jars must exist before the JVM starts, because a running JVM loads no more jars.
        jars = map(str, kafka_jars(pyspark.__version__, kafka.folder))
        settings["spark.jars"] = ",".join(filter(None, [*jars, given.get("spark.jars", "")]))
    builder = SparkSession.builder.master(master).appName("rowtide")
    for name, value in settings.items():
        builder = builder.config(name, value)
    try:
        with _workers_run(given.get(WORKER_PYTHON)):
            session = builder.getOrCreate()
        for file in py_files:
            session.sparkContext.addPyFile(file)
    except Exception as error:
        raise TransientError(
            f'Spark does not start with master "{master}": {error}',
            hint="`rowtide doctor` reports what this machine lacks.",
        ) from error

    # Each part is a task of each stage. Spark's default, 200, is for clusters.
    session.conf.set("spark.sql.shuffle.partitions", str(parts or session.sparkContext.defaultParallelism))
    return session


def importable() -> list[str]:
    """Return the folders that workers import from: those of this process, and of this package, installed or not.

    A checkout that is installed to be edited is not in ``sys.path``: a hook of its environment finds it.
    """
    own = [str(Path(*package.__path__).parent) for package in (rowtide, rowtide_connectors)]
    return list(dict.fromkeys([*filter(None, sys.path), *own]))


def worker_python() -> str:
    """Return the Python that workers run unless a setting names another: PYSPARK_PYTHON, or that of this process."""
    return os.environ.get("PYSPARK_PYTHON") or sys.executable


@contextmanager
def _workers_run(python: str | None) -> Iterator[None]:
    """Let workers of a session that is opened meanwhile run this Python, PYSPARK_PYTHON, or that of this process.

    A session that a program opens itself takes it from the environment only, and otherwise runs what ``python3`` is.
    """
    before = os.environ.get("PYSPARK_PYTHON")
    os.environ["PYSPARK_PYTHON"] = python or worker_python()
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYSPARK_PYTHON"]
        else:
            os.environ["PYSPARK_PYTHON"] = before


def check_conf(conf: Mapping[str, str]) -> None:
    """Refuse Spark settings that affect rows, or that have their own option.

    Raises:
      StatementError: names the first one.
    """
    for name in conf:
        if name in CONF_OPTIONS:
            raise StatementError(f'Spark setting "{name}" has its own option', hint=CONF_OPTIONS[name])
        if name in OWN_CONF:
            raise StatementError(
                f'Spark setting "{name}" cannot be changed', hint=f"It is {OWN_CONF[name]}: remove it."
            )


def kafka_jars(version: str, folder: str | None = None) -> list[Path]:
    """Return the jars of Spark's Kafka connector for this version of PySpark.

    A PySpark may be out before its connector can be had everywhere. Then it takes the newest earlier one of its minor
    version, and the log says so.

    Args:
      version: that of PySpark.
      folder: the folder of the jars; None: the cache, into which they are fetched if needed.

    Raises:
      StatementError: the folder lacks one of them.
      TransientError: they cannot be fetched.
    """
    if folder is not None:
        return _jars_in(folder, version)
    try:
        return _jars_of(ivy.fetch(*KAFKA_CONNECTOR, version))
    except TransientError as error:
        for each in earlier_versions(version):
            if not isinstance(error, ivy.AbsentError) and not connector_directory(each).is_dir():
                continue
            with suppress(ivy.AbsentError):
                jars = _jars_of(ivy.fetch(*KAFKA_CONNECTOR, each))
                _tell_other(version, each)
                return jars
        raise TransientError(
            f"the Kafka connector of PySpark {version} cannot be fetched: {error.message}",
            hint="If Maven Central cannot be reached, name a mirror in ROWTIDE_MAVEN_MIRROR, or a folder "
            "with the jars in the setting spark.jars. If it has no connector of this minor version, install a "
            "PySpark that has one: pip install 'rowtide[spark]'.",
        ) from error


def earlier_versions(version: str) -> list[str]:
    """Return the earlier versions of the same minor version, the newest first."""
    minor, _, patch = version.rpartition(".")
    return [f"{minor}.{each}" for each in reversed(range(int(patch)))] if patch.isdigit() else []


def connector_directory(version: str) -> Path:
    """Return the folder of the jars of the connector of this version, after they are fetched."""
    return ivy.directory_of(KAFKA_CONNECTOR[1], version)


def _jars_in(folder: str, version: str) -> list[Path]:
    found = _jars_of(Path(folder))
    absent: list[str] = []
    for each in (version, *earlier_versions(version)):
        needed = [f"{name}-{each}.jar" for name in CONNECTOR_JARS]
        needed += [f"{name}-*.jar" for name in CLIENT_JARS]
        lacks = [name for name in needed if not any(jar.match(name) for jar in found)]
        if not lacks:
            if each != version:
                _tell_other(version, each)
            return found
        absent = absent or lacks
    raise StatementError(
        f'folder "{folder}" (spark.jars) lacks {", ".join(absent)}',
        hint=f"PySpark {version} reads Kafka with {':'.join(KAFKA_CONNECTOR)}:{version} and the jars "
        "that it depends on; put all of them there, or remove the setting to have them fetched.",
    )


def _jars_of(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.jar"))


def _tell_other(version: str, taken: str) -> None:
    import structlog

    log = structlog.get_logger("rowtide")
    log.warning("kafka_connector_of_an_earlier_version", pyspark=version, connector=taken)


@contextmanager
def spark_errors() -> Iterator[None]:
    """Translate exceptions of Spark in this block.

    Raises:
      TransientError: a task failed, or Spark itself; its cause in one line.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise TransientError(
            f"Spark stopped: {_cause(str(error))}",
            hint="What was in hand is not committed; --debug shows the whole error.",
        ) from error


def _cause(text: str) -> str:
    """Return the last line of a worker's traceback, else the first line that is not empty."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    ends = [line for line, after in pairwise([*lines, "at "]) if after.startswith("at ") and ": " in line]
    reasons = [line for line in ends if not line.startswith(("at ", "org.apache.spark", "py4j"))]
    return (reasons or lines or ["no reason reported"])[0]
