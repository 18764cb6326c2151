"""The text that a checkpoint keeps of a pipeline: its plan is the same, and its secrets are not in it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowtide.errors import StatementError
from rowtide.plan.plan import ForeignStream, Server
from rowtide.runtime.change.kept_text import kept_text, refuse_hidden, with_secrets_of
from rowtide.runtime.recovery.digest import plan_digests
from rowtide.sql.pipeline import plan_pipeline

SQL = """\
-- password 'of nobody', postgresql://me:it@here
CREATE SERVER k FOREIGN DATA WRAPPER KAFKA OPTIONS (bootstrap_servers 'h:9092', "sasl.password" {0});
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (password
  {0}, url {1});
CREATE FOREIGN STREAM s (password VARCHAR, url VARCHAR) SERVER k
  OPTIONS (topic 'password', registry_url {1}, registry_user 'u', registry_password {0}, format 'JSON');
CREATE FOREIGN TABLE t (url VARCHAR) SERVER d;
CREATE PUMP p AS INSERT INTO t SELECT STREAM url FROM s WHERE url LIKE 'http://{2}@%' OR password = {0};
"""


def literal(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def text_of(secret: str, user: str = "me") -> str:
    return SQL.format(literal(secret), literal(f"postgresql://{user}:{user}@here/db"), user)


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1), st.sampled_from(["me", "o.k"]))
def test_no_secret_is_kept_and_nothing_else_changes(secret: str, user: str) -> None:
    text = text_of(secret, user)
    plan = plan_pipeline(text)
    kept = kept_text(text, plan)
    hidden = plan_pipeline(kept)
    holders: list[Server | ForeignStream] = [*hidden.servers, *hidden.foreign_streams]
    options = dict(option for each in holders for option in each.options)
    assert {name for name, value in options.items() if value == "***"} == {
        "sasl.password",
        "password",
        "url",
        "registry_password",
    }
    assert options["registry_url"] == "postgresql://***@here/db"
    assert (options["bootstrap_servers"], options["registry_user"], options["topic"]) == (
        "h:9092",
        "u",
        "password",
    )
    assert plan_digests(hidden) == plan_digests(plan)
    assert with_secrets_of(hidden, plan) == plan
    # A comment and the strings of queries are no options.
    assert kept.count("\n") == text.count("\n")
    assert kept.splitlines()[0] == text.splitlines()[0]
    assert kept.splitlines()[-1] == text.splitlines()[-1]


def test_a_secret_that_nothing_gives_is_named() -> None:
    plan = plan_pipeline(text_of("secret"))
    other = plan_pipeline(text_of("other").replace("SERVER k", "SERVER other"))
    kept = plan_pipeline(kept_text(text_of("secret"), plan))
    with pytest.raises(StatementError, match=r'option "sasl.password" of "K" is secret') as refused:
        refuse_hidden(with_secrets_of(kept, other))
    assert "--was" in str(refused.value.hint)
    refuse_hidden(with_secrets_of(kept, plan))
