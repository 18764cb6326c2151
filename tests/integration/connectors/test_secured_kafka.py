"""A real broker with SASL, TLS and ACLs: pipelines read and write with the documented rights, or say what is wrong."""

from __future__ import annotations

import base64
import json
import subprocess
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import confluent_kafka as ck
import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from typer.testing import CliRunner, Result

from real.kafka import ANSWER_S, JavaBroker
from real.parts import uses_containers
from rowtide.cli.main import app
from rowtide.testing.processes import LOCAL, free_port

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.timeout(400),
    pytest.mark.skipif(uses_containers(), reason="the broker of a container has no such listeners"),
]

SQL = """
CREATE SERVER k FOREIGN DATA WRAPPER KAFKA OPTIONS (bootstrap_servers '{host}', timeout_s '20'{options});
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite:///{file}');
CREATE FOREIGN STREAM numbers (n BIGINT) SERVER k OPTIONS (topic '{source}');
CREATE FOREIGN STREAM copies (n BIGINT) SERVER k OPTIONS (topic '{sink}', key 'n');
CREATE FOREIGN TABLE log (n BIGINT) SERVER d;
CREATE PUMP p STARTED AS INSERT INTO copies SELECT STREAM n FROM numbers;
CREATE PUMP q STARTED AS INSERT INTO log SELECT STREAM n FROM numbers;
"""
START = 1_700_000_000_000


class Secured:
    """A broker with listeners for SASL, SASL over TLS, and TLS with certificates of clients."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.sasl, self.sasl_tls, self.tls = (f"{LOCAL}:{free_port()}" for _ in range(3))
        make_certificates(folder)
        plain = (
            "org.apache.kafka.common.security.plain.PlainLoginModule required "
            'user_writer="right" user_stranger="right";'
        )
        scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        settings = {
            "listeners": "PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller_port},"
            f"SASL_PLAINTEXT://{self.sasl},SASL_SSL://{self.sasl_tls},SSL://{self.tls}",
            "advertised.listeners": "PLAINTEXT://{host}:{port},"
            f"SASL_PLAINTEXT://{self.sasl},SASL_SSL://{self.sasl_tls},SSL://{self.tls}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,"
            "SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL,SSL:SSL",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,OAUTHBEARER",
            "broker.rack": "r1",
            "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": "{directory}/broker.p12",
            "ssl.keystore.password": "secret",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": "{directory}/ca.pem",
            "listener.name.ssl.ssl.client.auth": "required",
            "ssl.principal.mapping.rules": "RULE:^CN=([a-z]+).*$/$1/",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
        }
        bearer = (
            "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
            'unsecuredLoginStringClaim_sub="broker";'
        )
        for listener in ("sasl_plaintext", "sasl_ssl"):
            settings[f"listener.name.{listener}.oauthbearer.sasl.jaas.config"] = bearer
            settings[f"listener.name.{listener}.plain.sasl.jaas.config"] = plain
            settings[f"listener.name.{listener}.scram-sha-256.sasl.jaas.config"] = scram
        self.broker = JavaBroker(folder, settings, is_brief=True)

    def grant(self, user: str, kind: ResourceType, name: str, *operations: AclOperation) -> None:
        """Let a user do something with what this name is a prefix of."""
        bindings = [
            AclBinding(
                kind,
                name,
                ResourcePatternType.PREFIXED,
                f"User:{user}",
                "*",
                operation,
                AclPermissionType.ALLOW,
            )
            for operation in operations
        ]
        for made in self.broker.admin.create_acls(bindings).values():
            made.result(ANSWER_S)

    def client(self, **options: str) -> str:
        """Return further options of a server; underscores are dots."""
        named = {name.replace("_", "."): value for name, value in options.items()}
        return "".join(f", \"{name}\" '{value}'" for name, value in named.items())


def make_certificates(folder: Path) -> None:
    """Make an authority, and certificates of a broker and of a client that it has signed."""

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    new = ("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "3")
    openssl(*new, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=authority")
    for name in ("broker", "writer"):
        signed = ("-CA", "ca.pem", "-CAkey", "ca.key", "-addext", f"subjectAltName=IP:{LOCAL}")
        openssl(*new, "-keyout", f"{name}.key", "-out", f"{name}.pem", "-subj", f"/CN={name}", *signed)
    own = ("-inkey", "broker.key", "-in", "broker.pem", "-certfile", "ca.pem")
    openssl("pkcs12", "-export", *own, "-out", "broker.p12", "-passout", "pass:secret")


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    made = Secured(tmp_path_factory.mktemp("secured"))
    made.broker.start()
    try:
        scram = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
        user = UserScramCredentialUpsertion("writer", scram, b"scrammed")
        for altered in made.broker.admin.alter_user_scram_credentials([user]).values():
            altered.result(ANSWER_S)
        # The rights of docs/howto/write-topics.md and docs/howto/secured-brokers.md.
        read, write, describe = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE
        for name in ("writer", "stranger"):
            made.grant(name, ResourceType.TOPIC, "in-", read, describe)
            made.grant(name, ResourceType.TOPIC, "out-", write, read, describe)
        made.grant("writer", ResourceType.TRANSACTIONAL_ID, "rowtide-", write, describe)
        made.grant("writer", ResourceType.GROUP, "rowtide-", read)
        yield made
    finally:
        made.broker.stop()


def run(secured: Secured, folder: Path, name: str, host: str, options: str, *arguments: str) -> Result:
    """Run a pipeline to the end of its topic, which has five messages."""
    source, sink = f"in-{name}", f"out-{name}"
    known = secured.broker.admin.list_topics(timeout=ANSWER_S).topics
    if source not in known:
        secured.broker.create_topic(1, source)
        secured.broker.create_topic(1, sink)
        secured.broker.produce(
            source, [b'{"n":%d}' % at for at in range(5)], timestamps=[START + at for at in range(5)]
        )
    file = folder / f"{name}.sql"
    file.write_text(
        SQL.format(host=host, options=options, file=folder / f"{name}.db", source=source, sink=sink)
    )
    command = ["run", str(file), "--until-end", "--listen", "127.0.0.1:0", *arguments]
    return CliRunner().invoke(app, command)


def values(secured: Secured, topic: str) -> list[bytes | None]:
    consumer = ck.Consumer(
        {
            "bootstrap.servers": secured.broker.bootstrap_servers,
            "group.id": "looks",
            "isolation.level": "read_committed",
        }
    )
    try:
        consumer.assign([ck.TopicPartition(topic, 0, 0)])
        return [each.value() for each in consumer.consume(5, 30)]
    finally:
        consumer.close()


class TokenEndpoint:
    """An OAuth endpoint that gives unsigned tokens for client credentials; the broker accepts these."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                given = self.rfile.read(int(self.headers["Content-Length"])).decode()
                right = "Basic " + base64.b64encode(b"client:right").decode()
                granted = self.headers["Authorization"] == right
                endpoint.asked.append(given)
                now = int(time.time())
                claims = {"sub": "writer", "iat": now, "exp": now + 3_600}
                body = {"access_token": unsigned(claims), "token_type": "Bearer", "expires_in": 3_600}
                self.send_response(200 if granted else 401)
                self.send_header("Content-Type", "application/json")
                self.end_headers()
                self.wfile.write(json.dumps(body if granted else {"error": "invalid_client"}).encode())

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer((LOCAL, 0), Handler)
        self.url = f"http://{LOCAL}:{self._server.server_address[1]}/token"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def unsigned(claims: dict[str, object]) -> str:
    """Return a token without a signature."""
    parts = [json.dumps(each).encode() for each in ({"alg": "none", "typ": "JWT"}, claims)]
    return ".".join([*(base64.urlsafe_b64encode(each).decode().rstrip("=") for each in parts), ""])


@pytest.fixture
def tokens() -> Iterator[TokenEndpoint]:
    made = TokenEndpoint()
    yield made
    made.close()


def bearer(secured: Secured, tokens: TokenEndpoint, secret: str) -> str:
    return secured.client(
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="OAUTHBEARER",
        sasl_oauthbearer_method="oidc",
        sasl_oauthbearer_client_id="client",
        sasl_oauthbearer_client_secret=secret,
        sasl_oauthbearer_token_endpoint_url=tokens.url,
        client_rack="r1",
    )


def test_a_pipeline_logs_in_with_tokens_for_client_credentials(
    secured: Secured, tokens: TokenEndpoint, tmp_path: Path
) -> None:
    found = run(secured, tmp_path, "bearer", secured.sasl, bearer(secured, tokens, "right"))
    assert found.exit_code == 0, found.output
    assert values(secured, "out-bearer") == [b'{"n":%d}' % at for at in range(5)]
    assert "grant_type=client_credentials" in tokens.asked[0]


def test_a_secret_that_the_token_endpoint_refuses_is_reported(
    secured: Secured, tokens: TokenEndpoint, tmp_path: Path
) -> None:
    found = run(
        secured, tmp_path, "bearer-wrong", secured.sasl, bearer(secured, tokens, "wrong"), "--no-wait"
    )
    assert found.exit_code == 3, found.output
    assert 'Failed to acquire SASL OAUTHBEARER token: {"error": "invalid_client"}' in found.output
    assert tokens.asked


CLIENTS = {
    "plain": (
        "sasl",
        {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", "sasl_password": "right"},
    ),
    "scram-over-tls": (
        "sasl_tls",
        {
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": "SCRAM-SHA-256",
            "sasl_password": "scrammed",
            "ssl_ca_location": "{folder}/ca.pem",
        },
    ),
    "mtls": (
        "tls",
        {
            "security_protocol": "SSL",
            "ssl_ca_location": "{folder}/ca.pem",
            "ssl_certificate_location": "{folder}/writer.pem",
            "ssl_key_location": "{folder}/writer.key",
        },
    ),
}


@pytest.mark.parametrize("name", CLIENTS)
def test_a_pipeline_reads_and_writes_with_the_documented_rights(
    secured: Secured, tmp_path: Path, name: str
) -> None:
    listener, given = CLIENTS[name]
    options = {key: value.format(folder=secured.folder) for key, value in given.items()}
    if "sasl_mechanism" in options:
        options["sasl_username"] = "writer"
    answer = run(secured, tmp_path, name, getattr(secured, listener), secured.client(**options))
    assert answer.exit_code == 0, answer.output
    assert values(secured, f"out-{name}") == [b'{"n":%d}' % at for at in range(5)]


def test_a_wrong_password_ends_a_start_with_what_to_change(secured: Secured, tmp_path: Path) -> None:
    options = secured.client(
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="PLAIN",
        sasl_username="writer",
        sasl_password="wrong",
    )
    answer = run(secured, tmp_path, "wrong", secured.sasl, options)
    assert answer.exit_code == 3, answer.output
    assert "Correct the credentials in the options of the server" in answer.stderr
    assert not (tmp_path / "wrong.db").exists() or b"outbox" not in (tmp_path / "wrong.db").read_bytes()


def test_a_user_without_the_right_to_transactions_ends_a_start_with_the_missing_right(
    secured: Secured, tmp_path: Path
) -> None:
    options = secured.client(
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="PLAIN",
        sasl_username="stranger",
        sasl_password="right",
    )
    answer = run(secured, tmp_path, "stranger", secured.sasl, options)
    assert answer.exit_code == 3, answer.output
    assert "WRITE and DESCRIBE on transactional ids" in answer.stderr
