"""Copy the jars of Apache Kafka and of its tools to the folder that the command names."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from rowtide.runners.spark.ivy import fetch
from rowtide.testing.kafka_server import KAFKA_VERSION, SCALA_VERSION

to = Path(sys.argv[1])
to.mkdir(parents=True)
for group, artifact, version in (
    ("org.apache.kafka", f"kafka_{SCALA_VERSION}", KAFKA_VERSION),
    ("org.apache.kafka", "kafka-tools", KAFKA_VERSION),
    ("org.apache.logging.log4j", "log4j-slf4j-impl", "2.24.3"),
):
    for jar in fetch(group, artifact, version).glob("*.jar"):
        shutil.copy(jar, to)
