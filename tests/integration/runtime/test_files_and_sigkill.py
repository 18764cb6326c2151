"""Files arrive in a folder while the service that reads them is killed at every step: each row once, on SQLite."""

from __future__ import annotations

import random
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from rowtide.runtime.crashpoints import CRASH_AT, FILES_POINTS
from support.files import KINDS, Folder, Row
from support.service import service
from support.waiting import PATIENCE_S

SQL = """
CREATE SERVER f FOREIGN DATA WRAPPER FILES OPTIONS (url 'set by the configuration');
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'set by the configuration');
CREATE FOREIGN STREAM rows (n BIGINT NOT NULL, word VARCHAR(9)) SERVER f OPTIONS (path 'in/*', look_every_s '0.1');
CREATE FOREIGN TABLE seen (n BIGINT, word VARCHAR(9)) SERVER d;
CREATE FOREIGN TABLE counts (word VARCHAR(9) PRIMARY KEY, c BIGINT, total BIGINT) SERVER d;
CREATE TABLE words (n BIGINT, word VARCHAR(9), PRIMARY KEY (n));
CREATE PUMP p1 STARTED AS INSERT INTO seen SELECT STREAM n, word FROM rows;
CREATE PUMP p2 STARTED AS INSERT INTO words SELECT STREAM n, word FROM rows;
CREATE PUMP p3 STARTED AS INSERT INTO counts SELECT word, COUNT(*), SUM(n) FROM words GROUP BY word;
"""
KILLED_AT = (
    *FILES_POINTS,
    "files.after_list:3",
    "intake.after_decode:2",
    "commit.after_fence:3",
    "commit.after_commit:2",
    "recovery.after_replay",
)
IN_EACH_RUN = KILLED_AT[::2]
KILLED = 137


@pytest.mark.timeout(600)
@pytest.mark.parametrize("points", [IN_EACH_RUN, pytest.param(KILLED_AT, marks=pytest.mark.long)], ids=len)
def test_each_row_of_each_file_is_there_once_however_often_the_service_is_killed(
    tmp_path: Path, points: tuple[str, ...]
) -> None:
    rng, folder, made_rows = random.Random(5), Folder(tmp_path / "files" / "in"), [0]

    def arrive() -> None:
        rows: list[Row] = [
            {"n": made_rows[0] + at, "word": f"w{rng.randrange(5)}"} for at in range(rng.choice((0, 1, 40)))
        ]
        made_rows[0] += len(rows)
        written.extend(rows)
        ending = rng.choice(list(KINDS))
        folder.put(KINDS[ending](rows), ending, at_ms=1_700_000_000_000 + made_rows[0])

    written: list[Row] = []
    config = (
        f'[servers.f]\nurl = "{tmp_path}/files"\n[servers.d]\nurl = "sqlite:///{tmp_path}/out.db"\n'
        '[service]\nlisten = "127.0.0.1:0"\n[checkpoint]\nsnapshot_rows = 50\nsnapshot_interval_s = 0\n'
        "[commit]\ninterval_ms = 20\n"
    )
    with service(tmp_path, config, SQL) as made:
        for point in points:
            arrive()
            process = made.start(**{CRASH_AT: point})
            deadline = time.monotonic() + PATIENCE_S
            while process.poll() is None:
                assert time.monotonic() < deadline, f"{point}: {made.log.read_text()[-3_000:]}"
                arrive()
                time.sleep(0.2)
            assert process.returncode == KILLED, made.log.read_text()[-3_000:]
        arrive()
        made.finish()
    wanted = sorted((row["n"], row["word"]) for row in written)
    assert len(wanted) > 40
    with closing(sqlite3.connect(tmp_path / "out.db")) as connection:
        assert connection.execute("select n, word from seen order by n").fetchall() == wanted
        grouped = "select word, count(*), sum(n) from seen group by word order by word"
        counts = "select word, c, total from counts order by word"
        assert connection.execute(counts).fetchall() == connection.execute(grouped).fetchall()
        assert connection.execute("select * from rowtide_errors").fetchall() == []
