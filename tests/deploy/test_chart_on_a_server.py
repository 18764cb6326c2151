"""The chart on a real API server: what the chart accepts, Kubernetes accepts; what is wrong, the chart refuses."""

from __future__ import annotations

import json
import os
import ssl
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.kit import ROOT, needs
from house.machine import program
from house.machine import run as run_program

pytestmark = [pytest.mark.deploy, pytest.mark.timeout(300)]

CHART = ROOT / "helm/rowtide"
VALUES = ROOT / "tests/house/helm"
GOOD = sorted((VALUES / "good").glob("*.yaml"))
BAD = sorted((VALUES / "bad").glob("*.yaml"))

OPERATOR = ("servicemonitors/ServiceMonitor", "prometheusrules/PrometheusRule")
"""Kinds of the Prometheus operator, which has the rest of their schema."""


class Cluster:
    """The API server that KUBECONFIG names, and helm on it."""

    def __init__(self) -> None:
        config = yaml.safe_load(Path(os.environ["KUBECONFIG"]).read_text())
        self._server = config["clusters"][0]["cluster"]["server"]
        self._token = config["users"][0]["user"]["token"]
        self._helm = program("helm", "bash .ci/tools builds it where Go is installed")
        # The server made its certificate itself, at its start.
        self._tls = ssl.create_default_context()
        self._tls.check_hostname = False
        self._tls.verify_mode = ssl.CERT_NONE

    def ask(self, method: str, path: str, body: object = None) -> tuple[int, dict[str, Any]]:
        """Return the status and the object that the server answers."""
        request = urllib.request.Request(
            f"{self._server}{path}",
            None if body is None else json.dumps(body).encode(),
            {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"},
            method=method,
        )
        try:
            with urllib.request.urlopen(request, context=self._tls, timeout=30) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def namespace(self) -> str:
        """Make a namespace that accepts only pods without privileges."""
        name = f"t-{uuid.uuid4().hex[:10]}"
        labels = {"pod-security.kubernetes.io/enforce": "restricted"}
        status, answer = self.ask(
            "POST", "/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}}
        )
        assert status == 201, answer
        # The controller that makes it is not there.
        account = {"metadata": {"name": "default"}}
        assert self.ask("POST", f"/api/v1/namespaces/{name}/serviceaccounts", account)[0] == 201
        return name

    def helm(self, *arguments: str) -> tuple[int, str]:
        """Return the exit code of helm and what it wrote."""
        done = run_program(self._helm, *arguments)
        return done.returncode, done.stdout + done.stderr

    def pods(self, namespace: str) -> Iterator[dict[str, Any]]:
        """Yield the pods that controllers would make of the deployments and jobs."""
        for path in ("apps/v1/{}/deployments", "batch/v1/{}/jobs"):
            status, found = self.ask("GET", f"/apis/{path.format(f'namespaces/{namespace}')}")
            assert status == 200
            for each in found["items"]:
                template = each["spec"]["template"]
                metadata = {**template["metadata"], "generateName": "pod-"}
                yield {"metadata": metadata, "spec": template["spec"]}

    def names(self, namespace: str, path: str) -> list[str]:
        _, found = self.ask("GET", f"/{path.format(f'namespaces/{namespace}')}")
        return [each["metadata"]["name"] for each in found["items"]]


@pytest.fixture(scope="module")
def cluster() -> Cluster:
    needs("cluster")
    found = Cluster()
    for each in OPERATOR:
        plural, kind = each.split("/")
        group = "monitoring.coreos.com"
        schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
        definition = {
            "metadata": {"name": f"{plural}.{group}"},
            "spec": {
                "group": group,
                "names": {
                    "kind": kind,
                    "plural": plural,
                    "singular": kind.lower(),
                    "listKind": f"{kind}List",
                },
                "scope": "Namespaced",
                "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
            },
        }
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        assert found.ask("POST", path, definition)[0] in (201, 409)
    return found


BACKFILL = ("--set", "backfill.enabled=true", "--set-string", "backfill.until=2024-01-02 10:00:00")
NO_BACKFILL = ("--set", "backfill.enabled=false")


@pytest.mark.parametrize("values", GOOD, ids=lambda path: path.stem)
def test_good_values_are_installed_upgraded_and_uninstalled(cluster: Cluster, values: Path) -> None:
    namespace = cluster.namespace()
    release = ("orders", str(CHART), "--namespace", namespace, "--values", str(values), "--no-hooks")
    for command in (("install",), ("upgrade", *BACKFILL), ("upgrade", *NO_BACKFILL)):
        code, text = cluster.helm(command[0], *release, *command[1:])
        assert code == 0, text
        for pod in cluster.pods(namespace):
            status, answer = cluster.ask("POST", f"/api/v1/namespaces/{namespace}/pods?dryRun=All", pod)
            # Such as a service account or priority class that only a cluster of its own would have.
            assert status == 201 or "found" in answer["message"], answer["message"]
            assert "violates PodSecurity" not in answer.get("message", "")
    code, text = cluster.helm("uninstall", "orders", "--namespace", namespace, "--no-hooks")
    assert code == 0, text
    assert cluster.names(namespace, "apis/apps/v1/{}/deployments") == []
    assert cluster.names(namespace, "api/v1/{}/services") == []


@pytest.mark.parametrize("values", BAD, ids=lambda path: path.stem)
def test_bad_values_leave_nothing_in_the_cluster(cluster: Cluster, values: Path) -> None:
    namespace = cluster.namespace()
    code, text = cluster.helm(
        *("install", "orders", str(CHART), "--namespace", namespace, "--values", str(values))
    )
    assert code != 0
    assert values.read_text().splitlines()[0].removeprefix("# refused: ") in text
    assert cluster.names(namespace, "apis/apps/v1/{}/deployments") == []
    # Not even a release that failed.
    assert cluster.names(namespace, "api/v1/{}/secrets") == []


SQL: dict[str, Any] = {"pipeline": {"sql": "SELECT STREAM * FROM orders;"}}
ODD: dict[str, tuple[str, dict[str, Any]]] = {
    "long name, backfill": ("orders", {**SQL, "fullnameOverride": "a" * 50, "backfill": {"enabled": True}}),
    "long release": ("a" * 53, SQL),
    "release of digits": ("123", SQL),
    "release like a number": ("1e5", SQL),
    "release with dots": ("orders.v2", SQL),
    "pipeline with dots": ("orders", {"pipeline": {"sql": "x", "name": "a.b_c"}}),
    "config map of digits": ("orders", {"pipeline": {"existingConfigMap": "123"}}),
    "account of digits": ("orders", {**SQL, "serviceAccount": {"create": True, "name": "123"}}),
    "long account": ("orders", {**SQL, "serviceAccount": {"create": True, "name": "b" * 63}}),
    "names like booleans": ("on", {**SQL, "nameOverride": "true", "fullnameOverride": "y"}),
    "secrets of digits": (
        "orders",
        {
            **SQL,
            "secretFiles": [{"mount": "1", "existingSecret": "2"}],
            "secretEnv": [{"name": "A", "existingSecret": "3", "key": "4"}],
        },
    ),
    "fraction of a processor": ("orders", {**SQL, "resources": {"requests": {"cpu": 0.5}}}),
    "memory in bytes": ("orders", {**SQL, "resources": {"limits": {"memory": 4294967296}}}),
    "processors as a float": ("orders", {**SQL, "resources": {"requests": {"cpu": 1000000.0}}}),
    "processors in millis": ("orders", {**SQL, "resources": {"limits": {"cpu": "1500m"}}}),
    "empty quantity": ("orders", {**SQL, "resources": {"requests": {"memory": ""}}}),
    "unknown resource": ("orders", {**SQL, "resources": {"limits": {"memroy": "2Gi"}}}),
    "extended resource": ("orders", {**SQL, "resources": {"limits": {"example.com/cards": 1}}}),
    "no scratch": ("orders", {**SQL, "scratch": {"sizeLimit": 0}}),
    "two equal ports": ("orders", {**SQL, "service": {"port": 8081, "monitoringPort": 8081}}),
    "priority class with capitals": ("orders", {**SQL, "priorityClassName": "Streams"}),
    "label of a node like a number": ("orders", {**SQL, "nodeSelector": {"a": "1"}}),
    "label of a node without a name": ("orders", {**SQL, "nodeSelector": {"": "1"}}),
    "label of a node with a space": ("orders", {**SQL, "nodeSelector": {"a b": "1"}}),
    "toleration of nothing": ("orders", {**SQL, "tolerations": [{"operator": "Perhaps"}]}),
    "affinity of nothing": ("orders", {**SQL, "affinity": {"nodeAffinty": {}}}),
    "tag like a number": ("orders", {**SQL, "image": {"repository": "rowtide", "tag": "1.0"}}),
    "variable of a dash": ("orders", {**SQL, "env": [{"name": "A-B", "value": "x"}]}),
    "variable from nowhere": ("orders", {**SQL, "extraEnv": [{"name": "A", "valueFrom": {}}]}),
    "variable from two places": (
        "orders",
        {
            **SQL,
            "extraEnv": [
                {
                    "name": "A",
                    "valueFrom": {
                        "configMapKeyRef": {"name": "a", "key": "b"},
                        "fieldRef": {"fieldPath": "spec.nodeName"},
                    },
                }
            ],
        },
    ),
    "volume of nothing": ("orders", {**SQL, "extraVolumes": [{"name": "a"}]}),
    "volume of two sources": (
        "orders",
        {**SQL, "extraVolumes": [{"name": "a", "emptyDir": {}, "configMap": {"name": "b"}}]},
    ),
    "mount over the pipeline": (
        "orders",
        {
            **SQL,
            "extraVolumes": [{"name": "a", "emptyDir": {}}],
            "extraVolumeMounts": [{"name": "a", "mountPath": "/etc/rowtide"}],
        },
    ),
    "mount with a colon": (
        "orders",
        {
            **SQL,
            "extraVolumes": [{"name": "a", "emptyDir": {}}],
            "extraVolumeMounts": [{"name": "a", "mountPath": "/a:b"}],
        },
    ),
    "first container like ours": ("orders", {**SQL, "initContainers": [{"name": "rowtide", "image": "x"}]}),
    "first containers twice": (
        "orders",
        {**SQL, "initContainers": [{"name": "a", "image": "x"}, {"name": "a", "image": "y"}]},
    ),
    "policy of nothing": ("orders", {**SQL, "networkPolicy": {"enabled": True, "from": [{}]}}),
    "policy of a port": ("orders", {**SQL, "networkPolicy": {"enabled": True, "from": [{"ipBlock": {}}]}}),
    "annotation of a node": ("orders", {**SQL, "podAnnotations": {"a/b/c": "x"}}),
    "large pipeline": ("orders", {"pipeline": {"sql": "-- " + "x" * 1_200_000}}),
}
"""Values that are unusual or wrong, by what is odd in them."""


@pytest.mark.parametrize("odd", ODD, ids=lambda name: name.replace(" ", "-"))
def test_what_the_chart_accepts_the_server_accepts(cluster: Cluster, odd: str, tmp_path: Path) -> None:
    """A value that only the server refuses is seen after parts of a release are there."""
    name, given = ODD[odd]
    if "backfill" in given:
        given = {**given, "backfill": {**given["backfill"], "until": "2024-01-02 10:00:00"}}
    values = tmp_path / "values.yaml"
    values.write_text(yaml.safe_dump(given))
    namespace = cluster.namespace()
    release = (name, str(CHART), "--namespace", namespace, "--values", str(values), "--no-hooks")
    is_refused_here, _ = cluster.helm("template", "--kube-version", "1.34.0", *release)
    code, text = cluster.helm("install", *release)
    assert (code == 0) == (is_refused_here == 0), text
