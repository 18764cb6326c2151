"""Relational databases as sinks, and as home of the checkpoint: PostgreSQL, MySQL, MariaDB and SQLite."""

from __future__ import annotations

from rowtide_connectors.api import Connector
from rowtide_connectors.rdbms.connector import RdbmsConnector

CONNECTOR: Connector = RdbmsConnector()
