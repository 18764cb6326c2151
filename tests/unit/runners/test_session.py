"""A Spark session takes the settings that it is opened with, and jars only if Kafka is read."""

from __future__ import annotations

import os
import sys
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from structlog.testing import capture_logs

import rowtide
import rowtide_connectors
from rowtide.errors import StatementError, TransientError
from rowtide.runners.spark import ivy
from rowtide.runners.spark.session import (
    CLIENT_JARS,
    CONF_OPTIONS,
    CONNECTOR_JARS,
    OWN_CONF,
    KafkaJars,
    check_conf,
    connector_directory,
    kafka_jars,
    open_session,
)

pyspark = pytest.importorskip("pyspark")


class Opened:
    """Stands in for ``SparkSession``: records what a session would be opened with; no JVM."""

    def __init__(self) -> None:
        self.master_url = ""
        self.settings: dict[str, str] = {}
        self.later: dict[str, str] = {}
        self.files: list[str] = []
        self.python = ""
        self.builder = self
        self.conf = SimpleNamespace(set=self.later.__setitem__)
        self.sparkContext = SimpleNamespace(defaultParallelism=5, addPyFile=self.files.append)

    def master(self, url: str) -> Opened:
        self.master_url = url
        return self

    def appName(self, _: str) -> Opened:
        return self

    def config(self, name: str, value: str) -> Opened:
        self.settings[name] = value
        return self

    def getOrCreate(self) -> Opened:
        # As ``SparkContext`` does.
        self.python = os.environ.get("PYSPARK_PYTHON", "python3")
        return self


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Opened:
    found = Opened()
    monkeypatch.setattr("pyspark.sql.SparkSession", found)
    monkeypatch.setattr(ivy, "java", lambda: "java")
    return found


def no_fetch(*_: str) -> Path:
    raise TransientError("nothing is to be had")


def folder_of(path: Path, *names: str) -> str:
    path.mkdir()
    for name in names:
        (path / name).touch()
    return str(path)


def all_jars(of: str) -> list[str]:
    return [*(f"{name}-{of}.jar" for name in CONNECTOR_JARS), *(f"{name}-9.9.jar" for name in CLIENT_JARS)]


def test_a_session_that_reads_no_kafka_needs_no_jars(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ivy, "fetch", no_fetch)
    open_session("local[2]")
    assert "spark.jars" not in opened.settings
    with pytest.raises(TransientError, match=f"Kafka connector of PySpark {version('pyspark')} cannot"):
        open_session("local[2]", kafka=KafkaJars())


def test_a_session_has_what_it_is_opened_with(opened: Opened, tmp_path: Path) -> None:
    of = version("pyspark")
    folder = folder_of(tmp_path / "jars", *all_jars(of))
    conf = {"spark.executor.memory": "4g", "spark.jars": "/opt/own.jar"}
    open_session(
        "spark://m:7077",
        parts=7,
        conf=conf,
        py_files=["models.zip"],
        ui=True,
        kafka=KafkaJars(folder),
    )
    assert opened.master_url == "spark://m:7077"
    assert opened.settings.items() >= OWN_CONF.items()
    assert opened.settings["spark.executor.memory"] == "4g"
    assert opened.settings["spark.ui.enabled"] == "true"
    jars = opened.settings["spark.jars"].split(",")
    assert sorted(Path(jar).name for jar in jars) == sorted([*all_jars(of), "own.jar"])
    assert opened.files == ["models.zip"]
    assert opened.later == {"spark.sql.shuffle.partitions": "7"}


def test_a_session_has_no_ui_and_as_many_parts_as_cores_by_default(opened: Opened) -> None:
    open_session("local[5]")
    assert opened.settings["spark.ui.enabled"] == "false"
    assert opened.settings["spark.sql.adaptive.enabled"] == "false"
    assert opened.later == {"spark.sql.shuffle.partitions": "5"}


@pytest.mark.parametrize(
    ("conf", "environment", "wanted"),
    [
        ({}, None, sys.executable),
        ({}, "/opt/env/python", "/opt/env/python"),
        ({"spark.pyspark.python": "/opt/conf/python"}, "/opt/env/python", "/opt/conf/python"),
    ],
)
def test_workers_run_the_python_of_the_command_unless_told_another(
    opened: Opened,
    monkeypatch: pytest.MonkeyPatch,
    conf: dict[str, str],
    environment: str | None,
    wanted: str,
) -> None:
    """Not ``python3`` of the PATH, which lacks the packages where no environment is activated."""
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    if environment is not None:
        monkeypatch.setenv("PYSPARK_PYTHON", environment)
    open_session("local[2]", conf=conf)
    assert opened.python == wanted
    assert os.environ.get("PYSPARK_PYTHON") == environment


@pytest.mark.parametrize("absent", all_jars("4.1.1"))
def test_a_folder_that_lacks_a_jar_is_refused_by_the_name_of_the_jar(tmp_path: Path, absent: str) -> None:
    folder = folder_of(tmp_path / "jars", *(name for name in all_jars("4.1.1") if name != absent))
    with pytest.raises(StatementError, match="lacks") as caught:
        kafka_jars("4.1.1", folder)
    assert absent.replace("9.9", "*") in caught.value.message
    assert "org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.1" in str(caught.value.hint)


@pytest.mark.parametrize("there", ["4.0.0", "4.1.9", "4.2.2"])
def test_the_connector_of_another_pyspark_is_not_taken(tmp_path: Path, there: str) -> None:
    folder = folder_of(tmp_path / "jars", *all_jars(there))
    with pytest.raises(StatementError, match=r"lacks spark-sql-kafka-0-10_2\.13-4\.2\.1\.jar"):
        kafka_jars("4.2.1", folder)


@pytest.mark.parametrize(
    ("version", "to_be_had", "cached", "reached", "taken"),
    [
        ("4.2.1", ["4.2.0", "4.2.1"], [], True, "4.2.1"),
        # 4.2.1 has just come out, and its connector cannot be had here yet.
        ("4.2.1", ["4.2.0"], [], True, "4.2.0"),
        ("4.2.3", ["4.2.0", "4.2.1", "4.2.4"], [], True, "4.2.1"),
        ("4.2.3", ["4.2.0", "4.2.2"], ["4.2.0"], True, "4.2.2"),
        ("4.2.1", ["4.1.1", "4.3.0"], [], True, None),
        # Without the repository, what is there is taken; what is not there may be.
        ("4.2.3", ["4.2.2", "4.2.3"], ["4.2.0", "4.2.1"], False, "4.2.1"),
        ("4.2.3", ["4.2.2", "4.2.3"], [], False, None),
        ("4.2.0.dev1", ["4.2.0"], [], True, None),
    ],
)
def test_pyspark_takes_the_newest_connector_of_its_minor_version_that_can_be_had(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    version: str,
    to_be_had: list[str],
    cached: list[str],
    reached: bool,
    taken: str | None,
) -> None:
    monkeypatch.setenv("ROWTIDE_CACHE", str(tmp_path))
    for each in cached:
        connector_directory(each).mkdir(parents=True)

    def fetch(_organisation: str, _name: str, wanted: str) -> Path:
        found = connector_directory(wanted)
        if wanted not in cached:
            if not reached:
                raise TransientError("the repository cannot be reached")
            if wanted not in to_be_had:
                raise ivy.AbsentError("not found")
            found.mkdir(parents=True)
        (found / f"spark-sql-kafka-0-10_2.13-{wanted}.jar").touch()
        return found

    monkeypatch.setattr(ivy, "fetch", fetch)
    with capture_logs() as logged:
        if taken is None:
            with pytest.raises(TransientError, match=f"Kafka connector of PySpark {version} cannot"):
                kafka_jars(version)
        else:
            assert [jar.name for jar in kafka_jars(version)] == [f"spark-sql-kafka-0-10_2.13-{taken}.jar"]
    told = [(each["pyspark"], each["connector"]) for each in logged]
    assert told == ([] if taken in (None, version) else [(version, taken)])


def test_a_folder_may_have_the_connector_of_an_earlier_patch(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "jars", *all_jars("4.2.0"))
    with capture_logs() as logged:
        assert len(kafka_jars("4.2.1", folder)) == len(all_jars("4.2.0"))
    assert [(each["pyspark"], each["connector"]) for each in logged] == [("4.2.1", "4.2.0")]


def test_workers_import_a_checkout_that_only_a_hook_of_the_environment_finds(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``pip install --editable`` puts no folder into ``sys.path``, and workers may run another environment."""
    own = [str(Path(*package.__path__).parent) for package in (rowtide, rowtide_connectors)]
    monkeypatch.setattr("sys.path", [each for each in sys.path if each not in own])
    open_session("local[2]")
    assert set(own) <= set(opened.settings["spark.executorEnv.PYTHONPATH"].split(":"))


def test_a_folder_that_does_not_exist_lacks_every_jar(tmp_path: Path) -> None:
    with pytest.raises(StatementError, match="kafka-clients"):
        kafka_jars("4.2.0", str(tmp_path / "none"))


def test_jars_that_cannot_be_fetched_say_which_and_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ivy, "fetch", no_fetch)
    with pytest.raises(
        TransientError, match=r"PySpark 4\.9\.0 cannot be fetched: nothing is to be had"
    ) as caught:
        kafka_jars("4.9.0")
    for way in ("ROWTIDE_MAVEN_MIRROR", "spark.jars", "pip install 'rowtide[spark]'"):
        assert way in str(caught.value.hint)


@pytest.mark.parametrize("name", [*OWN_CONF, *CONF_OPTIONS])
def test_a_setting_of_our_own_is_refused_with_what_to_type(name: str) -> None:
    with pytest.raises(StatementError, match=name) as caught:
        check_conf({"spark.executor.memory": "1g", name: "x"})
    assert caught.value.hint


def test_pyproject_allows_no_pyspark_without_a_kafka_connector() -> None:
    """Looked up on Maven Central: 4.0.0, 4.1.1 and 4.2.0 have one, 4.3.0 has none."""
    import tomllib

    from packaging.requirements import Requirement

    project: dict[str, Any] = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())
    (wanted,) = (
        Requirement(each)
        for each in project["project"]["optional-dependencies"]["spark"]
        if each.startswith("pyspark")
    )
    assert [each for each in ("4.0.0", "4.1.1", "4.2.0", "4.3.0") if each in wanted.specifier] == [
        "4.0.0",
        "4.1.1",
        "4.2.0",
    ]
