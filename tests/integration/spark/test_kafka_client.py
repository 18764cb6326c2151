"""Settings of a KAFKA server with keys in PEM files are settings with which the Java client opens TLS."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from real.parts import missing
from rowtide.runners.spark.kafka import client_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def openssl(*arguments: str) -> None:
    if shutil.which("openssl") is None:
        missing("openssl", "it makes the keys")
    subprocess.run(["openssl", *arguments], capture_output=True, check=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate that signs itself, and its key, as it is and encrypted."""
    folder = tmp_path_factory.mktemp("tls")
    key, certificate = str(folder / "key.pem"), str(folder / "certificate.pem")
    subject = ("-subj", "/CN=client", "-days", "2")
    openssl(*("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate), *subject)
    encrypted = ("-out", str(folder / "encrypted.pem"), "-passout", "pass:secret")
    openssl("pkcs8", "-topk8", "-v1", "PBE-SHA1-3DES", "-in", key, *encrypted)
    return folder


def java_map(session: SparkSession, settings: dict[str, str]) -> object:
    jvm = session._jvm
    assert jvm is not None
    found = jvm.java.util.HashMap()
    for name, value in settings.items():
        # What the client's configuration makes of these texts before the factory sees them.
        is_password = name.endswith(("password", ".key", ".chain", ".certificates"))
        found.put(name, jvm.org.apache.kafka.common.config.types.Password(value) if is_password else value)
    found.put("ssl.protocol", "TLSv1.3")
    for name in ("ssl.keymanager.algorithm", "ssl.trustmanager.algorithm"):
        found.put(name, "SunX509" if "key" in name else "PKIX")
    return found


@pytest.mark.parametrize("key", ["key", "encrypted"])
def test_the_java_client_reads_the_key_and_the_certificates(
    spark: SparkSession, folder: Path, key: str
) -> None:
    given = {
        "ssl.key.location": str(folder / f"{key}.pem"),
        "ssl.certificate.location": str(folder / "certificate.pem"),
        "ssl.ca.location": str(folder / "certificate.pem"),
    }
    if key == "encrypted":
        given["ssl.key.password"] = "secret"
    jvm = spark._jvm
    assert jvm is not None
    factory = jvm.org.apache.kafka.common.security.ssl.DefaultSslEngineFactory()
    factory.configure(java_map(spark, client_settings(given)))
    assert factory.keystore().size() == 1
    assert factory.truststore().size() == 1
    assert factory.createClientSslEngine("broker", 9093, "https").getUseClientMode()
