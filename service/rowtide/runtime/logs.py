"""Log lines on standard error: for people on a terminal, as JSON for programs."""

from __future__ import annotations

import logging
import sys
from typing import Any

import structlog

from rowtide.config.settings import LogSettings

_LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}


def set_up_logs(settings: LogSettings) -> None:
    """Write log lines as ``settings`` says; called by every command that opens a pipeline."""
    as_text = is_for_people(settings)
    renderer: Any = structlog.dev.ConsoleRenderer() if as_text else structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.StackInfoRenderer(),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[settings.level]),
        logger_factory=lambda *_: _StandardError(),
        cache_logger_on_first_use=False,
    )


def is_for_people(settings: LogSettings) -> bool:
    """Return whether the log is text, not JSON."""
    return settings.format == "text" or (settings.format == "auto" and sys.stderr.isatty())


class _StandardError:
    """Writes lines to the current standard error."""

    def msg(self, line: str) -> None:
        """Write one whole line at once, because several threads log."""
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()

    debug = info = warning = error = critical = exception = msg
