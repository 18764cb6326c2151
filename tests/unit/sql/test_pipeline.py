"""What statements become: the nodes, where the errors are named, and what a session keeps."""

from __future__ import annotations

import pytest

from rowtide.errors import StatementError
from rowtide.expr.tree import Call, FieldRef, RowtimeRef
from rowtide.plan.nodes import (
    AsOfJoin,
    BoundPolicy,
    Filter,
    GroupByPeriod,
    JoinKind,
    KeyedTable,
    Merge,
    Node,
    Project,
    Promote,
    Sort,
    Source,
    TableSource,
    nodes_below,
)
from rowtide.rows.types import BIGINT, INTEGER, TIMESTAMP, VARCHAR, Type
from rowtide.rowtime.period import CalendarUnit, Period, PeriodEdge
from rowtide.sql.pipeline import SqlSession, plan_pipeline

STREAM = "CREATE STREAM s (at TIMESTAMP, k VARCHAR(4), n INTEGER);"
FOREIGN = """
CREATE SERVER broker FOREIGN DATA WRAPPER KAFKA
  OPTIONS (bootstrap_servers 'b:9092', "security.protocol" 'SSL');
CREATE FOREIGN STREAM f (at TIMESTAMP, k VARCHAR(4), n INTEGER) SERVER broker
  OPTIONS (topic 'f', max_ahead '2 HOUR');
"""
SINK = """
CREATE SERVER db FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite://');
CREATE FOREIGN TABLE sink (window_end TIMESTAMP, k VARCHAR(4), total BIGINT, PRIMARY KEY (window_end, k))
  SERVER db;
"""


def relation(text: str, name: str) -> Node:
    return dict(plan_pipeline(text).relations)[name]


def chain(node: Node) -> list[str]:
    """Name the nodes from the top down, with the relation that each reports to."""
    return [f"{type(each).__name__} {each.relation}" for each in nodes_below(node)]


def test_a_plain_view_is_judged_and_merged_under_the_name_of_its_stream() -> None:
    node = relation(STREAM + "CREATE VIEW v AS SELECT STREAM ROWTIME, n FROM s WHERE n > 1;", "V")
    assert chain(node) == ["Project V", "Filter V", "Merge S", "Sort S", "Source S"]
    assert node.row_type.names == ("N",)


def test_where_comes_before_a_promotion_and_the_judge_carries_the_name_of_the_view() -> None:
    view = "CREATE VIEW v AS SELECT STREAM at AS ROWTIME, * FROM f WHERE n > 1;"
    node = relation(FOREIGN + view, "V")
    assert chain(node) == ["Merge V", "Sort V", "Promote V", "Filter V", "Source F"]
    promote = next(each for each in nodes_below(node) if isinstance(each, Promote))
    assert promote.bounds is BoundPolicy.PASS
    assert promote.max_ahead_ms == 2 * 3_600_000
    assert node.row_type.names == ("AT", "K", "N")


def test_a_stream_is_judged_at_its_entrance_and_again_where_it_is_promoted() -> None:
    view = "CREATE VIEW v AS SELECT STREAM at AS ROWTIME, n FROM s ORDER BY at WITHIN INTERVAL '10' SECOND;"
    node = relation(STREAM + view, "V")
    assert chain(node) == ["Project V", "Merge V", "Sort V", "Promote V", "Sort S", "Source S"]
    assert [each.within_ms for each in nodes_below(node) if isinstance(each, Sort)] == [10_000, 0]


def test_the_old_rowtime_can_be_kept_beside_the_promoted_one() -> None:
    node = relation(STREAM + "CREATE VIEW v AS SELECT STREAM at AS ROWTIME, ROWTIME AS came FROM s;", "V")
    kept = [each for each in nodes_below(node) if isinstance(each, Project)]
    assert kept[-1].expressions[-1] == RowtimeRef()
    assert kept[0].expressions == (FieldRef(3, TIMESTAMP),)


def test_a_shifted_rowtime_maps_bounds_and_needs_no_judge_of_its_own() -> None:
    view = "CREATE VIEW v AS SELECT STREAM ROWTIME + INTERVAL '1' HOUR AS ROWTIME, n FROM f;"
    node = relation(FOREIGN + view, "V")
    assert chain(node) == ["Project V", "Promote V", "Merge F", "Sort F", "Source F"]
    promote = next(each for each in nodes_below(node) if isinstance(each, Promote))
    assert (promote.bounds, promote.max_ahead_ms) == (BoundPolicy.MAP, None)


def test_a_group_computes_its_keys_and_arguments_below_and_having_before_the_select_list() -> None:
    node = relation(
        STREAM
        + "CREATE VIEW v AS SELECT STREAM FLOOR(ROWTIME TO MINUTE) AS m, UPPER(k) AS k, SUM(n + 1) AS t,"
        " SUM(n + 1) * 2 AS u, COUNT(*) FILTER (WHERE n > 1) AS c FROM s"
        " GROUP BY FLOOR(ROWTIME TO MINUTE), UPPER(k) HAVING MAX(n) > 3;",
        "V",
    )
    assert chain(node) == [
        "Project V",
        "Filter V",
        "GroupByPeriod V",
        "Project V",
        "Merge S",
        "Sort S",
        "Source S",
    ]
    group = next(each for each in nodes_below(node) if isinstance(each, GroupByPeriod))
    assert group.period == Period(PeriodEdge.FLOOR, CalendarUnit.MINUTE)
    assert [call.function for call in group.aggregates] == ["MAX", "SUM", "COUNT"]
    assert all(isinstance(call.argument, FieldRef | None) for call in group.aggregates)
    assert group.aggregates[2].condition == FieldRef(3, Type(group.input.row_type[3].type.kind))
    assert [field.type for field in node.row_type][2:] == [BIGINT, BIGINT, BIGINT]


@pytest.mark.parametrize(
    ("term", "period"),
    [
        ("CEIL(ROWTIME TO MONTH)", Period(PeriodEdge.CEIL, CalendarUnit.MONTH)),
        ("STEP(ROWTIME BY INTERVAL '90' SECOND)", Period(PeriodEdge.FLOOR, step_ms=90_000)),
        ("s.ROWTIME", Period(PeriodEdge.EXACT)),
    ],
)
def test_a_term_of_rowtime_is_the_period(term: str, period: Period) -> None:
    node = relation(
        STREAM + f"CREATE VIEW v AS SELECT STREAM ROWTIME, k, COUNT(*) AS c FROM s GROUP BY {term}, k;", "V"
    )
    assert next(each for each in nodes_below(node) if isinstance(each, GroupByPeriod)).period == period
    assert node.row_type.names == ("K", "C")


def test_a_promoted_start_of_the_period_is_an_expression_of_the_groups_rowtime() -> None:
    view = (
        "CREATE VIEW v AS SELECT STREAM FLOOR(ROWTIME TO MONTH) AS ROWTIME, COUNT(*) AS c FROM s"
        " GROUP BY FLOOR(ROWTIME TO MONTH);"
    )
    node = relation(STREAM + view, "V")
    assert chain(node)[:3] == ["Project V", "Sort V", "Promote V"]
    promote = next(each for each in nodes_below(node) if isinstance(each, Promote))
    assert promote.bounds is BoundPolicy.MAP


def test_union_all_merges_in_the_order_of_the_text_and_aligns_types() -> None:
    node = relation(
        "CREATE STREAM a (x INTEGER); CREATE STREAM b (y BIGINT); CREATE STREAM c (z SMALLINT);"
        "CREATE VIEW v AS SELECT STREAM * FROM a UNION ALL SELECT STREAM * FROM b"
        " UNION ALL SELECT STREAM * FROM c;",
        "V",
    )
    assert isinstance(node, Merge)
    assert [list(nodes_below(each))[-1].relation for each in node.sources] == ["A", "B", "C"]
    assert {each.row_type for each in node.sources} == {node.row_type}
    assert node.row_type[0].type == BIGINT


def test_a_view_that_two_read_is_one_node() -> None:
    plan = plan_pipeline(
        STREAM + "CREATE VIEW v AS SELECT STREAM n + 1 AS m FROM s;"
        "CREATE VIEW a AS SELECT STREAM m FROM v WHERE m > 1;"
        "CREATE VIEW b AS SELECT STREAM m FROM v WHERE m > 2;"
    )
    relations = dict(plan.relations)
    assert relations["A"].inputs == relations["B"].inputs == (relations["V"],)


def test_a_join_with_a_table_takes_its_keys_from_on_and_filters_the_rest() -> None:
    node = relation(
        STREAM + "CREATE TABLE t (k VARCHAR(4) PRIMARY KEY, low SMALLINT, name VARCHAR(9));"
        "CREATE VIEW v AS SELECT STREAM s.n, t.name FROM s JOIN t FOR SYSTEM_TIME AS OF s.ROWTIME"
        " ON t.k = s.k AND s.n > t.low AND t.name <> 'x';",
        "V",
    )
    assert chain(node)[:2] == ["Project V", "Filter V"]
    join = next(each for each in nodes_below(node) if isinstance(each, AsOfJoin))
    assert (join.table_key, join.stream_key, join.kind) == ((0,), (1,), JoinKind.INNER)
    assert isinstance(join.table, Filter)


def test_a_key_that_is_computed_is_a_field_of_its_side() -> None:
    node = relation(
        STREAM + "CREATE TABLE t (k BIGINT PRIMARY KEY, name VARCHAR(9));"
        "CREATE VIEW v AS SELECT STREAM name, s.* FROM t RIGHT JOIN s ON t.k = s.n;",
        "V",
    )
    join = next(each for each in nodes_below(node) if isinstance(each, AsOfJoin))
    assert (join.kind, join.stream_key) == (JoinKind.LEFT, (3,))
    assert node.row_type.names == ("NAME", "AT", "K", "N")
    assert isinstance(join.stream, Project)


def test_a_table_of_insert_statements_is_loaded_once() -> None:
    text = (
        "CREATE TABLE t (k VARCHAR(4) PRIMARY KEY, n BIGINT);"
        "INSERT INTO t (n, k) VALUES (1 + 1, 'a'), (-3, 'b');"
    )
    node = relation(text, "T")
    assert isinstance(node, KeyedTable)
    assert isinstance(node.input, TableSource)
    assert (node.input.rows, node.input.loaded_once) == ((("a", 2), ("b", -3)), True)
    fed = dict(plan_pipeline(text, inserted=["T"]).relations)["T"]
    assert chain(fed) == ["KeyedTable T", "Sort T", "TableSource T"]


def test_pumps_into_a_stream_merge_in_the_order_in_which_they_were_made() -> None:
    text = (
        STREAM + "CREATE STREAM out (n BIGINT);"
        "CREATE PUMP q AS INSERT INTO out SELECT STREAM n FROM s WHERE n > 1;"
        "CREATE PUMP p AS INSERT INTO out SELECT STREAM n * 2 FROM s;"
        "CREATE VIEW v AS SELECT STREAM n + 1 AS m FROM out;"
    )
    node = relation(text, "V")
    merge = node.inputs[0]
    assert isinstance(merge, Merge)
    assert [each.relation for each in merge.sources] == ["Q", "P"]
    assert merge.row_type[0].type == BIGINT
    with_producer = dict(plan_pipeline(text, inserted=["OUT"]).relations)["OUT"]
    assert [each.relation for each in with_producer.inputs] == ["Q", "P", "OUT"]


def test_a_pump_into_a_foreign_table_casts_by_position_and_knows_what_rowtime_feeds() -> None:
    plan = plan_pipeline(
        STREAM + SINK + "CREATE VIEW v AS SELECT STREAM ROWTIME AS w, k, SUM(n) AS total FROM s"
        " GROUP BY FLOOR(ROWTIME TO MINUTE), k;"
        "CREATE PUMP p AS INSERT INTO sink (k, total, window_end) SELECT STREAM k, total, w FROM v;"
    )
    (pump,) = plan.pumps
    assert (pump.name, pump.target, pump.rowtime_field) == ("P", "SINK", 0)
    assert pump.node.row_type.names == plan.foreign_tables[0].row_type.names
    assert [f.type for f in pump.node.row_type] == [f.type for f in plan.foreign_tables[0].row_type]
    assert plan.foreign_tables[0].key == (0, 1)


def test_a_rowtime_selected_plainly_feeds_the_column_at_its_position() -> None:
    plan = plan_pipeline(
        STREAM
        + SINK
        + "CREATE PUMP p AS INSERT INTO sink (window_end, k, total) SELECT STREAM ROWTIME, k, n FROM s;"
    )
    assert plan.pumps[0].rowtime_field == 0
    assert isinstance(plan.pumps[0].node, Project)
    assert plan.pumps[0].node.expressions[0] == RowtimeRef()


def test_options_fold_and_quoted_ones_stay() -> None:
    (server,) = plan_pipeline(FOREIGN).servers
    assert server.options == (("bootstrap_servers", "b:9092"), ("security.protocol", "SSL"))


def test_schemas_name_what_is_not_in_the_default_one() -> None:
    plan = plan_pipeline(
        """CREATE SCHEMA "Test"; SET SCHEMA '"Test"'; CREATE STREAM "a.b" (x INTEGER);
        SET SCHEMA PUBLIC; CREATE VIEW v AS SELECT STREAM x FROM "Test"."a.b";"""
    )
    assert [name for name, _ in plan.relations] == ['Test."a.b"', "V"]


def test_a_session_takes_further_texts_and_a_refused_one_changes_nothing() -> None:
    session = SqlSession()
    session.feed(STREAM)
    session.feed("CREATE VIEW v AS SELECT STREAM n FROM s;")
    before = session.plan
    with pytest.raises(StatementError) as refused:
        session.feed(
            "CREATE VIEW w AS SELECT STREAM n FROM v; CREATE VIEW x AS SELECT STREAM m FROM w;", file="a.sql"
        )
    assert session.plan is before
    assert refused.value.render().startswith('a.sql:1:73: error: column "M" does not exist')
    session.feed("CREATE OR REPLACE VIEW v AS SELECT STREAM n, k FROM s;")
    assert dict(session.plan.relations)["V"].row_type.names == ("N", "K")
    session.feed("DROP VIEW v;")
    assert "V" not in dict(session.plan.relations)


def test_replacing_a_relation_is_refused_where_a_reader_no_longer_fits_with_the_readers_own_text() -> None:
    session = SqlSession()
    session.feed(STREAM)
    session.feed("CREATE VIEW v AS\n  SELECT STREAM n FROM s;", file="first.sql")
    with pytest.raises(StatementError) as refused:
        session.feed("CREATE OR REPLACE STREAM s (k VARCHAR(4));", file="second.sql")
    assert refused.value.render().startswith("first.sql:2:17: error:")


def test_a_long_chain_of_conditions_is_no_deep_one() -> None:
    condition = " OR ".join(f"n = {number}" for number in range(2_000))
    assert relation(STREAM + f"CREATE VIEW v AS SELECT STREAM n FROM s WHERE {condition};", "V")


def test_the_type_of_a_column_of_text_is_the_declared_one() -> None:
    assert relation(STREAM, "S").row_type[1].type == Type(VARCHAR.kind, 4)
    assert relation(STREAM, "S").row_type[2].type == INTEGER
    assert isinstance(list(nodes_below(relation(STREAM, "S")))[-1], Source)


def test_text_that_fits_is_not_cast_and_text_that_may_not_fit_is() -> None:
    text = (
        "CREATE STREAM a (x VARCHAR(4)); CREATE STREAM b (x VARCHAR(9)); CREATE STREAM w (x VARCHAR(4));"
        "CREATE VIEW v AS SELECT STREAM * FROM a UNION ALL SELECT STREAM * FROM b;"
        "CREATE PUMP p AS INSERT INTO w SELECT STREAM * FROM v;"
    )
    relations = dict(plan_pipeline(text).relations)
    merge = relations["V"]
    assert merge.row_type[0].type == Type(VARCHAR.kind, 9)
    assert [each.row_type for each in merge.inputs] == [merge.row_type] * 2
    first = merge.inputs[0]
    assert isinstance(first, Project)
    assert first.expressions == (FieldRef(0, Type(VARCHAR.kind, 9)),)
    narrowed = relations["W"]
    assert isinstance(narrowed, Project)
    assert isinstance(narrowed.expressions[0], Call)


@pytest.mark.parametrize(
    ("query", "accepted"),
    [
        ("SELECT k, n FROM t", True),
        ("SELECT k, n + 1 FROM t WHERE n > 1", True),
        ("SELECT UPPER(k), n FROM t", False),
        ("SELECT 'x', n FROM t", False),
    ],
)
def test_changes_of_a_table_go_where_the_key_keeps_them_apart(query: str, accepted: bool) -> None:
    text = (
        "CREATE SERVER db FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite://');"
        "CREATE TABLE t (k VARCHAR(4) PRIMARY KEY, n INTEGER);"
        "CREATE FOREIGN TABLE o (k VARCHAR(8) PRIMARY KEY, n BIGINT) SERVER db;"
        f"CREATE PUMP p AS INSERT INTO o {query};"
    )
    if accepted:
        assert len(plan_pipeline(text).pumps) == 1
    else:
        with pytest.raises(StatementError, match="does not contain the key of the changes"):
            plan_pipeline(text)


def test_state_that_is_kept_for_ever_is_a_notice_and_state_of_a_table_is_none() -> None:
    text = """
    CREATE STREAM s (k INTEGER, v INTEGER);
    CREATE TABLE t (k INTEGER, v INTEGER, PRIMARY KEY (k));
    CREATE VIEW endless OPTIONS (RETENTION 'unbounded') AS
      SELECT STREAM k, SUM(v) AS v FROM s GROUP BY k EMIT CHANGES;
    CREATE VIEW forgotten OPTIONS (RETENTION '2 HOURS') AS SELECT STREAM MAX(v) AS v FROM s EMIT CHANGES;
    CREATE VIEW of_endless AS SELECT v, COUNT(*) AS n FROM endless GROUP BY v;
    CREATE VIEW of_table AS SELECT v, COUNT(*) AS n FROM t GROUP BY v;
    CREATE VIEW minutes OPTIONS (RETENTION 'UNBOUNDED') AS
      SELECT STREAM COUNT(*) AS n FROM s GROUP BY FLOOR(ROWTIME TO MINUTE) EMIT CHANGES;
    CREATE VIEW of_minutes OPTIONS (RETENTION 'UNBOUNDED') AS SELECT MAX(n) AS n FROM minutes;
    CREATE VIEW total OPTIONS (RETENTION 'UNBOUNDED') AS SELECT SUM(n) AS n FROM minutes;
    CREATE VIEW largest OPTIONS (RETENTION 'UNBOUNDED') AS SELECT n FROM minutes ORDER BY n DESC LIMIT 3;
    CREATE VIEW tables AS SELECT t.v, e.v AS other FROM t JOIN endless AS e ON t.k = e.k;
    CREATE VIEW streams OPTIONS (RETENTION '1 DAY') AS SELECT STREAM a.v FROM s AS a JOIN s AS b ON a.k = b.k;
    CREATE VIEW kept OPTIONS (RETENTION 'UNBOUNDED') AS
      SELECT STREAM a.v FROM s AS a JOIN s AS b ON a.k = b.k;
    """
    assert [(each.relation, each.message) for each in plan_pipeline(text).notices] == [
        ("ENDLESS", "keeps a group for every K forever: RETENTION is UNBOUNDED"),
        ("FORGOTTEN", "keeps its group for INTERVAL '2' HOUR after its last row, then forgets it"),
        ("OF_MINUTES", "keeps its group forever: RETENTION is UNBOUNDED"),
        ("LARGEST", "keeps all rows forever, to know the first ones: RETENTION is UNBOUNDED"),
        ("STREAMS", "keeps the rows of two streams for INTERVAL '1' DAY, and joins no others"),
        ("KEPT", "keeps all rows of two streams forever: RETENTION is UNBOUNDED"),
    ]


def test_windows_that_never_forget_a_key_and_comparisons_with_null_are_notices() -> None:
    text = """
    CREATE STREAM s (k INTEGER, v INTEGER);
    CREATE VIEW running AS SELECT STREAM k, SUM(v) OVER (PARTITION BY k) AS t FROM s;
    CREATE VIEW firsts OPTIONS (RETENTION 'UNBOUNDED') AS
      SELECT STREAM k, v FROM s QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY ROWTIME) = 1;
    CREATE VIEW timed OPTIONS (RETENTION '1 DAY') AS SELECT STREAM MAX(v) OVER (PARTITION BY k) AS m FROM s;
    CREATE VIEW limited AS
      SELECT STREAM SUM(v) OVER (PARTITION BY k, FLOOR(ROWTIME TO DAY)) AS a, COUNT(*) OVER () AS b,
        SUM(v) OVER (PARTITION BY k ROWS 3 PRECEDING) AS c
      FROM s;
    CREATE VIEW compared AS SELECT STREAM k FROM s WHERE k = NULL OR NOT (v <> NULL) OR v IS NULL;
    CREATE VIEW reads AS SELECT STREAM t FROM running WHERE t IN (1, 2);
    """
    kept = "keeps running results of every K forever"
    assert [(each.relation, each.message) for each in plan_pipeline(text).notices] == [
        (
            "RUNNING",
            f"{kept}. Add a start to the window, or FLOOR(ROWTIME TO DAY) to PARTITION BY; if this is intended,"
            " write CREATE .. OPTIONS (RETENTION 'UNBOUNDED') AS ..",
        ),
        ("FIRSTS", f"{kept}: RETENTION is UNBOUNDED"),
        ("TIMED", f"{kept}: RETENTION of a time does not limit windows"),
        ("COMPARED", "a comparison with NULL is never TRUE (line 11): write x IS NULL"),
        ("COMPARED", "a comparison with NULL is never TRUE (line 11): write x IS NOT NULL"),
    ]


def test_what_is_planned_already_is_planned_anew_when_something_below_it_changes() -> None:
    server = "CREATE SERVER b FOREIGN DATA WRAPPER KAFKA OPTIONS (bootstrap_servers 'b:1');"
    stream = "CREATE OR REPLACE FOREIGN STREAM f (a {}) SERVER b OPTIONS (topic 't');"
    first = "CREATE OR REPLACE VIEW v AS SELECT STREAM {} AS a FROM f;"
    second, third, fourth = (
        f"CREATE VIEW {name} AS SELECT STREAM a + 1 AS a FROM {of};" for name, of in ("wv", "xw", "yx")
    )
    placed = "CREATE VIEW placed AS SELECT STREAM KAFKA_OFFSET AS o, a FROM f;"
    table = "CREATE TABLE t (a INTEGER); INSERT INTO t VALUES (1);"
    once = server + stream.format("BIGINT") + first.format("a * 2") + second + placed + table + third + fourth
    changes = [
        *(server, stream.format("INTEGER"), first.format("a"), second, placed, first.format("a * 2"), table),
        *(third, stream.format("BIGINT"), fourth),
    ]
    one_by_one = SqlSession()
    for statement in changes:
        one_by_one.feed(statement)
    assert dict(one_by_one.plan.relations) == dict(plan_pipeline(once).relations)
    assert dict(plan_pipeline("".join(changes)).relations) == dict(plan_pipeline(once).relations)


def test_views_stand_on_one_another_a_hundred_high() -> None:
    views = ["CREATE VIEW v0 AS SELECT STREAM k, n FROM s WHERE n > 0;"]
    for at in range(1, 100):
        views.append(f"CREATE VIEW v{at} AS SELECT STREAM k, n + 1 AS n FROM v{at - 1} WHERE n <> {at};")
    pump = "CREATE STREAM o (k VARCHAR(4), n INTEGER); CREATE PUMP p AS INSERT INTO o SELECT * FROM v99;"
    session = SqlSession()
    session.feed(STREAM + "".join(views) + pump)
    session.feed("CREATE OR REPLACE VIEW v0 AS SELECT STREAM k, n FROM s;")
    assert isinstance(session.query("SELECT STREAM n FROM v99"), Project)


def test_the_key_of_a_table_is_never_null_whatever_a_pump_may_bring() -> None:
    plan = plan_pipeline(
        "CREATE STREAM s (k INTEGER, x INTEGER); CREATE TABLE t (k INTEGER PRIMARY KEY, x INTEGER);"
        "CREATE PUMP p STARTED AS INSERT INTO t SELECT STREAM k, x FROM s;"
    )
    table = dict(plan.relations)["T"].row_type
    assert [field.nullable for field in table] == [False, True]


def test_no_row_waits_for_a_table_that_nothing_fills() -> None:
    session = SqlSession()
    session.feed(
        "CREATE STREAM s (k INTEGER); CREATE TABLE t (k INTEGER PRIMARY KEY, name VARCHAR(4)); "
        "CREATE VIEW v AS SELECT STREAM s.k, t.name FROM s LEFT JOIN t ON s.k = t.k;"
    )
    (table,) = [
        each for each in nodes_below(dict(session.plan.relations)["V"]) if isinstance(each, TableSource)
    ]
    assert (table.rows, table.loaded_once) == ((), True)
    assert [each.message for each in session.plan.notices if "empty until" in each.message]
