"""An in-process broker for tests, demos and embedding."""

from __future__ import annotations

from rowtide_connectors.api import Connector
from rowtide_connectors.memory.broker import MemoryBroker, memory_broker
from rowtide_connectors.memory.connector import MemoryConnector

__all__ = ["CONNECTOR", "MemoryBroker", "memory_broker"]

CONNECTOR: Connector = MemoryConnector()
