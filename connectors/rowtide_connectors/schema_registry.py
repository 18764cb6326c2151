"""Schemas by number and by subject, from a Schema Registry with Confluent's REST interface.

Schemas are cached: a number always identifies the same schema.
"""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rowtide_connectors.errors import DeniedError, GoneError, OptionError, UnavailableError

TIMEOUT_S = 10.0
_ACCEPT = "application/vnd.schemaregistry.v1+json, application/json"


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema of a registry; ``references`` are the schemas that it references, dependencies first."""

    text: str
    kind: str = "AVRO"
    references: tuple[RegisteredSchema, ...] = ()


@dataclass(slots=True)
class SchemaRegistry:
    """A registry at one of several addresses, tried in turn; ``secret`` never shows."""

    urls: Sequence[str]
    user: str | None = None
    secret: str | None = field(default=None, repr=False)
    ca_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None
    _by_id: dict[int, RegisteredSchema] = field(default_factory=dict)
    _by_version: dict[tuple[str, int], RegisteredSchema] = field(default_factory=dict)
    _context: ssl.SSLContext | None = None

    def __post_init__(self) -> None:
        for url in self.urls:
            if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
                raise OptionError(
                    f'"{url}" is not the address of a schema registry', hint="Write http://host:8081."
                )
        # Here, so that a check of the pipeline finds files that cannot be read.
        if any(url.startswith("https:") for url in self.urls):
            self._context = self._made_context()

    def by_id(self, number: int) -> RegisteredSchema:
        """Return the schema of a number.

        Raises:
          GoneError: the registry does not have it.
          UnavailableError: it does not answer, or denies access (DeniedError).
        """
        if number not in self._by_id:
            self._by_id[number] = self._read(self._get(f"/schemas/ids/{number}"))
        return self._by_id[number]

    def newest(self, subject: str) -> RegisteredSchema:
        """Return the newest schema of a subject; raises as ``by_id``."""
        return self._read(self._get(f"/subjects/{urllib.parse.quote(subject, safe='')}/versions/latest"))

    def _read(self, found: Mapping[str, object]) -> RegisteredSchema:
        named = found.get("references") or ()
        if not isinstance(named, list | tuple):
            raise TypeError("its references are not a list")
        references = tuple(self._version(str(each["subject"]), int(each["version"])) for each in named)
        return RegisteredSchema(str(found["schema"]), str(found.get("schemaType") or "AVRO"), references)

    def _version(self, subject: str, version: int) -> RegisteredSchema:
        if (subject, version) not in self._by_version:
            path = f"/subjects/{urllib.parse.quote(subject, safe='')}/versions/{version}"
            self._by_version[subject, version] = self._read(self._get(path))
        return self._by_version[subject, version]

    def _get(self, path: str) -> Mapping[str, object]:
        failed: UnavailableError | None = None
        for url in self.urls:
            try:
                return self._get_at(url.rstrip("/"), path)
            except UnavailableError as error:
                failed = failed or error
        assert failed is not None
        raise failed

    def _get_at(self, url: str, path: str) -> Mapping[str, object]:
        headers = {"Accept": _ACCEPT}
        if self.user is not None:
            given = base64.b64encode(f"{self.user}:{self.secret or ''}".encode()).decode()
            headers["Authorization"] = f"Basic {given}"
        request = urllib.request.Request(url + path, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S, context=self._context) as answer:
                found = json.load(answer)
        except urllib.error.HTTPError as error:
            raise _refused(url, path, error) from error
        except (OSError, http.client.HTTPException) as error:
            said = getattr(error, "reason", None) or error
            raise UnavailableError(
                f'schema registry "{url}" does not answer: {said}', hint="Check registry_url, and start it."
            ) from error
        except ValueError as error:
            raise UnavailableError(
                f'schema registry "{url}" answers with what is not JSON', hint="Check registry_url."
            ) from error
        if not isinstance(found, dict) or "schema" not in found:
            raise UnavailableError(
                f'schema registry "{url}" answers without a schema to {path}', hint="Check registry_url."
            )
        return found

    def _made_context(self) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
            if self.certificate_file is not None:
                context.load_cert_chain(self.certificate_file, self.key_file)
        except OSError as error:
            raise OptionError(
                f"the certificates for the schema registry cannot be read: {error}",
                hint="Check registry_ca, registry_certificate and registry_key.",
            ) from error
        return context


def _refused(url: str, path: str, error: urllib.error.HTTPError) -> Exception:
    if error.code == 404:
        return GoneError(f'schema registry "{url}" has no {path}')
    if error.code in (401, 403):
        return DeniedError(
            f'schema registry "{url}" refuses access ({error.code})',
            hint="Check registry_user and registry_password.",
        )
    return UnavailableError(f'schema registry "{url}" answers {error.code} {error.reason}')
