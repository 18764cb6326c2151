"""TLS of a listener: its certificate and key are read again when their files change."""

from __future__ import annotations

import ssl
from pathlib import Path

import structlog

from rowtide.errors import StatementError
from rowtide.web.tokens import refuse_shared

_log = structlog.get_logger("rowtide")


class Certificate:
    """The certificate of a listener, with its chain, and its key.

    Raises:
      StatementError: a file cannot be read, they do not fit, or others may read the key.
    """

    def __init__(self, certificate: Path, key: Path) -> None:
        self._certificate = certificate
        self._key = key
        self._seen = self._signature()
        self._newest = self._read()

    def context(self) -> ssl.SSLContext:
        """Return the context of a listener; each connection uses the certificate that is current at its start."""
        context = self._newest

        def renewed(connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
            self._refresh()
            if self._newest is not context:
                connection.context = self._newest

        # OpenSSL calls this in every handshake, even if the client names no server.
        context.sni_callback = renewed
        return context

    def _refresh(self) -> None:
        """Read the files again if they have changed; while they are invalid, keep the last valid certificate."""
        now = self._signature()
        if now == self._seen:
            return
        self._seen = now
        try:
            self._newest = self._read()
        except StatementError as error:
            _log.error("certificate_invalid", file=str(self._certificate), error=error.render())
        else:
            _log.info("certificate_changed", file=str(self._certificate))

    def _read(self) -> ssl.SSLContext:
        refuse_shared(self._key, "key file")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            # An empty password: otherwise OpenSSL prompts for it on the terminal.
            context.load_cert_chain(self._certificate, self._key, password="")
        except (OSError, ValueError) as error:
            reason = error.reason if isinstance(error, ssl.SSLError) else str(error)
            raise StatementError(
                f'certificate "{self._certificate}" with key "{self._key}" cannot be used: {reason}',
                hint="Both are PEM files; the certificate comes first in its chain, the key has no password.",
            ) from error
        return context

    def _signature(self) -> tuple[int, ...]:
        found: list[int] = []
        for path in (self._certificate, self._key):
            try:
                status = path.stat()
            except OSError:
                return ()
            found += [status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino]
        return tuple(found)


def tls_of(certificate: str | None, key: str | None) -> ssl.SSLContext | None:
    """Return the context of the API's listener; None: it uses plain HTTP.

    Raises:
      StatementError: one of the two files is not set, or they cannot be used.
    """
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        raise StatementError(
            "TLS needs a certificate and a key, and one of them is not set",
            hint="Set both service.tls_cert_file and service.tls_key_file.",
        )
    return Certificate(Path(certificate), Path(key)).context()
