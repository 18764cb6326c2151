"""Tokens of the API's callers: a file with one line ``NAME RIGHTS TOKEN`` for each caller.

RIGHTS are one right or several, separated by commas: ``read,post``. TOKEN is the token itself, or ``sha256:`` and
its SHA-256 in hexadecimal; ``#`` starts a comment. The file is read again when it changes. While it is invalid, the
API refuses all requests that require a token.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import structlog

from rowtide.errors import RowtideError, SourceSpan, StatementError, TransientError

HASHED = "sha256:"
SHORTEST_TOKEN = 16
"""The least number of characters: random tokens of this length cannot be guessed by trial."""
WORTHLESS = stat.S_IRWXO | stat.S_IWGRP
"""Permissions that let others read or replace the tokens; a group may read, as in mounted Secrets."""

_log = structlog.get_logger("rowtide")


class Right(Enum):
    """A right of a caller. The value is its name in a token file."""

    READ = "read"
    """Status, metrics, rows, queries, explanations."""
    POST = "post"
    """Post rows and bounds of streams that take them. No path requires it yet."""
    OPERATE = "operate"
    """Store a snapshot, change rows of engine tables by statements."""
    ADMIN = "admin"
    """Change the pipeline. No path requires it yet."""


INCLUDED = {Right.OPERATE: {Right.READ}, Right.ADMIN: set(Right)}
"""The rights that another right includes."""


def rights_of(given: Iterable[Right]) -> frozenset[Right]:
    """Return the given rights and those that they include."""
    return frozenset(each for right in given for each in (right, *INCLUDED.get(right, ())))


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller of a request."""

    name: str
    rights: frozenset[Right]

    @property
    def described(self) -> str:
        """Return the rights in words, for a refusal."""
        names = [each.value for each in Right if each in self.rights]
        return f"the rights {', '.join(names)}" if names else "no rights"


class InvalidTokenError(RowtideError):
    """No caller has the token; the message says why."""


class TokenFile:
    """The callers of one token file; used by one thread.

    Raises:
      StatementError: the file cannot be read, others may read it, or a line is invalid.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen = self._signature()
        self._callers: dict[bytes, Caller] | None = self._read()

    def caller(self, token: str) -> Caller | None:
        """Return the caller with this token; None: no caller has it.

        Raises:
          TransientError: the file has changed and is invalid.
        """
        self._refresh()
        if self._callers is None:
            raise TransientError(
                "the service cannot read its tokens", hint="The log of the service says why."
            )
        given, found = _digest(token), None
        for digest, caller in self._callers.items():
            # Compare with all tokens, so that the time reveals nothing.
            if hmac.compare_digest(digest, given):
                found = caller
        return found

    def _refresh(self) -> None:
        """Read the file again if it has changed since the last read."""
        now = self._signature()
        if now == self._seen:
            return
        self._seen = now
        try:
            self._callers = self._read()
        except StatementError as error:
            self._callers = None
            _log.error("tokens_invalid", file=str(self._path), error=error.render())
        else:
            _log.info("tokens_changed", file=str(self._path), callers=len(self._callers))

    def _signature(self) -> tuple[int, ...]:
        """Return values that change whenever the file changes; empty while the file is not accessible."""
        try:
            found = self._path.stat()
        except OSError:
            return ()
        return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino

    def _read(self) -> dict[bytes, Caller]:
        refuse_shared(self._path, "token file")
        try:
            text = self._path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise StatementError(f'token file "{self._path}" cannot be read: {error}') from error
        found: dict[bytes, Caller] = {}
        for number, line in enumerate(text.splitlines(), start=1):
            words = line.partition("#")[0].split()
            if not words:
                continue
            digest, caller = self._entry(words, number)
            if digest in found:
                raise self._invalid(number, "the token appears twice", "Every line has its own token.")
            found[digest] = caller
        if not found:
            raise StatementError(f'token file "{self._path}" has no token', hint=HOW)
        return found

    def _entry(self, words: list[str], number: int) -> tuple[bytes, Caller]:
        if len(words) != 3:
            raise self._invalid(number, "the line does not have three words", HOW)
        name, given, token = words
        available = {right.value: right for right in Right}
        rights = given.split(",")
        for each in rights:
            if each not in available:
                raise self._invalid(
                    number, f'right "{each}" does not exist', f"Available: {', '.join(available)}."
                )
        caller = Caller(name, rights_of(available[each] for each in rights))
        if not token.startswith(HASHED):
            if len(token) < SHORTEST_TOKEN:
                raise self._invalid(
                    number, f'the token of "{name}" has fewer than {SHORTEST_TOKEN} characters', HOW
                )
            return _digest(token), caller
        if not re.fullmatch(r"[0-9a-f]{64}", digest := token.removeprefix(HASHED)):
            raise self._invalid(
                number, f'the hash of "{name}" is not a SHA-256 in hexadecimal', "printf %s TOKEN | sha256sum"
            )
        return bytes.fromhex(digest), caller

    def _invalid(self, number: int, message: str, hint: str) -> StatementError:
        # The error must not show the line: it contains the token.
        return StatementError(message, span=SourceSpan(number, 1), file=str(self._path), hint=hint)


HOW = "Write lines such as: operations operate TOKEN. `openssl rand -hex 32` makes a token."


def refuse_shared(path: Path, kind: str) -> None:
    """Refuse a file with a secret that others can read or change.

    Raises:
      StatementError: others can, or the file does not exist.
    """
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise StatementError(f'{kind} "{path}" cannot be read: {error.strerror}') from error
    if mode & WORTHLESS:
        raise StatementError(
            f'{kind} "{path}" has permissions {stat.S_IMODE(mode):04o}: others may read or change it',
            hint=f"chmod 600 {path}",
        )


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
