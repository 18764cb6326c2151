"""Requests to a running service: its URL, the token, and one request for JSON."""

from __future__ import annotations

import json
import ssl
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from http.client import HTTPResponse
from pathlib import Path
from ssl import SSLCertVerificationError
from typing import Annotated, Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode
from urllib.request import Request, urlopen

import typer

from rowtide.cli.errors import read_text
from rowtide.config.reading import load_settings
from rowtide.errors import SourceSpan, StatementError, TransientError

ServiceUrl = Annotated[
    str | None,
    typer.Option(
        "--service",
        help="The running service; by default service.listen of the configuration.",
        metavar="URL",
        show_default=False,
    ),
]
TokenFile = Annotated[
    Path | None,
    typer.Option(
        "--token-file",
        help="File with the token for the service; by default ROWTIDE_TOKEN_FILE of the environment.",
        metavar="FILE",
        envvar="ROWTIDE_TOKEN_FILE",
        show_default=False,
        show_envvar=False,
    ),
]
CaFile = Annotated[
    Path | None,
    typer.Option(
        "--ca-file",
        help="Certificates (PEM) that the service's certificate is checked with, instead of the system's; by "
        "default ROWTIDE_CA_FILE of the environment.",
        metavar="FILE",
        envvar="ROWTIDE_CA_FILE",
        show_default=False,
        show_envvar=False,
    ),
]
PATIENCE_S = 15.0
"""Longer than the service waits for its own main loop."""


@dataclass(frozen=True, slots=True)
class RunningService:
    """The address of a service, the token of requests, and the certificates that verify its own."""

    url: str
    token: str | None = None
    tls: ssl.SSLContext | None = None

    def open(
        self,
        path: str,
        parameters: Mapping[str, str] | None = None,
        *,
        method: str = "GET",
        body: Mapping[str, object] | None = None,
        patience_s: float = PATIENCE_S,
    ) -> AbstractContextManager[HTTPResponse]:
        """Make a request for a path below ``/api/v1``; ``body`` is sent as JSON.

        Raises:
          StatementError: the service refuses the request.
          TransientError: it does not answer, is busy, or is not a Rowtide service.
        """
        query = f"?{urlencode(parameters)}" if parameters else ""
        request = Request(f"{self.url}/api/v1{path}{query}", method=method)
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("Content-Type", "application/json")
        if self.token is not None:
            # Not sent to the target of a redirect.
            request.add_unredirected_header("Authorization", f"Bearer {self.token}")
        try:
            response: HTTPResponse = urlopen(request, timeout=patience_s, context=self.tls)
        except HTTPError as error:
            refused = _said(error.read())
            if refused is None:
                raise TransientError(
                    f"{self.url} answered {error.code} to {path}", hint=IS_IT_OURS
                ) from error
            if error.code < 500:
                raise refused from error
            raise TransientError(refused.message, hint=refused.hint) from error
        except (URLError, TimeoutError, ConnectionError) as error:
            reason = getattr(error, "reason", error)
            if isinstance(reason, SSLCertVerificationError):
                raise StatementError(
                    f"the certificate of {self.url} is not trusted: {reason.verify_message}",
                    hint="--ca-file FILE has the certificate of the authority that signed it.",
                ) from error
            raise TransientError(f"no service answers at {self.url}: {reason}", hint=IS_IT_OURS) from error
        return response


def running_service(
    given: str | None, config: Path | None, token_file: Path | None, ca_file: Path | None
) -> RunningService:
    """Return the service to send requests to.

    Raises:
      StatementError: the URL or the configuration is wrong, the token file has no token, or the file of
        certificates has none.
    """
    url = service_url(given, config)
    token = None if token_file is None else read_token(token_file)
    try:
        tls = ssl.create_default_context(cafile=ca_file) if url.startswith("https://") else None
    except OSError as error:
        raise StatementError(f'certificates "{ca_file}" cannot be read: {error}') from error
    return RunningService(url, token, tls)


def read_token(file: Path) -> str:
    """Return the token of a file that contains only the token.

    Raises:
      StatementError: the file cannot be read, or is not one word.
    """
    words = read_text(file).split()
    if len(words) != 1 or not words[0].isascii():
        raise StatementError(
            f'file "{file}" is not a token',
            hint="It has the token and nothing else; service.tokens_file is the file of the service.",
        )
    return words[0]


def service_url(given: str | None, config: Path | None) -> str:
    """Return the URL of the service: ``given``, or the one in the configuration.

    Raises:
      StatementError: it is not the URL of a web server, or the configuration is wrong.
    """
    if given is None:
        settings = load_settings(config).service
        host, _, port = settings.listen.rpartition(":")
        scheme = "http" if settings.tls_cert_file is None else "https"
        # A service that listens on every interface is on this machine.
        return f"{scheme}://{'127.0.0.1' if host in ('', '0.0.0.0') else host}:{port}"
    if not given.startswith(("http://", "https://")):
        raise StatementError(f'"{given}" is not a URL', hint="Write it as http://127.0.0.1:8080.")
    return given.rstrip("/")


def pipeline_of(service: RunningService) -> str:
    """Return the name of the pipeline that a service runs.

    Raises:
      StatementError: it refuses the request.
      TransientError: it does not answer, is busy, or is not a Rowtide service.
    """
    return str(ask(service, "/pipelines")["pipelines"][0]["name"])


def path_of(pipeline: str, *names: str) -> str:
    """Return the path of a pipeline's resource, as the parts that it is made of."""
    return "/".join(["/pipelines", *(quote(each, safe="") for each in (pipeline, *names))])


def ask(
    service: RunningService,
    path: str,
    *,
    method: str = "GET",
    body: Mapping[str, object] | None = None,
    patience_s: float = PATIENCE_S,
    **parameters: str,
) -> Any:
    """Return the service's answer in JSON.

    Raises:
      StatementError: it refuses the request.
      TransientError: it does not answer, is busy, or is not a Rowtide service.
    """
    with service.open(path, parameters, method=method, body=body, patience_s=patience_s) as response:
        try:
            return json.load(response)
        except ValueError as error:
            raise TransientError(f"{service.url} did not answer with JSON", hint=IS_IT_OURS) from error
        except (TimeoutError, ConnectionError) as error:
            raise TransientError(f"{service.url} stopped answering: {error}", hint=IS_IT_OURS) from error


IS_IT_OURS = "`rowtide run` starts one; --service or service.listen says where it is."


def _said(body: bytes) -> StatementError | None:
    """Return a problem as an error; None if the body is not from Rowtide."""
    try:
        found = json.loads(body)
    except ValueError:
        return None
    if not isinstance(found, dict) or not str(found.get("type")).startswith("urn:rowtide:problem:"):
        return None
    place = found["place"] and SourceSpan(**found["place"])
    return StatementError(str(found["detail"]), hint=found["hint"], span=place)
