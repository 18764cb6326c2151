"""What `rowtide check` says about tables of databases: wrong options, at their places, and no false warning."""

from __future__ import annotations

import pytest

from rowtide.errors import StatementError
from rowtide.runtime.backfill.messages import kafka_frames
from rowtide.runtime.option_check import check_options
from rowtide.runtime.recovery.digest import plan_digests
from rowtide.sql.pipeline import plan_pipeline

SERVERS = """CREATE SERVER crm FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'postgresql://reader@crm/app');
CREATE SERVER k FOREIGN DATA WRAPPER MEMORY;
"""
USERS = "CREATE TABLE users (id INTEGER PRIMARY KEY, name VARCHAR(9)) SERVER crm"


@pytest.mark.parametrize(
    ("statement", "message", "hint"),
    [
        (
            f"{USERS} OPTIONS (topic 'users');",
            'option "topic" of connector "rdbms" does not exist',
            "table_name",
        ),
        (f"{USERS} OPTIONS (poll_intervall '1 SECOND');", "does not exist", 'Did you mean "poll_interval"?'),
        (f"{USERS} OPTIONS (poll_interval 'often');", "'often' is not an interval such as", None),
        (f"{USERS} OPTIONS (compare_interval '0 SECOND');", "'0 SECOND' is not above zero", None),
        (f"{USERS} OPTIONS (lookback 'long');", 'option "lookback"', "It must be a whole number."),
        (f"{USERS} OPTIONS (lookback '-1');", 'option "lookback"', "It must be at least 0."),
        (f"{USERS} OPTIONS (format 'JSON');", "does not belong to a table of a database", "by their names"),
        (
            f"{USERS} OPTIONS (idle_timeout '5 SECOND');",
            "does not belong to a table of a database",
            "every poll",
        ),
        (
            "CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER OPTIONS (path '$.a')) SERVER crm;",
            'option "path" does not belong to a column of a table of a database',
            "Read a view",
        ),
        (
            "CREATE FOREIGN STREAM s (a INTEGER) SERVER crm;",
            'connector "rdbms" cannot be read from: it has no source',
            "CREATE TABLE .. (.. PRIMARY KEY ..) SERVER reads a table of it",
        ),
    ],
)
def test_a_wrong_option_is_refused_with_its_place(statement: str, message: str, hint: str | None) -> None:
    text = SERVERS + statement
    with pytest.raises(StatementError) as caught:
        check_options(plan_pipeline(text), text, file="p.sql")
    assert message in caught.value.message
    assert caught.value.place is not None
    assert hint is None or hint in str(caught.value.hint)


@pytest.mark.parametrize("missing", ["(id INTEGER)", "(id INTEGER PRIMARY KEY DEFAULT 1)"])
def test_a_table_needs_a_key_and_takes_no_defaults(missing: str) -> None:
    with pytest.raises(StatementError, match="a table with SERVER"):
        plan_pipeline(f"{SERVERS} CREATE TABLE t {missing} SERVER crm;")


def test_right_options_are_accepted() -> None:
    text = f"""{SERVERS}{USERS} OPTIONS (table_name 'app.users', changes_by 'updated_at', lookback '5',
      poll_interval '1 MINUTE', compare_interval '1 HOUR');
    CREATE TABLE t (id INTEGER PRIMARY KEY, since TIMESTAMP OPTIONS (time_unit 's')) SERVER crm;"""
    assert check_options(plan_pipeline(text), text, file="p.sql") == ()


def test_a_join_is_not_warned_of_a_silent_table_because_polls_move_its_bound() -> None:
    text = f"""{SERVERS}{USERS};
    CREATE FOREIGN STREAM clicks (who INTEGER) SERVER k OPTIONS (topic 'c');
    CREATE VIEW v AS SELECT STREAM c.who, u.name FROM clicks AS c JOIN users AS u ON c.who = u.id;"""
    assert plan_pipeline(text).notices == ()


def test_the_pace_of_polls_may_change_between_two_runs_and_the_table_not() -> None:
    def digest(options: str) -> str:
        (found,) = plan_digests(plan_pipeline(f"{SERVERS}{USERS} OPTIONS ({options});")).values()
        return found

    first = digest("table_name 'a'")
    assert digest("table_name 'a', poll_interval '1 HOUR', compare_interval '2 HOUR', lookback '9'") == first
    assert digest("table_name 'b'") != first
    assert digest("table_name 'a', changes_by 'c'") != first


def test_a_backfill_refuses_the_table_and_says_what_to_do_instead() -> None:
    with pytest.raises(StatementError, match="does not keep its earlier states") as caught:
        kafka_frames(plan_pipeline(f"{SERVERS}{USERS};"), lambda *_: None)  # type: ignore[arg-type]
    assert "rowtide run --from earliest" in str(caught.value.hint)
