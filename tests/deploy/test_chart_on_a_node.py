"""The chart on a node with a kubelet: backfill, kill, rolling upgrade, changed pipeline, and the totals are exact."""

from __future__ import annotations

import json
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from deploy.kit import ROOT, SERVICE_IMAGE, TOTALS, docker, expected_totals, log, needs, within
from deploy.kube import Cluster
from house.chart import CHART
from rowtide.testing.kafka_server import KAFKA_VERSION
from rowtide.testing.processes import free_port

pytestmark = [pytest.mark.deploy, pytest.mark.long, pytest.mark.timeout(1_800)]

HISTORY = 20_000
"""Orders before the backfill: forty minutes of order time."""
MORE = """
CREATE FOREIGN TABLE orders_per_hour (hour_end TIMESTAMP NOT NULL, orders BIGINT NOT NULL, PRIMARY KEY (hour_end))
  SERVER warehouse;
CREATE PUMP fill_orders_per_hour STARTED AS
  INSERT INTO orders_per_hour (hour_end, orders)
  SELECT STREAM ROWTIME, COUNT(*) FROM orders_in_time GROUP BY FLOOR(ROWTIME TO HOUR);
"""


class Servers:
    """Kafka and PostgreSQL beside the node, at the address of Docker's bridge, which pods reach."""

    names = ("rowtide-node-kafka", "rowtide-node-postgres", "rowtide-node-producer")

    def __init__(self) -> None:
        bridge = json.loads(docker("network", "inspect", "bridge").stdout)[0]["IPAM"]["Config"][0]
        self.address = bridge.get("Gateway") or bridge["Subnet"].rpartition(".")[0] + ".1"
        self.kafka, self.postgres = (f"{self.address}:{free_port()}" for _ in range(2))

    def start(self) -> None:
        port = self.postgres.rpartition(":")[2]
        host = ("run", "--detach", "--network=host", "--name")
        variables = ("--env=POSTGRES_USER=rowtide", "--env=POSTGRES_PASSWORD=correct horse")
        listening = (f"listen_addresses={self.address}", f"port={port}")
        options = [word for each in listening for word in ("-c", each)]
        docker(*host, self.names[1], *variables, "postgres:17", "postgres", *options)
        kafka = {
            "NODE_ID": "1",
            "PROCESS_ROLES": "broker,controller",
            "LISTENERS": f"PLAINTEXT://{self.kafka},CONTROLLER://127.0.0.1:{(controller := free_port())}",
            "ADVERTISED_LISTENERS": f"PLAINTEXT://{self.kafka}",
            "LISTENER_SECURITY_PROTOCOL_MAP": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "CONTROLLER_LISTENER_NAMES": "CONTROLLER",
            "CONTROLLER_QUORUM_VOTERS": f"1@127.0.0.1:{controller}",
            "OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
            "TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
            "TRANSACTION_STATE_LOG_MIN_ISR": "1",
            "AUTO_CREATE_TOPICS_ENABLE": "false",
            "HEAP_OPTS": "-Xmx512m",
        }
        given = [f"--env=KAFKA_{name}={value}" for name, value in kafka.items()]
        docker(*host, self.names[0], *given, f"apache/kafka:{KAFKA_VERSION}")
        create = (
            "--create",
            "--if-not-exists",
            "--topic=orders",
            "--partitions=4",
            "--config=retention.ms=-1",
        )
        topics = ("/opt/kafka/bin/kafka-topics.sh", f"--bootstrap-server={self.kafka}", *create)
        assert within(90, lambda: docker("exec", self.names[0], *topics, check=False).returncode, 0) == 0
        assert within(60, lambda: self.sql("SELECT 1", check=False), "1") == "1"

    def stop(self) -> None:
        docker("rm", "--force", "--volumes", *self.names, check=False)

    def produce(self, *arguments: str, detach: bool = False) -> None:
        mounted = ("--network=host", "--volume", f"{ROOT / 'docker/orders'}:/etc/rowtide:ro")
        how = ("--detach", "--name", self.names[2]) if detach else ("--rm",)
        command = ("--entrypoint=python", SERVICE_IMAGE, "/etc/rowtide/produce.py")
        docker("run", *how, *mounted, *command, f"--bootstrap-servers={self.kafka}", *arguments)

    def sql(self, statement: str, *, check: bool = True) -> str:
        host, port = self.postgres.split(":")
        # Inside the container no password is asked for at the socket, and here it listens at an address only.
        password = ("--env", "PGPASSWORD=correct horse")
        psql = (
            "psql",
            f"--host={host}",
            f"--port={port}",
            "--username=rowtide",
            "--no-align",
            "--tuples-only",
        )
        return docker(
            "exec", *password, self.names[1], *psql, "--command", statement, check=check
        ).stdout.strip()


@pytest.fixture
def servers() -> Iterator[Servers]:
    needs("node")
    found = Servers()
    found.stop()
    try:
        found.start()
        yield found
    finally:
        found.stop()


class Release:
    """The release ``orders`` in a namespace of its own."""

    def __init__(self, cluster: Cluster, servers: Servers, folder: Path) -> None:
        self.cluster = cluster
        self.namespace = cluster.namespace()
        self._values = folder / "values.yaml"
        self.sql = folder / "pipeline.sql"
        text = (ROOT / "docker/orders/pipeline.sql").read_text().replace("kafka:9092", servers.kafka)
        self.sql.write_text(text.replace("@postgres:5432", f"@{servers.postgres}"))
        secret = {"metadata": {"name": "warehouse"}, "stringData": {"password": "correct horse"}}
        status, answer = cluster.ask("POST", f"/api/v1/namespaces/{self.namespace}/secrets", secret)
        assert status == 201, answer
        name = "ROWTIDE_SERVERS__WAREHOUSE__PASSWORD"
        self._values.write_text(
            yaml.safe_dump(
                {
                    "secretEnv": [{"name": name, "existingSecret": "warehouse", "key": "password"}],
                    "planCheck": {"enabled": True},
                    # The node has the processors of this machine, and the test runs beside it.
                    "resources": {"requests": {"cpu": "100m", "memory": "512Mi"}},
                    "backfill": {"resources": {"requests": {"cpu": "500m", "memory": "2Gi"}}},
                }
            )
        )

    def helm(self, command: str, *arguments: str, code: int = 0) -> str:
        """Install or upgrade, and wait until what is asked for is there; return what helm writes."""
        release = ("orders", str(CHART), "--namespace", self.namespace, "--values", str(self._values))
        files = ("--set-file", f"pipeline.sql={self.sql}", "--wait", "--wait-for-jobs", "--timeout=300s")
        found, text = self.cluster.helm(command, *release, *files, *arguments)
        assert found == code, text + self.explain()
        return text

    def pods(self) -> dict[str, str]:
        """Return the phase of each pod of the service."""
        selector = urllib.parse.quote("app.kubernetes.io/component=service")
        path = f"/api/v1/namespaces/{self.namespace}/pods?labelSelector={selector}"
        _, found = self.cluster.ask("GET", path)
        return {each["metadata"]["name"]: each["status"]["phase"] for each in found["items"]}

    def ready(self) -> int:
        path = f"/apis/apps/v1/namespaces/{self.namespace}/deployments/orders-rowtide"
        status, found = self.cluster.ask("GET", path)
        assert status == 200
        return int(found["status"].get("readyReplicas", 0))

    def kill(self) -> None:
        """Remove the pod of the service at once."""
        (name,) = self.pods()
        path = f"/api/v1/namespaces/{self.namespace}/pods/{name}?gracePeriodSeconds=0"
        assert self.cluster.ask("DELETE", path)[0] == 200
        assert within(60, lambda: name not in self.pods())
        assert within(120, self.ready, 1) == 1, self.explain()

    def explain(self) -> str:
        """Return the states and the last events, for a failure."""
        _, pods = self.cluster.ask("GET", f"/api/v1/namespaces/{self.namespace}/pods")
        _, events = self.cluster.ask("GET", f"/api/v1/namespaces/{self.namespace}/events")
        states = [json.dumps(each["status"].get("containerStatuses", [])) for each in pods["items"]]
        return "\n".join([*states, *(each["message"] for each in events["items"][-20:])])


def test_the_totals_are_exact_through_all_that_happens_to_a_release(servers: Servers, tmp_path: Path) -> None:
    release = Release(Cluster(), servers, tmp_path)
    servers.produce(f"--count={HISTORY}", "--per-second=20000")

    # History by Spark, up to a cut; then the service from there.
    until = ("--set-string", "backfill.until=2024-01-02 09:30:00")
    release.helm("install", "--set", "backfill.enabled=true", *until)
    assert release.pods() == {}
    # Thirty minutes of five products, the last of which is open at the cut.
    assert servers.sql("SELECT count(*) FROM orders_per_minute") == "145"
    release.helm("upgrade")
    assert release.ready() == 1

    # It is killed and upgraded while orders arrive.
    def rows() -> int:
        return int(servers.sql("SELECT count(*) FROM orders_per_minute"))

    servers.produce("--count=100000", f"--first={HISTORY}", "--per-second=1000", detach=True)
    before = rows()
    assert within(60, lambda: rows() > before), release.explain()
    release.kill()
    (name,) = release.pods()
    release.helm("upgrade", "--set-string", "podAnnotations.upgrade=1")
    assert name not in release.pods()
    last = int(expected_totals().split("|")[0])
    assert rows() < last, "orders must still arrive while the pod is replaced"
    # Back to the revision before: the hook checks that, too.
    (name,) = release.pods()
    code, text = release.cluster.helm(
        "rollback", "orders", "--namespace", release.namespace, "--wait", "--timeout=300s"
    )
    assert code == 0, text + release.explain()
    assert name not in release.pods()
    assert release.ready() == 1
    # A changed pipeline is stopped by the hook, and the pod goes on.
    was = tmp_path / "was.sql"
    was.write_text(release.sql.read_text())
    (name,) = release.pods()
    release.sql.write_text(was.read_text().replace("FLOOR(ROWTIME TO MINUTE)", "FLOOR(ROWTIME TO HOUR)"))
    changed = ("--set", "apply.enabled=true", "--set-file", f"apply.was={was}")
    for arguments in ((), changed):
        assert "pre-upgrade" in release.helm("upgrade", *arguments, code=1)
        assert release.pods() == {name: "Running"}
    # A change that loses nothing is applied by the job.
    release.sql.write_text(was.read_text() + MORE)
    release.helm("upgrade", *changed)
    assert release.pods() == {}
    release.helm("upgrade")
    assert release.ready() == 1
    assert within(240, lambda: servers.sql(TOTALS), expected_totals()) == expected_totals(), release.explain()
    assert int(servers.sql("SELECT count(*) FROM orders_per_hour")) > 0

    log.info("rows|orders|quantity|amount: %s, as expected", servers.sql(TOTALS))
    # Tables and checkpoint stay.
    code, text = release.cluster.helm("uninstall", "orders", "--namespace", release.namespace, "--wait")
    assert code == 0, text
    assert servers.sql(TOTALS) == expected_totals()
    assert int(servers.sql("SELECT count(*) FROM rowtide.positions")) == 4
