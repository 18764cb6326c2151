"""Kafka messages as DataFrames, by Spark's own Kafka connector."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from rowtide.errors import StatementError
from rowtide_connectors.several import place_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MESSAGE_COLUMNS = (
    "topic string, partition int, offset long, timestamp long, key binary, value binary, "
    "headers array<struct<key: string, value: binary>>"
)
"""The columns of a frame of messages; the timestamp is milliseconds since the epoch."""

FETCH_WAIT_MS = 10
"""How long a broker may wait for more messages before it answers (the client's default: 500). All messages of a range
are there, so it would wait in vain: a task that closes its consumer waits for the request that is on its way."""

_RENAMED = {
    "bootstrap_servers": "bootstrap.servers",
    "sasl.mechanisms": "sasl.mechanism",
}
_CLIENT_ONLY = ("statistics.interval.ms", "debug", "queued.", "fetch.", "socket.", "log_level", "broker.")
"""Settings of librdkafka without a meaning for the Java client and without an effect on rows."""

_PEM = {
    "ssl.key": "ssl.keystore.key",
    "ssl.certificate": "ssl.keystore.certificate.chain",
    "ssl.ca": "ssl.truststore.certificates",
}
"""Settings that librdkafka reads from PEM files (``.location``) or as PEM text (``.pem``), and the
Java client's setting for the text. With text, no worker needs the files."""
_KEY_LABELS = ("PRIVATE KEY", "ENCRYPTED PRIVATE KEY")
"""PKCS#8: the Java client reads no other private keys."""
_PBES2 = bytes.fromhex("06092a864886f70d01050d")
"""The object identifier of PBES2, in DER: openssl encrypts with it by default, and Java 17 does not
find it."""


def read_range(
    session: SparkSession,
    topic: str,
    server: Mapping[str, str],
    begin: Mapping[int, int],
    end: Mapping[int, int],
) -> DataFrame:
    """Return the messages of a topic, or of several, from ``begin`` (inclusive) to ``end`` (exclusive), by partition.

    One task reads a partition, in the order of its offsets, because the options that split partitions
    (``minPartitions``, ``maxRecordsPerPartition``) are not set.

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
    numbers = {place_of(topic, each): each for each in sorted(wanted)}

    def of_topics(offsets: Mapping[int, int]) -> str:
        found: dict[str, dict[str, int]] = {}
        for (name, partition), number in numbers.items():
            found.setdefault(name, {})[str(partition)] = offsets[number]
        return json.dumps(found)

    assigned: dict[str, list[int]] = {}
    for name, partition in numbers:
        assigned.setdefault(name, []).append(partition)
    frame = (
        reader.option("assign", json.dumps(assigned))
        .option("startingOffsets", of_topics(begin))
        .option("endingOffsets", of_topics(end))
        .option("includeHeaders", "true")
        .option("failOnDataLoss", "true")
        .option("kafka.isolation.level", "read_committed")
        .option("kafka.fetch.max.wait.ms", str(FETCH_WAIT_MS))
        .load()
    )
    milliseconds = functions.expr("unix_millis(timestamp)").alias("timestamp")
    number = functions.col("partition")
    if any(partition != found for (_, partition), found in numbers.items()):
        pairs = [
            functions.lit(each)
            for (name, partition), found in numbers.items()
            for each in (f"{name} {partition}", found)
        ]
        place = functions.concat_ws(" ", "topic", "partition")
        number = functions.create_map(*pairs)[place].alias("partition")
    return frame.select("topic", number, "offset", milliseconds, "key", "value", "headers")


def client_settings(server: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a KAFKA server under the names of the Java client.

    Raises:
      StatementError: one has no counterpart there.
    """
    given = {name: value for name, value in server.items() if not name.startswith(_CLIENT_ONLY)}
    username, password = given.pop("sasl.username", None), given.pop("sasl.password", None)
    settings = _pem_settings(given)
    for name, value in given.items():
        if "." not in name and name != "bootstrap_servers":
            continue
        settings[_RENAMED.get(name, name)] = value
    if settings.get("sasl.mechanism", "").upper() == "OAUTHBEARER":
        raise StatementError(
            'setting "sasl.mechanism" is OAUTHBEARER, and Rowtide on Spark does not log in with tokens',
            hint="Use another listener of the brokers, or `rowtide run` without --runner spark, which can also "
            "fill in history.",
        )
    if "ssl.keystore.location" in settings:
        # librdkafka reads PKCS#12 only; Java's default is JKS.
        settings.setdefault("ssl.keystore.type", "PKCS12")
    if settings.get("ssl.endpoint.identification.algorithm") == "none":
        settings["ssl.endpoint.identification.algorithm"] = ""
    if username is not None:
        mechanism = settings.get("sasl.mechanism", "PLAIN")
        settings["sasl.jaas.config"] = _login(mechanism, username, password or "")
    return settings


def _pem_settings(given: dict[str, str]) -> dict[str, str]:
    """Take the settings of keys and certificates out of ``given``, and return those of the Java client.

    Raises:
      StatementError: a file cannot be read, or is not in a form that the Java client reads.
    """
    found: dict[str, str] = {}
    for name, wanted in _PEM.items():
        file, text = given.pop(f"{name}.location", None), given.pop(f"{name}.pem", None)
        if file == "probe":
            # The system's certificates, as the Java client takes them by default.
            continue
        where = f"{name}.pem" if file is None else f"{name}.location"
        if file is not None:
            text = _pem_text(where, file)
        if text is not None:
            _check_pem(where, text)
            found[wanted] = text
    keystore, truststore = (
        ("ssl.keystore.key", "ssl.keystore.certificate.chain"),
        "ssl.truststore.certificates",
    )
    if any(each in found for each in keystore):
        for setting, name in zip(keystore, _PEM, strict=False):
            if setting not in found:
                raise StatementError(
                    f'setting "{name}.location" is missing',
                    hint="A client certificate needs ssl.key.location and ssl.certificate.location.",
                )
        found["ssl.keystore.type"] = "PEM"
    if truststore in found:
        found["ssl.truststore.type"] = "PEM"
    return found


def _pem_text(name: str, file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise StatementError(
            f'file "{file}" of setting "{name}" cannot be read: {reason}',
            hint="Spark's Kafka client needs one PEM file, which this process reads.",
        ) from error


def _check_pem(name: str, text: str) -> None:
    labels = re.findall(r"^-----BEGIN ([A-Z0-9 ]+)-----\s*$", text, flags=re.MULTILINE)
    if name.startswith("ssl.key."):
        keys = [label for label in labels if label.endswith("PRIVATE KEY")]
        if keys and keys[0] not in _KEY_LABELS:
            raise StatementError(
                f'setting "{name}" has a "{keys[0]}", and Spark\'s Kafka client reads PKCS#8 only',
                hint="Convert it: openssl pkcs8 -topk8 -nocrypt -in KEY.pem -out NEW.pem",
            )
        if not keys:
            raise StatementError(f'setting "{name}" has no private key in PEM form')
        if keys[0] == "ENCRYPTED PRIVATE KEY" and _PBES2 in _der(text)[:64]:
            raise StatementError(
                f'the key of setting "{name}" is encrypted by PBES2, which Spark\'s client does not read',
                hint="Encrypt it otherwise: openssl pkcs8 -topk8 -v1 PBE-SHA1-3DES -in KEY.pem -out NEW.pem",
            )
    elif "CERTIFICATE" not in labels:
        raise StatementError(f'setting "{name}" has no certificate in PEM form')


def _der(text: str) -> bytes:
    """Return the content of an encrypted key in PEM form; empty if it is not base64."""
    body = re.search(r"-----BEGIN ENCRYPTED PRIVATE KEY-----([^-]*)-----END", text)
    try:
        return base64.b64decode("".join(body[1].split()) if body else "")
    except ValueError:
        return b""


def _login(mechanism: str, username: str, password: str) -> str:
    module = "scram.ScramLoginModule" if mechanism.startswith("SCRAM") else "plain.PlainLoginModule"
    quoted = [text.replace("\\", "\\\\").replace('"', '\\"') for text in (username, password)]
    return (
        f'org.apache.kafka.common.security.{module} required username="{quoted[0]}" password="{quoted[1]}";'
    )
