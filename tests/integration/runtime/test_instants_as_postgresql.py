"""TIMESTAMP WITH TIME ZONE has the values of PostgreSQL's, over changes of clocks and for texts with offsets.

The years are those whose rules no newer version of the zones changes.
"""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import sqlalchemy as sa
from typer.testing import CliRunner

from rowtide.cli.main import app

# Clocks that go forward and back, by an hour and by half an hour; one that skipped a day, and one without changes.
ZONES = ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "Asia/Kolkata")
CHANGES = (
    *("2019-03-31 01:00", "2019-10-27 01:00", "2019-03-10 07:00", "2019-11-03 06:00"),
    *("2019-04-06 15:00", "2019-10-05 15:30", "2011-12-30 10:00"),
)
OFFSETS = ("", "Z", "+00", "+02:00", "-0930", "+14", "-11:59")
FORM = "'YYYY-MM-DD HH24:MI:SS.MS'"
MOMENTS = (
    *(f"at AT TIME ZONE '{zone}'" for zone in ZONES),
    *(f"FROM_TZ(local, '{zone}')" for zone in ZONES),
    *("CAST(at AS TIMESTAMP)", "CAST(local AS TIMESTAMPTZ)", "CAST(CAST(at AS DATE) AS TIMESTAMPTZ)"),
    *(
        "CAST(given AS TIMESTAMPTZ)",
        "CAST(CAST(at AS VARCHAR) AS TIMESTAMPTZ)",
        "CAST('2019-02-03' AS TIMESTAMPTZ)",
    ),
    *("at + INTERVAL '1' MONTH", "at - INTERVAL '90' MINUTE", "local + (at - local)", "GREATEST(at, local)"),
    *(f"DATE_TRUNC('{unit}', at)" for unit in ("hour", "day", "week", "month", "quarter")),
    "COALESCE(NULLIF(at, local), local)",
)
VALUES = (
    *(f"TO_CHAR({moment}, {FORM})" for moment in MOMENTS),
    *(
        "TO_CHAR(at, 'HH24 TZ tz OF')",
        "CAST(CAST(at AS DATE) AS VARCHAR)",
        "CAST(CAST(at AS TIME) AS VARCHAR)",
    ),
    *("EXTRACT(HOUR FROM at)", "EXTRACT(DOY FROM at)", "at < local", "at = local", "at >= CAST(at AS DATE)"),
    *(
        "at IS NOT DISTINCT FROM local",
        "at > '2019-06-01 00:00:00+02'",
        "at = TIMESTAMPTZ '2019-03-31 03:00:00+02:00'",
    ),
)


def rows() -> list[tuple[str, str, str]]:
    """Return times near changes of clocks: an instant with an offset, a local time, and text with any offset."""
    draw = random.Random(24)
    found = []
    for change in CHANGES:
        start = datetime.fromisoformat(change).replace(tzinfo=UTC)
        for minutes in (-1, 0, 29, 30, 61, draw.randrange(-1500, 1500)):
            at = start + timedelta(minutes=minutes, milliseconds=draw.choice((0, 1, 999)))
            local = at + timedelta(minutes=draw.choice((0, 60, 120, -240, -300, 630, 660, 840, -600)))
            texts = [f"{each:%Y-%m-%d %H:%M:%S}.{each.microsecond // 1000:03}" for each in (at, local)]
            found.append((f"{texts[0]}+00:00", texts[1], texts[1] + draw.choice(OFFSETS)))
    return found


def test_instants_are_those_of_postgresql(postgres_url: str, tmp_path: Path) -> None:
    create = "CREATE TABLE t (k INTEGER PRIMARY KEY, at TIMESTAMP WITH TIME ZONE, local TIMESTAMP, given VARCHAR(40))"
    given = (f"({k}, TIMESTAMPTZ '{a}', TIMESTAMP '{b}', '{c}')" for k, (a, b, c) in enumerate(rows()))
    insert = f"INSERT INTO t VALUES {', '.join(given)}"
    query = f"SELECT k, {', '.join(f'{value} AS f{at}' for at, value in enumerate(VALUES))} FROM t ORDER BY k"

    address = sa.make_url(postgres_url).set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(address) as connection:
        connection.execute("SET TIME ZONE 'UTC'")
        for statement in (create, insert):
            connection.execute(statement.encode())
        # The function behind AT TIME ZONE, with its arguments as FROM_TZ has them.
        connection.execute(
            "CREATE FUNCTION from_tz(x timestamp, zone text) RETURNS timestamptz RETURN x AT TIME ZONE zone"
        )
        wanted = connection.execute(query.encode()).fetchall()
    (tmp_path / "t.sql").write_text(f"{create};\n{insert};\n")
    shown = CliRunner().invoke(app, ["sql", str(tmp_path / "t.sql"), "-e", query, "--json"])
    assert shown.exit_code == 0, shown.output
    found = [json.loads(line) for line in shown.stdout.splitlines()]
    assert len(found) == len(rows())
    for at, value in enumerate(VALUES):
        assert (value, [row[f"F{at}"] for row in found]) == (value, [row[at + 1] for row in wanted])
