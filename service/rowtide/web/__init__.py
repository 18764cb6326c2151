"""HTTP: health, readiness, metrics and the status of a running pipeline."""

from rowtide.web.app import build_app, build_monitoring_app
from rowtide.web.handlers import Handlers
from rowtide.web.server import WebServer
from rowtide.web.status import PipelineStatus, PositionStatus, Status

__all__ = [
    "Handlers",
    "PipelineStatus",
    "PositionStatus",
    "Status",
    "WebServer",
    "build_app",
    "build_monitoring_app",
]
