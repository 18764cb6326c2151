"""``rowtide explain``: the plan of a pipeline at each stage; why a relation of a running one is silent."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rowtide.cli.pipeline_file import ConfigFile
from rowtide.cli.service_url import ServiceUrl

if TYPE_CHECKING:
    from rowtide.plan.nodes import Node
    from rowtide.sql.pipeline import Session, Stage

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
            help="Ask the running service why no rows of this relation come out.",
            metavar="RELATION",
        ),
    ] = None,
    service: ServiceUrl = None,
    config: ConfigFile = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write the plans, or the answer, as JSON.")] = False,
) -> None:
    """Show the plan of every pump, or of one relation, after each stage of planning.

    With --why-not: which operators of the running service hold rows for a relation, which bound they need,
    which partition keeps it back and why, when the rows come out, and what to change.

    Exit code 0: done. 2: the pipeline is refused, or there is no such relation. 3: no service answers.
    """
    from rowtide.cli.errors import read_text, shown_to_user
    from rowtide.plan.explain import explain as explained
    from rowtide.sql.pipeline import Session

    with shown_to_user():
        session = Session()
        session.feed(read_text(pipeline), file=str(pipeline))
        if why_not is not None:
            found = _asked(session, why_not, service, config)
            typer.echo(json.dumps(found, indent=2) if as_json else "\n".join(_told(found)))
            return
        stages = [(stage.name, _wanted(session, stage, relation)) for stage in session.stages]
        if relation is None and session.explained:
            stages.append(("EXPLAIN statements", dict(session.explained)))
        if as_json:
            shown = {
                name: {each: asdict(explained(node)) for each, node in nodes.items()}
                for name, nodes in stages
            }
            typer.echo(json.dumps(shown, indent=2))
            return
        for name, nodes in stages:
            typer.echo(f"-- {name}")
            for each, node in nodes.items():
                typer.echo(f"{each}:")
                for line in explained(node).lines():
                    typer.echo(f"  {line}")


def _asked(session: Session, relation: str, service: str | None, config: Path | None) -> Any:
    """Give the service's answer. A pump stands for what it writes to."""
    from rowtide.cli.service_url import ask, service_url

    name = session.relation_name(relation)
    return ask(service_url(service, config), "/why-not", relation=dict(session.pumps).get(name, name))


def _told(found: Any) -> list[str]:
    """Give an answer as text."""
    lines = [f"{found['relation']} of pipeline {found['pipeline']} ({found['phase']})"]
    for cause in found["causes"]:
        lines += [
            "",
            f"{cause['cause']}: {cause['why']}",
            f"  rows come out: {cause['released']}",
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
        told = ", ".join(f"{each[name]} {name.removeprefix('rows_')}" for name in counted)
        lines.append(f"  {_at(each)} {each['operator']}: {told}")
    return lines


def _at(each: Any) -> str:
    partition = each["partition"]
    return str(each["relation"]) if partition is None else f"{each['relation']}[{partition}]"


def _time(millis: int | None) -> str:
    from rowtide.rowtime.text import time_text

    return "none" if millis is None else time_text(millis)


def _wanted(session: Session, stage: Stage, relation: str | None) -> dict[str, Node]:
    """Give the plans to show: those of one relation, of the pumps, or of all relations without pumps.

    Raises:
      StatementError: there is no such relation.
    """
    pumps, relations = dict(stage.pumps), dict(stage.relations)
    if relation is None:
        return pumps or relations
    name = session.relation_name(relation)
    found = {**relations, **pumps}.get(name)
    return {} if found is None else {name: found}
