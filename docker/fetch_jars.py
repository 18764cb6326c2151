"""Fetch, while the spark image is built, the jars that Spark needs for Kafka and Avro.

They go where the Spark runner looks for them first (ROWTIDE_CACHE), and must equal the PySpark version.
"""

from __future__ import annotations

from importlib.metadata import version

from rowtide.cli.doctor import SPARK_JARS
from rowtide.runners.spark.ivy import fetch

for name in SPARK_JARS:
    fetch("org.apache.spark", name, version("pyspark"))
