"""Kafka messages as DataFrames, by Spark's own Kafka connector."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from rowtide.errors import StatementError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MESSAGE_COLUMNS = (
    "topic string, partition int, offset long, timestamp long, key binary, value binary, "
    "headers array<struct<key: string, value: binary>>"
)
"""The columns of a frame of messages; the timestamp is milliseconds since the epoch."""

_RENAMED = {
    "bootstrap_servers": "bootstrap.servers",
    "sasl.mechanisms": "sasl.mechanism",
    "ssl.ca.location": "ssl.truststore.location",
}
_CLIENT_ONLY = ("statistics.interval.ms", "debug", "queued.", "fetch.", "socket.", "log_level", "broker.")
"""Settings of librdkafka that mean nothing to the Java client and decide no row."""


def read_range(
    session: SparkSession,
    topic: str,
    server: Mapping[str, str],
    begin: Mapping[int, int],
    end: Mapping[int, int],
) -> DataFrame:
    """Give the messages of a topic from ``begin`` (inclusive) to ``end`` (exclusive), by partition.

    A partition is read by one task, in the order of its offsets: Spark splits none unless it is told to
    (``minPartitions``, ``maxRecordsPerPartition``), and it is not.

    Raises:
      StatementError: a client setting has no counterpart in Spark's Kafka client.
    """
    from pyspark.sql import functions

    wanted = [partition for partition in end if begin[partition] < end[partition]]
    if not wanted:
        return session.createDataFrame([], MESSAGE_COLUMNS)
    reader = session.read.format("kafka")
    for name, value in client_settings(server).items():
        reader = reader.option(f"kafka.{name}", value)
    frame = (
        reader.option("assign", json.dumps({topic: sorted(wanted)}))
        .option("startingOffsets", json.dumps({topic: {str(each): begin[each] for each in wanted}}))
        .option("endingOffsets", json.dumps({topic: {str(each): end[each] for each in wanted}}))
        .option("includeHeaders", "true")
        .option("failOnDataLoss", "true")
        .option("kafka.isolation.level", "read_committed")
        .load()
    )
    milliseconds = functions.expr("unix_millis(timestamp)").alias("timestamp")
    return frame.select("topic", "partition", "offset", milliseconds, "key", "value", "headers")


def client_settings(server: Mapping[str, str]) -> dict[str, str]:
    """Give the settings of a KAFKA server under the names of the Java client.

    Raises:
      StatementError: one has no counterpart there.
    """
    given = {name: value for name, value in server.items() if not name.startswith(_CLIENT_ONLY)}
    username, password = given.pop("sasl.username", None), given.pop("sasl.password", None)
    settings: dict[str, str] = {}
    for name, value in given.items():
        if "." not in name and name != "bootstrap_servers":
            continue
        if name in ("ssl.key.location", "ssl.certificate.location"):
            raise StatementError(
                f'setting "{name}" has no counterpart in Spark\'s Kafka client',
                hint="Give Spark a keystore: ssl.keystore.location and ssl.keystore.type.",
            )
        settings[_RENAMED.get(name, name)] = value
    if "ssl.ca.location" in given:
        settings["ssl.truststore.type"] = "PEM"
    if username is not None:
        mechanism = settings.get("sasl.mechanism", "PLAIN")
        settings["sasl.jaas.config"] = _login(mechanism, username, password or "")
    return settings


def _login(mechanism: str, username: str, password: str) -> str:
    module = "scram.ScramLoginModule" if mechanism.startswith("SCRAM") else "plain.PlainLoginModule"
    quoted = [text.replace("\\", "\\\\").replace('"', '\\"') for text in (username, password)]
    return (
        f'org.apache.kafka.common.security.{module} required username="{quoted[0]}" password="{quoted[1]}";'
    )
