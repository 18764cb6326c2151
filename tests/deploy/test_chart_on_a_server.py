"""The chart on a real API server: what the chart accepts, Kubernetes accepts; what is wrong, the chart refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.kit import needs
from deploy.kube import Cluster
from house.chart import BAD, CHART, GOOD

pytestmark = [pytest.mark.deploy, pytest.mark.timeout(300)]

OPERATOR = ("servicemonitors/ServiceMonitor", "prometheusrules/PrometheusRule")
"""Kinds of the Prometheus operator, which has the rest of their schema."""


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


NO_APPLY = ("--set", "apply.enabled=false")
BACKFILL = ("--set", "backfill.enabled=true", "--set-string", "backfill.until=2024-01-02 10:00:00", *NO_APPLY)
NO_BACKFILL = ("--set", "backfill.enabled=false", *NO_APPLY)
HOOKS = {"ConfigMap": "/api/v1/namespaces/{}/configmaps", "Job": "/apis/batch/v1/namespaces/{}/jobs"}


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
    # Hooks wait for controllers that are not there, so they are only tried.
    code, text = cluster.helm("get", "hooks", "orders", "--namespace", namespace)
    assert code == 0, text
    for hook in filter(None, yaml.safe_load_all(text)):
        path = HOOKS[hook["kind"]].format(namespace)
        status, answer = cluster.ask("POST", f"{path}?dryRun=All", hook)
        assert status == 201, answer
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


@pytest.mark.parametrize("kind", ["secret", "configmap"])
def test_a_changed_secret_or_config_map_restarts_the_pod_at_the_next_upgrade(
    cluster: Cluster, kind: str, tmp_path: Path
) -> None:
    namespace = cluster.namespace()
    values = tmp_path / "values.yaml"
    secret = {"name": "A", "existingSecret": "held", "key": "key"}
    values.write_text(yaml.safe_dump({"pipeline": {"existingConfigMap": "held"}, "secretEnv": [secret]}))
    paths = {each: f"/api/v1/namespaces/{namespace}/{each}s" for each in ("secret", "configmap")}
    data = {"secret": "stringData", "configmap": "data"}
    for each, path in paths.items():
        assert cluster.ask("POST", path, {"metadata": {"name": "held"}, data[each]: {"key": "1"}})[0] == 201

    def upgraded() -> object:
        release = ("orders", str(CHART), "--namespace", namespace, "--values", str(values))
        code, text = cluster.helm("upgrade", "--install", *release)
        assert code == 0, text
        _, found = cluster.ask("GET", f"/apis/apps/v1/namespaces/{namespace}/deployments/orders-rowtide")
        return found["spec"]["template"]

    before = upgraded()
    assert upgraded() == before
    changed = {"metadata": {"name": "held"}, data[kind]: {"key": "2"}}
    assert cluster.ask("PUT", f"{paths[kind]}/held", changed)[0] == 200
    assert upgraded() != before


SQL: dict[str, Any] = {"pipeline": {"sql": "SELECT STREAM * FROM orders;"}}
ODD: dict[str, tuple[str, dict[str, Any]]] = {
    "long name, backfill": ("orders", {**SQL, "fullnameOverride": "a" * 50, "backfill": {"enabled": True}}),
    "long release": ("a" * 53, SQL),
    "long release, several": ("a" * 53, {"pipelines": {"k" * 30: SQL, "k" * 29: SQL}}),
    "key of digits": (
        "orders",
        {"pipelines": {"1": SQL, "2": {**SQL, "env": [{"name": "A", "value": "1"}]}}},
    ),
    "key of a dash": ("orders", {"pipelines": {"-": SQL}}),
    "key with dots": ("orders", {"pipelines": {"a.b": SQL}}),
    "long name, apply": (
        "orders",
        {**SQL, "fullnameOverride": "a" * 50, "apply": {"enabled": True, "was": "SELECT 1;"}},
    ),
    "dashboard with another label": (
        "orders",
        {**SQL, "dashboard": {"enabled": True, "labels": {"a/b": "c d"}}},
    ),
    "long name, dashboard": ("orders", {**SQL, "fullnameOverride": "a" * 50, "dashboard": {"enabled": True}}),
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
