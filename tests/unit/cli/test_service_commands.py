"""run, positions, replay and errors, from the command line to SQLite."""

import json
import re
import socket
import sqlite3
import sys
import threading
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rowtide.cli.main import app
from rowtide.cli.run.run import why_of
from rowtide.clock import SystemClock
from rowtide.errors import StatementError, TransientError
from rowtide.flow.why_not import Fate, Holder, Wait
from rowtide.metrics import Metrics
from rowtide.operators.contract import Account
from rowtide.plan.nodes.node import BY_CONDITION
from rowtide.rows.bytes_text import bytes_text
from rowtide.rowtime.text import length_text
from rowtide.runtime.inspect.why_not import Cause, SilenceExplanation
from rowtide.runtime.query.contents import SnapshotTaken
from rowtide.runtime.state.status import StatusBoard
from rowtide.web import Handlers, WebServer, build_app
from rowtide.web.access import access_of
from rowtide_connectors.memory import memory_broker

SQL = """
CREATE SERVER k FOREIGN DATA WRAPPER MEMORY OPTIONS (broker '{file}');
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite:///elsewhere.db');
CREATE FOREIGN STREAM readings (sensor VARCHAR(8), amount INTEGER)
  SERVER k OPTIONS (topic 'readings', partitions '2', format 'JSON');
CREATE FOREIGN TABLE raw_log (at TIMESTAMP, sensor VARCHAR(8)) SERVER d;
CREATE PUMP p STARTED AS INSERT INTO raw_log SELECT STREAM ROWTIME AS at, sensor FROM readings;
"""
CONFIG = """
[service]
listen = "127.0.0.1:0"
[servers.d]
url = "sqlite:///{file}"
"""


class Files:
    def __init__(self, folder: Path) -> None:
        self.database = folder / "out.db"
        self.sql = folder / "readings.sql"
        self.config = folder / "config.toml"
        self.sql.write_text(SQL.format(file=self.database))
        self.config.write_text(CONFIG.format(file=self.database))
        self.broker = memory_broker(str(self.database))
        self.broker.ensure_topic("readings", 2)
        for number in range(20):
            value = b'{"sensor":"s","amount":%d}' % number if number != 7 else b"{broken"
            self.broker.produce("readings", [value], timestamps=[1_000 * number], partition=number % 2)

    def tokens(self) -> Path:
        file = self.sql.with_name("tokens")
        file.write_text("looker read looker-looker-looker\nops operate operations-operations\n")
        file.chmod(0o600)
        return file

    def call(self, *command: str, code: int = 0) -> str:
        name, *arguments = command
        words = name.split()
        result = CliRunner().invoke(app, [*words, str(self.sql), *arguments, "--config", str(self.config)])
        assert result.exit_code == code, result.output
        return result.output


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def test_run_reads_to_the_end_and_commits(files: Files) -> None:
    files.call("run", "--until-end")
    rows = sqlite3.connect(files.database).execute("select count(*) from raw_log").fetchone()
    assert rows == (18,)  # One was rejected, and the last waits for the other partition.


def test_a_run_ends_with_what_it_has_done_and_where_to_look(files: Files) -> None:
    answer = files.call("run", "--until-end")
    logs = [json.loads(line) for line in answer.splitlines() if line.startswith("{")]
    assert [line for line in answer.splitlines() if not line.startswith("{")] == [
        "created RAW_LOG",
        "read 20 messages; wrote 18 rows to RAW_LOG; held 1 row; 1 row of READINGS rejected",
        f"`rowtide errors list {files.sql}` shows the late and rejected rows.",
        "Held rows wait for later rowtimes: while the pipeline runs, "
        f"`rowtide explain {files.sql} --why-not TABLE` says for which.",
    ]
    (stopped,) = [each for each in logs if each["event"] == "stopped"]
    assert {name: stopped[name] for name in ("read", "written", "held", "late", "rejected")} == {
        "read": 20,
        "written": {"RAW_LOG": 18},
        "held": 1,
        "late": {},
        "rejected": {"READINGS": 1},
    }
    assert [each["tables"] for each in logs if each["event"] == "tables_created"] == [["RAW_LOG"]]
    again = [line for line in files.call("run", "--until-end").splitlines() if not line.startswith("{")]
    assert again[0] == "read 0 messages; wrote 0 rows to RAW_LOG; held 1 row"
    assert again[1].endswith("--why-not RAW_LOG` says for which.")
    assert len(again) == 2


def test_run_listens_where_it_is_told_and_names_the_port(files: Files) -> None:
    answer = files.call("run", "--until-end", "--listen", "127.0.0.1:0")
    (line,) = [each for each in answer.splitlines() if '"listening"' in each]
    assert re.fullmatch(r"http://127\.0\.0\.1:[1-9]\d*", json.loads(line)["url"])
    assert "is not a host and port" in files.call("run", "--listen", "here", code=2)


def test_run_names_the_port_of_its_monitoring_and_frees_the_api_when_that_is_taken(files: Files) -> None:
    answer = files.call("run", "--until-end", "--monitoring-listen", "127.0.0.1:0")
    (line,) = [json.loads(each) for each in answer.splitlines() if '"listening"' in each]
    assert line["url"] != line["monitoring_url"]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        refused = files.call("run", "--until-end", "--monitoring-listen", listen, code=2)
    assert f'cannot listen at "{listen}"' in refused
    assert "--monitoring-listen or service.monitoring_listen" in refused
    assert not [thread for thread in threading.enumerate() if thread.name == "rowtide-web"]


def test_the_version_is_shown() -> None:
    answer = CliRunner().invoke(app, ["--version"])
    assert (answer.exit_code, answer.output.split()[0]) == (0, "rowtide")


def test_run_refuses_what_the_start_does_not_allow(files: Files) -> None:
    assert '"yesterday" is not a time' in files.call("run", "--from", "yesterday", code=2)
    files.call("run", "--until-end", "--from", "earliest")
    assert "has committed positions" in files.call("run", "--from", "earliest", code=2)
    files.sql.write_text(files.sql.read_text().replace("AS at, sensor", "AS at, LOWER(sensor)"))
    refused = files.call("run", "--until-end", code=2)
    assert 'pump "P" has changed' in refused
    assert "hint:" in refused


def test_run_shows_wrong_sql_with_its_place_and_starts_nothing(files: Files) -> None:
    files.sql.write_text(files.sql.read_text().replace("sensor FROM", "sensr FROM"))
    refused = files.call("run", code=2)
    assert "readings.sql:7:" in refused
    assert "^" in refused
    assert not files.database.exists()


def test_run_with_no_wait_leaves_with_3_when_the_broker_is_down(files: Files) -> None:
    files.broker.set_down()
    assert "is down" in files.call("run", "--no-wait", code=3)
    files.broker.set_down(False)
    files.call("run", "--no-wait", "--until-end")


def test_positions_tell_where_each_partition_stands(files: Files) -> None:
    assert "has committed nothing yet" in files.call("positions", code=1)
    files.call("run", "--until-end")
    files.broker.produce("readings", [b"{}"], timestamps=[30_000], partition=1)
    answer = json.loads(files.call("positions", "--json"))
    assert (answer["pipeline"], answer["epoch"]) == ("readings", 1)
    assert [(at["partition"], at["next_offset"], at["end"], at["lag"]) for at in answer["positions"]] == [
        (0, 10, 10, 0),
        (1, 10, 11, 1),
    ]
    shown = files.call("positions")
    assert "READINGS" in shown
    assert "1970-01-01 00:00:18.000" in shown
    files.broker.set_down()
    assert json.loads(files.call("positions", "--json"))["positions"][0]["end"] is None


def test_replay_compares_and_says_no_when_a_row_differs(files: Files) -> None:
    assert "has committed nothing" in files.call("replay", "--compare", code=2)
    backwards = ("--from", "1970-01-01 00:00:02", "--to", "1970-01-01 00:00:02")
    assert "is not after" in files.call("replay", *backwards, code=2)
    files.call("run", "--until-end")
    shown = [json.loads(line) for line in files.call("replay").splitlines() if line.startswith("{")]
    assert len(shown) == 18
    assert shown[0] == {"table": "RAW_LOG", "row": {"AT": "0", "SENSOR": "s"}}
    assert "Equal: 20 messages" in files.call("replay", "--compare")
    connection = sqlite3.connect(files.database)
    with connection:
        connection.execute("delete from raw_log where rowid = 3")
    connection.close()
    answer = json.loads(files.call("replay", "--compare", "--json", code=1))
    assert answer["differences"] == 1
    assert answer["first"][0]["committed"] is None
    assert files.call("replay", "--compare", "--from", "1970-01-01 00:00:10")
    assert "nothing is compared" in files.call("replay", "--compare", "--from", "1970-01-01 00:10:00", code=2)


def test_a_late_row_is_listed_with_times_that_people_read(files: Files) -> None:
    files.sql.write_text(
        files.sql.read_text()
        .replace("FROM readings;", "FROM ordered;")
        .replace(
            "CREATE PUMP",
            "CREATE VIEW ordered AS SELECT STREAM sensor FROM readings ORDER BY ROWTIME WITHIN "
            "INTERVAL '1' SECOND;\nCREATE PUMP",
        )
    )
    for at in (4_000_000, 70_000):
        files.broker.produce("readings", [b'{"sensor":"s"}'], timestamps=[at], partition=0)
    files.call("run", "--until-end")
    assert (
        "LATE: 1 h 5 min 29 s below the rowtime bound 1970-01-01 01:06:39.000 "
        '(rowtime 1970-01-01 00:01:10.000)  {"sensor":"s"}'
    ) in files.call("errors list", "--kind", "late")
    (row,) = json.loads(files.call("errors list", "--kind", "late", "--json"))["errors"]
    assert (row["late_by_ms"], row["reason"]) == (3_929_000, "LATE: 3929000 ms below the rowtime bound")


def test_bytes_are_shown_as_text_where_they_are_text() -> None:
    assert bytes_text('{"a":"é"}\n'.encode()) == '{"a":"é"}\\n'
    assert bytes_text("éé".encode(), 3) == "é..."
    assert bytes_text(b"\xff\x00") == "X'ff00'"
    assert bytes_text(b"\xff\x00", 1) == "X'ff'..."


@pytest.mark.parametrize(
    ("millis", "text"),
    [(0, "0 ms"), (999, "999 ms"), (1_000, "1 s"), (805_296, "13 min 25.296 s"), (90_000_000, "1 d 1 h")],
)
def test_a_length_of_time_is_shown_in_units_of_people(millis: int, text: str) -> None:
    assert length_text(millis) == text


def test_errors_are_listed_and_shown(files: Files) -> None:
    files.call("run", "--until-end")
    line = files.call("errors list")
    assert "REJECTED READINGS readings[1]@3: DECODE" in line
    assert files.call("errors list", "--kind", "late") == "No error row matches.\n"
    (row,) = json.loads(files.call("errors list", "--json"))["errors"]
    shown = files.call("errors show", str(row["number"]))
    assert "raw            {broken\n" in shown
    assert "1970-01-01 00:00:07.000" in shown
    assert "does not exist" in files.call("errors show", "99", code=2)


def test_committed_errors_are_a_table_of_the_prompt(files: Files) -> None:
    query = "SELECT kind, COUNT(*) AS n, MIN(message_offset) AS o FROM SYS.ERRORS WHERE relation = 'READINGS'"
    assert files.call("sql", "-e", f"{query} GROUP BY kind", "--json") == ""
    files.call("run", "--until-end")
    answer = json.loads(files.call("sql", "-e", f"{query} GROUP BY kind", "--json"))
    assert answer == {"KIND": "REJECTED", "N": 1, "O": 3}
    (row,) = files.call("sql", "-e", "SELECT * FROM SYS.ERRORS", "--json").splitlines()
    assert json.loads(row)["ROW_TIME"] == 7_000
    assert "belongs to the system" in files.call("sql", "-e", "DROP TABLE SYS.ERRORS", code=2)


def test_an_open_port_without_tokens_is_refused_and_nothing_starts(files: Files) -> None:
    refused = files.call("run", "--until-end", "--listen", "0.0.0.0:0", code=2)
    assert 'other machines can reach the API at "0.0.0.0:0", and no tokens are set' in refused
    assert "hint: Set service.tokens_file" in refused
    assert not files.database.exists()
    for setting in ("allow_anonymous = true", f'tokens_file = "{files.tokens()}"'):
        files.config.write_text(
            CONFIG.format(file=files.database).replace("listen =", f"{setting}\nlisten =")
        )
        files.call("run", "--until-end", "--listen", "0.0.0.0:0")


def test_a_provider_of_tokens_is_enough_to_open_a_port_and_half_of_one_is_refused(files: Files) -> None:
    settings = CONFIG.format(file=files.database)
    files.config.write_text(f'{settings}\n[oidc]\nissuer = "https://login.example"\n')
    assert '[oidc] has an issuer, and "audience" is not set' in files.call("run", "--until-end", code=2)
    assert not files.database.exists()
    files.config.write_text(f'{settings}\n[oidc]\nissuer = "https://login.example"\naudience = "rowtide"\n')
    files.call("run", "--until-end", "--listen", "0.0.0.0:0")


def test_a_provider_of_tokens_without_its_package_is_refused_with_what_to_install(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jwt", None)
    monkeypatch.delitem(sys.modules, "rowtide.web.oidc", raising=False)
    settings = CONFIG.format(file=files.database)
    files.config.write_text(f'{settings}\n[oidc]\nissuer = "https://login.example"\naudience = "rowtide"\n')
    refused = files.call("run", "--until-end", code=2)
    assert "requires the package PyJWT" in refused
    assert "pip install 'rowtide[oidc]'" in refused
    assert not files.database.exists()


def test_commands_send_the_token_of_their_file(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    board = StatusBoard("readings", SystemClock(), lambda _phase: None)
    access = access_of("0.0.0.0:0", str(files.tokens()), allow_anonymous=False)
    taken = SnapshotTaken("readings", 3, 10, 0.5)
    pages = build_app(
        board, Metrics(), SystemClock(), version="1", handlers=Handlers(snapshot=lambda: taken), access=access
    )
    web = WebServer(pages, "127.0.0.1:0")
    web.start()
    try:
        command = ("snapshot", "--service", web.url)
        assert "a token is missing" in files.call(*command, code=2)
        for name, said in (("looker", "needs operate"), ("stranger", "the token is invalid")):
            file = files.sql.with_name(name)
            file.write_text(f"{name}-{name}-{name}\n")
            assert said in files.call(*command, "--token-file", str(file), code=2)
        assert "is not a token" in files.call(*command, "--token-file", str(files.tokens()), code=2)
        file = files.sql.with_name("operations")
        file.write_text("operations-operations\n")
        assert "stored with commit 3" in files.call(*command, "--token-file", str(file))
        monkeypatch.setenv("ROWTIDE_TOKEN_FILE", str(file))
        assert "stored with commit 3" in files.call(*command)
    finally:
        web.stop()


class Answering:
    """A service that has one answer."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def why_not(self, relation: str) -> SilenceExplanation:
        self.asked.append(relation)
        if relation == "P":
            raise StatementError("never asked for a pump")
        if len(self.asked) > 2:
            raise TransientError("the pipeline is busy and has not answered", hint="Ask again.")
        cause = Cause(
            "IDLE", "READINGS", "It is silent.", "When it speaks.", "Speak.", "readings", 1, 5_000, 6_000
        )
        waits = (Wait("READINGS", 1, 5_000, 6_000), Wait("READINGS", 0, None, None))
        account = Account(rows_in=3, done=2, rows_out=2)
        return SilenceExplanation(
            "readings",
            relation,
            "running",
            (cause,),
            (Holder(relation, "Merge", None, 1, 5_000, waits),),
            (Fate(relation, "Merge", None, account, 1, joins=False, why_filtered=BY_CONDITION),),
            2,
        )


def test_explain_why_tells_the_message_behind_a_row(files: Files) -> None:
    files.call("run", "--until-end")
    board = StatusBoard("readings", SystemClock(), lambda _phase: None)
    pages = build_app(
        board, Metrics(), SystemClock(), version="1", handlers=Handlers(why=why_of(files.sql, files.config))
    )
    web = WebServer(pages, "127.0.0.1:0")
    web.start()
    at = ("--service", web.url)
    try:
        rows = ('{"at": "1970-01-01T00:00:12Z"}', "at=1970-01-01 00:00:12, sensor=s", '["12000", "s"]')
        for row in rows:
            answer = json.loads(files.call("explain", "--why", "raw_log", row, *at, "--json"))
            (found,) = answer["inputs"]
            assert (found["topic"], found["partition"], found["offset"]) == ("readings", 0, 6)
            assert found["row"] == {"SENSOR": "s", "AMOUNT": 12}
            assert answer["rowtime"] == 12_000
        shown = files.call("explain", "--why", "p", "rowtime=12000", *at)
        assert "READINGS: partition 0 of topic readings, offset 6 at 1970-01-01 00:00:12.000" in shown
        assert "READINGS: partition 1 of topic readings to reach 1970-01-01 00:00:12.000" in shown
        for relation, row, said in (
            ("raw_log", '{"at": 7000}', "no such row was written"),
            ("raw_log", '{"other": 1}', 'has no column "OTHER"'),
            ("raw_log", '{"at": "noon"}', "is not a time"),
            ("raw_log", "seven", "invalid row"),
            ("raw_log", "{", "invalid row"),
            ("raw_log", "[1]", "1 values and not 2"),
            ("nowhere", "{}", "does not exist"),
        ):
            assert said in files.call("explain", "--why", relation, row, *at, code=2)
    finally:
        web.stop()


def test_explain_why_not_asks_the_running_service(files: Files) -> None:
    answering = Answering()
    board = StatusBoard("readings", SystemClock(), lambda _phase: None)
    pages = build_app(
        board, Metrics(), SystemClock(), version="1", handlers=Handlers(why_not=answering.why_not)
    )
    web = WebServer(pages, "127.0.0.1:0")
    web.start()
    try:
        ask = ("explain", "--why-not", "raw_log", "--service", web.url)
        shown = files.call(*ask)
        assert "IDLE: It is silent." in shown
        assert "RAW_LOG Merge: 1 rows, bound 1970-01-01 00:00:05.000" in shown
        assert "waits for READINGS[1]: has 1970-01-01 00:00:05.000, needs 1970-01-01 00:00:06.000" in shown
        assert "waits for READINGS[0]: has none, needs more rows" in shown
        assert "RAW_LOG Merge: 3 in, 0 filtered, 0 late, 0 rejected, 1 held, 2 out" in shown
        # A pump stands for the table that it writes to.
        answer = json.loads(files.call("explain", "--why-not", "p", "--service", web.url, "--json"))
        assert answer["causes"][0]["needs"] == 6_000
        assert answering.asked == ["RAW_LOG", "RAW_LOG"]
        assert "busy" in files.call(*ask, code=3)
        assert "does not exist" in files.call("explain", "--why-not", "nowhere", code=2)
        assert "is not a URL" in files.call(
            "explain", "--why-not", "raw_log", "--service", "localhost", code=2
        )
    finally:
        web.stop()
    assert "no service answers" in files.call(*ask, code=3)


def test_a_start_that_the_database_refuses_ends_with_what_to_change(files: Files) -> None:
    address = f"sqlite:///{files.database}"
    files.config.write_text(files.config.read_text().replace(address, f"{address}.folder/out.db"))
    assert "The folder must exist" in files.call("run", "--until-end", code=3)
