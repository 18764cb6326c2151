"""The helm chart: what it accepts becomes valid objects that are safe to run; what is wrong it refuses."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import kubernetes_validate
import pytest
import yaml
from typer.testing import CliRunner

from house.chart import (
    BAD,
    CHART,
    GOOD,
    KUBERNETES,
    VALUES,
    Manifest,
    helm_program,
    of_kind,
    pod_specs,
    rendered,
)
from house.machine import ROOT, run
from rowtide.cli.main import app
from rowtide.config.reading import load_settings
from rowtide_connectors.kafka.connector import BUFFER_KBYTES, FETCH_KBYTES


@pytest.fixture(scope="module")
def helm() -> str:
    return helm_program()


@pytest.mark.parametrize("values", GOOD, ids=lambda path: path.stem)
def test_good_values_pass_the_linter(helm: str, values: Path) -> None:
    done = run(helm, "lint", "--strict", "--kube-version", "1.30.0", str(CHART), "-f", str(values))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("version", KUBERNETES)
@pytest.mark.parametrize("values", GOOD, ids=lambda path: path.stem)
def test_good_values_become_objects_that_kubernetes_accepts(helm: str, values: Path, version: str) -> None:
    manifests = rendered(helm, values)
    assert of_kind(manifests, "Deployment")
    for manifest in manifests:
        # Not Kubernetes' own: their schemas come with the Prometheus operator.
        if manifest["kind"] not in ("ServiceMonitor", "PrometheusRule"):
            kubernetes_validate.validate(manifest, version, strict=True)


def texts(value: object) -> Iterator[object]:
    """Yield everything that is neither a mapping nor a list, keys included."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield key
            yield from texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from texts(each)
    else:
        yield value


def test_names_that_yaml_reads_otherwise_stay_names(helm: str) -> None:
    """Of all values only numbers and switches of Kubernetes' own are no text."""
    manifests = rendered(helm, VALUES / "good/names-that-yaml-reads-otherwise.yaml", release="123")
    found = {str(each) for each in texts(manifests)}
    assert {"on", "123", "1e5", "0x10", "true", "y", "N", "off", "secret-0", "1.5", "yes", "null"} <= found
    for manifest in manifests:
        assert isinstance(manifest["metadata"]["name"], str)
        for each in texts([manifest["metadata"], *pod_specs_of(manifest, "metadata")]):
            assert isinstance(each, str)


def pod_specs_of(manifest: Manifest, part: str) -> list[Manifest]:
    return [manifest["spec"]["template"][part]] if "template" in manifest.get("spec", {}) else []


@pytest.mark.parametrize(
    "release",
    [
        *("a", "0", "1e5", "123", "true", "on", "1.5", "orders.v2", "rowtide"),
        # As long as Helm allows, and around the lengths where a suffix would pass a limit.
        *("b" * length for length in (44, 45, 46, 50, 51, 53)),
        *("c" * length + "-" + "d" * (52 - length) for length in (44, 45, 49, 50)),
    ],
)
def test_a_release_of_any_name_has_objects_that_kubernetes_accepts(helm: str, release: str) -> None:
    manifests = rendered(helm, VALUES / "good/backfill.yaml", release=release)
    for manifest in manifests:
        kubernetes_validate.validate(manifest, KUBERNETES[-1], strict=True)
        name = manifest["metadata"]["name"]
        # The name of a Service, the strictest of all: and that of a Job is a label of its pods.
        assert re.fullmatch(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?", name), name
        for label in manifest["metadata"]["labels"].values():
            assert isinstance(label, str)
            assert re.fullmatch(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?", label), label


def test_jobs_of_releases_whose_names_are_cut_are_not_the_same(helm: str) -> None:
    values = VALUES / "good/backfill.yaml"
    names = [
        of_kind(rendered(helm, values, release="a" * 47 + end), "Job")[0]["metadata"]["name"] for end in "bc"
    ]
    assert names[0] != names[1]


@pytest.mark.parametrize("values", BAD, ids=lambda path: path.stem)
def test_bad_values_are_refused_with_the_place(helm: str, values: Path) -> None:
    expected = values.read_text().splitlines()[0].removeprefix("# refused: ")
    done = run(helm, "template", "orders", str(CHART), "--kube-version", "1.30.0", "-f", str(values))
    assert done.returncode != 0
    assert expected in done.stderr


@pytest.mark.parametrize("values", GOOD, ids=lambda path: path.stem)
def test_every_pod_runs_without_privileges_on_a_read_only_file_system(helm: str, values: Path) -> None:
    for pod in pod_specs(rendered(helm, values)):
        assert pod["automountServiceAccountToken"] is False
        assert pod["enableServiceLinks"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in pod["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert container["resources"]["requests"]
            written = {mount["mountPath"] for mount in container["volumeMounts"] if not mount.get("readOnly")}
            assert written == {"/tmp", "/var/cache/rowtide"}


@pytest.mark.parametrize("values", GOOD, ids=lambda path: path.stem)
def test_two_pods_of_one_pipeline_run_side_by_side_only_as_replicas(helm: str, values: Path) -> None:
    manifests = rendered(helm, values)
    deployments = of_kind(manifests, "Deployment")
    # A hook only reads.
    jobs = [job for job in of_kind(manifests, "Job") if "annotations" not in job["metadata"]]
    running = [each for each in deployments if each["spec"]["replicas"]] + jobs
    names = [
        variable["value"]
        for pod in pod_specs(running)
        for variable in pod["containers"][0]["env"]
        if variable["name"] == "ROWTIDE_PIPELINE__NAME"
    ]
    assert len(names) == len(set(names)) == len(deployments)
    for each, pod in zip(deployments, pod_specs(deployments), strict=True):
        follows = "--standby" in pod["containers"][0]["args"]
        assert follows == (values.stem == "replicas")
        if not follows:
            assert each["spec"]["strategy"] == {"type": "Recreate"}
            assert each["spec"]["replicas"] in (0, 1)


def test_replicas_follow_the_one_that_leads_and_are_replaced_one_by_one(helm: str) -> None:
    (deployment,) = of_kind(rendered(helm, VALUES / "good/replicas.yaml"), "Deployment")
    assert deployment["spec"]["replicas"] == 3
    assert deployment["spec"]["strategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1},
    }
    stopped = rendered(helm, VALUES / "good/apply.yaml", "--set", "replicaCount=3")
    (deployment,) = of_kind(stopped, "Deployment")
    assert deployment["spec"]["replicas"] == 0, "nothing runs beside the job"


def test_the_pipeline_and_its_settings_reach_the_pod_unchanged(helm: str) -> None:
    values = VALUES / "good/everything.yaml"
    written = yaml.safe_load(values.read_text())
    config_map, _ = of_kind(rendered(helm, values), "ConfigMap")
    assert config_map["data"]["pipeline.sql"] == written["pipeline"]["sql"]
    assert config_map["data"]["config.toml"] == written["config"]
    assert tomllib.loads(config_map["data"]["config.toml"]) == {"commit": {"max_rows": 10000}}


def test_files_of_the_pipeline_are_beside_it(helm: str) -> None:
    values = VALUES / "good/everything.yaml"
    given = yaml.safe_load(values.read_text())["pipeline"]["files"]
    config_map, _ = of_kind(rendered(helm, values), "ConfigMap")
    assert given
    assert config_map["data"].items() > given.items()


def test_a_pipeline_that_a_config_map_cannot_hold_is_refused(helm: str, tmp_path: Path) -> None:
    large = tmp_path / "values.yaml"
    files = {"a.txt": "x" * 600_000, "b.txt": "x" * 600_000}
    large.write_text(yaml.safe_dump({"pipeline": {"sql": "SELECT 1;", "files": files}}))
    done = run(helm, "template", "orders", str(CHART), "--kube-version", "1.30.0", "-f", str(large))
    assert done.returncode != 0
    assert "have 1200019 bytes, and a ConfigMap can have 1000000" in done.stderr


def test_the_memory_limit_holds_what_the_default_settings_let_a_pipeline_read_ahead(helm: str) -> None:
    """Four times the limits of one foreign stream, and the process with the one that starts queries."""
    settings = load_settings(None, {})
    limits = settings.limits
    ahead = 1024 * (BUFFER_KBYTES + FETCH_KBYTES) + 2 * limits.queue_bytes
    ahead += settings.commit.max_bytes + limits.held_bytes
    (pod,) = pod_specs(rendered(helm, VALUES / "good/minimal.yaml"))
    limit = pod["containers"][0]["resources"]["limits"]["memory"]
    assert limit.endswith("Gi")
    assert 4 * ahead + 2 * 250 * 2**20 <= int(limit.removesuffix("Gi")) * 2**30


def test_the_sample_pipeline_can_be_given_as_a_file(helm: str) -> None:
    sql = ROOT / "docker/orders/pipeline.sql"
    manifests = rendered(helm, VALUES / "good/minimal.yaml", "--set-file", f"pipeline.sql={sql}")
    (config_map,) = of_kind(manifests, "ConfigMap")
    assert config_map["data"]["pipeline.sql"] == sql.read_text()


def test_a_changed_pipeline_restarts_the_pod(helm: str) -> None:
    values = VALUES / "good/minimal.yaml"
    (before,) = of_kind(rendered(helm, values), "Deployment")
    for change in ("pipeline.sql=SELECT 1;", "config=[log]", "pipeline.files.a=x", "pipeline.files.a=y"):
        (after,) = of_kind(rendered(helm, values, "--set", change), "Deployment")
        assert before["spec"]["template"] != after["spec"]["template"]
        before = after


def test_secrets_are_taken_by_reference(helm: str) -> None:
    (pod,) = pod_specs(rendered(helm, VALUES / "good/everything.yaml"))
    (container,) = pod["containers"]
    variables = {variable["name"]: variable for variable in container["env"]}
    assert variables["ROWTIDE_SERVERS__WAREHOUSE__PASSWORD"]["valueFrom"] == {
        "secretKeyRef": {"name": "warehouse", "key": "password"}
    }
    assert {
        "name": "secret-kafka-tls",
        "secret": {"secretName": "kafka.client", "defaultMode": 0o440},
    } in pod["volumes"]


@pytest.mark.parametrize(
    "values", [path for path in GOOD if "existingConfigMap" not in path.read_text()], ids=lambda p: p.stem
)
def test_rowtide_understands_the_settings_that_a_pod_gets(helm: str, values: Path, tmp_path: Path) -> None:
    manifests = rendered(helm, values)
    config_maps = {each["metadata"]["name"]: each["data"] for each in of_kind(manifests, "ConfigMap")}
    config = tmp_path / "config.toml"
    for pod in pod_specs(manifests):
        (name,) = (each["configMap"]["name"] for each in pod["volumes"] if each["name"] == "pipeline")
        config.write_text(config_maps.get(name, {"config.toml": ""})["config.toml"])
        given = {
            variable["name"]: variable.get("value", "hidden") for variable in pod["containers"][0]["env"]
        }
        settings = load_settings(config, given)
        assert settings.service.listen == "0.0.0.0:8080"
        assert settings.pipeline.name in ("orders", "sent-back", "stock")
        for password in (name for name in given if name.endswith("PASSWORD")):
            assert password == "ROWTIDE_SERVERS__WAREHOUSE__PASSWORD"
            assert settings.options("servers", "WAREHOUSE", {}) == {"password": "hidden"}


def test_a_backfill_reads_the_same_pipeline_with_the_same_secrets_while_the_service_waits(helm: str) -> None:
    manifests = rendered(helm, VALUES / "good/backfill.yaml")
    (deployment,) = of_kind(manifests, "Deployment")
    (job,) = of_kind(manifests, "Job")
    service, backfill = (pod["containers"][0] for pod in pod_specs([deployment, job]))
    assert deployment["spec"]["replicas"] == 0
    assert backfill["env"] == service["env"]
    assert backfill["volumeMounts"] == service["volumeMounts"]
    assert backfill["image"] == "rowtide-spark:0.1.0-java17"
    assert backfill["args"] == [
        *("backfill", "/etc/rowtide/pipeline.sql", "--config", "/etc/rowtide/config.toml"),
        *("--until", "2024-01-02 00:00:00.500", "--master", "local[4]"),
    ]


def test_the_plan_is_checked_with_the_new_pipeline_before_anything_changes(helm: str) -> None:
    manifests = rendered(helm, VALUES / "good/plan-check.yaml")
    (job,), (deployment,), (service,) = (
        of_kind(manifests, kind) for kind in ("Job", "Deployment", "Service")
    )
    config, new = sorted(of_kind(manifests, "ConfigMap"), key=lambda each: len(each["metadata"]["name"]))
    assert new["data"] == config["data"]
    weights = [int(each["metadata"]["annotations"].get("helm.sh/hook-weight", "0")) for each in (new, job)]
    assert weights == sorted(weights)
    for each in (new, job):
        assert each["metadata"]["annotations"]["helm.sh/hook"] == "pre-upgrade,pre-rollback"
    running, checking = (pod["containers"][0] for pod in pod_specs([deployment, job]))
    assert checking["args"] == ["plan", *running["args"][1:]]
    assert checking["env"] == running["env"]
    volumes = {each["name"]: each for each in job["spec"]["template"]["spec"]["volumes"]}
    assert volumes["pipeline"]["configMap"]["name"] == new["metadata"]["name"]
    # No request reaches it, and a failure is not repeated.
    labels = job["spec"]["template"]["metadata"]["labels"]
    assert not service["spec"]["selector"].items() <= labels.items()
    assert job["spec"]["backoffLimit"] == 0


def test_a_change_is_applied_by_a_job_while_the_service_waits(helm: str) -> None:
    values = VALUES / "good/apply.yaml"
    given = yaml.safe_load(values.read_text())
    manifests = rendered(helm, values)
    (deployment,) = of_kind(manifests, "Deployment")
    jobs = {
        each["metadata"]["labels"]["app.kubernetes.io/component"]: each for each in of_kind(manifests, "Job")
    }
    service, applying, checking = (
        pod["containers"][0] for pod in pod_specs([deployment, jobs["apply"], jobs["plan"]])
    )
    assert deployment["spec"]["replicas"] == 0
    both = ["apply", "/etc/rowtide/pipeline.sql", "--was", "/etc/rowtide/was.sql", *service["args"][2:]]
    assert applying["args"] == [*both, "--yes"]
    # It holds the state of the service.
    assert {**applying, "name": "rowtide", "args": []}.items() <= {**service, "args": []}.items()
    # The hook refuses what the job would refuse, while the service still runs.
    assert checking["args"] == [*both, "--dry-run"]
    for config_map in of_kind(manifests, "ConfigMap"):
        assert config_map["data"]["was.sql"] == given["apply"]["was"]
        assert config_map["data"]["pipeline.sql"] == given["pipeline"]["sql"]
    # Without another plan, or disabled again, the file stays out of the way.
    (after,) = of_kind(rendered(helm, values, "--set", "apply.enabled=false"), "Deployment")
    assert after["spec"]["replicas"] == 1


def test_state_is_lost_only_if_the_values_say_so(helm: str) -> None:
    (job,) = of_kind(rendered(helm, VALUES / "good/apply-existing-configmap.yaml"), "Job")
    (pod,) = pod_specs([job])
    assert pod["containers"][0]["args"][-2:] == ["--lose", "--yes"]
    # A refusal is final, whatever else may be tried again.
    (rule,) = job["spec"]["podFailurePolicy"]["rules"]
    assert rule["action"] == "FailJob"
    assert rule["onExitCodes"] == {"containerName": "apply", "operator": "In", "values": [2]}


def test_the_jobs_of_the_chart_call_commands_that_exist(helm: str) -> None:
    called = set()
    for values in GOOD:
        for pod in pod_specs(rendered(helm, values)):
            command, *arguments = pod["containers"][0]["args"]
            known = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "200"}).output
            for argument in arguments:
                assert not argument.startswith("--") or argument in known, argument
            called.add(command)
    assert called == {"run", "backfill", "plan", "apply"}


def test_the_pod_has_tokens_of_the_charts_secret_or_of_one_that_exists(helm: str) -> None:
    values = VALUES / "good/minimal.yaml"
    manifests = rendered(helm, values)
    (secret,) = of_kind(manifests, "Secret")
    token = secret["stringData"]["token"]
    assert len(token) == 48
    assert secret["stringData"]["tokens"] == f"admin admin {token}\n"
    assert token not in str([each for each in manifests if each["kind"] != "Secret"])
    given = ("--set", "auth.existingSecret=my-tokens")
    for held, name in (
        (manifests, secret["metadata"]["name"]),
        (rendered(helm, values, *given), "my-tokens"),
    ):
        (pod,) = pod_specs(held)
        (volume,) = (each["secret"] for each in pod["volumes"] if each["name"] == "tokens")
        assert volume == {"secretName": name, "defaultMode": 0o440}
        (container,) = pod["containers"]
        (mount,) = (each["mountPath"] for each in container["volumeMounts"] if each["name"] == "tokens")
        variables = {variable["name"]: variable.get("value") for variable in container["env"]}
        assert variables["ROWTIDE_SERVICE__TOKENS_FILE"] == f"{mount}/tokens"
        assert variables["ROWTIDE_TOKEN_FILE"] == f"{mount}/token"
    assert not of_kind(rendered(helm, values, *given), "Secret")


def test_a_network_policy_lets_in_to_the_ports_of_the_service_and_to_no_other(helm: str) -> None:
    values = VALUES / "good/everything.yaml"
    manifests = rendered(helm, values)
    (policy,), (deployment,) = (of_kind(manifests, kind) for kind in ("NetworkPolicy", "Deployment"))
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert policy["spec"]["podSelector"]["matchLabels"].items() <= labels.items()
    assert policy["spec"]["policyTypes"] == ["Ingress"]
    given = yaml.safe_load(values.read_text())["networkPolicy"]
    api, monitoring = policy["spec"]["ingress"]
    assert api["ports"] == [{"port": "http", "protocol": "TCP"}]
    assert api["from"] == given["from"]
    assert monitoring["ports"] == [{"port": "monitoring", "protocol": "TCP"}]
    assert monitoring["from"] == given["monitoringFrom"]
    assert not of_kind(rendered(helm, VALUES / "good/minimal.yaml"), "NetworkPolicy")


def test_what_is_added_to_a_pod_is_beside_what_the_chart_has(helm: str) -> None:
    values = VALUES / "good/everything.yaml"
    given = yaml.safe_load(values.read_text())
    backfill = ("--set", "backfill.enabled=true", "--set", "backfill.until=2024-01-02 00:00:00")
    for pod in pod_specs(rendered(helm, values, *backfill)):
        (container,) = pod["containers"]
        assert pod["initContainers"] == given["initContainers"]
        for held, added in (
            (pod["volumes"], given["extraVolumes"]),
            (container["volumeMounts"], given["extraVolumeMounts"]),
            (container["env"], given["extraEnv"]),
        ):
            assert held[-1:] == added
            assert len(held) > 1


def test_a_disruption_budget_is_that_of_the_pod(helm: str) -> None:
    manifests = rendered(helm, VALUES / "good/everything.yaml")
    (budget,), (deployment,) = (of_kind(manifests, kind) for kind in ("PodDisruptionBudget", "Deployment"))
    assert budget["spec"]["maxUnavailable"] == 0
    assert budget["spec"]["selector"] == deployment["spec"]["selector"]
    assert not of_kind(rendered(helm, VALUES / "good/minimal.yaml"), "PodDisruptionBudget")


def test_the_service_finds_the_deployments_pod(helm: str) -> None:
    manifests = rendered(helm, VALUES / "good/everything.yaml")
    (service,), (deployment,), (monitor,) = (
        of_kind(manifests, kind) for kind in ("Service", "Deployment", "ServiceMonitor")
    )
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert {port["name"]: port["targetPort"] for port in service["spec"]["ports"]} == {
        name: name for name in ports
    }
    assert monitor["spec"]["endpoints"][0]["port"] == "monitoring"
    variables = {variable["name"]: variable.get("value") for variable in container["env"]}
    assert variables["ROWTIDE_SERVICE__LISTEN"] == f"0.0.0.0:{ports['http']}"
    assert variables["ROWTIDE_SERVICE__MONITORING_LISTEN"] == f"0.0.0.0:{ports['monitoring']}"
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"]["port"] == "monitoring"
