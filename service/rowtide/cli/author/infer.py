"""``rowtide connectors infer``: propose the statements that declare a topic."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rowtide.cli.errors import read_text, shown_to_user
from rowtide.cli.pipeline_file import ConfigFile
from rowtide.clock import SystemClock
from rowtide.codec.options import Declared
from rowtide.codec.registry import refuse_without_protobuf
from rowtide.config.reading import load_settings
from rowtide.errors import StatementError
from rowtide.rows.types import RowType
from rowtide.runtime.configured import configured
from rowtide.runtime.inspect.inferring.of_debezium import (
    is_envelope_schema,
    proposal_of_envelope_schema,
    proposal_of_envelopes,
)
from rowtide.runtime.inspect.inferring.of_xml import proposal_of_xml
from rowtide.runtime.inspect.inferring.proposal import proposal, proposal_of_schema, quoted
from rowtide.runtime.inspect.sampling import Sample, take_sample
from rowtide.sql.pipeline import plan_pipeline
from rowtide_connectors.errors import GoneError
from rowtide_connectors.matching import TOPIC_PATTERN
from rowtide_connectors.registry import find_connector, find_source
from rowtide_connectors.schema_registry import SchemaRegistry
from rowtide_connectors.several import TOPIC

if TYPE_CHECKING:
    from rowtide.plan.plan import Server
    from rowtide_connectors.api import Connector

EXAMPLE = "Example: rowtide connectors infer orders --option bootstrap_servers=localhost:9092"
SERVER = "broker"
"""The name of a server that no pipeline declares."""


def infer(
    topic: Annotated[
        str,
        typer.Argument(
            help="The topic to sample, or the path of files; with --pattern, a regular expression.",
            metavar="TOPIC",
        ),
    ],
    pipeline: Annotated[
        Path | None,
        typer.Option(
            "--pipeline", help="Use the server that this pipeline declares.", metavar="PIPELINE.sql"
        ),
    ] = None,
    server: Annotated[
        str | None, typer.Option("--server", help="The server to use; needed if the pipeline has several.")
    ] = None,
    wrapper: Annotated[str, typer.Option("--wrapper", help="The connector, without --pipeline.")] = "kafka",
    option: Annotated[
        list[str] | None,
        typer.Option("--option", help="An option of the server, without --pipeline.", metavar="NAME=VALUE"),
    ] = None,
    pattern: Annotated[
        bool,
        typer.Option("--pattern", help="Sample all topics whose whole name TOPIC matches, as one stream."),
    ] = False,
    sample: Annotated[
        int,
        typer.Option("--sample", help="Read about this many messages, the newest ones.", min=1, metavar="N"),
    ] = 100,
    registry: Annotated[
        str | None,
        typer.Option(
            "--registry",
            help="Propose format AVRO or PROTOBUF from the topic's newest schema there.",
            metavar="URL",
        ),
    ] = None,
    descriptor: Annotated[
        str | None,
        typer.Option(
            "--descriptor",
            help="Propose format PROTOBUF from a file that protoc --descriptor_set_out wrote.",
            metavar="FILE",
        ),
    ] = None,
    message: Annotated[
        str | None,
        typer.Option(
            "--message", help="The Protobuf message; without it the first one of the registry's schema."
        ),
    ] = None,
    config: ConfigFile = None,
) -> None:
    """Propose CREATE FOREIGN STREAM for a topic of JSON, XML or BSON messages, from a sample of them.

    Of Debezium's envelopes, in JSON or in Avro, it proposes CREATE TABLE, with the PRIMARY KEY that the messages have.

    With --registry, propose it from the newest schema of the subject TOPIC-value in a Schema Registry, and with
    --descriptor from descriptors of Protobuf messages. Messages are not read then.

    Types hold every value seen. A field that is in all messages is NOT NULL; numbers and texts that look
    like times are TIMESTAMP, and a view promotes the likeliest one. Check the result: a sample proves
    nothing.

    Exit code 0: written. 2: an option is wrong, or the topic has no JSON, XML or BSON. 3: the broker is down.
    """
    with shown_to_user():
        if pipeline is None:
            given = dict(_named(each) for each in option or ())
            connector, name = find_connector(wrapper), SERVER
        elif option:
            raise StatementError(
                "--option cannot be combined with --pipeline, whose server has its own options"
            )
        else:
            found = _server_of(pipeline, server, config)
            connector, given = find_connector(found.wrapper), dict(found.options)
            name = quoted(found.name) if found.name != found.name.upper() else found.name.lower()
        if registry is not None and descriptor is not None:
            raise StatementError("--descriptor cannot be combined with --registry")
        if message is not None and registry is None and descriptor is None:
            raise StatementError("--message needs --descriptor or --registry")
        if pattern and (registry is not None or descriptor is not None):
            raise StatementError(
                "--pattern samples messages: it cannot be combined with --registry or --descriptor",
                hint="Name one of the topics, and replace topic by topic_pattern in the proposed statement.",
            )
        if registry is not None:
            proposed = _from_registry(SchemaRegistry([registry]), message, topic, name)
        elif descriptor is not None:
            proposed = _from_descriptors(descriptor, message, topic, name)
        else:
            found_source = find_source(connector.name)
            named = next((each.name for each in found_source.options if each.required), TOPIC.name)
            options = {TOPIC_PATTERN.name if pattern else named: topic}
            source = found_source.open(given, options)
            try:
                taken = replace(take_sample(source, sample, SystemClock()), topic=topic)
                proposed = _from_sample(taken, name, options)
            finally:
                source.close()
    if pipeline is None:
        typer.echo(_create_server(connector, given))
    typer.echo(proposed, nl=False)


def _from_sample(sample: Sample, server: str, options: dict[str, str]) -> str:
    proposed = proposal_of_xml(sample, server, options)
    if proposed is None and find_spec("bson") is not None:
        from rowtide.runtime.inspect.inferring.of_bson import proposal_of_bson

        proposed = proposal_of_bson(sample, server, options)
    if proposed is None:
        proposed = proposal_of_envelopes(sample, server, options)
    return proposal(sample, server, options) if proposed is None else proposed


def _from_registry(registry: SchemaRegistry, message: str | None, topic: str, server: str) -> str:
    number, found = registry.newest_of(f"{topic}-value")
    if found.kind == "PROTOBUF":
        refuse_without_protobuf(Declared(topic, RowType(())))
        from rowtide.runtime.inspect.inferring.of_protobuf import proposal_of_registered

        return proposal_of_registered(registry, number, message, topic, server)
    from rowtide.codec.avro import parsed

    options = {"topic": topic, "registry_url": ",".join(registry.urls)}
    schema = parsed(found)
    if is_envelope_schema(schema):
        return proposal_of_envelope_schema(schema, _key_schema(registry, topic), topic, server, options)
    return proposal_of_schema(schema, topic, server, options)


def _key_schema(registry: SchemaRegistry, topic: str) -> object:
    """Return the newest Avro schema of the keys of a topic; None if the registry has none."""
    from rowtide.codec.avro import parsed

    try:
        _, found = registry.newest_of(f"{topic}-key")
    except GoneError:
        return None
    return parsed(found) if found.kind == "AVRO" else None


def _from_descriptors(file: str, message: str | None, topic: str, server: str) -> str:
    refuse_without_protobuf(Declared(topic, RowType(())))
    from rowtide.runtime.inspect.inferring.of_protobuf import proposal_of_descriptors

    return proposal_of_descriptors(file, message, topic, server)


def _named(text: str) -> tuple[str, str]:

    name, sign, value = text.partition("=")
    if not sign or not name:
        raise StatementError(
            f'"{text}" does not name an option and its value',
            hint="Write --option bootstrap_servers=host:9092.",
        )
    return name, value


def _server_of(pipeline: Path, wanted: str | None, config: Path | None) -> Server:
    """Return the server of a pipeline that has topics.

    Raises:
      StatementError: the pipeline has none, or has several and the command names none of them.
    """
    plan = configured(plan_pipeline(read_text(pipeline), file=str(pipeline)), load_settings(config))
    having_topics = [each for each in plan.servers if find_connector(each.wrapper).source is not None]
    found = [each for each in having_topics if wanted is None or each.name.upper() == wanted.upper()]
    names = ", ".join(each.name for each in having_topics)
    if not found:
        said = "no server that has topics" if wanted is None else f'no server "{wanted}" that has topics'
        raise StatementError(f"the pipeline has {said}", hint=f"Available: {names}." if names else None)
    if len(found) > 1:
        raise StatementError("the pipeline has several servers", hint=f"Choose one with --server: {names}.")
    return found[0]


def _create_server(connector: Connector, given: dict[str, str]) -> str:
    """Return CREATE SERVER with the options of the command, without secrets: they belong in the configuration."""
    secret = {option.name for option in connector.options if option.secret}
    shown = {name: value for name, value in given.items() if name not in secret and "." not in name}
    texts = ", ".join(f"{name} '" + value.replace("'", "''") + "'" for name, value in shown.items())
    options = f" OPTIONS ({texts})" if texts else ""
    lines = [f"CREATE SERVER {SERVER} FOREIGN DATA WRAPPER {connector.name.upper()}{options};"]
    if len(shown) < len(given):
        hidden = ", ".join(name for name in given if name not in shown)
        lines.append(f"-- options of the client belong in the configuration: {hidden}")
    return "\n".join(lines)
