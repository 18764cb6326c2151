"""Files of a directory or of an object store."""

from __future__ import annotations

from rowtide_connectors.api import Connector
from rowtide_connectors.files.connector import FilesConnector

__all__ = ["CONNECTOR"]

CONNECTOR: Connector = FilesConnector()
