"""Rows, queries and tokens are in no line of the log, whatever is asked and however it ends."""

from __future__ import annotations

import logging
from pathlib import Path

import httpx
import pytest

from rowtide.config.settings import LogSettings
from rowtide.runtime.logs import set_up_logs
from rowtide.web.access import access_of
from rowtide_connectors.memory import memory_broker
from support.served import served

SQL = """
CREATE SERVER k FOREIGN DATA WRAPPER MEMORY OPTIONS (broker '{file}');
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite:///{file}');
CREATE FOREIGN STREAM readings (sensor VARCHAR(40), amount INTEGER)
  SERVER k OPTIONS (topic 'readings', partitions '1', format 'JSON');
CREATE TABLE t (sensor VARCHAR(40), amount INTEGER, PRIMARY KEY (sensor));
CREATE FOREIGN TABLE latest (sensor VARCHAR(40), amount INTEGER, PRIMARY KEY (sensor)) SERVER d;
CREATE PUMP p1 STARTED AS INSERT INTO t SELECT STREAM sensor, amount FROM readings;
CREATE PUMP p2 STARTED AS INSERT INTO latest SELECT sensor, amount FROM t;
"""
ROW, TOKEN, ASKED = "row-of-a-patient", "token-of-operations", "text-of-a-question"


def test_no_row_token_or_question_is_in_the_log(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    set_up_logs(LogSettings(level="debug", format="json"))
    file, tokens = tmp_path / "readings.sql", tmp_path / "tokens"
    file.write_text(SQL.format(file=tmp_path / "out.db"))
    tokens.write_text(f"ops operate {TOKEN}\n")
    tokens.chmod(0o600)
    broker = memory_broker(str(tmp_path / "out.db"))
    broker.ensure_topic("readings", 1)
    for number in range(3):
        value = b'{"sensor":"%s","amount":%d}' % (ROW.encode(), number)
        broker.produce("readings", [value], timestamps=[1_000 * number], partition=0)
    broker.produce("readings", [b"{" + ROW.encode()], timestamps=[4_000], partition=0)
    access = access_of("127.0.0.1:0", str(tokens), allow_anonymous=False)
    with served(file, access=access) as url:
        for headers in ({"Authorization": f"Bearer {TOKEN}"}, {"Authorization": f"Bearer {TOKEN}x"}, {}):
            for path in (
                "/",
                "/table?relation=T",
                f"/table?relation={ASKED}",
                f"/table?relation=T&limit={ASKED}",
                f"/query?once=true&sql=SELECT sensor FROM t WHERE sensor <> '{ASKED}'",
                f"/query?once=true&sql=SELECT 1 / (amount - amount), '{ASKED}' FROM t",
                f"/query?sql=SELECT {ASKED}",
            ):
                httpx.get(url + path, headers=headers, trust_env=False, timeout=30)
            httpx.post(f"{url}/snapshot?x={ASKED}", headers=headers, trust_env=False, timeout=30)
    answer = capfd.readouterr()
    # The client of this test logs, too.
    records = [each for each in caplog.records if not each.name.startswith("http")]
    lines = answer.out + answer.err + "".join(f"{each.getMessage()} {each.exc_text}" for each in records)
    assert lines.count('"event": "audit"') == 3
    for secret in (ROW, TOKEN, ASKED):
        assert secret not in lines
