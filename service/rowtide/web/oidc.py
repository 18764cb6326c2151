"""Callers with a token of an OpenID Connect provider.

The provider signs its tokens (JWT, RFC 7519) with keys that it publishes (OpenID Connect Discovery 1.0, JWK Set
of RFC 7517). The keys are read at the first request, once an hour, and when a token names a key that is not
known, but at most every 30 seconds. While the provider is down, known keys are used for a day.
"""

from __future__ import annotations

import json
import threading
import urllib.request
from collections.abc import Callable, Mapping
from http.client import HTTPException
from typing import Any, NoReturn
from urllib.parse import urlsplit

import jwt
import structlog
from starlette.concurrency import run_in_threadpool

from rowtide.clock import Clock
from rowtide.config.settings import OidcSettings
from rowtide.errors import StatementError, TransientError
from rowtide.web.server import is_loopback
from rowtide.web.tokens import Caller, InvalidTokenError, Right, rights_of

FRESH_S = 3600.0
"""How long keys are used before they are read again."""
USABLE_S = 24 * 3600.0
"""How long keys are used while the provider is down."""
RETRY_S = 30.0
"""The least time between two reads of the keys, whatever keys the tokens name."""
LEEWAY_S = 60
"""By how much the clocks of the provider and of this machine may differ."""
TIMEOUT_S = 5.0
LARGEST_ANSWER = 1024 * 1024
ALGORITHMS = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA"),
)
"""Signatures with a public key. With a shared secret, every service that checks tokens could also make them."""
_KEY_TYPES = frozenset({"RSA", "EC", "OKP"})
_NAMES = ("preferred_username", "email", "client_id", "azp", "sub")
"""Claims that may name the caller, the best first."""
_log = structlog.get_logger("rowtide")


class OidcProvider:
    """Checks tokens of one provider; safe for several threads.

    Raises:
      StatementError: the settings are incomplete or invalid.
    """

    def __init__(
        self, settings: OidcSettings, clock: Clock, fetch: Callable[[str], Any] | None = None
    ) -> None:
        _check(settings)
        self._issuer, self._audience = settings.issuer, settings.audience
        self._roles_claim, self._role_prefix = settings.roles_claim, settings.role_prefix
        self._clock = clock
        self._fetch = fetch or fetch_json
        self._reading = threading.Lock()
        self._keys: Mapping[str | None, jwt.PyJWK] = {}
        self._read_at = self._tried_at = float("-inf")

    async def caller(self, token: str) -> Caller:
        """Return the caller that a token names.

        Raises:
          InvalidTokenError: it is invalid, has expired, or is for another service.
          TransientError: the keys of the provider cannot be read.
        """
        return await run_in_threadpool(self._caller, token)

    def _caller(self, token: str) -> Caller:
        try:
            claims: dict[str, Any] = jwt.decode(
                token,
                self._key(jwt.get_unverified_header(token).get("kid")),
                algorithms=ALGORITHMS,
                audience=self._audience,
                issuer=self._issuer,
                leeway=LEEWAY_S,
                options={"require": ["exp", "iss", "aud", "sub"]},
            )
        except jwt.InvalidTokenError as error:
            raise InvalidTokenError(f"the token is invalid: {error}") from error
        name = next(claims[each] for each in _NAMES if isinstance(claims.get(each), str))
        return Caller(name, self._rights(claims))

    def _rights(self, claims: Mapping[str, Any]) -> frozenset[Right]:
        """Return the rights that the claims name."""
        found: Any = claims.get(self._roles_claim)
        if found is None:
            found = claims
            for part in self._roles_claim.split("."):
                found = found.get(part) if isinstance(found, dict) else None
        words = found.split() if isinstance(found, str) else found if isinstance(found, list) else []
        return rights_of(right for right in Right if self._role_prefix + right.value in words)

    def _key(self, name: str | None) -> jwt.PyJWK:
        age = self._clock.monotonic() - self._read_at
        if age > FRESH_S or self._named(name) is None:
            self._read_keys()
            age = self._clock.monotonic() - self._read_at
        if age > USABLE_S:
            raise TransientError(
                "the service cannot read the keys of the OpenID Connect provider",
                hint="The log of the service says why.",
            )
        key = self._named(name)
        if key is None:
            raise InvalidTokenError("the token is invalid: the provider does not have the key that signed it")
        return key

    def _named(self, name: str | None) -> jwt.PyJWK | None:
        """Return the key with this name. A token may omit the name if the provider has one key."""
        if name is None and len(self._keys) == 1:
            return next(iter(self._keys.values()))
        return self._keys.get(name)

    def _read_keys(self) -> None:
        """Read the keys, unless that was tried a moment ago. One thread reads, the others wait for it."""
        with self._reading:
            if self._clock.monotonic() - self._tried_at < RETRY_S:
                return
            self._tried_at = self._clock.monotonic()
            try:
                self._keys = self._published()
            except (OSError, HTTPException, ValueError) as error:
                _log.error("oidc_unavailable", issuer=self._issuer, error=str(error) or type(error).__name__)
                return
            self._read_at = self._clock.monotonic()
            _log.info("oidc_keys_read", issuer=self._issuer, keys=len(self._keys))

    def _published(self) -> Mapping[str | None, jwt.PyJWK]:
        """Read the keys of the provider that may sign tokens.

        Raises:
          OSError, HTTPException: the provider does not answer.
          ValueError: its answer is invalid.
        """
        about = self._fetch(f"{self._issuer}".rstrip("/") + "/.well-known/openid-configuration")
        if not isinstance(about, dict) or about.get("issuer") != self._issuer:
            named = about.get("issuer") if isinstance(about, dict) else None
            raise ValueError(f"the provider calls itself {named!r}: oidc.issuer must be the same text")
        published = self._fetch(_checked_address(str(about.get("jwks_uri"))))
        listed = published.get("keys") if isinstance(published, dict) else None
        keys: dict[str | None, jwt.PyJWK] = {}
        for each in listed if isinstance(listed, list) else ():
            if isinstance(each, dict) and each.get("kty") in _KEY_TYPES and each.get("use", "sig") == "sig":
                try:
                    keys[each.get("kid")] = jwt.PyJWK(each)
                except jwt.PyJWTError:
                    # A kind of key that is newer than the library; a token that it signed is refused.
                    _log.warning("oidc_key_ignored", issuer=self._issuer, key=each.get("kid"))
        if not keys:
            raise ValueError("the provider publishes no key that can sign tokens")
        return keys


def fetch_json(url: str) -> Any:
    """Read a JSON document; redirects are refused, because they could leave the provider.

    Raises:
      OSError, HTTPException: the server does not answer, or answers with an error or a redirect.
      ValueError: the answer is too large or not JSON.
    """
    with urllib.request.build_opener(_NoRedirects).open(url, timeout=TIMEOUT_S) as answer:
        content = answer.read(LARGEST_ANSWER + 1)
    if len(content) > LARGEST_ANSWER:
        raise ValueError(f"the answer of {url} is larger than {LARGEST_ANSWER:,} bytes")
    return json.loads(content)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, req: urllib.request.Request, *answer: Any, **more: Any) -> NoReturn:
        raise OSError(f"{req.full_url} is redirected")


def _check(settings: OidcSettings) -> None:
    if settings.issuer is None:
        raise StatementError('[oidc] has an audience, and "issuer" is not set')
    try:
        _checked_address(settings.issuer)
    except ValueError as error:
        raise StatementError(
            f'setting "issuer" of [oidc] is "{settings.issuer}": {error}',
            hint="Write the issuer as the provider's tokens have it (claim iss).",
        ) from error
    if not settings.audience:
        raise StatementError(
            '[oidc] has an issuer, and "audience" is not set',
            hint="Set oidc.audience to the name of this API in the provider's tokens (claim aud). Without it, "
            "tokens for every other service of the provider would be valid here.",
        )


def _checked_address(url: str) -> str:
    """Return an address that is HTTPS, or on this machine.

    Raises:
      ValueError: it is neither.
    """
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.scheme == "https" and host:
        return url
    if parts.scheme == "http" and is_loopback(host):
        return url
    raise ValueError("it must begin with https://")
