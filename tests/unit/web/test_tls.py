"""TLS of the API: commands check the certificate, and a renewed one counts without a restart."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs
from typer.testing import CliRunner

from rowtide.cli.main import app
from rowtide.cli.service_url import service_url
from rowtide.errors import StatementError
from rowtide.metrics import Metrics
from rowtide.runtime.query.contents import SnapshotTaken
from rowtide.web import Handlers, WebServer, build_app
from rowtide.web.tls import tls_of
from support.web import Pipeline, StoppedClock


class Files:
    """A certificate of 127.0.0.1 that signs itself, and its key."""

    def __init__(self, folder: Path) -> None:
        self.certificate, self.key = folder / "tls.crt", folder / "tls.key"
        self.make()

    def make(self) -> None:
        assert shutil.which("openssl"), "it makes the keys: apt-get install openssl"
        names = ("-subj", "/CN=rowtide", "-addext", "subjectAltName=IP:127.0.0.1")
        files = ("-keyout", str(self.key), "-out", str(self.certificate))
        curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
        subprocess.run(["openssl", "req", "-x509", *curve, *files, *names], capture_output=True, check=True)
        self.key.chmod(0o600)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


@pytest.fixture
def server(files: Files) -> Iterator[WebServer]:
    taken = SnapshotTaken("orders_per_minute", 3, 10, 0.5)
    pages = build_app(
        Pipeline(), Metrics(), StoppedClock(), version="1", handlers=Handlers(snapshot=lambda: taken)
    )
    made = WebServer(pages, "127.0.0.1:0", tls=tls_of(str(files.certificate), str(files.key)))
    made.start()
    yield made
    made.stop()


def shown(server: WebServer) -> bytes:
    """Return the certificate that a new connection is shown."""
    address = ("127.0.0.1", int(server.url.rpartition(":")[2]))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(address, timeout=10) as plain, context.wrap_socket(plain) as connection:
        found = connection.getpeercert(binary_form=True)
    assert found is not None
    return found


def test_commands_check_the_certificate(server: WebServer, files: Files) -> None:
    pipeline = files.key.with_name("orders_per_minute.sql")
    pipeline.write_text("")
    command = ["snapshot", str(pipeline), "--service", server.url]
    refused = CliRunner().invoke(app, command)
    assert refused.exit_code == 2
    assert f"the certificate of {server.url} is not trusted: self-signed certificate" in refused.output
    assert "--ca-file" in refused.output
    done = CliRunner().invoke(app, [*command, "--ca-file", str(files.certificate)])
    assert "stored with commit 3" in done.output
    done = CliRunner().invoke(app, command, env={"ROWTIDE_CA_FILE": str(files.certificate)})
    assert "stored with commit 3" in done.output
    for file in (files.key, files.key.with_name("nothing")):
        refused = CliRunner().invoke(app, [*command, "--ca-file", str(file)])
        assert refused.exit_code == 2
        assert f'certificates "{file}" cannot be read' in refused.output
    plain = ["snapshot", str(pipeline), "--service", server.url.replace("https", "http")]
    assert CliRunner().invoke(app, plain).exit_code == 3


def test_a_renewed_certificate_counts_at_once_and_an_invalid_one_does_not(
    server: WebServer, files: Files
) -> None:
    before = shown(server)
    assert before == ssl.PEM_cert_to_DER_cert(files.certificate.read_text())
    with capture_logs() as logs:
        files.make()
        newer = shown(server)
        assert newer != before
        assert newer == shown(server) == ssl.PEM_cert_to_DER_cert(files.certificate.read_text())
        files.certificate.write_text("nothing")
        assert shown(server) == newer
        files.make()
        assert shown(server) not in (before, newer)
    assert [each["event"] for each in logs] == [
        "certificate_changed",
        "certificate_invalid",
        "certificate_changed",
    ]


def test_a_connection_without_or_with_old_tls_is_refused(server: WebServer) -> None:
    address = ("127.0.0.1", int(server.url.rpartition(":")[2]))
    with socket.create_connection(address, timeout=10) as plain:
        plain.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert b"HTTP" not in plain.recv(100)


def test_files_that_cannot_be_used_are_refused_with_what_to_do(files: Files, tmp_path: Path) -> None:
    certificate, key = str(files.certificate), str(files.key)
    assert tls_of(None, None) is None
    for given in ((certificate, None), (None, key)):
        with pytest.raises(StatementError, match="one of them is not set"):
            tls_of(*given)
    with pytest.raises(StatementError, match="cannot be read"):
        tls_of(certificate, str(tmp_path / "nothing"))
    with pytest.raises(StatementError, match="cannot be used"):
        tls_of(str(tmp_path / "nothing"), key)
    with pytest.raises(StatementError, match="cannot be used"):
        tls_of(key, key)
    other = tmp_path / "other"
    other.mkdir()
    with pytest.raises(StatementError, match="cannot be used"):
        tls_of(certificate, str(Files(other).key))
    files.key.chmod(0o644)
    with pytest.raises(StatementError, match=r"key file .* has permissions 0644"):
        tls_of(certificate, key)


def test_the_address_of_the_configuration_is_that_of_its_certificate(tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text('[service]\nlisten = "0.0.0.0:8443"\ntls_cert_file = "a"\ntls_key_file = "b"\n')
    assert service_url(None, config) == "https://127.0.0.1:8443"
