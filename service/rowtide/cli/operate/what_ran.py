"""The plan that ran last: of the file that --was names, or of the text that the checkpoint keeps."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rowtide.cli.errors import read_text
from rowtide.errors import StatementError
from rowtide.runtime.change.kept_text import kept_text, refuse_hidden, with_secrets_of
from rowtide.runtime.configured import configured
from rowtide.sql.pipeline import plan_pipeline

if TYPE_CHECKING:
    from rowtide.config.settings import Settings
    from rowtide.plan.plan import Plan
    from rowtide.runtime.pipeline import Pipeline

KEPT = "the text in the checkpoint"
Was = Annotated[
    Path | None,
    typer.Option(
        "--was",
        help="The file that ran last, with the modules that it read; without it, the text in the checkpoint.",
        metavar="OLD.sql",
    ),
]


@dataclass(frozen=True, slots=True)
class RanPlan:
    """A plan with the options of today's configuration; ``name`` is that of its text in messages."""

    plan: Plan
    name: str
    text: str


def what_ran(found: Pipeline, settings: Settings, file: Path, was: Path | None) -> RanPlan:
    """Return the plan of the file ``was``, or of the text that the checkpoint keeps.

    Args:
      found: the pipeline of the changed file ``file``, whose folder has the modules of a text.
      settings: its configuration.
      file: the changed file.
      was: the file that ran last, if it is given.

    Raises:
      StatementError: the checkpoint has no text, or a text does not have a plan any more.
    """
    if was is not None:
        text = read_text(was)
        planned = plan_pipeline(text, file=str(was))
        return RanPlan(configured(planned, settings), str(was), kept_text(text, planned))
    kept = found.ledger.text()
    if kept is None:
        raise StatementError(
            f'the checkpoint of pipeline "{found.name}" does not have the text of the file that ran',
            hint="Pass the file that ran last with --was OLD.sql.",
        )
    try:
        plan = configured(with_secrets_of(plan_pipeline(kept, file=str(file)), found.plan), settings)
    except StatementError as error:
        error.file = KEPT
        raise
    refuse_hidden(plan)
    return RanPlan(plan, KEPT, kept)
