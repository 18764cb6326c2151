"""The Spark session: PySpark found or its absence explained, connector jars of the same version."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rowtide.errors import StatementError, TransientError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KAFKA_CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13"
ARROW_ROWS = 16_384
"""Rows of one Arrow batch in a task: trays of about this size are best."""

_IVY_SETTINGS = """<ivysettings>
  <settings defaultResolver="central"/>
  <resolvers><ibiblio name="central" m2compatible="true"/></resolvers>
</ivysettings>
"""
"""Without the resolver of the local Maven cache, which fails on a POM whose jar is not there."""


def open_session(
    master: str, cache: Path, *, jars: Path | None = None, shuffles: int | None = None
) -> SparkSession:
    """Open the session of a backfill, or give the one that is open.

    Args:
      master: Spark's master URL, such as ``local[2]``.
      cache: a folder for downloaded connector jars.
      jars: a folder that already has them; nothing is downloaded then.
      shuffles: how many partitions a shuffle makes; Spark's own default if not given.

    Raises:
      StatementError: PySpark is not installed; says how to install it.
      TransientError: Spark does not start.
    """
    try:
        import pyspark
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise StatementError(
            "PySpark is not installed", hint="Install it with: pip install 'rowtide[spark]'"
        ) from error
    builder = SparkSession.builder.master(master).appName("rowtide backfill")
    settings = {
        "spark.ui.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(ARROW_ROWS),
        "spark.pyspark.python": sys.executable,
        "spark.pyspark.driver.python": sys.executable,
        "spark.executorEnv.PYTHONPATH": ":".join(each for each in sys.path if each),
    }
    if shuffles is not None:
        settings["spark.sql.shuffle.partitions"] = str(shuffles)
    if jars is not None:
        settings["spark.jars"] = ",".join(str(jar) for jar in sorted(jars.glob("*.jar")))
    else:
        cache.mkdir(parents=True, exist_ok=True)
        ivy = cache / "ivysettings.xml"
        ivy.write_text(_IVY_SETTINGS)
        settings["spark.jars.packages"] = f"{KAFKA_CONNECTOR}:{pyspark.__version__}"
        settings["spark.jars.ivySettings"] = str(ivy)
        settings["spark.jars.ivy"] = str(cache / "ivy")
    for name, value in settings.items():
        builder = builder.config(name, value)
    try:
        return builder.getOrCreate()
    except Exception as error:
        raise TransientError(
            f"Spark does not start with master {master}: {error}",
            hint="A Java runtime 17 or 21 is needed; rowtide doctor tells what is missing.",
        ) from error
