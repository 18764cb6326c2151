"""``rowtide check`` and ``rowtide explain``: what they show, and with what code they leave."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from rowtide.cli.main import app

PIPELINE = """\
CREATE SERVER broker FOREIGN DATA WRAPPER KAFKA
  OPTIONS (bootstrap_servers 'b:9092', "sasl.password" 'hunter2');
CREATE SERVER db FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'postgresql://joe:hunter2@h/db');
CREATE SERVER other FOREIGN DATA WRAPPER ELSEWHERE OPTIONS (address 'http://joe:hunter2@h/x');
CREATE FOREIGN STREAM orders (kind VARCHAR(4), price INTEGER) SERVER broker OPTIONS (topic 'orders');
CREATE TABLE names (kind VARCHAR(4) PRIMARY KEY, name VARCHAR(20));
CREATE FOREIGN STREAM changes (kind VARCHAR(4), name VARCHAR(20)) SERVER broker OPTIONS (topic 'names');
CREATE PUMP fill AS INSERT INTO names SELECT STREAM * FROM changes;
CREATE VIEW named AS SELECT STREAM n.name, o.price FROM orders AS o JOIN names AS n ON o.kind = n.kind;
CREATE FOREIGN TABLE result (name VARCHAR(20), price INTEGER) SERVER db;
CREATE PUMP p AS INSERT INTO result SELECT STREAM * FROM named;
"""


@pytest.fixture
def pipeline(tmp_path: Path) -> Path:
    path = tmp_path / "pipeline.sql"
    path.write_text(PIPELINE, encoding="utf-8")
    return path


def run(*args: object) -> Result:
    return CliRunner().invoke(app, [str(arg) for arg in args])


def test_check_lists_what_is_defined_and_warns_of_a_table_that_may_be_silent(pipeline: Path) -> None:
    result = run("check", pipeline)
    assert result.exit_code == 0
    assert "foreign stream ORDERS (KIND VARCHAR(4), PRICE INTEGER)\n" in result.output
    assert "pump FILL into NAMES\n" in result.output
    assert 'warning: NAMED: rows wait for table "NAMES", and so for "CHANGES"' in result.output
    assert result.output.endswith("is accepted.\n")


@pytest.mark.parametrize("flag", [(), ("--json",)])
def test_no_secret_is_shown(pipeline: Path, flag: tuple[str, ...]) -> None:
    for command in ("check", "explain"):
        assert "hunter2" not in run(command, pipeline, *flag).output
    assert "***" in run("check", pipeline, *flag).output


def test_check_gives_its_findings_to_a_program(pipeline: Path) -> None:
    found = json.loads(run("check", pipeline, "--json").output)
    assert found["ok"] is True
    assert {"name": "P", "target": "RESULT"} in found["pumps"]
    assert {each["name"]: each["kind"] for each in found["relations"]}["NAMES"] == "table"


def test_a_refused_pipeline_is_shown_with_its_place_and_leaves_with_2(pipeline: Path) -> None:
    pipeline.write_text(PIPELINE.replace("o.price FROM", "o.prise FROM"), encoding="utf-8")
    result = run("check", pipeline)
    assert result.exit_code == 2
    assert result.stderr.startswith(f'{pipeline}:9:46: error: column "PRISE" of "O" does not exist\n')
    assert result.stderr.endswith('hint: Did you mean "PRICE"?\n')
    assert isinstance(run("--debug", "check", pipeline).exception, Exception)


@pytest.mark.parametrize(
    ("written", "wrong", "message", "hint"),
    [
        ("WRAPPER RDBMS", "WRAPPER RDBSM", 'connector "rdbsm" does not exist', 'Did you mean "rdbms"?'),
        ("bootstrap_", "botstrap_", '"botstrap_servers" of connector "kafka" does', '"bootstrap_servers"?'),
        ("topic 'names'", "topc 'names'", '"topc" of connector "kafka" does not exist', '"topic"?'),
        ("topic 'names'", "topic 'n', idle_timeot '1 DAY'", '"idle_timeot" of connector', '"idle_timeout"?'),
        ("topic 'names'", "topic 'n', idle_timeout 'soon'", "'soon' is not an interval", ""),
        ("topic 'names'", "topic 'n', format 'JASON'", 'format "JASON" of foreign stream "CHANGES"', "JSON"),
        ("SERVER db;", "SERVER db OPTIONS (table 'x');", 'option "table" of connector', '"table_name"?'),
        (
            "SERVER db;",
            "SERVER broker;",
            'connector "kafka" cannot be written to: it has no sink',
            ": rdbms.",
        ),
        (
            "SERVER db;",
            "SERVER db; CREATE FOREIGN TABLE more (n INTEGER) SERVER broker;",
            'connector "kafka" cannot be written to: it has no sink',
            "Connectors with a sink: rdbms.",
        ),
        (
            "SERVER db;",
            "SERVER db; CREATE FOREIGN STREAM log (n INTEGER) SERVER db OPTIONS (topic 'x');",
            'connector "rdbms" cannot be read from: it has no source',
            "Connectors with a source: files, kafka, memory.",
        ),
    ],
)
def test_an_option_that_would_stop_a_run_is_refused_at_its_place(
    pipeline: Path, written: str, wrong: str, message: str, hint: str
) -> None:
    pipeline.write_text(PIPELINE.replace(written, wrong), encoding="utf-8")
    result = run("check", pipeline)
    assert result.exit_code == 2
    first, _, caret, *rest = result.stderr.splitlines()
    assert first.startswith(f"{pipeline}:")
    assert message in first
    assert "^" in caret
    assert hint in "".join(rest)
    assert "hunter2" not in result.stderr


def test_what_a_configuration_may_still_bring_is_a_warning(pipeline: Path) -> None:
    pipeline.write_text(PIPELINE.replace("bootstrap_servers 'b:9092', ", ""), encoding="utf-8")
    result = run("check", pipeline)
    assert result.exit_code == 0
    assert 'warning: BROKER: option "bootstrap_servers" of connector "kafka" is missing' in result.output
    assert 'warning: OTHER: connector "elsewhere" does not exist' in result.output


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    result = run("check", tmp_path / "none.sql")
    assert result.exit_code == 2
    assert "none.sql" in result.stderr


def test_explain_shows_every_pump_after_every_stage(pipeline: Path) -> None:
    result = run("explain", pipeline)
    assert result.exit_code == 0
    stages = result.output.split("-- ")[1:]
    assert [stage.splitlines()[0] for stage in stages] == [
        "as written",
        "with pumps connected",
        "with judges and merges",
    ]
    assert "TableSource NAMES" in stages[0]
    assert "TableSource NAMES" not in stages[1]
    assert "Sort" not in stages[1]
    assert "Merge CHANGES: partitions by rowtime" in stages[2]


def test_explain_shows_one_relation_named_as_in_sql(pipeline: Path) -> None:
    found = json.loads(run("explain", pipeline, "named", "--json").output)
    named = found["with judges and merges"]["NAMED"]
    assert (named["node"], named["detail"]) == ("Project", "NAME, PRICE")
    assert named["inputs"][0]["node"] == "AsOfJoin"
    missing = run("explain", pipeline, "namd")
    assert missing.exit_code == 2
    assert 'hint: Did you mean "NAMED"?' in missing.stderr


def test_the_configuration_counts_and_what_it_gives_is_not_shown(pipeline: Path, tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text(
        """
        [servers.broker]
        "sasl.password" = "swordfish"
        "sasl.username" = "joe"
        [streams.changes]
        idle_timeout = "30 SECOND"
        """,
        encoding="utf-8",
    )
    result = run("check", pipeline, "--config", config)
    assert result.exit_code == 0, result.output
    assert "swordfish" not in result.output
    assert "sasl.username '(from the configuration)'" in result.output
    assert "warning: NAMED" not in result.output
    config.write_text("[servers.broker]\ntimeout = '3'\n", encoding="utf-8")
    refused = run("check", pipeline, "--config", config)
    assert refused.exit_code == 2
    assert refused.stderr.startswith('error: option "timeout" of connector "kafka" does not exist; the conf')
    config.write_text("[servers.brocker]\nx = 'y'\n", encoding="utf-8")
    assert run("check", pipeline, "--config", config).exit_code == 2


def test_check_gives_a_refusal_to_a_program_too(tmp_path: Path) -> None:
    path = tmp_path / "wrong.sql"
    path.write_text("CREATE STREAM s (amt INTEGER);\nCREATE VIEW v AS SELECT STREAM amount FROM s;\n")
    result = run("check", path, "--json")
    assert result.exit_code == 2
    assert json.loads(result.stdout) == {
        "ok": False,
        "error": {
            "message": 'column "AMOUNT" does not exist',
            "hint": "Available: AMT.",
            "file": str(path),
            "line": 2,
            "column": 32,
        },
    }
    assert f"{path}:2:32: error" in result.stderr


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://app:SECRET@h/x",
        "postgresql://app:a/SECRET@h/x",
        "postgresql://h/x?password=SECRET",
        "postgresql://h/x?user=a&sslpassword=SECRET&target_session_attrs=any",
    ],
)
def test_a_refusal_shows_no_secret_of_the_address_beside_it(tmp_path: Path, url: str) -> None:
    file = tmp_path / "p.sql"
    file.write_text(
        f"CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url '{url}', no_such_option 'x');\n"
        "CREATE FOREIGN TABLE t (n BIGINT) SERVER d;\n"
    )
    result = run("check", file)
    assert result.exit_code == 2
    assert "no_such_option" in result.output
    assert "SECRET" not in result.output


def test_a_database_that_no_run_takes_is_refused_with_those_that_there_are(tmp_path: Path) -> None:
    file = tmp_path / "p.sql"
    file.write_text(
        "CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'mssql+pymssql://h/x');\n"
        "CREATE FOREIGN TABLE t (n BIGINT) SERVER d;\n"
    )
    result = run("check", file)
    assert result.exit_code == 2
    assert 'database "mssql" is not supported' in result.output
    assert "Available: postgresql, mariadb, mysql, sqlite." in result.output
