"""``rowtide check``: parse, resolve, type and plan a pipeline; touches nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rowtide.cli.errors import read_text, shown_to_user
from rowtide.config.reading import load_settings
from rowtide.plan.explain import columns_of
from rowtide.plan.plan import Notice
from rowtide.rows.types import RowType
from rowtide.runtime.configured import configured
from rowtide.runtime.option_check import check_options
from rowtide.runtime.polling.options import poller_of
from rowtide.runtime.runnable import nothing_to_run, refuse_unrunnable
from rowtide.sql.catalog.notices import notices
from rowtide.sql.pipeline import SqlSession
from rowtide_connectors.errors import OptionError
from rowtide_connectors.options import redacted
from rowtide_connectors.registry import find_connector

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowtide.plan.plan import Plan

EXAMPLE = "Example: rowtide check pipeline.sql --config config.toml"
FROM_CONFIGURATION = "(from the configuration)"
"""Replaces a value from the configuration, which may be a secret."""


def check(
    pipeline: Annotated[Path, typer.Argument(help="The pipeline's statements.", metavar="PIPELINE.sql")],
    config: Annotated[Path | None, typer.Option("--config", help="The configuration, a TOML file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write the result as JSON, a refusal too.")] = False,
) -> None:
    """Parse, type-check and plan a pipeline, and show what it defines; change nothing.

    The command reads the options of servers, streams and tables with the configuration, as a run does. A
    missing option is a warning, and so is a file without a pump, which a run refuses.

    Exit code 0: accepted. 2: refused, with the place and the reason.
    """
    with shown_to_user(as_json=as_json):
        session = SqlSession()
        text = read_text(pipeline)
        session.feed(text, file=str(pipeline))
        settings = load_settings(config)
        plan = configured(session.plan, settings)
        missing = check_options(plan, text, file=str(pipeline))
        if (idle := nothing_to_run(plan)) is not None:
            missing += (Notice(settings.pipeline.name or pipeline.stem, f"{idle.message}. {idle.hint}"),)
        url = settings.checkpoint.url
        refuse_unrunnable(plan, None if url is None else url.reveal(), settings.checkpoint.parts)
        found = described(session, plan, missing)
        if as_json:
            typer.echo(json.dumps({"ok": True, **found}, indent=2))
        else:
            for line in _lines(found):
                typer.echo(line)
            typer.echo(f"{pipeline} is accepted.")


def described(session: SqlSession, plan: Plan, missing: Sequence[Notice] = ()) -> dict[str, Any]:
    """Return the definitions of a session as plain values; secrets in options are hidden.

    ``plan`` is the session's plan with the options of the configuration; ``missing`` is what a run needs.
    """
    written = {server.name: dict(server.options) for server in session.plan.servers}
    # Each poll of a table moves its bound, so no rows wait for it.
    streams = {stream.name: stream for stream in plan.foreign_streams if poller_of(plan, stream) is None}
    warned = notices({**dict(plan.relations), **{pump.name: pump.node for pump in plan.pumps}}, streams)
    warned += session.text_notices
    kinds = dict(session.kinds)
    tables = {table.name: table for table in plan.foreign_tables}
    return {
        "servers": [
            {
                "name": server.name,
                "wrapper": server.wrapper,
                "options": _shown(server.wrapper, written[server.name], dict(server.options)),
            }
            for server in plan.servers
        ],
        "relations": [
            {"name": name, "kind": kinds[name], "columns": columns_of(node.row_type)}
            for name, node in plan.relations
        ]
        + [
            {"name": name, "kind": kinds[name], "columns": columns_of(table.row_type)}
            for name, table in tables.items()
        ],
        "functions": [
            {
                "name": each.name,
                "call": str(each),
                "returns": f"TABLE ({columns_of(each.returns)})"
                if isinstance(each.returns, RowType)
                else str(each.returns),
                "aggregate": each.aggregate is not None,
            }
            for each in session.functions
        ],
        "pumps": [{"name": name, "target": target} for name, target in session.pumps],
        "warnings": [
            {"relation": notice.relation, "message": notice.message} for notice in (*missing, *warned)
        ],
    }


def _lines(found: dict[str, Any]) -> list[str]:
    lines = []
    for server in found["servers"]:
        options = ", ".join(f"{name} '{value}'" for name, value in server["options"].items())
        lines.append(f"server {server['name']} ({server['wrapper']}): {options}")
    lines += [f"{each['kind']} {each['name']} ({each['columns']})" for each in found["relations"]]
    for each in found["functions"]:
        kind = "aggregate function" if each["aggregate"] else "function"
        lines.append(f"{kind} {each['call']} returns {each['returns']}")
    lines += [f"pump {each['name']} into {each['target']}" for each in found["pumps"]]
    lines += [f"warning: {each['relation']}: {each['message']}" for each in found["warnings"]]
    return lines


def _shown(wrapper: str, written: dict[str, str], options: dict[str, str]) -> dict[str, str]:
    """Return options without secrets; the connector declares which options of SQL are secret."""
    try:
        declared = find_connector(wrapper).options
    except OptionError:
        declared = ()
    return {
        name: value if options[name] == written.get(name) else FROM_CONFIGURATION
        for name, value in redacted(declared, options).items()
    }
