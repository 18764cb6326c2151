"""Arrays and instants in foreign tables: ``replay --compare`` computes again what the database holds, by value."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest
import sqlalchemy as sa

from rowtide.runtime.inspect.replay import Range, ReplayComparison, compare
from rowtide.runtime.pace import Pace
from rowtide.runtime.pipeline import open_pipeline
from rowtide.runtime.polling.poller import TableShape
from rowtide.runtime.service import Service
from rowtide.sql.pipeline import plan_pipeline
from rowtide_connectors.memory import memory_broker
from support.database import DATABASES, execute, url_of
from support.pipeline import process_of

COLUMNS = """id INTEGER PRIMARY KEY, n INTEGER ARRAY, t VARCHAR(9) ARRAY, d DECIMAL(5, 2) ARRAY,
  f DOUBLE ARRAY, r REAL ARRAY, b VARBINARY ARRAY, at TIMESTAMP ARRAY, day DATE ARRAY, tm TIME ARRAY,
  u UUID ARRAY, q BOOLEAN ARRAY, z TIMESTAMP WITH TIME ZONE, zs TIMESTAMP WITH TIME ZONE ARRAY"""
SQL = f"""
CREATE SERVER k FOREIGN DATA WRAPPER MEMORY OPTIONS (broker '{{broker}}');
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url '{{url}}');
CREATE FOREIGN STREAM s ({COLUMNS.replace(" PRIMARY KEY", "")}) SERVER k OPTIONS (topic 't');
CREATE FOREIGN TABLE held ({COLUMNS}) SERVER d;
CREATE FOREIGN TABLE by_array (n INTEGER ARRAY PRIMARY KEY, id INTEGER) SERVER d;
CREATE FOREIGN TABLE by_instant (z TIMESTAMP WITH TIME ZONE PRIMARY KEY, n INTEGER ARRAY) SERVER d;
CREATE PUMP p AS INSERT INTO held SELECT STREAM * FROM s;
CREATE PUMP q AS INSERT INTO by_array SELECT STREAM n, id FROM s WHERE n IS NOT NULL;
CREATE PUMP r AS INSERT INTO by_instant SELECT STREAM z, n FROM s WHERE z IS NOT NULL;
"""
MESSAGES = [
    b'{"id":1,"n":[1,null],"t":["a b","","\\"{,"],"d":[1.5,null],"f":[1,0.1,1e300],"r":[0.1],"b":["AP8=",""],'
    b'"at":["2024-02-29T10:00:00.123Z",5],"day":["2024-02-29"],"tm":["10:00:00.5"],'
    b'"u":["A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11"],"q":[true,false,null],'
    b'"z":"2024-02-29T10:00:00.123+02:00","zs":["2024-02-29T10:00:00.123-09:30",null]}',
    b'{"id":2,"n":[],"t":[],"d":[],"f":[],"r":[],"b":[],"at":[],"day":[],"tm":[],"u":[],"q":[],'
    b'"z":"2024-02-29T08:00:00.123Z","zs":[]}',
    b'{"id":3}',
    b'{"id":4,"n":[1,null],"t":[null]}',
]


@pytest.fixture(params=DATABASES)
def url(request: pytest.FixtureRequest) -> str:
    return url_of(request, request.param)


def worked(url: str, name: str, *, compares: bool) -> ReplayComparison | None:
    plan = plan_pipeline(SQL.format(broker=name, url=url))
    with open_pipeline(plan, "p") as pipeline:
        context = process_of(pipeline, Pace(0, 50, 300, None), poll_messages=20)
        if compares:
            return compare(context, Range())
        Service(context).run(until_end=True)
        return None


def differing(url: str, name: str) -> int:
    found = worked(url, name, compares=True)
    assert found is not None
    return found.count


def test_a_table_of_arrays_is_compared_by_value(url: str, tmp_path: Path) -> None:
    broker = memory_broker(str(tmp_path))
    broker.ensure_topic("t", 1)
    broker.produce("t", MESSAGES, timestamps=[1_000 * at for at in range(len(MESSAGES))], partition=0)
    worked(url, str(tmp_path), compares=False)
    assert differing(url, str(tmp_path)) == 0
    if not url.startswith("postgres"):
        execute(url, ["update held set n = '[ 1 , null ]', d = '[1.50, null]' where id = 1"])
        assert differing(url, str(tmp_path)) == 0
    array = "{1,2}" if url.startswith("postgres") else "[1,2]"
    execute(url, [f"update held set n = '{array}' where id = 1"])
    assert differing(url, str(tmp_path)) == 1


@pytest.mark.postgres
def test_a_pipeline_writes_arrays_of_postgresql(postgres_url: str, tmp_path: Path) -> None:
    broker = memory_broker(str(tmp_path))
    broker.ensure_topic("t", 1)
    broker.produce("t", MESSAGES, timestamps=[1_000 * at for at in range(len(MESSAGES))], partition=0)
    worked(postgres_url, str(tmp_path), compares=False)
    engine = sa.create_engine(postgres_url)
    with engine.connect() as connection:
        one = connection.exec_driver_sql(
            "select n, t, d, f, r, b, at::text, q, z::text, zs::text from held where id = 1"
        ).one()
        assert one[:6] == (
            [1, None],
            ["a b", "", '"{,'],
            [Decimal("1.50"), None],
            [1.0, 0.1, 1e300],
            [pytest.approx(0.1)],
            [b"\0\xff", b""],
        )
        assert one[6:8] == ('{"2024-02-29 10:00:00.123","1970-01-01 00:00:00.005"}', [True, False, None])
        assert one[8:] == ("2024-02-29 08:00:00.123+00", '{"2024-02-29 19:30:00.123+00",NULL}')
        types = connection.exec_driver_sql(
            "select pg_typeof(n)::text, pg_typeof(t)::text, pg_typeof(z)::text from held limit 1"
        ).one()
        assert tuple(types) == ("integer[]", "character varying[]", "timestamp with time zone")
        assert connection.exec_driver_sql("select n from by_instant").scalars().all() == [[]]
        assert connection.exec_driver_sql("select id from by_array order by id").scalars().all() == [2, 4]
    engine.dispose()


def test_a_polled_row_has_arrays_nested() -> None:
    shape = TableShape("T", ("ID", "A"), (0,), "")
    assert shape.row((1, [Decimal("1.50"), None, "x"])).content == b'{"ID":1,"A":[1.50,null,"x"]}'
