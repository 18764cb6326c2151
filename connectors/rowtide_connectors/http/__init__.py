"""Requests to HTTP servers as a message sink, by the standard library."""

from __future__ import annotations

from rowtide_connectors.api import Connector
from rowtide_connectors.http.connector import HttpConnector

CONNECTOR: Connector = HttpConnector()
