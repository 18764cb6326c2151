"""Schemas by number and by subject, from a Schema Registry with Confluent's REST interface.

Schemas are cached: a number always identifies the same schema. Between a client and a registry there may be proxies and
gateways, whose answers say nothing about schemas. So what is final needs the registry's own answer, which has an error
code: that a schema does not exist, from every address, or that it is refused. After any other it is asked again.
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
from typing import Any, TypeGuard

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
Answer = Mapping[str, Any]
_MEMBERS: Mapping[str, type] = {"schema": str, "id": int, "is_compatible": bool}
"""The members of answers that are read, with their types."""
_MOST_BYTES = 1 << 16
"""How much of an error's body is read."""


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
    _by_id: dict[int | str, RegisteredSchema] = field(default_factory=dict)
    _serialized: dict[int | str, RegisteredSchema] = field(default_factory=dict)
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

    def by_id(self, number: int | str) -> RegisteredSchema:
        """Return the schema of a number, or of a GUID.

        Raises:
          GoneError: the registry does not have it, at each of its addresses.
          UnavailableError: it does not answer, or denies access (DeniedError).
        """
        if number not in self._by_id:
            self._by_id[number] = self._read(self._get(_path_of(number)))
        return self._by_id[number]

    def serialized(self, number: int | str) -> RegisteredSchema:
        """Return a Protobuf schema and those that it references, each as a file descriptor in base64.

        A registry that cannot do this returns their text, or does not answer. Raises as ``by_id``.
        """
        if number not in self._serialized:
            found = self._get(f"{_path_of(number)}{_SERIALIZED}")
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

    def _read(self, found: Answer, form: str = "") -> RegisteredSchema:
        references = tuple(
            replace(self._version(each["subject"], each["version"], form), name=str(each.get("name") or ""))
            for each in found.get("references") or ()
        )
        return RegisteredSchema(str(found["schema"]), str(found.get("schemaType") or "AVRO"), references)

    def _version(self, subject: str, version: int, form: str) -> RegisteredSchema:
        key = subject, version, form
        if key not in self._by_version:
            found = self._get(f"{_path(subject)}/versions/{version}{form}")
            self._by_version[key] = self._read(found, form)
        return self._by_version[key]

    def _get(self, path: str) -> Answer:
        return self._ask(path, None, "schema")

    def _ask(self, path: str, given: Mapping[str, object] | None, wanted: str) -> Answer:
        """Return the answer to a request, which has the member ``wanted``; ``given`` is posted."""
        failed: UnavailableError | None = None
        gone: GoneError | None = None
        for url in self.urls:
            try:
                return self._ask_at(url.rstrip("/"), path, given, wanted)
            except UnavailableError as error:
                failed = failed or error
            except GoneError as error:
                gone = gone or error
        final = failed or gone
        assert final is not None
        raise final

    def _ask_at(self, url: str, path: str, given: Mapping[str, object] | None, wanted: str) -> Answer:
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
            raise _refused(url, path, error, posted=given is not None) from error
        except (OSError, http.client.HTTPException) as error:
            said = getattr(error, "reason", None) or error
            raise UnavailableError(
                f'schema registry "{url}" does not answer: {said}', hint="Check registry_url, and start it."
            ) from error
        except (ValueError, RecursionError) as error:
            raise UnavailableError(
                f'schema registry "{url}" answers with what is not JSON', hint="Check registry_url."
            ) from error
        if not _is_answer(found, wanted):
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


def _path_of(schema: int | str) -> str:
    return f"/schemas/{'ids' if isinstance(schema, int) else 'guids'}/{schema}"


def _path(subject: str) -> str:
    return f"/subjects/{urllib.parse.quote(subject, safe='')}"


def _posted(text: str, kind: str) -> dict[str, object]:
    """Return a schema as a request has it; without a kind it is Avro."""
    return {"schema": text} if kind == "AVRO" else {"schema": text, "schemaType": kind}


def _number(found: Answer) -> int:
    """Return the number of a schema in an answer."""
    number = found.get("id")
    if not isinstance(number, int):
        raise UnavailableError("the schema registry answers without the number of a schema")
    return number


def _is_answer(found: object, wanted: str) -> TypeGuard[Answer]:
    """Return whether JSON is the answer of a registry with the member ``wanted``."""
    if not isinstance(found, dict) or type(found.get(wanted)) is not _MEMBERS[wanted]:
        return False
    references = found.get("references") or []
    return isinstance(references, list) and all(
        isinstance(each, dict)
        and isinstance(each.get("subject"), str)
        and isinstance(each.get("version"), int)
        for each in references
    )


def _refused(url: str, path: str, error: urllib.error.HTTPError, *, posted: bool) -> Exception:
    own, said = _own_answer(error)
    if error.code == 404 and own is not None and own // 100 == 404:
        return GoneError(f'schema registry "{url}" has no {path}')
    if error.code in (409, 422) and own is not None and posted:
        return MismatchError(f'schema registry "{url}" does not take the schema at {path}: {said}')
    if error.code in (401, 403):
        return DeniedError(
            f'schema registry "{url}" refuses access ({error.code})',
            hint="Check registry_user and registry_password.",
        )
    hint = None
    if error.code == 404:
        hint = (
            "This is not an answer of a registry about schemas: check the path of registry_url, and proxies."
        )
    return UnavailableError(f'schema registry "{url}" answers {error.code} {said}', hint=hint)


def _own_answer(error: urllib.error.HTTPError) -> tuple[int | None, str]:
    """Return the error code of a registry, None if another server answers, and what is said about the error."""
    try:
        found = json.loads(error.read(_MOST_BYTES))
    except (OSError, ValueError, RecursionError, http.client.HTTPException):
        found = None
    given = found if isinstance(found, dict) else {}
    code = given.get("error_code")
    said = str(given.get("message") or error.reason)
    return code if type(code) is int else None, " ".join(said.split())[:400]
