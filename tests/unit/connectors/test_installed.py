"""Connectors and formats of other packages: found by their entry points, and harmless if they fail."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from rowtide.cli.main import app
from rowtide.codec.message import MessageEncoder
from rowtide.codec.registry import GROUP as FORMATS
from rowtide.codec.registry import decoder_of, find_format
from rowtide.errors import StatementError
from rowtide.runtime.configured import connector_options
from rowtide.runtime.outbox_options import sink_options
from rowtide.sql.pipeline import plan_pipeline
from rowtide_connectors.errors import OptionError
from rowtide_connectors.registry import GROUP as CONNECTORS
from rowtide_connectors.registry import connector_names, find_connector, find_sink, find_source
from support.package import install

CONNECTOR = """\
from types import SimpleNamespace
from rowtide_connectors.api import Guarantee
from rowtide_connectors.memory.connector import MemoryConnector
class Webhooks(MemoryConnector):
    name = "webhooks"
    description = "requests to a server"
    source = None
    sink = SimpleNamespace(options=(), guarantee=Guarantee.AT_LEAST_ONCE)
CONNECTOR = Webhooks()
"""
FORMAT = """\
from rowtide.codec.api import Format, FormatOption, decode_each, text_of
class Decoder:
    def __init__(self, declared):
        self.row_type = declared.row_type
        self.mark = declared.options.get("mark", "!")
    def decode(self, values):
        return decode_each(values, self.row_type, lambda value: (text_of(value).removesuffix(self.mark),))
FORMAT = Format(Decoder, (FormatOption("mark", "the last character"),), "shouted text")
"""
SQL = """\
CREATE SERVER k FOREIGN DATA WRAPPER MEMORY;
CREATE FOREIGN STREAM s (word VARCHAR) SERVER k OPTIONS (topic 't', format '{name}', mark '?');
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of installed packages."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    yield folder
    for module in folder.glob("*.py"):
        sys.modules.pop(module.stem, None)


def run(*args: object) -> Result:
    return CliRunner().invoke(app, [str(arg) for arg in args])


def test_a_connector_of_another_package_is_listed_with_it(site: Path) -> None:
    install(site, "rowtide-hooks", CONNECTORS, {"Webhooks": "hooks:CONNECTOR"}, hooks=CONNECTOR)
    assert find_connector("WEBHOOKS").name == "webhooks"
    assert (
        "webhooks   sink, message sink     requests to a server (rowtide-hooks 1.0)\n"
        in run("connectors", "list").output
    )
    described = run("connectors", "describe", "webhooks").output
    assert described.startswith("webhooks: requests to a server\npackage: rowtide-hooks 1.0\n")
    assert (
        json.loads(run("connectors", "describe", "webhooks", "--json").output)["package"]
        == "rowtide-hooks 1.0"
    )


def test_a_sink_that_is_not_part_of_the_commit_is_refused(site: Path) -> None:
    install(site, "rowtide-hooks", CONNECTORS, {"webhooks": "hooks:CONNECTOR"}, hooks=CONNECTOR)
    with pytest.raises(OptionError) as caught:
        find_sink("webhooks")
    assert caught.value.message == (
        'connector "webhooks" cannot be written to: its sink is not part of the transaction of a commit'
    )
    assert caught.value.hint == "Connectors with a sink: rdbms."


BROKEN = {
    "import of a missing package": (
        "import nowhere_at_all",
        "ModuleNotFoundError: No module named 'nowhere_at_all'",
    ),
    "syntax": ("def", "SyntaxError"),
    "an exception": ("raise ZeroDivisionError('at import')", "ZeroDivisionError: at import"),
    "no object": ("", "AttributeError: module 'broken' has no attribute 'ADDED'"),
    "another object": ("ADDED = 7", "cannot be used: broken:ADDED has no "),
}


@pytest.mark.parametrize("case", BROKEN)
@pytest.mark.parametrize(("group", "kind"), [(CONNECTORS, "connector"), (FORMATS, "format")])
def test_a_package_that_fails_stops_only_what_uses_it(
    site: Path, tmp_path: Path, case: str, group: str, kind: str
) -> None:
    text, why = BROKEN[case]
    install(site, "rowtide-broken", group, {"broken": "broken:ADDED"}, broken=text)
    listed = run("connectors", "list")
    assert listed.exit_code == 0
    assert f'{kind} "broken" of package rowtide-broken 1.0 cannot be' in listed.output
    assert why in " ".join(listed.output.split())
    assert "kafka      source, message sink   Apache Kafka topics\n" in listed.output
    file = tmp_path / "p.sql"
    file.write_text(SQL.format(name="RAW").replace(", mark '?'", ""))
    assert run("check", file).exit_code == 0
    used = SQL.replace("MEMORY", "BROKEN") if kind == "connector" else SQL
    file.write_text(used.format(name="RAW" if kind == "connector" else "BROKEN"))
    refused = run("check", file)
    assert refused.exit_code == 2
    assert "package rowtide-broken 1.0 cannot be" in refused.output
    assert "hint: " in refused.output
    assert "^" in refused.output
    described = run("connectors", "describe", "broken")
    assert (described.exit_code, why in described.output) == (2, True)


def test_a_connector_that_cannot_be_loaded_is_not_in_a_hint(site: Path) -> None:
    install(site, "rowtide-broken", CONNECTORS, {"broken": "nowhere_at_all:CONNECTOR"})
    assert "broken" in connector_names()
    with pytest.raises(OptionError) as caught:
        find_sink("kafka")
    assert caught.value.hint == "Connectors with a sink: rdbms."


@pytest.mark.parametrize("find", [find_connector, find_format])
def test_a_name_of_two_packages_is_refused_with_both(site: Path, find: object) -> None:
    for package in ("rowtide-one", "rowtide-two"):
        install(site, package, CONNECTORS if find is find_connector else FORMATS, {"twice": "one:ADDED"})
    assert callable(find)
    with pytest.raises((OptionError, StatementError)) as caught:
        find("twice")
    assert "rowtide-one 1.0" in str(caught.value)
    assert "rowtide-two 1.0" in str(caught.value)
    error = caught.value
    assert isinstance(error, OptionError | StatementError)
    assert error.hint == "Uninstall all but one."


def test_a_name_of_rowtide_is_not_replaced(site: Path) -> None:
    install(site, "rowtide-hooks", CONNECTORS, {"Kafka": "hooks:CONNECTOR"}, hooks=CONNECTOR)
    install(site, "rowtide-shouts", FORMATS, {"json": "shouts:FORMAT"}, shouts=FORMAT)
    assert find_source("kafka").options
    text = run("connectors", "list").output
    assert '"Kafka" of package rowtide-hooks 1.0 is not used: Rowtide has one of this name' in text
    assert '"json" of package rowtide-shouts 1.0 is not used: Rowtide has one of this name' in text


def test_a_format_of_another_package_has_options_of_its_own(site: Path, tmp_path: Path) -> None:
    install(site, "rowtide-shouts", FORMATS, {"Shouts": "shouts:FORMAT"}, shouts=FORMAT)
    text = SQL.format(name="shouts")
    stream = plan_pipeline(text).foreign_streams[0]
    decoded = decoder_of(stream).decode([b"well?", None, b"\xff"])
    assert [column.to_list() for column in decoded.columns] == [["well"]]
    assert len(decoded.faults) == 2
    assert connector_options(stream) == sink_options(stream) == {"topic": "t"}
    file = tmp_path / "p.sql"
    file.write_text(text)
    assert run("check", file).exit_code == 0
    with pytest.raises(StatementError, match="cannot be written"):
        MessageEncoder(stream)
    assert (
        "SHOUTS         read                  shouted text (rowtide-shouts 1.0)"
        in run("connectors", "list").output
    )
    described = run("connectors", "describe", "shouts").output
    assert described.startswith("SHOUTS: shouted text\npackage: rowtide-shouts 1.0\nmessages: read\n")
    assert "mark  the last character (text)" in described


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        (SQL.format(name="JSON"), 'option "mark" of connector "memory" does not exist'),
        (SQL.format(name="shouts").replace("mark", "time_unit"), "time_unit"),
        (
            SQL.format(name="shouts")
            .replace("FOREIGN STREAM", "TABLE")
            .replace("VARCHAR)", "VARCHAR(9) PRIMARY KEY)"),
            "messages of format SHOUTS are not changes of a table",
        ),
        (
            SQL.format(name="shoutz"),
            "The formats are AVRO, BSON, CSV, DEBEZIUM_AVRO, DEBEZIUM_JSON, JSON, KEY_VALUE, PROTOBUF, RAW, "
            "SHOUTS, XML.",
        ),
    ],
)
def test_what_a_format_of_another_package_does_not_have_is_refused(
    site: Path, tmp_path: Path, sql: str, said: str
) -> None:
    install(site, "rowtide-shouts", FORMATS, {"shouts": "shouts:FORMAT"}, shouts=FORMAT)
    file = tmp_path / "p.sql"
    file.write_text(sql)
    answer = run("check", file)
    assert answer.exit_code == 2
    assert said in answer.output


def test_a_stream_without_a_topic_is_tried_and_none_is_shown(site: Path, tmp_path: Path) -> None:
    sink = """\
from types import SimpleNamespace
from rowtide_connectors.api import Connector, Guarantee
class Sink:
    options = ()
    guarantee = Guarantee.AT_LEAST_ONCE
    def check_options(self, stream): pass
    def guarantee_of(self, stream): return self.guarantee
    def open(self, *_): return SimpleNamespace(check=lambda: None, close=lambda: None)
class Nowhere(Connector):
    name, description, options, message_sink = "nowhere", "forgets rows", (), Sink()
    def check_options(self, server): pass
    def check(self, server): return "here"
CONNECTOR = Nowhere()
"""
    install(site, "rowtide-nowhere", CONNECTORS, {"nowhere": "nowhere:CONNECTOR"}, nowhere=sink)
    file = tmp_path / "p.sql"
    file.write_text(
        "CREATE SERVER n FOREIGN DATA WRAPPER NOWHERE; CREATE SERVER k FOREIGN DATA WRAPPER MEMORY;"
        "CREATE FOREIGN STREAM s (word VARCHAR) SERVER k OPTIONS (topic 't');"
        "CREATE FOREIGN STREAM o (word VARCHAR) SERVER n;"
        "CREATE PUMP p STARTED AS INSERT INTO o SELECT STREAM word FROM s;"
    )
    assert (
        "stream O: the receiver answers and is written to, at least once"
        in run("connectors", "check", file).output
    )
