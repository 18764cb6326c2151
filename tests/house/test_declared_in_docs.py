"""What pages and pictures say of windows, formats, databases and guarantees is what the code declares."""

from __future__ import annotations

import re

import pytest

from house.machine import ROOT
from rowtide.cli.author.connectors import guarantees, options_of
from rowtide.codec.registry import FORMATS
from rowtide.rowtime.period import CalendarUnit
from rowtide.sql.expressions.aggregate_list import GROUP_WINDOWS
from rowtide.sql.group.group_windows import FORMS
from rowtide_connectors.api import Guarantee
from rowtide_connectors.rdbms.connector import KINDS
from rowtide_connectors.registry import BUILT_IN, find_connector

TABLES_ONLY = {"DEBEZIUM_AVRO", "DEBEZIUM_JSON"}
"""Formats of changes: a stream has rows."""
DATABASES = {"postgresql": "PostgreSQL", "mariadb": "MariaDB", "mysql": "MariaDB", "sqlite": "SQLite"}
"""What the picture calls the database of an address."""
PROMISED = {
    ("files", "source"): "Files",
    ("files", "message sink"): "Files",
    ("http", "message sink"): "Webhooks",
    ("kafka", "source"): "Exactly once into the database",
    ("kafka", "message sink"): "Exactly once into a topic",
    ("rdbms", "sink"): "Exactly once into the database",
    ("rdbms", "tables as sources"): "Tables of databases",
}
"""The section of docs/guarantees.md that promises what a part of a connector declares; ``memory`` is of tests."""
WORDS = {
    Guarantee.IN_COMMIT: "Each input message is reflected once",
    Guarantee.BY_COMMIT_NUMBER: "is in exactly one of them",
    Guarantee.IN_TRANSACTIONS: "isolation.level=read_committed",
    Guarantee.AT_LEAST_ONCE: "at least once",
    Guarantee.LISTED: "is read exactly once, in the order of the list of files",
    Guarantee.LOGGED: "is applied exactly once, with a rowtime that is logged before it is processed",
}
"""What such a section says of a guarantee."""


def page(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def section(path: str, heading: str) -> str:
    """Return a section of a page, up to the next heading of its level."""
    found = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", page(path), re.MULTILINE | re.DOTALL)
    assert found is not None, f"{path} has no section {heading}"
    return found[1]


def syntax(path: str) -> str:
    """Return the boxes of the section Syntax of a page."""
    return "\n".join(re.findall(r"```text\n(.*?)```", section(path, "Syntax"), re.DOTALL))


def meaning(text: str, option: str) -> str:
    """Return the first sentence that a table of options has of an option."""
    (row,) = re.findall(rf"^\| `{option}` \| (.*?) \|$", text, re.MULTILINE)
    return str(row).partition(". ")[0]


def quoted(text: str) -> set[str]:
    """Return the words of capital letters that stand in signs of code or in quotes."""
    return set(re.findall(r"[`']([A-Z][A-Z_]+)[`']", text))


def test_the_syntax_of_group_by_has_every_window_and_unit() -> None:
    box = syntax("docs/sql/group-by.md")
    assert FORMS.keys() == GROUP_WINDOWS
    assert [each for each in FORMS.values() if each not in box] == []
    (units,) = re.findall(r"^unit: +(.*)$", box, re.MULTILINE)
    assert units.split(" | ") == [each.value for each in CalendarUnit]


def test_the_syntax_of_tables_has_every_format_that_fills_them() -> None:
    filling = {name for name, each in FORMATS.items() if each.fills_tables}
    (formats,) = re.findall(r"format ('[A-Z].*)$", syntax("docs/sql/tables.md"), re.MULTILINE)
    assert quoted(formats) == filling
    rows = re.findall(
        r"^\| (`.*?) \|", section("docs/sql/tables.md", "Tables that a topic fills"), re.MULTILINE
    )
    assert set.union(*map(quoted, rows)) == filling


def test_the_options_of_streams_have_every_format() -> None:
    read, written = page("docs/sql/streams.md").split("Options of a foreign stream that pumps write to:")
    assert quoted(meaning(read, "format")) == FORMATS.keys() - TABLES_ONLY
    assert quoted(meaning(written, "format")) == {name for name, each in FORMATS.items() if each.encoder}


@pytest.mark.parametrize("stream", ["a foreign stream", "a foreign stream that pumps write to"])
def test_the_options_that_the_page_of_streams_describes_are_declared(stream: str) -> None:
    table = page("docs/sql/streams.md").partition(f"\nOptions of {stream}:\n\n")[2].partition("\n\n")[0]
    named = set(re.findall(r"`(\w+)`", " ".join(re.findall(r"^\| (`.*?) \|", table, re.MULTILINE))))
    assert {"topic", "format"} <= named
    assert named <= {each.name for each in options_of(find_connector("kafka"))}


def test_the_picture_of_the_data_flow_has_every_database() -> None:
    assert DATABASES.keys() == set(KINDS)
    picture = page("docs/images/dataflow.svg")
    for part in ("desc", "text"):
        shown = " ".join(re.findall(rf"<{part}\b[^>]*>(.*?)</{part}>", picture))
        assert [name for name in DATABASES.values() if name not in shown] == []


@pytest.mark.parametrize("name", [each for each in BUILT_IN if each != "memory"])
def test_a_guarantee_is_the_one_that_the_page_of_guarantees_promises(name: str) -> None:
    declared = guarantees(find_connector(name)).items()
    offered = {(name, part): Guarantee(said) for part, said in declared if said != "none"}
    assert offered.keys() == {each for each in PROMISED if each[0] == name}
    for part, guarantee in offered.items():
        promise = " ".join(section("docs/guarantees.md", PROMISED[part]).split())
        assert WORDS[guarantee] in promise, f"{part}: {guarantee.value}"


def test_authors_of_connectors_read_of_every_guarantee() -> None:
    rows = re.findall(r"^\| `(\w+)` \|", section("docs/extend/connector.md", "Guarantees"), re.MULTILINE)
    assert sorted(each for each in rows if each != "Guarantee") == sorted(each.name for each in Guarantee)
