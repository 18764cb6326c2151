"""Settings of a KAFKA server, as librdkafka names them, become those of Spark's Java client."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from rowtide.errors import StatementError
from rowtide.runners.spark.kafka import client_settings


def pem(label: str) -> str:
    return f"-----BEGIN {label}-----\nMIIB\n-----END {label}-----\n"


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    contents = {
        "key": pem("PRIVATE KEY"),
        "certificate": pem("CERTIFICATE") * 2,
        "ca": pem("CERTIFICATE"),
    }
    for name, content in contents.items():
        (tmp_path / name).write_text(content)
    return {name: str(tmp_path / name) for name in contents}


def test_a_key_and_certificates_in_pem_files_become_text(files: dict[str, str]) -> None:
    given = {
        "bootstrap_servers": "a:9093,b:9093",
        "security.protocol": "SSL",
        "ssl.key.location": files["key"],
        "ssl.key.password": "secret",
        "ssl.certificate.location": files["certificate"],
        "ssl.ca.location": files["ca"],
        "queued.max.messages.kbytes": "1",
        "buffer_kbytes": "1",
    }
    assert client_settings(given) == {
        "bootstrap.servers": "a:9093,b:9093",
        "security.protocol": "SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": pem("PRIVATE KEY"),
        "ssl.key.password": "secret",
        "ssl.keystore.certificate.chain": pem("CERTIFICATE") * 2,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": pem("CERTIFICATE"),
    }


def test_pem_text_is_taken_as_it_is() -> None:
    given = {
        "ssl.key.pem": pem("ENCRYPTED PRIVATE KEY"),
        "ssl.certificate.pem": pem("CERTIFICATE"),
        "ssl.ca.pem": pem("CERTIFICATE"),
    }
    settings = client_settings(given)
    assert settings["ssl.keystore.key"] == pem("ENCRYPTED PRIVATE KEY")
    assert settings["ssl.truststore.type"] == "PEM"
    assert not any(name.endswith(".pem") for name in settings)


def test_a_certificate_authority_alone_makes_no_keystore(files: dict[str, str]) -> None:
    settings = client_settings({"ssl.ca.location": files["ca"]})
    assert settings == {
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": pem("CERTIFICATE"),
    }


def test_the_certificates_of_the_system_are_javas_default() -> None:
    assert client_settings({"ssl.ca.location": "probe"}) == {}


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"ssl.keystore.location": "/k.p12", "ssl.keystore.password": "x"}, {"ssl.keystore.type": "PKCS12"}),
        ({"ssl.keystore.location": "/k.jks", "ssl.keystore.type": "JKS"}, {"ssl.keystore.type": "JKS"}),
        (
            {"ssl.endpoint.identification.algorithm": "none"},
            {"ssl.endpoint.identification.algorithm": ""},
        ),
        (
            {"sasl.mechanisms": "SCRAM-SHA-256", "sasl.username": 'a"b', "sasl.password": "c\\"},
            {
                "sasl.mechanism": "SCRAM-SHA-256",
                "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
                'username="a\\"b" password="c\\\\";',
            },
        ),
    ],
)
def test_other_settings_have_the_names_and_values_of_the_java_client(
    given: dict[str, str], wanted: dict[str, str]
) -> None:
    assert client_settings(given).items() >= wanted.items()


@pytest.mark.parametrize(
    ("label", "answer"),
    [
        ("RSA PRIVATE KEY", "reads PKCS#8 only"),
        ("EC PRIVATE KEY", "reads PKCS#8 only"),
        ("CERTIFICATE", "has no private key"),
    ],
)
def test_a_key_that_java_does_not_read_is_refused_with_what_to_type(
    files: dict[str, str], label: str, answer: str
) -> None:
    Path(files["key"]).write_text(pem(label))
    with pytest.raises(StatementError, match=answer) as caught:
        client_settings({"ssl.key.location": files["key"], "ssl.certificate.location": files["certificate"]})
    assert '"ssl.key.location"' in caught.value.message
    if answer.startswith("reads"):
        assert "openssl pkcs8 -topk8" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("given", "answer"),
    [
        ({"ssl.key.location": "/no/key"}, 'file "/no/key" of setting "ssl.key.location" cannot be read'),
        ({"ssl.ca.location": "/etc"}, 'file "/etc" of setting "ssl.ca.location" cannot be read'),
        ({"ssl.ca.pem": "no certificate"}, 'setting "ssl.ca.pem" has no certificate'),
        ({"ssl.key.pem": pem("PRIVATE KEY")}, 'setting "ssl.certificate.location" is missing'),
        ({"ssl.certificate.pem": pem("CERTIFICATE")}, 'setting "ssl.key.location" is missing'),
    ],
)
def test_half_of_what_is_needed_is_refused_by_name(given: dict[str, str], answer: str) -> None:
    with pytest.raises(StatementError) as caught:
        client_settings(given)
    assert answer in caught.value.message


def encrypted(identifier: str) -> str:
    """Return a key in PKCS#8 that is encrypted in this way, as far as its head."""
    head = bytes.fromhex("308205113042") + bytes.fromhex(identifier)
    return pem("ENCRYPTED PRIVATE KEY").replace("MIIB", base64.encodebytes(head + bytes(200)).decode())


def test_a_key_as_openssl_encrypts_it_by_default_is_refused_with_what_to_type(
    files: dict[str, str], tmp_path: Path
) -> None:
    """Java 17 does not find PBES2 by the name that the Kafka client asks for."""
    by_default, by_3des = encrypted("06092a864886f70d01050d"), encrypted("060a2a864886f70d010c0103")
    given = {"ssl.certificate.location": files["certificate"], "ssl.key.password": "secret"}
    with pytest.raises(StatementError, match="PBES2") as caught:
        client_settings(given | {"ssl.key.pem": by_default})
    assert "-v1 PBE-SHA1-3DES" in str(caught.value.hint)
    assert client_settings(given | {"ssl.key.pem": by_3des})["ssl.keystore.key"] == by_3des


def test_tokens_are_refused() -> None:
    with pytest.raises(StatementError, match="Rowtide on Spark does not log in with tokens"):
        client_settings({"bootstrap_servers": "b:1", "sasl.mechanisms": "OAUTHBEARER"})
