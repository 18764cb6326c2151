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
from dataclasses import dataclass, field, replace

from rowtide_connectors.errors import (
    DeniedError,
    GoneError,
    MismatchError,
    OptionError,
    UnavailableError,
)

TIMEOUT_S = 10.0
_CONTENT = "application/vnd.schemaregistry.v1+json"
_ACCEPT = f"{_CONTENT}, application/json"
_SERIALIZED = "?format=serialized"


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema of a registry; ``references`` are the schemas that it references, dependencies first.

    ``name`` is the name by which another schema references this one.
    """

    text: str
    kind: str = "AVRO"
    references: tuple[RegisteredSchema, ...] = ()
    name: str = ""


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
    _serialized: dict[int, RegisteredSchema] = field(default_factory=dict)
    _by_version: dict[tuple[str, int, str], RegisteredSchema] = field(default_factory=dict)
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

    def serialized(self, number: int) -> RegisteredSchema:
        """Return a Protobuf schema and those that it references, each as a file descriptor in base64.

        A registry that cannot do this returns their text, or does not answer. Raises as ``by_id``.
        """
        if number not in self._serialized:
            found = self._get(f"/schemas/ids/{number}{_SERIALIZED}")
            self._serialized[number] = self._read(found, _SERIALIZED)
        return self._serialized[number]

    def newest(self, subject: str) -> RegisteredSchema:
        """Return the newest schema of a subject; raises as ``by_id``."""
        return self.newest_of(subject)[1]

    def newest_of(self, subject: str) -> tuple[int, RegisteredSchema]:
        """Return the newest schema of a subject after its number; raises as ``by_id``."""
        found = self._get(f"{_path(subject)}/versions/latest")
        return _number(found), self._read(found)

    def number_of(self, subject: str, text: str, kind: str = "AVRO") -> int:
        """Return the number of a schema that a subject has.

        Raises:
          GoneError: the subject does not have it, or does not exist.
          UnavailableError: as ``by_id``.
        """
        return _number(self._ask(_path(subject), _posted(text, kind), "id"))

    def register(self, subject: str, text: str, kind: str = "AVRO") -> int:
        """Add a schema to a subject, if it does not have it, and return its number.

        Raises:
          MismatchError: it is not compatible with the schemas of the subject, or the registry does not take it.
          UnavailableError: as ``by_id``.
        """
        return _number(self._ask(f"{_path(subject)}/versions", _posted(text, kind), "id"))

    def takes(self, subject: str, text: str, kind: str = "AVRO") -> bool:
        """Return whether a subject would take a schema; it is not added.

        Raises:
          MismatchError: the registry cannot read the schema.
          UnavailableError: as ``by_id``.
        """
        try:
            found = self._ask(
                f"/compatibility{_path(subject)}/versions/latest", _posted(text, kind), "is_compatible"
            )
        except GoneError:
            return True  # A subject without schemas takes any.
        return found["is_compatible"] is True

    def _read(self, found: Mapping[str, object], form: str = "") -> RegisteredSchema:
        named = found.get("references") or ()
        if not isinstance(named, list | tuple):
            raise TypeError("its references are not a list")
        references = tuple(
            replace(
                self._version(str(each["subject"]), int(each["version"]), form),
                name=str(each.get("name") or ""),
            )
            for each in named
        )
        return RegisteredSchema(str(found["schema"]), str(found.get("schemaType") or "AVRO"), references)

    def _version(self, subject: str, version: int, form: str) -> RegisteredSchema:
        key = subject, version, form
        if key not in self._by_version:
            found = self._get(f"{_path(subject)}/versions/{version}{form}")
            self._by_version[key] = self._read(found, form)
        return self._by_version[key]

    def _get(self, path: str) -> Mapping[str, object]:
        return self._ask(path, None, "schema")

    def _ask(self, path: str, given: Mapping[str, object] | None, wanted: str) -> Mapping[str, object]:
        """Return the answer to a request, which has the member ``wanted``; ``given`` is posted."""
        failed: UnavailableError | None = None
        for url in self.urls:
            try:
                return self._ask_at(url.rstrip("/"), path, given, wanted)
            except UnavailableError as error:
                failed = failed or error
        assert failed is not None
        raise failed

    def _ask_at(
        self, url: str, path: str, given: Mapping[str, object] | None, wanted: str
    ) -> Mapping[str, object]:
        headers = {"Accept": _ACCEPT}
        if given is not None:
            headers["Content-Type"] = _CONTENT
        if self.user is not None:
            pair = base64.b64encode(f"{self.user}:{self.secret or ''}".encode()).decode()
            headers["Authorization"] = f"Basic {pair}"
        body = None if given is None else json.dumps(given).encode()
        request = urllib.request.Request(url + path, body, headers)
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
        if not isinstance(found, dict) or wanted not in found:
            raise UnavailableError(
                f'schema registry "{url}" answers without {wanted} to {path}', hint="Check registry_url."
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


def _path(subject: str) -> str:
    return f"/subjects/{urllib.parse.quote(subject, safe='')}"


def _posted(text: str, kind: str) -> dict[str, object]:
    """Return a schema as a request has it; without a kind it is Avro."""
    return {"schema": text} if kind == "AVRO" else {"schema": text, "schemaType": kind}


def _number(found: Mapping[str, object]) -> int:
    """Return the number of a schema in an answer."""
    number = found.get("id")
    if not isinstance(number, int):
        raise UnavailableError("the schema registry answers without the number of a schema")
    return number


def _refused(url: str, path: str, error: urllib.error.HTTPError) -> Exception:
    if error.code == 404:
        return GoneError(f'schema registry "{url}" has no {path}')
    if error.code in (409, 422):
        return MismatchError(f'schema registry "{url}" does not take the schema at {path}: {_said(error)}')
    if error.code in (401, 403):
        return DeniedError(
            f'schema registry "{url}" refuses access ({error.code})',
            hint="Check registry_user and registry_password.",
        )
    return UnavailableError(f'schema registry "{url}" answers {error.code} {error.reason}')


def _said(error: urllib.error.HTTPError) -> str:
    """Return what the registry says about an error."""
    try:
        found = json.load(error)
    except (OSError, ValueError, http.client.HTTPException):
        found = None
    said = found.get("message") if isinstance(found, dict) else None
    return " ".join(str(said or error.reason).split())[:400]
