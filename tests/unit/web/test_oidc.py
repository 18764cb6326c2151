"""Tokens of an OpenID Connect provider: what is accepted, with which role, and what is refused with which reason."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from rowtide.config.settings import OidcSettings
from rowtide.errors import StatementError, TransientError
from rowtide.web.access import access_of
from rowtide.web.oidc import FRESH_S, RETRY_S, USABLE_S, OidcProvider, fetch_json
from rowtide.web.tokens import Caller, InvalidTokenError, Right, rights_of
from support.web import StoppedClock, asked, whole_app

ISSUER = "https://login.example/realm"
SETTINGS = OidcSettings(issuer=ISSUER, audience="rowtide")
RSA_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())


def public(key: Any, name: str, algorithm: str) -> dict[str, Any]:
    kind = jwt.get_algorithm_by_name(algorithm)
    return {**json.loads(kind.to_jwk(key.public_key())), "kid": name, "alg": algorithm, "use": "sig"}


class Published:
    """What the provider publishes; ``asked`` are the addresses that were read."""

    def __init__(self) -> None:
        self.keys = [public(RSA_KEY, "first", "RS256"), public(EC_KEY, "second", "ES256")]
        self.issuer = ISSUER
        self.jwks_uri = "https://login.example/keys"
        self.is_down = False
        self.asked: list[str] = []

    def __call__(self, url: str) -> Any:
        self.asked.append(url)
        if self.is_down:
            raise ConnectionRefusedError("refused")
        if url == f"{ISSUER}/.well-known/openid-configuration":
            return {"issuer": self.issuer, "jwks_uri": self.jwks_uri}
        assert url == self.jwks_uri
        return {"keys": self.keys}


class Fixture:
    def __init__(self, settings: OidcSettings = SETTINGS) -> None:
        self.published, self.clock = Published(), StoppedClock()
        self.provider = OidcProvider(settings, self.clock, self.published)

    def caller(self, token: str) -> Caller:
        return asyncio.run(self.provider.caller(token))


def claims(**changed: Any) -> dict[str, Any]:
    now = int(time.time())
    return {
        "iss": ISSUER,
        "aud": "rowtide",
        "sub": "4711",
        "exp": now + 600,
        "iat": now,
        "roles": ["rowtide-operate"],
    } | changed


def token(key: Any = RSA_KEY, name: str | None = "first", algorithm: str = "RS256", **changed: Any) -> str:
    made = {each: value for each, value in claims(**changed).items() if value is not None}
    return jwt.encode(made, key, algorithm, {"kid": name} if name else None)


def test_a_token_of_the_provider_names_the_caller_and_its_rights() -> None:
    fixture = Fixture()
    assert fixture.caller(token()) == Caller("4711", rights_of([Right.OPERATE]))
    assert fixture.caller(token(EC_KEY, "second", "ES256", preferred_username="ann")).name == "ann"
    assert fixture.caller(token(roles=["rowtide-read", "rowtide-admin", "x"])).rights == rights_of(
        [Right.ADMIN]
    )
    assert fixture.caller(token(aud=["other", "rowtide"])).rights == rights_of([Right.OPERATE])


@pytest.mark.parametrize(
    ("claim", "content"),
    [
        ("realm_access.roles", {"realm_access": {"roles": ["rowtide-read"]}}),
        ("https://rowtide.example/roles", {"https://rowtide.example/roles": ["rowtide-read"]}),
        ("scope", {"scope": "openid rowtide-read"}),
    ],
)
def test_roles_are_read_from_the_claim_that_the_settings_name(claim: str, content: dict[str, Any]) -> None:
    fixture = Fixture(OidcSettings(issuer=ISSUER, audience="rowtide", roles_claim=claim))
    assert fixture.caller(token(roles=None, **content)).rights == rights_of([Right.READ])


@pytest.mark.parametrize(
    "roles", [None, [], "none", ["rowtide-none", "read", 7, None], {"rowtide-read": 1}, 5]
)
def test_claims_without_a_role_give_no_right(roles: object) -> None:
    assert Fixture().caller(token(roles=roles)).rights == frozenset()


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (lambda: token(exp=int(time.time()) - 120), "expired"),
        (lambda: token(nbf=int(time.time()) + 120), "not yet valid"),
        (lambda: token(aud="other"), "Audience"),
        (lambda: token(iss="https://login.example/other"), "issuer"),
        (lambda: token(exp=None), '"exp"'),
        (lambda: token(sub=None), '"sub"'),
        (lambda: token(OTHER_KEY), "Signature"),
        (lambda: token(OTHER_KEY, "third"), "does not have the key"),
        (lambda: token(name=None), "does not have the key"),
        (lambda: jwt.encode(claims(), "", "none", {"kid": "first"}), "alg"),
        (lambda: jwt.encode(claims(), "s" * 32, "HS256", {"kid": "first"}), "alg"),
        (lambda: token(RSA_KEY, "second"), "algorithm"),
        (lambda: "three.words.here", "invalid"),
        (lambda: "no token at all", "invalid"),
    ],
)
def test_other_tokens_are_refused_with_the_reason(made: Callable[[], str], reason: str) -> None:
    with pytest.raises(InvalidTokenError, match=reason):
        Fixture().caller(made())


def test_a_public_key_is_never_taken_for_a_shared_secret() -> None:
    fixture = Fixture()
    secret = b"secret-secret-secret-secret-secret"
    encoded = jwt.utils.base64url_encode(secret).decode()
    fixture.published.keys.append({"kty": "oct", "k": encoded, "kid": "shared", "alg": "HS256"})
    with pytest.raises(InvalidTokenError, match="does not have the key"):
        fixture.caller(jwt.encode(claims(), secret, "HS256", {"kid": "shared"}))


@given(st.text(max_size=60), st.integers(0, 400), st.integers(0, 255))
def test_no_text_and_no_changed_token_is_accepted_or_raises_anything_else(
    text: str, at: int, code: int
) -> None:
    fixture = Fixture()
    valid = token()
    changed = valid[:at] + chr(code) + valid[at + 1 :]
    for tried in (text, changed):
        if tried != valid:
            try:
                fixture.caller(tried)
            except InvalidTokenError:
                continue
            # The last letter of a part may differ in bits that base64 does not use.
            assert len(tried) == len(valid)
            assert jwt.utils.base64url_decode(tried.split(".")[2]) == jwt.utils.base64url_decode(
                valid.split(".")[2]
            )


def test_new_keys_are_read_when_a_token_names_one_but_not_at_every_token() -> None:
    fixture = Fixture()
    fixture.caller(token())
    assert len(fixture.published.asked) == 2
    fixture.published.keys = [public(OTHER_KEY, "third", "RS256")]
    for _ in range(3):
        with pytest.raises(InvalidTokenError, match="does not have the key"):
            fixture.caller(token(OTHER_KEY, "third"))
    assert len(fixture.published.asked) == 2
    fixture.clock.sleep(RETRY_S)
    assert fixture.caller(token(OTHER_KEY, "third")).name == "4711"
    with pytest.raises(InvalidTokenError, match="does not have the key"):
        fixture.caller(token())
    assert len(fixture.published.asked) == 4


def test_a_provider_that_is_down_is_reported_and_its_keys_are_used_for_a_day() -> None:
    fixture = Fixture()
    fixture.published.is_down = True
    with capture_logs() as logs, pytest.raises(TransientError, match="keys of the OpenID Connect provider"):
        fixture.caller(token())
    assert [(each["event"], each["log_level"]) for each in logs] == [("oidc_unavailable", "error")]
    fixture.published.is_down = False
    fixture.clock.sleep(RETRY_S)
    fixture.caller(token())
    fixture.published.is_down = True
    fixture.clock.sleep(FRESH_S + 1)
    assert fixture.caller(token()).name == "4711"
    fixture.clock.sleep(USABLE_S)
    with pytest.raises(TransientError):
        fixture.caller(token())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("issuer", "https://login.example/other"),
        ("jwks_uri", "http://login.example/keys"),
        ("keys", []),
        ("keys", [{"kty": "oct", "k": "abc"}]),
        ("keys", [public(RSA_KEY, "first", "RS256") | {"use": "enc"}]),
        ("keys", [{"kty": "RSA", "kid": "first"}]),
        ("keys", None),
    ],
)
def test_a_provider_that_publishes_something_else_is_not_trusted(name: str, value: object) -> None:
    fixture = Fixture()
    setattr(fixture.published, name, value)
    with pytest.raises(TransientError):
        fixture.caller(token())


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (OidcSettings(issuer="http://login.example", audience="rowtide"), "it must begin with https://"),
        (OidcSettings(issuer="login.example", audience="rowtide"), "it must begin with https://"),
        (OidcSettings(issuer=ISSUER), '"audience" is not set'),
        (OidcSettings(audience="rowtide"), '"issuer" is not set'),
    ],
)
def test_settings_that_are_incomplete_are_refused(settings: OidcSettings, reason: str) -> None:
    with pytest.raises(StatementError, match=reason):
        OidcProvider(settings, StoppedClock())


# ------------------------------------------------------------------ over HTTP


@contextmanager
def serving(answers: dict[str, tuple[int, dict[str, str], bytes]]) -> Iterator[str]:
    """Serve fixed answers; yields the address."""

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, headers, body = answers.get(self.path, (404, {}, b""))
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_provider_is_read_over_http_and_pages_obey_its_roles() -> None:
    answers: dict[str, tuple[int, dict[str, str], bytes]] = {}
    with serving(answers) as issuer:
        about = {"issuer": issuer, "jwks_uri": f"{issuer}/keys"}
        answers["/.well-known/openid-configuration"] = (200, {}, json.dumps(about).encode())
        answers["/keys"] = (200, {}, json.dumps({"keys": [public(RSA_KEY, "first", "RS256")]}).encode())
        oidc = OidcProvider(OidcSettings(issuer=issuer, audience="rowtide"), StoppedClock())
        app = whole_app(access_of("0.0.0.0:0", None, allow_anonymous=False, oidc=oidc))
        reader = token(iss=issuer, roles=["rowtide-read"])
        assert asked(app, "GET", "/", reader).status_code == 200
        refused = asked(app, "POST", "/snapshot", reader)
        assert (refused.status_code, refused.json()["error"]) == (
            403,
            '"4711" has the rights read, and /snapshot needs operate',
        )
        assert asked(app, "POST", "/snapshot", token(iss=issuer)).status_code == 200
        assert asked(app, "GET", "/", token(iss=issuer, roles=[])).status_code == 403
        late = asked(app, "GET", "/", token(iss=issuer, exp=1))
        assert (late.status_code, late.headers["www-authenticate"]) == (401, 'Bearer realm="rowtide"')
        assert "expired" in late.json()["error"]
        assert asked(app, "GET", "/", None).status_code == 401


def test_a_redirect_and_a_large_answer_are_refused() -> None:
    with serving(
        {
            "/away": (302, {"location": "/here"}, b""),
            "/here": (200, {}, b"{}"),
            "/large": (200, {}, b'"' + b"x" * 1024 * 1024 + b'"'),
            "/broken": (500, {}, b"{}"),
        }
    ) as server:
        assert fetch_json(f"{server}/here") == {}
        with pytest.raises(OSError, match="is redirected"):
            fetch_json(f"{server}/away")
        with pytest.raises(ValueError, match="larger than"):
            fetch_json(f"{server}/large")
        with pytest.raises(OSError, match="500"):
            fetch_json(f"{server}/broken")
