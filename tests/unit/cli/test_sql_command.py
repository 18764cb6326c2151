"""rowtide sql: statements on an engine of its own, and queries on a running service."""

import json
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rowtide.cli.author.sql import split_statements
from rowtide.cli.author.sql_engine import WAITS, ServiceEngine
from rowtide.cli.main import app
from rowtide.embedded.events import QueryEvent, ResultNote, ResultRow
from rowtide.sql.pipeline import STAGES
from rowtide_connectors.memory import MemoryBroker, memory_broker
from support.served import served

LOCAL = """
CREATE STREAM orders (id INTEGER, amount DECIMAL(6, 2));
CREATE TABLE names (id INTEGER, name VARCHAR(8), PRIMARY KEY (id));
INSERT INTO names VALUES (1, 'one'), (2, 'two');
INSERT INTO orders (ROWTIME, id, amount) VALUES
  (TIMESTAMP '2026-01-01 00:00:01', 1, 2.5), (TIMESTAMP '2026-01-01 00:00:02', 2, 3.5);
"""
FOREIGN = """
CREATE SERVER k FOREIGN DATA WRAPPER MEMORY OPTIONS (broker '{file}');
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite:///{file}');
CREATE FOREIGN STREAM readings (sensor VARCHAR(8), amount INTEGER)
  SERVER k OPTIONS (topic 'readings', partitions '2', format 'JSON');
CREATE TABLE latest_of (sensor VARCHAR(8), amount INTEGER, PRIMARY KEY (sensor));
CREATE FOREIGN TABLE latest (sensor VARCHAR(8), amount INTEGER, PRIMARY KEY (sensor)) SERVER d;
CREATE PUMP p1 STARTED AS INSERT INTO latest_of SELECT STREAM sensor, amount FROM readings;
CREATE PUMP p2 STARTED AS INSERT INTO latest SELECT sensor, amount FROM latest_of;
"""


def call(*arguments: str, code: int = 0, typed: str | None = None) -> str:
    result = CliRunner().invoke(app, ["sql", *arguments], input=typed)
    assert result.exit_code == code, result.output
    return result.stdout if code == 0 else result.output


@pytest.fixture
def local(tmp_path: Path) -> str:
    file = tmp_path / "orders.sql"
    file.write_text(LOCAL)
    return str(file)


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    file = tmp_path / "readings.sql"
    file.write_text(FOREIGN.format(file=tmp_path / "out.db"))
    produce(memory_broker(str(tmp_path / "out.db")), range(10))
    return file


def produce(broker: MemoryBroker, numbers: range) -> None:
    broker.ensure_topic("readings", 2)
    for number in numbers:
        value = b'{"sensor":"s%d","amount":%d}' % (number % 3, number)
        broker.produce("readings", [value], timestamps=[1_000 * number], partition=number % 2)


def test_the_messages_of_a_topic_are_printed_as_they_are(foreign: Path) -> None:
    broker = memory_broker(str(foreign.parent / "out.db"))
    broker.produce(
        "readings", [b"{broken", b"\xff\x00", None], timestamps=[11_000, 12_000, 13_000], partition=1
    )
    found = call(str(foreign), "-e", "PRINT readings", "--until-end").splitlines()
    assert found[0] == "ROWTIME | TOPIC | PARTITION | OFFSET | KEY | VALUE"
    assert found[-1] == "(13 rows)"
    rows = sorted(found[1:-1])
    assert rows[0] == '1970-01-01 00:00:00.000 | readings | 0 | 0 | NULL | {"sensor":"s0","amount":0}'
    assert [row.rpartition(" | ")[2] for row in rows[-3:]] == ["{broken", "X'ff00'", "NULL"]
    last = call(
        str(foreign), "-e", "PRINT readings", "--from", "1970-01-01 00:00:12", "--until-end", "--json"
    )
    printed = [json.loads(line) for line in last.splitlines()]
    assert [(each["PARTITION"], each["OFFSET"], each["VALUE"]) for each in printed] == [
        (1, 6, "X'ff00'"),
        (1, 7, None),
    ]
    assert len(call(str(foreign), "-e", "PRINT readings", "--limit", "2").splitlines()) == 3


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("PRINT nope", "does not exist"),
        ("PRINT latest_of", '"LATEST_OF" has no topic that is read'),
        ("PRINT", "the name of a foreign stream"),
        ("PRINT p1", "is read"),
        ('PRINT "no one"', "does not exist"),
        ("PRINT nowhere.nope", "does not exist"),
    ],
)
def test_only_a_foreign_stream_is_printed(foreign: Path, statement: str, message: str) -> None:
    refused = CliRunner().invoke(app, ["sql", str(foreign), "-e", statement])
    # Nothing but the error comes, which shows the statement with the place of the name.
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert message in refused.stderr
    lines = refused.stderr.splitlines()
    at = lines.index(statement)
    marked = slice(lines[at + 1].find("^"), None)
    assert lines[0].startswith(f"1:{marked.start + 1}: error: ")
    assert statement[marked] == (statement.partition(" ")[2] if " " in statement else "")


@pytest.mark.parametrize("statement", ["PRINT readings", "SELECT STREAM * FROM readings"])
def test_a_broker_that_is_down_has_an_error_without_a_header(tmp_path: Path, statement: str) -> None:
    file = tmp_path / "down.sql"
    file.write_text(
        "CREATE SERVER k FOREIGN DATA WRAPPER KAFKA OPTIONS (bootstrap_servers '127.0.0.1:1');"
        "CREATE FOREIGN STREAM readings (sensor VARCHAR(8)) SERVER k OPTIONS (topic 'readings', format 'JSON');"
    )
    down = CliRunner().invoke(app, ["sql", str(file), "-e", statement])
    assert (down.exit_code, down.stdout) == (3, "")
    assert "127.0.0.1:1" in down.stderr


def test_a_pipeline_file_prints_nothing_and_a_service_its_last_rows(tmp_path: Path) -> None:
    file = tmp_path / "printing.sql"
    file.write_text("CREATE STREAM s (n INTEGER); PRINT s;")
    assert "SHOW, DESCRIBE and PRINT are statements of a prompt" in call(str(file), code=2)
    assert "no service answers" in call("--service", "http://127.0.0.1:1", "-e", "PRINT s", code=3)


def test_a_query_sees_what_the_statements_before_it_have_given(local: str) -> None:
    assert call(local, "-e", "SELECT STREAM id, amount FROM orders").splitlines() == [
        "ROWTIME | ID | AMOUNT",
        "2026-01-01 00:00:01.000 | 1 | 2.50",
        "2026-01-01 00:00:02.000 | 2 | 3.50",
        "(2 rows)",
    ]
    answer = call(local, "-e", "SELECT * FROM names", "--json")
    assert [json.loads(line) for line in answer.splitlines()] == [
        {"ID": 1, "NAME": "one"},
        {"ID": 2, "NAME": "two"},
    ]
    joined = "SELECT STREAM o.id, n.name FROM orders AS o JOIN names AS n ON o.id = n.id"
    assert "| 2 | two" in call(local, "-e", joined)


def test_order_by_lists_the_rows_of_a_table(local: str) -> None:
    answer = call(local, "-e", "SELECT name FROM names ORDER BY id DESC")
    assert answer.splitlines() == ["NAME", "two", "one", "(2 rows)"]
    first = call(local, "-e", "SELECT * FROM names ORDER BY name LIMIT 1", "--json")
    assert json.loads(first) == {"ID": 1, "NAME": "one"}
    assert "must begin with ROWTIME" in call(local, "-e", "SELECT STREAM id FROM orders ORDER BY id", code=2)


def test_limit_without_an_order_ends_any_query_that_is_asked_once(foreign: Path) -> None:
    for query in ("SELECT STREAM * FROM readings", "SELECT STREAM sensor FROM readings WHERE amount >= 0"):
        # Without --until-end: the topic has no end, but the query has one.
        answer = call(str(foreign), "-e", f"{query} LIMIT 3", "--json")
        assert len(answer.splitlines()) == 3
        assert call(str(foreign), "-e", f"{query} LIMIT 0", "--json") == ""
        all_rows = call(str(foreign), "-e", query, "--json", "--until-end").splitlines()
        assert (
            call(str(foreign), "-e", f"{query} LIMIT 1000", "--json", "--until-end").splitlines() == all_rows
        )
    assert "add ORDER BY with the period" in call(
        str(foreign), "-e", "CREATE VIEW v AS SELECT STREAM * FROM readings LIMIT 3", code=2
    )


def test_limit_of_a_table_lists_its_first_rows(local: str) -> None:
    assert call(local, "-e", "SELECT name FROM names LIMIT 1").splitlines() == ["NAME", "one", "(1 row)"]
    assert call(local, "-e", "SELECT name FROM names LIMIT 9").splitlines()[-1] == "(2 rows)"


def test_what_is_defined_can_be_listed(local: str) -> None:
    assert call(local, "-e", "SHOW TABLES LIKE 'na%'").splitlines() == [
        "TABLE_NAME | TABLE_SCHEMA | TABLE_TYPE",
        "NAMES | PUBLIC | BASE TABLE",
        "(1 row)",
    ]
    later = ("-e", "CREATE VIEW IF NOT EXISTS names_of AS SELECT name FROM names", "-e", "DESCRIBE names_of")
    assert call(local, *later).splitlines()[-2:] == ["NAME | VARCHAR(8) | YES | NULL", "(1 row)"]
    counted = "SELECT COUNT(*) AS n FROM INFORMATION_SCHEMA.COLUMNS AS c JOIN names AS n ON n.id = c.ordinal_position"
    assert call(local, "-e", counted).splitlines()[1] == "4"
    assert "does not exist" in call(local, "-e", "DESCRIBE nope", code=2)


def test_an_aggregate_of_no_rows_gives_one_row(local: str) -> None:
    assert call(local, "-e", "SELECT COUNT(*) AS n, MAX(id) AS m FROM names WHERE FALSE").splitlines() == [
        "N | M",
        "0 | NULL",
        "(1 row)",
    ]
    crossed = "SELECT id, n FROM names CROSS JOIN (SELECT COUNT(*) AS n FROM names WHERE id > 7) AS q"
    assert call(local, "-e", crossed).splitlines()[1:3] == ["1 | 0", "2 | 0"]
    view = ("-e", "CREATE VIEW v AS SELECT COUNT(*) AS n FROM names WHERE id > 7", "-e", "SELECT * FROM v")
    assert call(local, *view).splitlines()[-1] == "(0 rows)"
    no_group = "SELECT id, COUNT(*) AS n FROM names WHERE FALSE GROUP BY id"
    assert call(local, "-e", no_group).splitlines()[-1] == "(0 rows)"


def test_the_changes_of_first_rows_of_a_stream_have_their_opcodes(foreign: Path) -> None:
    query = (
        "SELECT STREAM sensor, amount FROM best",
        "CREATE VIEW best OPTIONS (RETENTION 'UNBOUNDED') AS SELECT STREAM sensor, amount FROM readings"
        " QUALIFY ROW_NUMBER() OVER (PARTITION BY sensor ORDER BY amount DESC) <= 1 EMIT CHANGES",
    )
    answer = call(str(foreign), "-e", query[1], "-e", query[0], "--limit", "5", "--json")
    rows = [json.loads(line) for line in answer.splitlines() if line.startswith("{")]
    assert [row["OP"] for row in rows] == ["+", "+", "+", "-", "+"]
    shown = call(str(foreign), "-e", query[1], "-e", query[0], "--limit", "5").splitlines()
    assert shown[0] == "OP | ROWTIME | SENSOR | AMOUNT"
    assert [line[0] for line in shown[1:6]] == ["+", "+", "+", "-", "+"]


def test_an_insert_of_a_late_row_is_told(local: str) -> None:
    row = "INSERT INTO orders (ROWTIME, id, amount) VALUES (TIMESTAMP '2026-01-01 00:00:{}', 3, 1)"
    answer = CliRunner().invoke(app, ["sql", local, "-e", row.format("01"), "-e", row.format("02")])
    assert answer.exit_code == 0
    assert [line for line in answer.stderr.splitlines() if line != "ok"] == [
        'a row at 2026-01-01 00:00:01.000 is late: "ORDERS" is at 2026-01-01 00:00:02.000,'
        " so no query sees it"
    ]


def test_values_are_shown_as_sql_writes_them() -> None:
    query = (
        "SELECT TRUE AS b, DATE '2024-02-29' AS d, TIME '12:34:56' AS t, INTERVAL '-26' HOUR AS i,"
        " CAST(0.1 AS REAL) AS r, TIMESTAMP '2024-02-29 12:34:56' AS m, CAST(NULL AS DATE) AS n"
    )
    assert call("-e", query).splitlines()[1] == (
        "TRUE | 2024-02-29 | 12:34:56 | -1 02:00:00 | 0.1 | 2024-02-29 12:34:56.000 | NULL"
    )
    answer = json.loads(call("-e", query, "--json"))
    assert (answer["D"], answer["T"], answer["N"]) == ("2024-02-29", "12:34:56", None)


def test_statements_come_from_several_options_or_from_what_is_piped_in() -> None:
    script = (
        "CREATE STREAM s (a VARCHAR(9)); INSERT INTO s VALUES ('x;y'); -- a comment;\n SELECT STREAM a FROM s"
    )
    assert "| x;y" in call(typed=script)
    options = [part for text in split_statements(script) for part in ("-e", text)]
    assert "| x;y" in call(*options)


def test_explain_gives_the_plan_of_a_query_after_every_stage(local: str) -> None:
    query = "EXPLAIN SELECT STREAM id, SUM(amount) OVER (ROWS 2 PRECEDING) AS total FROM orders"
    plan = call(local, "-e", query).splitlines()
    assert [line for line in plan if line.startswith("-- ")] == [f"-- {stage}" for stage in STAGES]
    assert any("; keeps " in line for line in plan)
    answer = [json.loads(line)["PLAN"] for line in call(local, "-e", query, "--json").splitlines()]
    assert answer == plan[1:-1]


def test_a_wrong_statement_is_shown_with_its_place(local: str) -> None:
    refused = call(local, "-e", "SELECT STREAM nope FROM orders", code=2)
    assert 'column "NOPE" does not exist' in refused
    assert "^" in refused


def test_a_topic_is_read_to_its_end_or_to_a_limit(foreign: Path) -> None:
    query = "SELECT STREAM sensor, amount FROM readings WHERE amount < 6"
    rows = call(str(foreign), "-e", query, "--until-end", "--json").splitlines()
    assert [json.loads(row)["AMOUNT"] for row in rows] == [0, 1, 2, 3, 4, 5]
    assert len(call(str(foreign), "-e", query, "--limit", "2", "--json").splitlines()) == 2
    held = call(str(foreign), "-e", "SELECT * FROM latest_of", "--until-end", "--json").splitlines()
    assert {json.loads(row)["SENSOR"]: json.loads(row)["AMOUNT"] for row in held} == {
        "s0": 6,
        "s1": 7,
        "s2": 8,
    }
    places = "SELECT STREAM KAFKA_PARTITION AS p, KAFKA_OFFSET AS o FROM readings"
    answer = call(str(foreign), "-e", places, "--limit", "3", "--json").splitlines()
    assert [(row["P"], row["O"]) for row in map(json.loads, answer)] == [(0, 0), (1, 0), (0, 1)]
    later = call(str(foreign), "-e", query, "--until-end", "--json", "--from", "1970-01-01 00:00:04")
    assert [json.loads(row)["AMOUNT"] for row in later.splitlines()] == [4, 5]


def test_a_query_on_a_running_service_begins_with_what_it_keeps_and_follows(foreign: Path) -> None:
    with served(foreign) as url:
        refused = call("--service", url, "-e", "CREATE STREAM s (a INTEGER)", code=2)
        assert "takes queries only" in refused
        assert 'column "NOPE"' in call("--service", url, "-e", "SELECT nope FROM latest_of", code=2)
        assert "cannot be combined with --service" in call(str(foreign), "--service", url, code=2)
        hidden = "SELECT STREAM KAFKA_OFFSET FROM readings"
        assert "does not read KAFKA_OFFSET" in call("--service", url, "-e", hidden, code=2)
        table = call("--service", url, "-e", "SELECT * FROM latest_of", "--json")
        assert {json.loads(row)["SENSOR"] for row in table.splitlines()} == {"s0", "s1", "s2"}
        counted = call("--service", url, "-e", "SELECT COUNT(*) AS n FROM latest_of", "--json")
        assert [json.loads(row) for row in counted.splitlines()] == [{"N": 3}]
        shown = call("--service", url, "-e", "SHOW PUMPS", "--json").splitlines()
        assert [json.loads(row)["TARGET"] for row in shown] == ["LATEST_OF", "LATEST"]
        columns = call("--service", url, "-e", "DESCRIBE latest_of", "--json").splitlines()
        assert [json.loads(row)["COLUMN_NAME"] for row in columns] == ["SENSOR", "AMOUNT"]
        none = call("--service", url, "-e", "SELECT COUNT(*) AS n FROM latest_of WHERE FALSE", "--json")
        assert [json.loads(row) for row in none.splitlines()] == [{"N": 0}]
        listed = "SELECT sensor FROM latest_of ORDER BY amount DESC"
        answer = call("--service", url, "-e", listed, "--json")
        assert [json.loads(row) for row in answer.splitlines()] == [
            {"SENSOR": "s2"},
            {"SENSOR": "s1"},
            {"SENSOR": "s0"},
        ]
        assert "changes have no order" in call("--service", url, "-e", listed, "--follow", code=2)
        few = call("--service", url, "-e", "SELECT * FROM latest_of LIMIT 2", "--json")
        assert len(few.splitlines()) == 2
        few = call("--service", url, "-e", "SELECT * FROM latest_of LIMIT 2", "--follow", "--json")
        assert len(few.splitlines()) == 2
        changes = call(
            "--service", url, "-e", "SELECT * FROM latest_of", "--follow", "--limit", "3", "--json"
        )
        assert {json.loads(row)["OP"] for row in changes.splitlines()} == {"+"}

        seen: list[QueryEvent] = []
        query = "SELECT STREAM sensor, amount FROM readings"

        def look_on() -> None:
            for each in ServiceEngine(url).execute(query):
                seen.append(each)

        watcher = threading.Thread(target=look_on)
        watcher.start()
        deadline = time.monotonic() + 200
        while not rows_of(seen) and time.monotonic() < deadline:
            if seen:
                produce(memory_broker(str(foreign.parent / "out.db")), range(100, 104))
            time.sleep(0.2)
    watcher.join(100)
    assert not watcher.is_alive()
    amounts = [each.row[1] for each in rows_of(seen)]
    assert 100 in amounts
    assert not set(amounts) & set(range(9)), "it begins where the pipeline stands"
    assert seen[-1] == ResultNote("the service stops")


@pytest.mark.parametrize(
    ("query", "follow", "says"),
    [
        ("SELECT STREAM sensor FROM readings WHERE amount > 50", False, True),
        ("SELECT sensor FROM readings WHERE amount > 50", False, True),
        ("SELECT * FROM latest_of WHERE amount > 50", True, True),
        ("SELECT * FROM latest_of WHERE amount > 50", False, False),
        ("SELECT * FROM latest WHERE amount > 50", False, False),
        ("SELECT STREAM COUNT(*) OVER (ROWS 2 PRECEDING) AS n FROM readings WHERE amount > 50", False, True),
    ],
)
def test_a_query_without_a_row_says_once_what_it_waits_for(
    foreign: Path, query: str, follow: bool, says: bool
) -> None:
    seen: list[QueryEvent] = []
    with served(foreign) as url:
        for each in ServiceEngine(url, follow=follow, silence_s=0.0).execute(query):
            seen.append(each)
            if each == ResultNote(WAITS):
                produce(memory_broker(str(foreign.parent / "out.db")), range(100, 104))
            if rows_of(seen):
                break
    assert seen.count(ResultNote(WAITS)) == (1 if says else 0)
    assert bool(rows_of(seen)) == says


def rows_of(answers: list[QueryEvent]) -> list[ResultRow]:
    return [each for each in answers if isinstance(each, ResultRow)]


def test_the_prompt_is_left_with_its_word(tmp_path: Path) -> None:
    rows = ", ".join(f"({number})" for number in range(30))
    script = f"""
import os, pty, sys
pid, terminal = pty.fork()
if pid == 0:
    os.environ["HOME"] = {str(tmp_path)!r}
    os.execv(sys.executable, [sys.executable, "-m", "rowtide", "sql"])
os.write(terminal, b"CREATE STREAM zoo (a INTEGER);\\n\\\\d\\n\\\\d zo\\t\\n\\\\x\\nSELECT nope\\nFROM zoo;\\n")
os.write(terminal, b"CREATE TABLE t (n INTEGER PRIMARY KEY);\\nINSERT INTO t VALUES {rows};\\n")
os.write(terminal, b"SELECT * FROM t ORDER BY n;\\n\\\\q\\n")
received = b""
try:
    while chunk := os.read(terminal, 4096):
        received += chunk
except OSError:
    pass
sys.stdout.write(received.decode())
"""
    environment = {"PYTHONPATH": ":".join(sys.path), "TERM": "dumb", "PATH": "/usr/bin:/bin"}
    environment["PAGER"] = "sed s/^/paged:/"
    answer = subprocess.run(
        [sys.executable, "-c", script],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout
    assert "rowtide>" in answer
    assert 'column "NOPE" does not exist' in answer
    # Columns are aligned on a terminal, and commands need no semicolon.
    assert "TABLE_NAME | TABLE_TYPE\nZOO        | STREAM\n(1 row)" in answer
    # Tab has completed the name of the relation.
    assert "COLUMN_NAME | DATA_TYPE | IS_NULLABLE | KEY_POSITION\n" in answer
    assert "A           | INTEGER   | YES         | NULL\n" in answer
    assert "command \\x does not exist" in answer
    assert (tmp_path / ".rowtide_history").exists()
    # A result that is longer than the terminal goes to the pager.
    assert answer.count("paged:") == 31
    assert "paged:29\n(30 rows)" in answer


def test_changes_of_rows_are_counted(local: str) -> None:
    texts = ("UPDATE names SET name = UPPER(name)", "DELETE FROM names WHERE id = 1", "SELECT * FROM names")
    answer = CliRunner().invoke(app, ["sql", local, *(part for text in texts for part in ("-e", text))])
    assert answer.exit_code == 0, answer.output
    assert answer.stderr.splitlines() == ["2 rows updated", "1 row deleted"]
    assert answer.stdout.splitlines()[1] == "2 | TWO"


def test_a_table_of_a_database_is_read_once(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "crm.db")) as database, database:
        database.execute("create table people (id integer primary key, name varchar(9))")
        database.execute("insert into people values (1, 'ann'), (2, 'bob')")
    file = tmp_path / "p.sql"
    file.write_text(
        f"""CREATE SERVER crm FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite:///{tmp_path / "crm.db"}');
        CREATE TABLE users (id INTEGER PRIMARY KEY, name VARCHAR(9))
          SERVER crm OPTIONS (table_name 'people');
        CREATE STREAM clicks (who INTEGER);
        INSERT INTO clicks (ROWTIME, who) VALUES (TIMESTAMP '2026-01-01 00:00:01', 2);"""
    )
    assert "(2 rows)" in call(str(file), "-e", "SELECT * FROM users")
    assert "\n2\n" in call(str(file), "-e", "SELECT COUNT(*) AS n FROM users")
