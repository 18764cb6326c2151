"""A type that a message cannot carry is refused, and the error names no other format."""

from __future__ import annotations

import re

import pytest

from rowtide.codec.registry import FORMATS
from rowtide.errors import StatementError
from rowtide.runtime.option_check import check_options
from rowtide.sql.pipeline import plan_pipeline

SQL = """CREATE SERVER k FOREIGN DATA WRAPPER KAFKA OPTIONS (bootstrap_servers 'localhost:9092');
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite://');
CREATE FOREIGN STREAM r (a INTEGER) SERVER k OPTIONS (topic 'r', format 'JSON');
CREATE FOREIGN TABLE t (a INTEGER) SERVER d;
CREATE PUMP p STARTED AS INSERT INTO t SELECT STREAM a FROM r;
CREATE FOREIGN STREAM o (d INTERVAL DAY TO SECOND) SERVER k OPTIONS (topic 'o', format '{format}'{more});
"""
WRITES = "CREATE PUMP q STARTED AS INSERT INTO o SELECT STREAM INTERVAL '1' DAY AS d FROM r;"
TEXTS = {"CSV", "KEY_VALUE"}
"""Formats whose values are text, which any type has."""
SCHEMAS = {"AVRO", "PROTOBUF", "DEBEZIUM_AVRO"}


@pytest.mark.parametrize("pump", ["", WRITES], ids=["read", "written"])
@pytest.mark.parametrize("name", sorted(FORMATS.keys() - TEXTS))
def test_an_interval_is_refused_by_the_name_of_its_column(name: str, pump: str) -> None:
    more = ", registry_url 'http://localhost:1'" if name in SCHEMAS else ""
    text = SQL.format(format=name, more=more) + pump
    with pytest.raises(StatementError) as caught:
        check_options(plan_pipeline(text), text, file="p.sql")
    said = str(caught.value)
    others = {each for each in FORMATS if each != name and re.search(rf"\b{each}\b", said)}
    assert not others, said


@pytest.mark.parametrize("pump", ["", WRITES], ids=["read", "written"])
@pytest.mark.parametrize("name", sorted(TEXTS))
def test_formats_of_text_carry_an_interval(name: str, pump: str) -> None:
    text = SQL.format(format=name, more="") + pump
    check_options(plan_pipeline(text), text, file="p.sql")
