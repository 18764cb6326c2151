"""The Spark session: PySpark found or its absence explained, connector jars of the same version."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING

from rowtide.errors import StatementError, TransientError
from rowtide.runners.spark import ivy

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KAFKA_CONNECTOR = ("org.apache.spark", "spark-sql-kafka-0-10_2.13")
ARROW_ROWS = 16_384
"""Rows of one Arrow batch in a task: trays of about this size are best."""
BRIEF_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For a JVM that ends before its second compiler would pay: a third less CPU until the first result."""


def open_session(master: str, *, shuffles: int | None = None, is_brief: bool = False) -> SparkSession:
    """Open the session of a backfill, or give the one that is open.

    Args:
      master: Spark's master URL, such as ``local[2]``.
      shuffles: into how many parts rows are split by key; as many as there are cores if not given.
      is_brief: it works off small inputs only, such as those of tests.

    Raises:
      StatementError: PySpark or Java is not installed; says how to install it.
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
    # The connector must equal PySpark, and be there before the JVM: a running one takes no more jars.
    jars = ivy.fetch(*KAFKA_CONNECTOR, pyspark.__version__)
    settings = {
        "spark.jars": ",".join(str(jar) for jar in sorted(jars.glob("*.jar"))),
        "spark.ui.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(ARROW_ROWS),
        "spark.pyspark.python": sys.executable,
        "spark.pyspark.driver.python": sys.executable,
        # Workers find this very package, installed or not.
        "spark.executorEnv.PYTHONPATH": ":".join(each for each in sys.path if each),
    }
    if is_brief:
        settings["spark.driver.extraJavaOptions"] = BRIEF_JVM
        settings["spark.ui.showConsoleProgress"] = "false"
    builder = SparkSession.builder.master(master).appName("rowtide backfill")
    for name, value in settings.items():
        builder = builder.config(name, value)
    try:
        session = builder.getOrCreate()
    except Exception as error:
        raise TransientError(
            f'Spark does not start with master "{master}": {error}',
            hint="rowtide doctor tells what this machine lacks.",
        ) from error

    # A part more is a task more of each stage: Spark's own default, 200, is for clusters.
    session.conf.set("spark.sql.shuffle.partitions", str(shuffles or session.sparkContext.defaultParallelism))
    return session


@contextmanager
def spark_errors() -> Iterator[None]:
    """Translate what Spark raises in this block.

    Raises:
      TransientError: a task failed, or Spark itself; its cause in one line.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise TransientError(
            f"Spark stopped: {_cause(str(error))}", hint="Nothing is committed; --debug shows all of it."
        ) from error


def _cause(text: str) -> str:
    """Give the last line of a worker's traceback, else the first line that says anything."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    ends = [line for line, after in pairwise([*lines, "at "]) if after.startswith("at ") and ": " in line]
    told = [line for line in ends if not line.startswith(("at ", "org.apache.spark", "py4j"))]
    return (told or lines or ["it does not say why"])[0]
