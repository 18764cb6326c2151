"""A query of the API takes no more time, memory and rows than its limits, and nothing of the pipeline's."""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from rowtide.cli.main import app
from rowtide.errors import StatementError
from rowtide.flow.flow import Emitted, Flow
from rowtide.plan.outputs import table_nodes
from rowtide.rows.rowop import Opcode, TimedRow
from rowtide.rows.tray import Tray
from rowtide.rowtime.bound import Bound
from rowtide.runtime.query.query_work import RESULT, QueryLimits, QueryText
from rowtide.runtime.state.following import PRELOADED, QUERIES_AT_MOST, QueryProcess
from rowtide.sql.pipeline import SqlSession
from rowtide_connectors.memory import MemoryBroker, memory_broker
from support.served import served

MIB = 1024 * 1024
SQL = """
CREATE SERVER k FOREIGN DATA WRAPPER MEMORY OPTIONS (broker '{file}');
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite:///{file}');
CREATE FOREIGN STREAM readings (sensor VARCHAR(8), amount INTEGER)
  SERVER k OPTIONS (topic 'readings', partitions '2', format 'JSON');
CREATE TABLE t (acct VARCHAR(8), amount INTEGER, PRIMARY KEY (acct));
CREATE FOREIGN TABLE latest (sensor VARCHAR(8), amount INTEGER, PRIMARY KEY (sensor)) SERVER d;
CREATE PUMP p1 STARTED AS INSERT INTO t SELECT STREAM sensor, amount FROM readings;
CREATE PUMP p2 STARTED AS INSERT INTO latest SELECT acct, amount FROM t;
"""
ROWS = 50
CROSS_JOIN = "SELECT a.acct FROM t a, t b, t c, t d ORDER BY 1 LIMIT 1"
"""Six million rows of four tables of fifty: in the pipeline's own process it took 5 GB and stopped the loop."""


class Running:
    """A service with a table of fifty rows."""

    def __init__(self, url: str, broker: MemoryBroker) -> None:
        self.url = url
        self.broker = broker
        self._at = 1_000_000

    def get(self, path: str, **parameters: str) -> Any:
        return httpx.get(self.url + path, params=parameters, trust_env=False, timeout=300).json()

    def query(self, sql: str, **parameters: str) -> list[dict[str, Any]]:
        """Return the lines of an answer; one that does not end by itself is not waited for."""
        asked = {"sql": sql, "once": "true"} | parameters
        with httpx.stream("GET", f"{self.url}/query", params=asked, trust_env=False, timeout=60) as answer:
            assert answer.status_code == 200, answer.read()
            return [json.loads(line) for line in answer.iter_lines() if line.strip()]

    def takes_rows(self) -> bool:
        """Return whether a row that is sent now is in the table soon."""
        self._at += 1_000
        for partition in (0, 1):
            value = b'{"sensor":"now","amount":%d}' % self._at
            self.broker.produce("readings", [value], timestamps=[self._at], partition=partition)
        return waited(lambda: ["now", self._at] in self.get("/table", relation="T")["rows"])


def waited(condition: Any, seconds: float = 200) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


@contextmanager
def running(folder: Path, limits: QueryLimits, more: str = "") -> Iterator[Running]:
    file = folder / "readings.sql"
    file.write_text(SQL.format(file=folder / "out.db") + more)
    broker = memory_broker(str(folder / "out.db"))
    broker.ensure_topic("readings", 2)
    for number in range(ROWS):
        value = b'{"sensor":"s%d","amount":%d}' % (number, number)
        broker.produce("readings", [value], timestamps=[1_000 * number], partition=number % 2)
    with served(file, limits) as url:
        started = Running(url, broker)
        assert started.takes_rows()
        yield started


class Peak:
    """The most memory that a process of a query has had, in bytes."""

    def __init__(self) -> None:
        self.bytes = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def _look(self) -> None:
        while not self._over.wait(0.02):
            for each in multiprocessing.active_children():
                self.bytes = max(self.bytes, resident(each.pid))

    def __enter__(self) -> Peak:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


def resident(process: int | None) -> int:
    try:
        lines = Path(f"/proc/{process or 'self'}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS")), 0)


@pytest.mark.parametrize("once", ["true", "false"])
def test_a_cross_join_of_four_tables_ends_and_the_pipeline_goes_on(tmp_path: Path, once: str) -> None:
    with running(tmp_path, QueryLimits(memory_bytes=64 * MIB)) as service:
        before = resident(None)
        answers: list[list[dict[str, Any]]] = []
        # Without ORDER BY: the changes of a query that goes on have no order.
        sql = CROSS_JOIN if once == "true" else "SELECT a.acct FROM t a, t b, t c, t d"
        asking = threading.Thread(target=lambda: answers.append(service.query(sql, once=once)))
        with Peak() as peak:
            asking.start()
            while asking.is_alive():
                assert service.get("/healthz") == {"status": "alive"}
                assert service.takes_rows()
        (answer,) = answers
        assert answer[-1]["failed"]
        assert answer[-1]["error"] == "the query needs more than 64 MiB of memory"
        assert "limits.query_bytes" in answer[-1]["hint"]
        assert 0 < peak.bytes < 600 * MIB
        assert resident(None) - before < 100 * MIB
        assert service.takes_rows()


def test_a_query_that_takes_too_long_ends(tmp_path: Path) -> None:
    with running(tmp_path, QueryLimits(seconds=0.5, memory_bytes=4096 * MIB)) as service:
        (*_, last) = service.query(CROSS_JOIN)
        assert last["error"] == "the query took more than 0.5 s"
        assert "limits.query_s" in last["hint"]
        assert service.takes_rows()


def test_a_query_with_too_many_rows_ends_after_as_many_as_are_allowed(tmp_path: Path) -> None:
    with running(tmp_path, QueryLimits(rows=100)) as service:
        answer = service.query("SELECT a.acct FROM t a, t b")
        assert answer[-1]["error"] == "the query has more than 100 rows"
        assert len([line for line in answer if "row" in line]) <= 100
        reported = CliRunner().invoke(
            app, ["sql", "--service", service.url, "-e", "SELECT a.acct FROM t a, t b"]
        )
        assert reported.exit_code == 2
        assert reported.stdout == "ACCT\n"
        assert "error: the query has more than 100 rows\nhint: Add LIMIT or WHERE" in reported.stderr
        assert len(service.query("SELECT acct FROM t WHERE amount < 10")) == 12


def test_a_query_once_returns_its_result_and_not_how_it_came_about(tmp_path: Path) -> None:
    with running(tmp_path, QueryLimits(rows=100)) as service:
        for sql in ("SELECT COUNT(*) AS n FROM t", "SELECT MAX(amount) - MIN(amount) AS n FROM t a"):
            (columns, row, ended) = service.query(sql)
            assert columns["columns"] == ["N"]
            assert (row["op"], row["rowtime"]) == ("+", None)
            assert "ended" in ended
        # Rows of a table have no rowtime of their own, also while the query goes on.
        asked = {"sql": "SELECT acct FROM t WHERE acct = 's7'"}
        with httpx.stream("GET", f"{service.url}/query", params=asked, trust_env=False, timeout=60) as answer:
            lines = (json.loads(line) for line in answer.iter_lines() if line.strip())
            assert next(lines)["columns"] == ["ACCT"]
            assert next(lines)["rowtime"] != -(2**63)


def test_the_parent_of_queries_starts_before_the_first_query() -> None:
    program = """
import multiprocessing.util
from pathlib import Path
from rowtide.runtime.state.following import prepare_queries
prepare_queries()
def is_there():
    tasks = Path("/proc/self/task").iterdir()
    own = [line for task in tasks for line in (task / "children").read_text().split()]
    return any(b"forkserver" in Path(f"/proc/{pid}/cmdline").read_bytes() for pid in own)
# Between fork and exec a child has the command line of its parent.
wait_until(is_there)
"""
    program = f"from support.waiting import wait_until\n{program}"
    subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=True,
    )


HOG = "REPLACE(REPLACE(REPLACE('{0}', 'x', '{1}'), 'y', '{2}'), 'z', '{1}')".format(
    "x" * 90, "y" * 90, "z" * 900
)
LONG = f"REPLACE(REPLACE('{'x' * 90}', 'x', '{'y' * 90}'), 'y', '{'x' * 900}')"
SLOW = f"REGEXP_SUBSTR({LONG}, '(.*x){{500}}')"
"""Takes some 100 s in compiled code that no other thread of its process can interrupt: 500 states, each in every of
seven million characters."""


@pytest.mark.parametrize(
    ("constant", "seconds", "said"),
    [(HOG, 150, "more than 64 MiB of memory"), (SLOW, 6, "more than 6 s")],
)
def test_a_constant_that_takes_too_much_is_computed_where_the_pipeline_does_not_notice(
    constant: str, seconds: float, said: str, tmp_path: Path
) -> None:
    with running(tmp_path, QueryLimits(seconds=seconds, memory_bytes=64 * MIB)) as service:
        answers: list[Any] = []
        sql = f"SELECT {constant} AS a FROM t"
        asking = threading.Thread(target=lambda: answers.append(service.get("/query", sql=sql, once="true")))
        asking.start()
        while asking.is_alive():
            assert service.get("/healthz") == {"status": "alive"}
            assert service.takes_rows()
        (answer,) = answers
        assert said in answer["error"]


def test_a_query_whose_service_is_gone_ends_by_itself() -> None:
    process = QueryProcess(QueryLimits(seconds=1))
    try:
        # As if nothing watched its time.
        process.caught_up()
        with pytest.raises(StatementError):
            process.plan(
                QueryText(SQL.format(file="no.db"), "readings.sql", f"SELECT {SLOW} AS a FROM t", True)
            )
    finally:
        process.close()


def doubled(levels: int) -> str:
    """Return a query that joins the same thing with itself again and again: twice the steps with each level."""
    parts = ["a0 AS (SELECT acct AS s FROM t)"]
    parts += [
        f"a{level} AS (SELECT x.s FROM a{level - 1} x JOIN a{level - 1} y ON x.s = y.s)"
        for level in range(1, levels + 1)
    ]
    return f"WITH {', '.join(parts)} SELECT s FROM a{levels}"


@pytest.mark.parametrize(
    "sql", [doubled(12), doubled(40), "SELECT a0.acct FROM " + ", ".join(f"t a{each}" for each in range(60))]
)
def test_a_query_whose_plan_is_too_large_is_refused_before_the_pipeline_sees_it(
    sql: str, tmp_path: Path
) -> None:
    with running(tmp_path, QueryLimits()) as service:
        began = time.monotonic()
        assert "the query has too many steps" in service.get("/query", sql=sql, once="true")["error"]
        assert time.monotonic() - began < 100
        assert service.takes_rows()
        assert len(service.query(doubled(5))) == ROWS + 3


def test_queries_that_end_or_whose_client_leaves_give_their_process_and_their_place_back(
    tmp_path: Path,
) -> None:
    with running(tmp_path, QueryLimits()) as service:
        for _ in range(QUERIES_AT_MOST + 1):
            assert service.query("SELECT acct FROM t WHERE amount < 10")[-1] == {
                "ended": "these were all rows"
            }
        for _ in range(QUERIES_AT_MOST + 1):
            asked = {"sql": "SELECT STREAM sensor FROM readings"}
            with httpx.stream("GET", f"{service.url}/query", params=asked, trust_env=False) as answer:
                assert "columns" in next(line for line in answer.iter_lines() if line)
            assert waited(lambda: not multiprocessing.active_children())
        assert service.takes_rows()


def test_the_parent_of_the_queries_has_loaded_what_they_need_and_has_no_thread_of_its_own() -> None:
    """Python hides an error of what it preloads; each query would load all of it again."""
    text = (
        f"import {', '.join(PRELOADED)}, sys, threading\n"
        "assert 'numba' in sys.modules and threading.active_count() == 1\n"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", text], env=environment, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("once", ["true", "false"])
def test_a_window_computes_the_rows_that_a_query_begins_with_once(tmp_path: Path, once: str) -> None:
    """After each row of one partition it would take longer than the time of a query."""
    values = ", ".join(f"({number}, {-number})" for number in range(5_000))
    table = f"CREATE TABLE many (id INTEGER PRIMARY KEY, n INTEGER); INSERT INTO many VALUES {values};"
    asked = {"sql": "SELECT id, RANK() OVER (ORDER BY n) AS place FROM many", "once": once}
    with (
        running(tmp_path, QueryLimits(), table) as service,
        httpx.stream("GET", f"{service.url}/query", params=asked, trust_env=False, timeout=60) as answer,
    ):
        lines = map(json.loads, filter(str.strip, answer.iter_lines()))
        found = list(islice((each for each in lines if "row" in each), 5_000))
    assert {each["op"] for each in found} == {"+"}
    assert dict(each["row"] for each in found) == {number: 5_000 - number for number in range(5_000)}


READERS = (
    "SELECT * FROM t",
    "SELECT a.acct, b.amount FROM t a JOIN t b ON a.acct = b.acct",
    "SELECT COUNT(*) AS n, SUM(amount) AS total FROM t",
    "SELECT STREAM sensor, amount FROM readings",
    "SELECT STREAM r.sensor, t.amount FROM readings AS r JOIN t ON r.sensor = t.acct",
    "SELECT STREAM sensor, COUNT(*) AS n FROM ordered GROUP BY FLOOR(ROWTIME TO MINUTE), sensor",
    "SELECT STREAM sensor, SUM(amount) OVER (PARTITION BY sensor ROWS 2 PRECEDING) AS s FROM ordered",
)


@pytest.mark.parametrize("sql", READERS)
def test_a_flow_begins_from_an_image_as_the_flow_that_gave_it(sql: str) -> None:
    text = SQL.format(file="no.db") + (
        "CREATE VIEW ordered AS SELECT STREAM sensor, amount FROM readings "
        "ORDER BY ROWTIME WITHIN INTERVAL '5' SECOND;"
        "CREATE FOREIGN TABLE log (sensor VARCHAR(8), amount INTEGER) SERVER d;"
        "CREATE PUMP p3 STARTED AS INSERT INTO log SELECT STREAM sensor, amount FROM ordered;"
    )
    session = SqlSession()
    session.feed(text)
    partitions = {"READINGS": [0, 1]}
    older = Flow(table_nodes(session.plan), partitions)
    rows(older, range(20))
    older.drain()
    node = session.query(sql)
    first, second = Flow({RESULT: node}, partitions), Flow({RESULT: node}, partitions)
    first.accompany(older)
    image = first.image()
    second.begin_from(image)
    for come in (range(0), range(20, 40), range(100, 140)):
        for flow in (first, second):
            rows(flow, come)
        assert given(first.drain()) == given(second.drain())


def rows(flow: Flow, numbers: range) -> None:
    if not flow.reads("READINGS"):
        return
    for number in numbers:
        partition = number % 2
        row = (f"s{number % 7}", number)
        timed = TimedRow(1_000 * number, flow.origin("READINGS", partition), number, Opcode.INSERT, row)
        flow.insert("READINGS", partition, Tray.from_rows(flow.source_type("READINGS"), [timed]))
    if numbers:
        for partition in (0, 1):
            flow.bound("READINGS", partition, Bound(1_000 * numbers[-1]))


def given(emitted: Emitted) -> list[tuple[object, ...]]:
    return [(each.rowtime, each.opcode, each.row) for tray in emitted.outputs[RESULT] for each in tray.rows()]
