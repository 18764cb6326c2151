"""``rowtide.Pipeline`` and ``rowtide.sql``: rows of Python in, results out."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import rowtide
from rowtide.embedded.topics import TopicReading
from rowtide.errors import BoundRegressionError, StatementError
from rowtide.operators.aggregates.groups.value_functions import make_window_function
from rowtide.plan.frames import WindowCall
from rowtide_connectors.errors import UnavailableError
from rowtide_connectors.memory import memory_broker

ORDERS = """
CREATE STREAM orders (id INTEGER NOT NULL, amount DECIMAL(6, 2));
CREATE TABLE names (id INTEGER, name VARCHAR(8), PRIMARY KEY (id));
INSERT INTO names VALUES (1, 'one'), (2, 'two');
CREATE VIEW sums AS
  SELECT STREAM COUNT(*) AS orders, SUM(amount) AS amount FROM orders GROUP BY FLOOR(orders.ROWTIME TO MINUTE);
"""
FOREIGN = """
CREATE SERVER k FOREIGN DATA WRAPPER MEMORY OPTIONS (broker '{broker}');
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite:///no.db');
CREATE FOREIGN STREAM readings (sensor VARCHAR(8), amount INTEGER)
  SERVER k OPTIONS (topic 'readings', partitions '2', format 'JSON');
CREATE FOREIGN TABLE latest (sensor VARCHAR(8), amount INTEGER NOT NULL, PRIMARY KEY (sensor)) SERVER d;
CREATE PUMP p STARTED AS INSERT INTO latest SELECT STREAM sensor, amount FROM readings;
"""
EVERY_TYPE = """
CREATE STREAM every (
  flag BOOLEAN, small TINYINT, big BIGINT, single REAL, wide DOUBLE, price DECIMAL(20, 3), word VARCHAR(9),
  id UUID, doc JSON, raw VARBINARY(4), day DATE, clock TIME, at TIMESTAMP, zoned TIMESTAMP WITH TIME ZONE,
  span INTERVAL DAY TO SECOND, age INTERVAL YEAR TO MONTH, tags VARCHAR(5) ARRAY, days DATE ARRAY);
"""
AT = datetime(2026, 1, 1, 10, tzinfo=UTC)
VALUES: dict[str, Any] = {
    "FLAG": True,
    "SMALL": -3,
    "BIG": 2**40,
    "SINGLE": 0.5,
    "WIDE": 1e300,
    "PRICE": Decimal("12345678901234567.125"),
    "WORD": "rope",
    "ID": "1e0b0a5c-3f1c-4a55-8a6c-0f7e7a9f1c11",
    "DOC": '{"a": [1, null]}',
    "RAW": b"\x00\xff",
    "DAY": date(1969, 12, 31),
    "CLOCK": time(23, 59, 59, 250_000),
    "AT": datetime(1, 1, 1, tzinfo=UTC),
    "ZONED": datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC),
    "SPAN": timedelta(days=-1, milliseconds=1),
    "AGE": 14,
    "TAGS": ["a", None, ""],
    "DAYS": [date(2024, 2, 29), None],
}
NOTHING = dict.fromkeys(VALUES)


@pytest.fixture
def orders() -> Iterator[rowtide.Pipeline]:
    with rowtide.Pipeline.from_text(ORDERS) as pipeline:
        yield pipeline


def refusal(call: Any, *arguments: Any, **named: Any) -> str:
    """Return the message, hint and notes of a refused call."""
    with pytest.raises(StatementError) as caught:
        call(*arguments, **named)
    return "\n".join([caught.value.render(), *caught.value.__notes__])


def test_rows_in_give_rows_out_once_the_bound_allows_it(orders: rowtide.Pipeline) -> None:
    orders.insert("orders", [(AT, 1, Decimal("2.5")), {"rowtime": "2026-01-01T10:00:59.999Z", "Id": 2}])
    assert list(orders.rows("sums")) == []
    orders.insert("orders", bound=AT + timedelta(minutes=1))
    result = orders.rows("sums")
    assert list(result) == [(AT + timedelta(minutes=1), 2, Decimal("2.50"))]
    assert (result.columns, result.types[1]) == (("ROWTIME", "ORDERS", "AMOUNT"), "BIGINT")
    assert result.bound is not None
    assert result.bound > AT
    assert list(orders.table("names")) == [(1, "one"), (2, "two")]
    assert orders.table("names").columns == ("ID", "NAME")
    assert list(orders.rows("names")) == [("+", None, 1, "one"), ("+", None, 2, "two")]


def test_late_rows_and_missing_values_are_error_rows(orders: rowtide.Pipeline) -> None:
    orders.insert(
        "orders", [{"ROWTIME": AT, "id": 1}, {"ROWTIME": AT, "amount": 1}], bound=AT + timedelta(hours=1)
    )
    orders.insert("orders", [(AT, 2, None)])
    errors = orders.errors().to_arrow().select(["KIND", "RELATION", "REASON", "ROW_TIME"]).to_pylist()
    assert errors == [
        {
            "KIND": "REJECTED",
            "RELATION": "ORDERS",
            "REASON": 'CONSTRAINT: column "ID" is NOT NULL',
            "ROW_TIME": AT,
        },
        {
            "KIND": "LATE",
            "RELATION": "ORDERS",
            "REASON": "LATE: 3600000 ms below the rowtime bound",
            "ROW_TIME": AT,
        },
    ]
    assert orders.rows("sys.errors").columns == orders.table("SYS.errors").columns == orders.errors().columns


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([{"idd": 1}], 'row 1: column "idd" does not exist in "ORDERS"'),
        ([{"id": 1, "ID": 2}], 'row 1: column "ID" appears twice'),
        ([{"id": 1}, {"id": "x"}], 'row 2: text "x" is not a valid INTEGER, in column "ID"'),
        ([{"id": AT}], "is not a valid INTEGER"),
        ([{"id": 1, "amount": 123456}], "too many digits"),
        ([(1, 2)], "2 values, not ROWTIME and 2 columns"),
        ([{"ROWTIME": datetime(2026, 1, 1), "id": 1}], "has no time zone: pass tzinfo=datetime.UTC"),
        ([{"ROWTIME": "soon", "id": 1}], "in ROWTIME of"),
        ([{"OP": "*", "id": 1}], 'OP is "+" or "-", not "*"'),
        ([{"OP": "-", "id": 1}], 'rows of stream "ORDERS" cannot be deleted'),
        ([7], "int is neither a sequence nor a mapping"),
        ({"id": 1}, 'dict is not rows of "ORDERS"'),
        (pa.table({"price": [1]}), 'column "price" does not exist in "ORDERS"'),
    ],
)
def test_rows_that_do_not_fit_are_refused_and_nothing_is_inserted(
    orders: rowtide.Pipeline, rows: object, said: str
) -> None:
    assert said in refusal(orders.insert, "orders", rows)
    assert list(orders.rows("orders")) == []


def test_names_bounds_and_statements_that_are_wrong_say_what_is_right(orders: rowtide.Pipeline) -> None:
    assert "There are ORDERS, NAMES, SUMS" in refusal(orders.insert, "order", [])
    assert 'rows("ORDERS") returns what came out' in refusal(orders.table, "orders")
    assert "rows cannot be inserted" in refusal(orders.insert, "sums", [(AT, 1, None)])
    assert 'as bound of "ORDERS"' in refusal(orders.insert, "orders", bound="later")
    orders.insert("orders", bound=AT)
    with pytest.raises(BoundRegressionError):
        orders.insert("orders", [(AT, 1, None)], bound=AT - timedelta(seconds=1))
    assert list(orders.rows("orders")) == []
    assert "1:8" in refusal(rowtide.Pipeline.from_text, "CREATE STREM s (a INTEGER)")
    assert "cannot be read" in refusal(rowtide.Pipeline.from_file, "no/such.sql")


def test_rows_of_every_type_come_back_as_they_went_in() -> None:
    with rowtide.Pipeline.from_text(EVERY_TYPE) as pipeline:
        pipeline.insert("every", [{"ROWTIME": AT, **VALUES}, {"ROWTIME": AT, **NOTHING}])
        result = pipeline.rows("every")
        assert [dict(zip(result.columns, row, strict=True)) for row in result] == [
            {"ROWTIME": AT, **VALUES},
            {"ROWTIME": AT, **NOTHING},
        ]
        for form in (result, result.to_arrow(), result.to_pandas(), list(result)):
            with rowtide.Pipeline.from_text(EVERY_TYPE) as copy:
                copy.insert("every", form)
                assert list(copy.rows("every")) == list(result)


def test_other_forms_of_values_are_read_as_a_message_has_them() -> None:
    given = {
        "PRICE": 1.25,
        "DOC": {"a": [1, None]},
        "AT": datetime(2026, 1, 1, 12, tzinfo=timezone(timedelta(hours=2))),
        "ZONED": "2026-01-01 10:00:00",
        "TAGS": ("a",),
    }
    with rowtide.Pipeline.from_text(EVERY_TYPE) as pipeline:
        pipeline.insert("every", [{"ROWTIME": AT, **given}])
        (row,) = pipeline.rows("every").to_arrow().to_pylist()
    assert {name: row[name] for name in given} == {
        "PRICE": Decimal("1.250"),
        "DOC": '{"a": [1, null]}',
        "AT": AT,
        "ZONED": AT,
        "TAGS": ["a"],
    }


def test_a_frame_without_zones_is_in_utc_and_finer_times_are_cut(orders: rowtide.Pipeline) -> None:
    times = pd.to_datetime(["2026-01-01 10:00:00.0019", "2026-01-01 10:00:01.0000"])
    orders.insert(
        "orders", pd.DataFrame({"rowtime": times, "id": [1, 2], "amount": [0.5, None]}, index=[7, 8])
    )
    assert list(orders.rows("orders")) == [
        (AT + timedelta(milliseconds=1), 1, Decimal("0.50")),
        (AT + timedelta(seconds=1), 2, None),
    ]


def test_inserted_rows_replace_a_topic_and_the_table_is_what_a_database_would_hold() -> None:
    with rowtide.Pipeline.from_text(FOREIGN.format(broker="nothing-listens")) as pipeline:
        pipeline.insert("readings", [{"sensor": "a", "amount": 1}, {"sensor": "b", "amount": 2}])
        pipeline.insert("readings", [{"sensor": "a", "amount": 3}, {"sensor": "c"}])
        pipeline.run_until_end()
        assert sorted(pipeline.table("latest")) == [("a", 3), ("b", 2)]
        assert pipeline.errors().to_arrow().column("REASON").to_pylist() == [
            'CONSTRAINT: column "AMOUNT" is NOT NULL'
        ]


def test_topics_are_read_up_to_their_ends_and_on_from_there(tmp_path: Path) -> None:
    broker = memory_broker(str(tmp_path))
    broker.ensure_topic("readings", 2)
    for number in range(10):
        value = b'{"sensor":"s%d","amount":%d}' % (number % 3, number)
        broker.produce("readings", [value], timestamps=[1_000 * number], partition=number % 2)
    broker.produce("readings", [b"nonsense"], timestamps=[10_000], partition=0)
    file = tmp_path / "readings.sql"
    file.write_text(FOREIGN.format(broker=tmp_path))
    with rowtide.Pipeline.from_file(file) as pipeline:
        assert list(pipeline.table("latest")) == []
        pipeline.run_until_end()
        # The last row of partition 1 waits for partition 0: the end of a topic is not a bound.
        assert len(pipeline.rows("readings")) == 9
        assert pipeline.errors().to_arrow().column("RAW").to_pylist() == [b"nonsense"]
        broker.produce("readings", [b'{"sensor":"s9","amount":9}'], timestamps=[11_000], partition=1)
        broker.produce("readings", [b'{"sensor":"s9","amount":10}'], timestamps=[12_000], partition=0)
        pipeline.run_until_end()
        assert len(pipeline.rows("readings")) == 11
        assert "its topic has been read" in refusal(pipeline.insert, "readings", [])
    result = rowtide.sql(file, "SELECT STREAM sensor, amount FROM readings WHERE amount > 8")
    assert [row[1:] for row in result] == [("s0", 9), ("s9", 9)]
    assert result.notes[0].startswith("READINGS: DECODE")
    assert result.bound is not None


def test_a_topic_that_cannot_be_read_now_is_read_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = memory_broker(str(tmp_path))
    broker.ensure_topic("readings", 2)
    broker.produce("readings", [b'{"sensor":"a","amount":1}'], timestamps=[1_000], partition=0)
    with rowtide.Pipeline.from_text(FOREIGN.format(broker=tmp_path)) as pipeline:
        with monkeypatch.context() as patched:
            patched.setattr(TopicReading, "ends", raise_unavailable)
            with pytest.raises(UnavailableError):
                pipeline.run_until_end()
        broker.produce("readings", [b'{"sensor":"b","amount":1}'], timestamps=[2_000], partition=1)
        pipeline.run_until_end()
        assert list(pipeline.table("latest")) == [("a", 1)]


def test_a_bound_of_a_view_holds_for_all_partitions_that_a_topic_turns_out_to_have(tmp_path: Path) -> None:
    view = """
        CREATE VIEW sorted AS SELECT STREAM sensor FROM readings ORDER BY readings.ROWTIME WITHIN INTERVAL '1' DAY;
    """
    broker = memory_broker(str(tmp_path))
    broker.ensure_topic("readings", 2)
    with rowtide.Pipeline.from_text(FOREIGN.format(broker=tmp_path) + view) as pipeline:
        pipeline.insert("sorted", bound="1970-01-01 00:00:05")
        for partition in (0, 1):
            broker.produce("readings", [b'{"sensor":"a"}'], timestamps=[1_000], partition=partition)
        pipeline.run_until_end()
        kinds = pipeline.errors().to_arrow().select(["KIND", "RELATION", "MESSAGE_PARTITION"]).to_pylist()
        late = [each["MESSAGE_PARTITION"] for each in kinds if each["RELATION"] == "SORTED"]
        assert sorted(late) == [0, 1]


def raise_unavailable(_: object) -> None:
    raise UnavailableError("the broker is down")


def test_rows_written_to_a_topic_are_rows_of_its_stream() -> None:
    written = """
        CREATE FOREIGN STREAM high (sensor VARCHAR(8)) SERVER k OPTIONS (topic 'high', format 'JSON');
        CREATE PUMP q STARTED AS INSERT INTO high SELECT STREAM sensor FROM readings WHERE amount > 1;
    """
    with rowtide.Pipeline.from_text(FOREIGN.format(broker="nothing-listens") + written) as pipeline:
        pipeline.insert("readings", [{"sensor": "a", "amount": 1}, {"sensor": "b", "amount": 2}])
        assert [row[1:] for row in pipeline.rows("high")] == [("b",)]


def test_a_query_sees_inserted_rows_and_lists_contents_in_order() -> None:
    result = rowtide.sql(ORDERS, "SELECT name, id FROM names ORDER BY id DESC")
    assert (list(result), result.columns, result.bound) == ([("two", 2), ("one", 1)], ("NAME", "ID"), None)
    assert len(rowtide.sql(ORDERS, "SHOW TABLES")) == 1
    rows = "CREATE STREAM s (a INTEGER); INSERT INTO s VALUES (1), (2), (3);"
    assert [a for _, a in rowtide.sql(rows, "SELECT STREAM a FROM s LIMIT 2")] == [1, 2]
    assert len(rowtide.sql(ORDERS, "SELECT name FROM names LIMIT 1")) == 1
    assert "expected one query" in refusal(rowtide.sql, ORDERS, "CREATE STREAM s (a INTEGER)")
    assert "^" in refusal(rowtide.sql, ORDERS, "SELECT nam FROM names")
    assert 'column "OP"' in refusal(
        rowtide.Pipeline.from_text("CREATE TABLE t (op INTEGER, PRIMARY KEY (op));").rows, "t"
    )


def test_windows_of_a_query_are_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """And not after each of the rows, for which 5,000 rows of one partition would take minutes."""
    made = []

    def counted(call: WindowCall, *, endless: bool) -> object:
        made.append(call.function)
        return make_window_function(call, endless=endless)

    monkeypatch.setattr("rowtide.operators.over.window_changes.make_window_function", counted)
    values = ", ".join(f"({number}, {number % 7})" for number in range(5_000))
    text = f"CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER); INSERT INTO t VALUES {values};"
    found = rowtide.sql(
        text,
        "SELECT n, COUNT(*) AS c, MAX(place) AS last, SUM(before) AS s FROM (SELECT id, n,"
        " ROW_NUMBER() OVER (ORDER BY n, id) AS place, LAG(id) OVER (PARTITION BY n ORDER BY id) AS before FROM t)"
        " GROUP BY n ORDER BY n LIMIT 2",
    )
    assert [tuple(row) for row in found] == [
        (0, 715, 715, sum(range(0, 4_998, 7))),
        (1, 715, 1_430, sum(range(1, 4_999, 7))),
    ]
    assert Counter(made) == {"ROW_NUMBER": 1, "LAG": 7}


def test_polars_and_pandas_are_named_when_they_are_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    result = rowtide.sql(ORDERS, "SELECT * FROM names")
    monkeypatch.setitem(sys.modules, "polars", SimpleNamespace(from_arrow=lambda table: ("frame", table)))
    assert result.to_polars() == ("frame", result.to_arrow())
    for package, convert in ("polars", result.to_polars), ("pandas", result.to_pandas):
        monkeypatch.setitem(sys.modules, package, None)
        with pytest.raises(StatementError) as caught:
            convert()
        assert caught.value.hint == f"Run: pip install {package}"


def test_an_import_loads_nothing_before_it_is_used() -> None:
    program = (
        "import sys, rowtide; before = {*sys.modules}; import rowtide.sql.grammar; assert callable(rowtide.sql); "
        "assert 'Pipeline' in dir(rowtide); print(*{name for name in before if name.startswith('rowtide')})"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == {"rowtide", "rowtide.sql"}
    with pytest.raises(AttributeError, match='no attribute "Nothing"'):
        _ = rowtide.Nothing
