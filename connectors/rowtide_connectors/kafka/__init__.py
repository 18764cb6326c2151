"""Kafka topics as sources, through librdkafka."""

from __future__ import annotations

from rowtide_connectors.api import Connector
from rowtide_connectors.kafka.connector import KafkaConnector

CONNECTOR: Connector = KafkaConnector()
