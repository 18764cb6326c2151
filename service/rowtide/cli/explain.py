"""``rowtide explain``: the plan of a pipeline at each stage."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rowtide.plan.nodes import Node
    from rowtide.sql.pipeline import Session, Stage

EXAMPLE = "Example: rowtide explain pipeline.sql per_minute"


def explain(
    pipeline: Annotated[Path, typer.Argument(help="The pipeline's statements.", metavar="PIPELINE.sql")],
    relation: Annotated[
        str | None, typer.Argument(help="One relation or pump, named as in SQL.", metavar="RELATION")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write the plans as JSON.")] = False,
) -> None:
    """Show the plan of every pump, or of one relation, after each stage of planning.

    Exit code 0: done. 2: the pipeline is refused, or there is no such relation.
    """
    from rowtide.cli.errors import read_text, shown_to_user
    from rowtide.plan.explain import explain as explained
    from rowtide.sql.pipeline import Session

    with shown_to_user():
        session = Session()
        session.feed(read_text(pipeline), file=str(pipeline))
        stages = [(stage.name, _wanted(session, stage, relation)) for stage in session.stages]
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
