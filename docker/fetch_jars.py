"""Fetch, while the spark image is built, the jars with which Spark reads Kafka.

They go where the Spark runner looks for them first (ROWTIDE_CACHE).
"""

from __future__ import annotations

from importlib.metadata import version

from rowtide.runners.spark.session import kafka_jars

kafka_jars(version("pyspark"))
