"""Sessions of people: a browser sends the id of one in a cookie, and never has the token itself.

A session holds its token, which is checked at every request: it ends with the token. Sessions are in memory, so a
restart ends them. Used by the server's thread alone.
"""

from __future__ import annotations

import secrets
from collections import deque
from dataclasses import dataclass

from starlette.requests import Request

from rowtide.clock import Clock
from rowtide.web.problems import Problem, ProblemError
from rowtide.web.server import is_loopback

SESSIONS_AT_MOST = 1_000
"""The one that was used least recently ends for another."""
IDLE_S = 12 * 3600.0
"""How long a session lasts without a request."""
FAILED_LOGINS = 20
FAILED_LOGINS_S = 60.0
"""So many failed logins of an address in so many seconds are answered; a limit for guesses, not for people."""
ADDRESSES_AT_MOST = 10_000
COOKIE = "__Host-rowtide"
"""A browser accepts a cookie of this name only over HTTPS and from the very host."""
LOCAL_COOKIE = "rowtide"
"""The same over HTTP on this machine, where no browser would accept the other."""


@dataclass(slots=True)
class _Session:
    token: str
    used_at: float


class Sessions:
    """The sessions of a listener, and the failed logins by address."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._held: dict[str, _Session] = {}
        """By id, those used least recently first."""
        self._failed: dict[str, deque[float]] = {}

    def begin(self, token: str) -> str:
        """Begin a session with a valid token, and return its id."""
        if len(self._held) >= SESSIONS_AT_MOST:
            del self._held[next(iter(self._held))]
        known = secrets.token_urlsafe(32)
        self._held[known] = _Session(token, self._clock.monotonic())
        return known

    def token(self, known: str) -> str | None:
        """Return the token of a session; None: there is none, or it has ended. The session was used now."""
        found = self._held.pop(known, None)
        now = self._clock.monotonic()
        if found is None or now - found.used_at > IDLE_S:
            return None
        found.used_at = now
        self._held[known] = found
        return found.token

    def end(self, known: str) -> None:
        """End a session, if there is one."""
        self._held.pop(known, None)

    def check_logins(self, address: str) -> None:
        """Refuse a login of an address after too many that failed.

        Raises:
          ProblemError: it is refused.
        """
        failed, now = self._failed.get(address, deque()), self._clock.monotonic()
        while failed and now - failed[0] > FAILED_LOGINS_S:
            failed.popleft()
        if len(failed) >= FAILED_LOGINS:
            raise ProblemError(
                Problem.TOO_MANY_LOGINS,
                f"{FAILED_LOGINS} logins from this address have failed within {FAILED_LOGINS_S:g} s",
                hint="Try again in a minute.",
                retry_after_s=int(FAILED_LOGINS_S),
            )

    def login_failed(self, address: str) -> None:
        """Note a failed login of an address."""
        if address not in self._failed and len(self._failed) >= ADDRESSES_AT_MOST:
            del self._failed[next(iter(self._failed))]
        self._failed.setdefault(address, deque()).append(self._clock.monotonic())


def cookie_name(request: Request) -> str:
    """Return the name of the cookie at the address that a browser sees."""
    is_local = request.url.scheme == "http" and is_loopback(request.url.hostname or "")
    return LOCAL_COOKIE if is_local else COOKIE


def cookie(request: Request, known: str) -> str:
    """Return the header that sets the cookie; an empty id removes it."""
    name = cookie_name(request)
    ends = "" if known else "; Max-Age=0"
    secure = "; Secure" if name == COOKIE else ""
    return f"{name}={known}; Path=/; HttpOnly; SameSite=Strict{secure}{ends}"
