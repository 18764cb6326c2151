"""Fetch, while the spark image is built, the jars that Spark needs for Kafka and Avro.

They go where the Spark runner looks for them first (ROWTIDE_CACHE), and must equal the PySpark version.
"""

from __future__ import annotations

from importlib.metadata import version

from rowtide.runners.spark.ivy import fetch

for name in ("spark-sql-kafka-0-10_2.13", "spark-avro_2.13"):
    fetch("org.apache.spark", name, version("pyspark"))
