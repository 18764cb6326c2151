"""``rowtide errors``: the error stream of a pipeline."""

from __future__ import annotations

import json
from enum import Enum
from typing import TYPE_CHECKING, Annotated

import typer

from rowtide.cli.pipeline_file import ConfigFile, PipelineFile, PipelineFirst

if TYPE_CHECKING:
    from rowtide.checkpoint.ledger import StoredError

app = typer.Typer(
    name="errors", cls=PipelineFirst, no_args_is_help=True, help="Look at late and rejected rows."
)

AsJson = Annotated[bool, typer.Option("--json", help="Write the rows as JSON, raw bytes in base64.")]
SHOWN_BYTES = 60


class Kind(Enum):
    """The two fates that are error rows."""

    LATE = "LATE"
    REJECTED = "REJECTED"


@app.command("list", epilog="Example: rowtide errors list pipeline.sql --kind late")
def list_errors(
    pipeline: PipelineFile,
    config: ConfigFile = None,
    kind: Annotated[
        Kind | None, typer.Option(help="Only late, or only rejected rows.", case_sensitive=False)
    ] = None,
    relation: Annotated[
        str | None, typer.Option(help="Only rows of this relation, by catalog name.", metavar="RELATION")
    ] = None,
    after: Annotated[
        int, typer.Option(help="Only rows with a greater number: to go on from the last one shown.")
    ] = 0,
    limit: Annotated[int, typer.Option(help="Rows at most.", min=1)] = 100,
    as_json: AsJson = False,
) -> None:
    """List committed error rows, the oldest first.

    Exit code 0: done. 3: the database is down.
    """
    from rowtide.cli.errors import shown_to_user
    from rowtide.cli.pipeline_file import opened

    with shown_to_user(), opened(pipeline, config) as (found, _):
        rows = found.ledger.errors(
            after=after, limit=limit, kind=None if kind is None else kind.value, relation=relation
        )
        if as_json:
            typer.echo(json.dumps({"errors": [_as_json(row) for row in rows]}, indent=2))
            return
        for row in rows:
            typer.echo(_line(row))
        if len(rows) == limit:
            typer.echo(f"More may follow: --after {rows[-1].error_id}")


@app.command(epilog="Example: rowtide errors show pipeline.sql 17")
def show(
    pipeline: PipelineFile,
    number: Annotated[int, typer.Argument(help="The row's number in the list.", metavar="NUMBER")],
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Show one error row in full, with its raw bytes.

    Exit code 0: done. 2: there is no such row. 3: the database is down.
    """
    from rowtide.cli.errors import shown_to_user
    from rowtide.cli.pipeline_file import opened
    from rowtide.errors import StatementError

    with shown_to_user(), opened(pipeline, config) as (found, _):
        rows = [row for row in found.ledger.errors(after=number - 1, limit=1) if row.error_id == number]
        if not rows:
            raise StatementError(f'error row {number} of pipeline "{found.name}" does not exist')
        shown = _as_json(rows[0])
        if as_json:
            typer.echo(json.dumps(shown, indent=2))
            return
        raw = rows[0].row.raw
        for name, value in shown.items():
            if value is not None and name != "raw_base64":
                typer.echo(f"{name:<14} {value}")
        if raw is not None:
            typer.echo(f"{'raw':<14} {raw!r}")


def _line(stored: StoredError) -> str:
    row = stored.row
    where = "" if row.topic is None else f" {row.topic}[{row.partition}]@{row.offset}"
    raw = (
        "" if row.raw is None else f"  {row.raw[:SHOWN_BYTES]!r}{'...' if len(row.raw) > SHOWN_BYTES else ''}"
    )
    return f"{stored.error_id:>6} {row.kind:<8} {row.relation}{where}: {row.reason}{raw}"


def _as_json(stored: StoredError) -> dict[str, object]:
    import base64

    row = stored.row
    return {
        "number": stored.error_id,
        "kind": row.kind,
        "relation": row.relation,
        "reason": row.reason,
        "topic": row.topic,
        "partition": row.partition,
        "offset": row.offset,
        "rowtime": _time(row.rowtime),
        "bound": _time(row.bound),
        "late_by_ms": row.late_by_ms,
        "row": row.row,
        "raw_base64": None if row.raw is None else base64.b64encode(row.raw).decode(),
        "epoch": stored.epoch,
        "committed_at": _time(stored.committed_at_ms),
    }


def _time(millis: int | None) -> str | None:
    from rowtide.rowtime.text import time_text

    return None if millis is None else time_text(millis)
