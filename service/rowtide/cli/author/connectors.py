"""``rowtide connectors``: what is installed, what each option means, and whether everything answers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from rowtide.checkpoint.database import DatabaseLedger
from rowtide.cli.author.installed_parts import installed, offers_of_format, package_of
from rowtide.cli.errors import FAILED, exit_code, read_text, shown_to_user
from rowtide.cli.help_format import App
from rowtide.cli.lazy_commands import LazyGroup
from rowtide.clock import SystemClock
from rowtide.codec.message import MessageEncoder
from rowtide.codec.registry import find_format, format_names, formats_of_packages
from rowtide.config.reading import load_settings
from rowtide.errors import StatementError
from rowtide.runtime.configured import FORMAT_OPTIONS, STREAM_OPTIONS, configured, options_of_format
from rowtide.runtime.inspect.sampling import findings, take_sample
from rowtide.runtime.outbox_options import MESSAGE_OPTIONS, OUTBOX_OPTIONS
from rowtide.runtime.pipeline import open_database, open_polled, open_source
from rowtide.runtime.polling.options import OWN_POLLED_OPTIONS, poller_of
from rowtide.runtime.recovery.begin import refuse_tables_of_others
from rowtide.runtime.recovery.undeclared_keys import refuse_undeclared_keys
from rowtide.runtime.runnable import database_server, nothing_to_run, refuse_unrunnable
from rowtide.runtime.state.output import target_table
from rowtide.runtime.state.owned_tables import OWN_TABLE_OPTIONS
from rowtide.runtime.state.topic_sinks import sink_of
from rowtide.sql.pipeline import plan_pipeline
from rowtide_connectors.api import MatchingSource
from rowtide_connectors.errors import ConnectorError, OptionError
from rowtide_connectors.options import KIND_NAMES, suggestion
from rowtide_connectors.registry import connector_names, connectors_of_packages, find_connector

if TYPE_CHECKING:
    from rowtide.codec.api import Format
    from rowtide.plan.plan import ForeignStream, Plan
    from rowtide_connectors.api import Connector, Option, TopicSource


class Connectors(LazyGroup):
    """The commands on connectors; those of modules of their own are imported when they are called."""

    listed: ClassVar = {
        "infer": (
            "author",
            "Propose CREATE FOREIGN STREAM for a topic of JSON, XML or BSON messages, from a sample of them.",
        ),
        "new": (
            "author",
            "Write a package with a connector, or a format, of your own into the new folder rowtide-NAME.",
        ),
    }
    modules: ClassVar = {"new": "new_package"}


WRITTEN = "written stream"
"""What options are of that are for foreign streams which pumps write to."""
SHOWN_TOPICS = 10
"""The most topics that match a pattern and that are shown."""

app = App(
    name="connectors",
    cls=Connectors,
    no_args_is_help=True,
    help="List and describe connectors, and check connections.",
)

AsJson = Annotated[bool, typer.Option("--json", help="Write the result as JSON.")]


@app.command("list", epilog="Example: rowtide connectors list")
def list_connectors(as_json: AsJson = False) -> None:
    """List the installed connectors and formats, and what each offers.

    FOREIGN DATA WRAPPER takes the names of connectors, and OPTIONS (format '..') those of formats. What cannot be
    used is listed with the reason.
    """
    listed = installed()
    if as_json:
        typer.echo(json.dumps(listed.as_json(), indent=2))
        return
    for each in listed.connectors:
        typer.echo(f"{each.name:<10} {', '.join(each.offers):<22} {each.described}")
    typer.echo("\nformats:")
    for each in listed.formats:
        typer.echo(f"{each.name:<14} {', '.join(each.offers):<21} {each.described}")
    if listed.problems:
        typer.echo("\nnot usable:")
        for problem in listed.problems:
            typer.echo(problem)


@app.command(epilog="Example: rowtide connectors describe kafka")
def describe(
    name: Annotated[str, typer.Argument(help="The name of a connector or a format.", metavar="NAME")],
    as_json: AsJson = False,
) -> None:
    """Describe a connector: what it offers, with which guarantee, and each option with type and default.

    Or a format: whether it is read and written, and its options.
    """
    with shown_to_user():
        found = None if name.lower() in connector_names() else find_format(name)
        if found is not None:
            _describe_format(name.upper(), found, as_json)
            return
        connector = _connector_or_refused(name)
    options = [_described(option) for option in options_of(connector)]
    if as_json:
        document = {
            "name": connector.name,
            "description": connector.description,
            "package": package_of(connectors_of_packages(), connector.name),
            "source": None if connector.source is None else {"guarantee": connector.source.guarantee.value},
            "polled": None if connector.polled is None else {"guarantee": connector.polled.guarantee.value},
            "sink": None if connector.sink is None else {"guarantee": connector.sink.guarantee.value},
            "message_sink": None
            if connector.message_sink is None
            else {"guarantee": connector.message_sink.guarantee.value},
            "options": options,
            "client_options": connector.client_options,
        }
        typer.echo(json.dumps(document, indent=2))
        return
    typer.echo(f"{connector.name}: {connector.description}")
    _echo_package(package_of(connectors_of_packages(), connector.name))
    for offered, guarantee in guarantees(connector).items():
        typer.echo(f"{offered}: {guarantee}")
    for line in _option_lines(options_of(connector)):
        typer.echo(line)
    if connector.client_options is not None:
        typer.echo(f"\nfurther options of a server:\n  {connector.client_options}")


def _connector_or_refused(name: str) -> Connector:
    """Return the connector of this name.

    Raises:
      OptionError: it does not exist, with the nearest name of a connector or format; or it cannot be loaded.
    """
    if name.lower() not in connector_names():
        names = [*connector_names(), *(each.lower() for each in format_names())]
        raise OptionError(
            f'connector or format "{name}" does not exist', hint=suggestion(name.lower(), names)
        )
    return find_connector(name)


def _describe_format(name: str, found: Format, as_json: bool) -> None:
    options = options_of_format(found)
    package = package_of(formats_of_packages(), name)
    if as_json:
        document = {
            "name": name,
            "description": found.description,
            "package": package,
            "offers": offers_of_format(found),
            "options": [_described(option) for option in options],
        }
        typer.echo(json.dumps(document, indent=2))
        return
    typer.echo(f"{name}: {found.description}")
    _echo_package(package)
    typer.echo(f"messages: {', '.join(offers_of_format(found))}")
    for line in _option_lines(options):
        typer.echo(line)


def _echo_package(package: str | None) -> None:
    if package is not None:
        typer.echo(f"package: {package}")


@dataclass(frozen=True, slots=True)
class Tried:
    """The result for one server, stream or table; ``code`` is the exit code for it alone."""

    kind: str
    name: str
    ok: bool
    answer: str
    code: int = 0
    hint: str | None = None


@app.command(epilog="Example: rowtide connectors check pipeline.sql --config config.toml")
def check(
    pipeline: Annotated[Path, typer.Argument(help="The pipeline's statements.", metavar="PIPELINE.sql")],
    config: Annotated[Path | None, typer.Option("--config", help="The configuration, a TOML file.")] = None,
    sample: Annotated[
        int,
        typer.Option("--sample", help="Decode about this many messages of each topic.", min=0, metavar="N"),
    ] = 0,
    as_json: AsJson = False,
) -> None:
    """Try every server, stream and table of a pipeline; create nothing.

    With --sample, decode the last messages of each topic and report messages that do not fit, columns
    that no message has, fields that are not declared, and times that look like seconds.

    Exit code 0: everything answers and fits. 1: messages do not fit the declaration. 2: an option is
    wrong, a topic is missing, or a table does not fit. 3: a server is down.
    """
    with shown_to_user():
        plan = plan_pipeline(read_text(pipeline), file=str(pipeline))
        settings = load_settings(config)
        plan = configured(plan, settings)
    url = settings.checkpoint.url
    tried = [
        *_start(plan, pipeline.stem, None if url is None else url.reveal(), settings.checkpoint.parts),
        *try_everything(plan, sample),
    ]
    if all(each.ok for each in tried):
        tried += _owner(plan, settings.pipeline.name or pipeline.stem)
    if as_json:
        typer.echo(
            json.dumps({"ok": all(each.ok for each in tried), "tried": list(map(asdict, tried))}, indent=2)
        )
    else:
        for each in tried:
            typer.echo(f"{'ok' if each.ok else 'FAILED':<7} {each.kind} {each.name}: {each.answer}")
            if each.hint is not None:
                typer.echo(f"{'':<7} hint: {each.hint}")
    codes = {each.code for each in tried} - {0}
    # Messages that do not fit set the exit code only if everything else is correct.
    raise typer.Exit(min(codes - {FAILED}, default=min(codes, default=0)))


def try_everything(plan: Plan, sample: int = 0) -> Iterator[Tried]:
    """Try servers, then their streams and tables; those of a server that fails fail, too.

    ``sample`` is the number of messages of each topic to decode; 0: none.
    """
    servers = {server.name: server for server in plan.servers}
    down: dict[str, Tried] = {}
    for server in plan.servers:
        try:
            answer = find_connector(server.wrapper).check(dict(server.options))
            yield Tried("server", server.name, True, answer)
        except ConnectorError as error:
            down[server.name] = _failed("server", server.name, error)
            yield down[server.name]
    for stream in plan.foreign_streams:
        if stream.server in down:
            yield _not_tried("stream", stream.name, down[stream.server])
            continue
        try:
            if poller_of(plan, stream) is not None:
                yield _polled(plan, stream)
                continue
            source = open_source(plan, stream)
            try:
                partitions = len(source.ranges())
                looked_at = list(_looked_at(stream, source, sample)) if sample else []
            finally:
                source.close()
            yield Tried("stream", stream.name, True, f"{_topics_of(source)}, {partitions} partition(s)")
            yield from looked_at
        except ConnectorError as error:
            yield _failed("stream", stream.name, error)
    for stream in plan.written_streams:
        if stream.server in down:
            yield _not_tried("stream", stream.name, down[stream.server])
        else:
            yield _tried_sink(plan, stream)
    for table in plan.foreign_tables:
        if table.server in down:
            yield _not_tried("table", table.name, down[table.server])
            continue
        try:
            database = open_database(servers[table.server])
            try:
                missing = database.missing([target_table(table)])
            finally:
                database.close()
            yield Tried("table", table.name, True, "will be created" if missing else "is there and fits")
        except ConnectorError as error:
            yield _failed("table", table.name, error)


def _start(plan: Plan, name: str, checkpoint_url: str | None, parts: str | None) -> Iterator[Tried]:
    """Yield why no run of the pipeline starts, if there is a reason. Definitions alone may be checked."""
    if (idle := nothing_to_run(plan)) is not None:
        yield Tried("pipeline", name, True, idle.message, hint=idle.hint)
    try:
        refuse_unrunnable(plan, checkpoint_url, parts)
    except (ConnectorError, StatementError) as error:
        yield _failed("pipeline", name, error)


def _owner(plan: Plan, name: str) -> Iterator[Tried]:
    """Yield why a pipeline of this name may not write to its tables: another one does, or a key is not declared."""
    if not plan.foreign_tables:
        return
    try:
        database = open_database(database_server(plan, None))
        try:
            refuse_tables_of_others(DatabaseLedger(database, name), plan)
            refuse_undeclared_keys(database, plan)
        finally:
            database.close()
    except (ConnectorError, StatementError) as error:
        yield _failed("pipeline", name, error)


def _topics_of(source: TopicSource) -> str:
    """Return what a source that was looked up reads, for people."""
    if not isinstance(source, MatchingSource):
        return f'topic "{source.topic}"'
    names = source.topic.split(",")
    shown = ", ".join(f'"{name}"' for name in names[:SHOWN_TOPICS])
    more = f" and {len(names) - SHOWN_TOPICS} more" if len(names) > SHOWN_TOPICS else ""
    return f"{len(names)} topic(s) match '{source.pattern}': {shown}{more}"


def _tried_sink(plan: Plan, stream: ForeignStream) -> Tried:
    try:
        found = sink_of(plan, stream)
        sink = found.open("check")
        try:
            sink.check()
        finally:
            sink.close()
        MessageEncoder(stream).check()
    except (ConnectorError, StatementError) as error:
        return _failed("stream", stream.name, error)
    topic = dict(stream.options).get("topic")
    where = "the receiver answers and" if topic is None else f'topic "{topic}"'
    return Tried("stream", stream.name, True, f"{where} is written to, {found.guarantee.value}")


def _looked_at(stream: ForeignStream, source: TopicSource, count: int) -> Iterator[Tried]:

    for each in findings(stream, take_sample(source, count, SystemClock())):
        yield Tried("sample", stream.name, each.fits, each.text, 0 if each.fits else FAILED, each.hint)


def _polled(plan: Plan, stream: ForeignStream) -> Tried:
    """Try the table of a database that fills a table of the pipeline."""
    table = open_polled(plan, stream)
    try:
        remark = table.check()
    finally:
        table.close()
    answer = f'table "{table.name}" is there and fits'
    return Tried("table", stream.name, True, answer if remark is None else f"{answer}; {remark}")


def _not_tried(kind: str, name: str, server: Tried) -> Tried:
    return Tried(kind, name, False, f"not tried: server {server.name} failed", server.code)


def _failed(kind: str, name: str, error: ConnectorError | StatementError) -> Tried:

    return Tried(kind, name, False, error.message, exit_code(error), error.hint)


def guarantees(connector: Connector) -> dict[str, str]:
    """Return the guarantees of a connector's source, of the tables that it reads, and of its sinks."""
    offered = {
        "source": connector.source,
        "tables as sources": connector.polled,
        "sink": connector.sink,
        "message sink": connector.message_sink,
    }
    return {
        name: "none" if each is None else each.guarantee.value
        for name, each in offered.items()
        if each is not None or name != "tables as sources"
    }


def options_of(connector: Connector) -> tuple[Option, ...]:
    """Return a connector's options; for a source, also the options of every foreign stream and its columns.

    Those of a "written stream" are for foreign streams that pumps write to.
    """
    streams = () if connector.source is None else (*connector.source.options, *STREAM_OPTIONS)
    formats = () if connector.source is None else FORMAT_OPTIONS
    tables = () if connector.sink is None else (*connector.sink.options, *OWN_TABLE_OPTIONS)
    polled = () if connector.polled is None else (*connector.polled.options, *OWN_POLLED_OPTIONS)
    written: tuple[Option, ...] = ()
    if connector.message_sink is not None:
        known = [option.name for option in streams]
        own = [option for option in connector.message_sink.options if option.name not in known]
        own += [*MESSAGE_OPTIONS, *OUTBOX_OPTIONS]
        written = tuple(replace(option, applies_to=WRITTEN) for option in own)
    return (*connector.options, *streams, *formats, *written, *tables, *polled)


def _described(option: Option) -> dict[str, object]:

    return {
        "name": option.name,
        "applies_to": option.applies_to,
        "type": KIND_NAMES[option.kind],
        "required": option.required,
        "default": option.default,
        "secret": option.secret,
        "changeable": option.changeable,
        "meaning": option.meaning,
    }


def _option_lines(every: Sequence[Option]) -> Iterator[str]:

    for applies_to in ("server", "stream", "column", WRITTEN, "table", "polled table"):
        options = [option for option in every if option.applies_to == applies_to]
        if not options:
            continue
        yield f"\noptions of a {applies_to}:"
        width = max(len(option.name) for option in options)
        for option in options:
            notes = [KIND_NAMES[option.kind]]
            if option.required:
                notes.append("required")
            if option.default is not None:
                notes.append(f"default {option.default}")
            if option.secret:
                notes.append("secret")
            if option.changeable:
                notes.append("may be changed at each start")
            yield f"  {option.name:<{width}}  {option.meaning} ({', '.join(notes)})"
