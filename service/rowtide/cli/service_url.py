"""Asking a running service: its URL, and one request for JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import typer

from rowtide.config import load_settings
from rowtide.errors import StatementError, TransientError

ServiceUrl = Annotated[
    str | None,
    typer.Option(
        "--service",
        help="The running service; by default service.listen of the configuration.",
        metavar="URL",
        show_default=False,
    ),
]
PATIENCE_S = 15.0
"""Longer than the service itself waits for its main loop."""


def service_url(given: str | None, config: Path | None) -> str:
    """Return the URL to ask: the one given, or that of the configuration.

    Raises:
      StatementError: it is no URL of a web server, or the configuration is wrong.
    """
    if given is None:
        listen = load_settings(config).service.listen
        host, _, port = listen.rpartition(":")
        # What listens on every interface is asked on this machine.
        return f"http://{'127.0.0.1' if host in ('', '0.0.0.0') else host}:{port}"
    if not given.startswith(("http://", "https://")):
        raise StatementError(f'"{given}" is not a URL', hint="Write it as http://127.0.0.1:8080.")
    return given.rstrip("/")


def ask(url: str, path: str, *, post: bool = False, patience_s: float = PATIENCE_S, **parameters: str) -> Any:
    """Return what the service answers; ``post``: it is asked to do something.

    Raises:
      StatementError: it refuses the question.
      TransientError: it is not there, is busy, or is no Rowtide service.
    """
    query = f"?{urlencode(parameters)}" if parameters else ""
    try:
        request = Request(f"{url}{path}{query}", method="POST" if post else "GET")
        with urlopen(request, timeout=patience_s) as response:
            return json.load(response)
    except HTTPError as error:
        refused = _said(error.read())
        if refused is None:
            raise TransientError(f"{url} answered {error.code} to {path}", hint=IS_IT_OURS) from error
        message, hint = refused
        if error.code < 500:
            raise StatementError(message, hint=hint) from error
        raise TransientError(message, hint=hint) from error
    except (URLError, TimeoutError, ConnectionError) as error:
        reason = getattr(error, "reason", error)
        raise TransientError(f"no service answers at {url}: {reason}", hint=IS_IT_OURS) from error
    except ValueError as error:
        raise TransientError(f"{url} did not answer with JSON", hint=IS_IT_OURS) from error


IS_IT_OURS = "`rowtide run` starts one; --service or service.listen says where it is."


def _said(body: bytes) -> tuple[str, str | None] | None:
    """Return message and hint of a refusal; None if the body is not one of ours."""
    try:
        found = json.loads(body)
    except ValueError:
        return None
    if not isinstance(found, dict) or "error" not in found:
        return None
    return str(found["error"]), found.get("hint")
