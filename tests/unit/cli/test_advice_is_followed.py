"""What ``explain --why-not`` and ``check`` advise is typed as it is said, and what it promises comes."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rowtide.cli.main import app
from support.pipeline import PipelineFiles
from support.served import served
from support.waiting import wait_until

SQL = """
CREATE SERVER k FOREIGN DATA WRAPPER MEMORY OPTIONS (broker '{file}');
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite:///{file}');
CREATE FOREIGN STREAM readings (sensor VARCHAR(8)) SERVER k OPTIONS (topic 'readings', format 'JSON');
CREATE FOREIGN TABLE seen (at TIMESTAMP, sensor VARCHAR(8)) SERVER d;
CREATE PUMP p STARTED AS INSERT INTO seen SELECT STREAM ROWTIME, sensor FROM readings;
"""
JOINED = """
CREATE SERVER k FOREIGN DATA WRAPPER KAFKA OPTIONS (bootstrap_servers 'localhost:9092');
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite:///out.db');
CREATE TABLE customers (id BIGINT PRIMARY KEY, tier VARCHAR(10)) SERVER k OPTIONS (topic 'customers', format 'JSON');
CREATE FOREIGN STREAM orders (customer BIGINT) SERVER k OPTIONS (topic 'orders', format 'JSON');
CREATE FOREIGN TABLE tiers (tier VARCHAR(10)) SERVER d;
CREATE PUMP fill STARTED AS INSERT INTO tiers
  SELECT STREAM c.tier FROM orders AS o JOIN customers AS c ON o.customer = c.id;
"""


def invoked(*arguments: str) -> str:
    answer = CliRunner().invoke(app, arguments)
    assert answer.exit_code == 0, answer.output
    return answer.output


@pytest.fixture
def files(tmp_path: Path) -> PipelineFiles:
    """A topic of two partitions, of which one never had a message: no row is written."""
    files = PipelineFiles(tmp_path, SQL, "")
    files.broker.ensure_topic("readings", 2)
    for number in range(5):
        files.broker.produce("readings", [b'{"sensor":"s"}'], timestamps=[1_000 * number], partition=0)
    return files


def advice(files: PipelineFiles, url: str) -> str:
    """Return what the running service advises."""
    (cause,) = json.loads(
        invoked("explain", str(files.sql), "--why-not", "seen", "--service", url, "--json")
    )["causes"]
    assert cause["cause"] == "NO_BOUND"
    return str(cause["change"])


def test_the_bound_record_that_why_not_advises_releases_the_rows(files: PipelineFiles) -> None:
    with served(files.sql) as url:
        found = re.search(r"rowtide (bound PIPELINE\.sql \S+ TIME --partition \d+)", advice(files, url))
        assert found is not None
        typed = {"PIPELINE.sql": str(files.sql), "TIME": "1970-01-01 00:00:05"}
        invoked(*(typed.get(word, word) for word in shlex.split(found[1])))
        wait_until(lambda: len(files.rows("seen")) == 5)


def test_the_idle_timeout_that_why_not_advises_releases_the_rows(files: PipelineFiles) -> None:
    with served(files.sql) as url:
        assert "declare idle_timeout on READINGS: an idle partition then follows the others" in advice(
            files, url
        )
    files.sql.write_text(files.text.replace("format 'JSON'", "format 'JSON', idle_timeout '1 SECOND'"))
    files.broker.produce("readings", [b'{"sensor":"s"}'], timestamps=[5_000], partition=0)
    with served(files.sql):
        wait_until(lambda: len(files.rows("seen")) >= 5)


def test_the_option_that_check_advises_ends_the_warning(tmp_path: Path) -> None:
    file = tmp_path / "tiers.sql"
    file.write_text(JOINED)
    found = re.search(
        r"rows wait for table .* With (idle_timeout '.*?') in its OPTIONS", invoked("check", str(file))
    )
    assert found is not None
    file.write_text(JOINED.replace("topic 'customers', ", f"topic 'customers', {found[1]}, "))
    assert "warning" not in invoked("check", str(file))
