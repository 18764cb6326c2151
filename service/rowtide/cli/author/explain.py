"""``rowtide explain``: the plan of a pipeline; why a relation is silent, or what led to a row of it."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rowtide.cli.errors import read_text, shown_to_user
from rowtide.cli.pipeline_file import ConfigFile
from rowtide.cli.service_url import (
    CaFile,
    RunningService,
    ServiceUrl,
    TokenFile,
    ask,
    path_of,
    pipeline_of,
    running_service,
)
from rowtide.plan.explain import explain as explained
from rowtide.rowtime.text import time_text
from rowtide.sql.pipeline import SqlSession

if TYPE_CHECKING:
    from rowtide.plan.nodes import Node
    from rowtide.sql.pipeline import PlanStage

WHY_PATIENCE_S = 3600.0
"""An answer about a row reads the log several times, and the log can be long."""

EXAMPLE = "Example: rowtide explain pipeline.sql per_minute"


def explain(
    pipeline: Annotated[Path, typer.Argument(help="The pipeline's statements.", metavar="PIPELINE.sql")],
    relation: Annotated[
        str | None, typer.Argument(help="One relation or pump, named as in SQL.", metavar="RELATION")
    ] = None,
    why_not: Annotated[
        str | None,
        typer.Option(
            "--why-not",
            help="Ask the running service why rows of this relation are missing.",
            metavar="RELATION",
        ),
    ] = None,
    why: Annotated[
        tuple[str, str] | None,
        typer.Option(
            "--why",
            help="Ask the running service where a row of this relation comes from: a JSON object of columns, or "
            "name=value, name=value.",
            metavar="RELATION ROW",
        ),
    ] = None,
    service: ServiceUrl = None,
    token_file: TokenFile = None,
    ca_file: CaFile = None,
    config: ConfigFile = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write the plans, or the answer, as JSON.")] = False,
) -> None:
    """Show the plan of every pump, or of one relation, after each stage of planning.

    In brackets: whether an operator runs compiled, in columns or row by row, and what it keeps.

    With --why-not, ask the running service why rows of a relation are missing: which operators hold rows,
    which bound they need, which partition holds it back and why, when the rows are written, and what to
    change.

    With --why, ask the running service where a row comes from: its messages, with topic, partition and
    offset; its operators; the bounds that it waited for; the logged decisions. The service reads the log
    again for this, beside its work, so the answer may take a while.

    Exit code 0: shown. 2: the pipeline is refused, or the relation or row does not exist. 3: no service
    answers.
    """
    with shown_to_user():
        session = SqlSession()
        session.feed(read_text(pipeline), file=str(pipeline))
        if why_not is not None:
            found = _asked(session, why_not, running_service(service, config, token_file, ca_file))
            typer.echo(json.dumps(found, indent=2) if as_json else "\n".join(_as_lines(found)))
            return
        if why is not None:
            found = _asked_why(session, *why, running_service(service, config, token_file, ca_file))
            typer.echo(json.dumps(found, indent=2) if as_json else "\n".join(_why_as_lines(found)))
            return
        stages = [(stage.name, _wanted(session, stage, relation)) for stage in session.stages]
        if relation is None:
            for at, (_, nodes) in enumerate(stages):
                nodes.update((each, plans[at]) for each, plans in session.explained)
        if as_json:
            shown = {
                name: {each: asdict(explained(node)) for each, node in nodes.items()}
                for name, nodes in stages
            }
            typer.echo(json.dumps(shown, indent=2))
            return
        before: dict[str, Node] = {}
        for name, nodes in stages:
            typer.echo(f"-- {name}")
            for each, node in nodes.items():
                typer.echo(f"{each}:")
                shown_before = before.get(each) == node
                for line in ["as before"] if shown_before else explained(node).lines():
                    typer.echo(f"  {line}")
            before = nodes


def _asked(session: SqlSession, relation: str, service: RunningService) -> Any:
    """Return the service's answer. The name of a pump means the relation that it writes to."""
    name = session.relation_name(relation)
    return ask(
        service, path_of(pipeline_of(service), "relations", dict(session.pumps).get(name, name), "why-not")
    )


def _asked_why(session: SqlSession, relation: str, row: str, service: RunningService) -> Any:
    """Return the service's answer about a row. The name of a pump means the relation that it writes to."""
    name = session.relation_name(relation)
    name = dict(session.pumps).get(name, name)
    asked = {"relation": name, "row": row}
    path = path_of(pipeline_of(service), "explanations")
    return ask(service, path, method="POST", body=asked, patience_s=WHY_PATIENCE_S)


def _why_as_lines(found: Any) -> list[str]:
    """Return the answer about a row as text."""
    more = "" if found["matching"] == 1 else f", the last of {found['matching']} such rows"
    lines = [
        f"{found['relation']} of pipeline {found['pipeline']}: {_row(found['row'])}",
        f"  rowtime {_time(found['rowtime'])}{more}",
    ]
    lines += ["", "came from:"]
    for each in found["inputs"]:
        lines.append(f"  {_message(each)} at {_time(each['rowtime'])}: {_row(each['row'])}")
    lines += ["", "through, from the row back to its messages:", *(f"  {each}" for each in found["path"])]
    if found["made_of"]:
        lines += ["", "made of:"]
    for each in found["made_of"]:
        lines.append(f"  {each['operator']} made {_row(each['row'])} of {each['rows']} rows")
        lines += [
            f"    {_place(span)}, offsets {span['first']} to {span['last']}" for span in each["offsets"]
        ]
        lines += [f"    {each['note']}"] if each["note"] else []
    if found["releases"]:
        lines += ["", "waited for:"]
    for each in found["releases"]:
        brought = {None: "unknown", "ROW": "the row", "BOUND": "the bound record"}.get(
            each["by"], f"the decision {each['by']}"
        )
        at = "" if each["offset"] is None else f" at offset {each['offset']}"
        lines.append(f"  {_place(each)} to reach {_time(each['needs'])}: brought by {brought}{at}")
    if found["decisions"]:
        lines += ["", "decisions that were obeyed:"]
    for each in found["decisions"]:
        bound = "" if each["bound"] is None else f", bound {_time(each['bound'])}"
        at = f"{each['relation']}[{each['partition']}]"
        lines.append(f"  {each['kind']} of {at} before offset {each['next_offset']}{bound}")
    if found["since"]:
        lines += ["", "the log no longer holds what was read before; it is not among the rows:"]
    for each in found["since"]:
        lines.append(f"  {each['relation']}[{each['partition']}] before offset {each['next_offset']}")
    return [*lines, *found["notes"], "", f"{found['messages_read']} messages were read again."]


def _row(row: Any) -> str:
    return ", ".join(f"{name} {'NULL' if value is None else value}" for name, value in row.items())


def _place(each: Any) -> str:
    topic = "" if each["topic"] is None else f" of topic {each['topic']}"
    return f"{each['relation']}: partition {each['partition']}{topic}"


def _message(each: Any) -> str:
    return f"{_place(each)}, offset {each['offset']}"


def _as_lines(found: Any) -> list[str]:
    """Return an answer as text."""
    lines = [f"{found['relation']} of pipeline {found['pipeline']} ({found['phase']})"]
    for cause in found["causes"]:
        lines += [
            "",
            f"{cause['cause']}: {cause['why']}",
            f"  rows are written: {cause['released']}",
            f"  to change it:  {cause['change']}",
        ]
    if found["operators"]:
        lines += ["", "operators that hold rows:"]
    for each in found["operators"]:
        lines.append(f"  {_at(each)} {each['operator']}: {each['rows']} rows, bound {_time(each['bound'])}")
        for wait in each["waits"]:
            needs = "more rows" if wait["needs"] is None else _time(wait["needs"])
            lines.append(f"    waits for {_at(wait)}: has {_time(wait['has'])}, needs {needs}")
    if found["accounts"]:
        lines += ["", "rows so far:"]
    for each in found["accounts"]:
        counted = ("rows_in", "filtered", "late", "rejected", "held", "rows_out")
        counts = ", ".join(f"{each[name]} {name.removeprefix('rows_')}" for name in counted)
        lines.append(f"  {_at(each)} {each['operator']}: {counts}")
    return lines


def _at(each: Any) -> str:
    partition = each["partition"]
    return str(each["relation"]) if partition is None else f"{each['relation']}[{partition}]"


def _time(millis: int | None) -> str:

    return "none" if millis is None else time_text(millis)


def _wanted(session: SqlSession, stage: PlanStage, relation: str | None) -> dict[str, Node]:
    """Return the plans to show: of one relation, of the pumps, or of all relations if there are no pumps.

    Raises:
      StatementError: the relation does not exist.
    """
    pumps, relations = dict(stage.pumps), dict(stage.relations)
    if relation is None:
        return pumps or relations
    name = session.relation_name(relation)
    found = {**relations, **pumps}.get(name)
    return {} if found is None else {name: found}
