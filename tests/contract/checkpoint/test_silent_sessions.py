"""Real servers: a process that is suspended within its commit loses its session, and commits nothing more."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest
import sqlalchemy as sa
from structlog.testing import capture_logs

from real.pgbouncer import Pgbouncer
from rowtide.checkpoint.database import DatabaseLedger
from rowtide.runtime.leadership.release import RecordRelease
from rowtide.testing.processes import ENDS_WITH_PARENT
from rowtide_connectors.api import Database, TableColumn, TargetTable
from rowtide_connectors.registry import find_sink
from support.database import SERVERS, execute, url_of
from support.waiting import wait_until

ROWS = TargetTable("ROWS", (TableColumn("N", "INTEGER"),), ())
SUSPENDED = """
import os, signal, sys
from rowtide.checkpoint.database import DatabaseLedger
from rowtide.errors import SupersededError
from rowtide_connectors.api import TableColumn, TargetTable
from rowtide_connectors.errors import UnavailableError
from rowtide_connectors.registry import find_sink

rows = TargetTable("ROWS", (TableColumn("N", "INTEGER"),), ())
database = find_sink("rdbms").open({"url": sys.argv[1]})
ledger = DatabaseLedger(database, "p")
database.prepare([rows])
epoch = ledger.claim("digest", "the first").epoch

def commit(suspended):
    with database.begin() as transaction:
        ledger.fence(transaction, epoch=epoch, commits=0)
        transaction.append(rows, {"N": [1]})
        if suspended:
            os.kill(os.getpid(), signal.SIGSTOP)
        transaction.append(rows, {"N": [2]})

for suspended in (True, False):
    try:
        commit(suspended)
        print("committed")
    except (UnavailableError, SupersededError) as error:
        print(type(error).__name__)
"""
READERS = {
    "postgresql": (
        "create role {reader} login password 'secret'",
        "grant usage on schema rowtide to {reader}",
        "grant select on all tables in schema rowtide to {reader}",
    ),
    "mariadb": (
        "create user {reader} identified by 'secret'",
        "grant select on {database}.* to {reader}",
    ),
}
"""By kind of server, how a role is made that reads the checkpoint and may end no session."""
GRANTS = {"postgresql": "GRANT {owner} TO {reader}", "mariadb": "GRANT PROCESS, CONNECTION ADMIN ON *.*"}
POOLED = pytest.param("pooled", marks=pytest.mark.postgres)


@pytest.fixture
def pooled_url(pgbouncer: Pgbouncer, postgres_url: str) -> str:
    """PostgreSQL through pgbouncer in transaction mode: the sessions are the pooler's."""
    return pgbouncer.url(postgres_url)


@pytest.fixture(params=(*SERVERS, POOLED))
def url(request: pytest.FixtureRequest) -> str:
    return url_of(request, request.param)


@contextmanager
def opened(url: str) -> Iterator[Database]:
    with closing(find_sink("rdbms").open({"url": url})) as database:
        yield database


@contextmanager
def suspended(url: str) -> Iterator[subprocess.Popen[str]]:
    """Return a process that is suspended within its first commit."""
    process = subprocess.Popen(
        [*ENDS_WITH_PARENT, sys.executable, "-c", SUSPENDED, url],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(each for each in sys.path if each)},
    )
    try:
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status), status
        yield process
    finally:
        process.kill()
        process.wait()


def test_a_process_that_is_suspended_within_its_commit_loses_its_session_and_commits_nothing(
    url: str,
) -> None:
    with suspended(url) as process, opened(url) as database:
        ledger = DatabaseLedger(database, "p")
        patient = RecordRelease(ledger.leadership(), "p", 3_600)
        held = patient.attempt()
        assert held is not None, "its transaction is open"
        assert (held.silent_s is None, held.grant) == (False, None)
        release = RecordRelease(ledger.leadership(), "p", 1.0)
        wait_until(lambda: release.attempt() is None)
        assert ledger.claim("digest", "the second").epoch == 2
        with database.begin() as transaction:
            ledger.fence(transaction, epoch=2, commits=0)
            transaction.append(ROWS, {"N": [3]})
        process.send_signal(signal.SIGCONT)
        said, _ = process.communicate()
        assert said.split() == ["UnavailableError", "SupersededError"]
        with database.begin_read_only() as transaction:
            assert list(transaction.rows(ROWS)) == [(3,)]
        record = ledger.read()
        assert record is not None
        assert (record.epoch, record.commits) == (2, 1)
        assert release.attempt() is None, "nothing is held any more"


def test_a_session_that_works_or_has_committed_is_not_silent(url: str) -> None:
    with opened(url) as first, opened(url) as second:
        ledger = DatabaseLedger(first, "p")
        epoch = ledger.claim("digest", "a").epoch
        looks = DatabaseLedger(second, "p").leadership()
        assert looks.writer() is None
        with first.begin() as transaction:
            ledger.fence(transaction, epoch=epoch, commits=0)
            found = looks.writer()
            assert found is not None
            # It was silent in another transaction than this one.
            other = DatabaseLedger(second, "p").leadership()
        other.end_writer(found)
        assert looks.writer() is None
        with first.begin() as transaction:
            ledger.fence(transaction, epoch=epoch, commits=1)
            other.end_writer(found)
        ledger.leadership().beat(epoch, 1)
        assert looks.writer() is None


def told(url: str, ledger: DatabaseLedger, database: Database, epoch: int) -> str:
    """Return the hint of a process of another role, while ``ledger`` has a commit open."""
    with opened(url) as other, database.begin() as transaction:
        ledger.fence(transaction, epoch=epoch, commits=0)
        with capture_logs() as logs:
            assert RecordRelease(DatabaseLedger(other, "p").leadership(), "p", 0).attempt() is None
        (said,) = [each for each in logs if each["event"] == "session_not_ended"]
        return str(said["hint"])


@pytest.mark.parametrize("url", SERVERS, indirect=True)
def test_a_role_that_may_not_end_it_is_told_what_to_grant(url: str) -> None:
    address, reader = sa.make_url(url), f"r_{uuid.uuid4().hex[:12]}"
    kind = address.get_backend_name()
    names = {"reader": reader, "owner": address.username, "database": address.database}
    with opened(url) as database:
        ledger = DatabaseLedger(database, "p")
        epoch = ledger.claim("digest", "a").epoch
        execute(url, [each.format(**names) for each in READERS[kind]])
        theirs = address.set(username=reader, password="secret").render_as_string(hide_password=False)
        assert GRANTS[kind].format(**names) in told(theirs, ledger, database, epoch)
