"""Fetch, while the spark image is built, the jars with which Spark reads Kafka.

They go where the Spark runner looks for them first (ROWTIDE_CACHE), and must equal the PySpark version.
"""

from __future__ import annotations

from importlib.metadata import version

from rowtide.runners.spark.ivy import fetch
from rowtide.runners.spark.session import KAFKA_CONNECTOR

fetch(*KAFKA_CONNECTOR, version("pyspark"))
