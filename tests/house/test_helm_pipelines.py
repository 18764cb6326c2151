"""Several pipelines in one release of the chart."""

from __future__ import annotations

import json
import re

import kubernetes_validate
import pytest

from house.chart import CHART, KUBERNETES, VALUES, Manifest, helm_program, of_kind, rendered


@pytest.fixture(scope="module")
def helm() -> str:
    return helm_program()


def by_pipeline(manifests: list[Manifest], kind: str) -> dict[str, Manifest]:
    found = of_kind(manifests, kind)
    return {each["metadata"]["labels"]["rowtide/pipeline"]: each for each in found}


def test_several_pipelines_of_a_release_have_objects_of_their_own(helm: str) -> None:
    manifests = rendered(helm, VALUES / "good/several.yaml")
    names = [(each["kind"], each["metadata"]["name"]) for each in manifests]
    assert len(names) == len(set(names))
    deployments, services = (by_pipeline(manifests, kind) for kind in ("Deployment", "Service"))
    assert deployments.keys() == services.keys() == {"orders", "returns", "stock"}
    for kind in ("NetworkPolicy", "PodDisruptionBudget"):
        assert by_pipeline(manifests, kind).keys() == deployments.keys()
    for key, service in services.items():
        # A service, as everything that selects pods, finds those of its own pipeline.
        assert service["metadata"]["name"] == f"orders-rowtide-{key}"
        selected = [
            name
            for name, each in deployments.items()
            if service["spec"]["selector"].items() <= each["spec"]["template"]["metadata"]["labels"].items()
        ]
        assert selected == [key]
        matched = deployments[key]["spec"]["selector"]["matchLabels"]
        assert matched.items() <= deployments[key]["spec"]["template"]["metadata"]["labels"].items()
    # One account and one Secret of tokens.
    assert [each["metadata"]["name"] for each in of_kind(manifests, "ServiceAccount")] == ["orders-rowtide"]
    assert [each["metadata"]["name"] for each in of_kind(manifests, "Secret")] == ["orders-rowtide-tokens"]


def test_values_of_a_pipeline_are_over_those_of_the_release(helm: str) -> None:
    manifests = rendered(helm, VALUES / "good/several.yaml")
    deployments = by_pipeline(manifests, "Deployment")
    pods = {key: each["spec"]["template"]["spec"] for key, each in deployments.items()}
    containers = {key: pod["containers"][0] for key, pod in pods.items()}
    variables = {
        key: {variable["name"]: variable.get("value") for variable in container["env"]}
        for key, container in containers.items()
    }
    assert {key: each["ROWTIDE_PIPELINE__NAME"] for key, each in variables.items()} == {
        "orders": "orders",
        "returns": "sent-back",
        "stock": "stock",
    }
    # An empty list replaces a list, and what is not set is that of the release.
    assert {key for key, each in variables.items() if "ROWTIDE_LOG__LEVEL" in each} == {"returns", "stock"}
    for each in variables.values():
        assert "ROWTIDE_SERVERS__WAREHOUSE__PASSWORD" in each
    # A map is merged.
    assert containers["orders"]["resources"] == {
        "requests": {"cpu": "500m", "memory": "1Gi"},
        "limits": {"memory": "8Gi"},
    }
    assert {key: each["image"] for key, each in containers.items()} == {
        "orders": "rowtide:0.1.0",
        "returns": "rowtide:0.1.0",
        "stock": "rowtide:0.1.0-models",
    }
    assert {key: each["spec"]["replicas"] for key, each in deployments.items()} == {
        "orders": 1,
        "returns": 0,
        "stock": 1,
    }
    # false replaces true: orders has no hook, though the release has.
    jobs = of_kind(manifests, "Job")
    components = {
        (
            job["metadata"]["labels"]["rowtide/pipeline"],
            job["metadata"]["labels"]["app.kubernetes.io/component"],
        )
        for job in jobs
    }
    assert components == {("returns", "backfill"), ("returns", "plan"), ("stock", "plan")}
    config_maps = {each["metadata"]["name"]: each["data"] for each in of_kind(manifests, "ConfigMap")}
    assert config_maps["orders-rowtide-orders"].keys() == {"pipeline.sql", "config.toml", "shared.py"}
    assert config_maps["orders-rowtide-returns"].keys() == {
        *("pipeline.sql", "config.toml", "shared.py", "own.py")
    }
    assert config_maps["orders-rowtide-returns"]["config.toml"] == "[commit]\nmax_rows = 5\n"
    assert "orders-rowtide-stock" not in config_maps


def test_a_change_of_one_pipeline_leaves_the_pods_of_the_others(helm: str) -> None:
    values = VALUES / "good/several.yaml"
    before = by_pipeline(rendered(helm, values), "Deployment")
    jobs = {each["metadata"]["name"] for each in of_kind(rendered(helm, values), "Job")}
    change = ("--set", "pipelines.orders.pipeline.sql=SELECT 2;")
    after = by_pipeline(rendered(helm, values, *change), "Deployment")
    assert {key for key in before if before[key] != after[key]} == {"orders"}
    # The name of a job is a hash of the values of its pipeline: another name would be another backfill.
    assert {each["metadata"]["name"] for each in of_kind(rendered(helm, values, *change), "Job")} == jobs


def test_names_of_pipelines_of_a_long_release_are_not_the_same(helm: str) -> None:
    values = VALUES / "good/several.yaml"
    key = "k" * 30
    more = ("--set", f"pipelines.{key}.pipeline.sql=SELECT 1;", "--set", f"pipelines.{key}.service.port=80")
    manifests = rendered(helm, values, *more, release="b" * 53)
    names = [(each["kind"], each["metadata"]["name"]) for each in manifests]
    assert len(names) == len(set(names))
    for manifest in manifests:
        assert re.fullmatch(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?", manifest["metadata"]["name"])
        if manifest["kind"] != "ServiceMonitor":
            kubernetes_validate.validate(manifest, KUBERNETES[-1], strict=True)


def test_a_value_of_a_pipeline_is_a_value_of_the_chart() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    of_one = schema["definitions"]["ofOnePipeline"]["properties"].keys()
    # What the release has once.
    shared = {
        *("global", "pipelines", "nameOverride", "fullnameOverride", "imagePullSecrets", "auth"),
        *("serviceAccount", "prometheusRule", "dashboard"),
    }
    assert of_one == schema["properties"].keys() - shared
