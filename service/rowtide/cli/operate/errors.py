"""``rowtide errors``: the error stream of a pipeline."""

from __future__ import annotations

import base64
import json
from enum import Enum
from typing import TYPE_CHECKING, Annotated

import typer

from rowtide.checkpoint.error_stream import ErrorFilter
from rowtide.cli.errors import shown_to_user
from rowtide.cli.help_format import App
from rowtide.cli.pipeline_file import ConfigFile, PipelineFile, PipelineFirst, opened
from rowtide.errors import StatementError
from rowtide.rows.bytes_text import bytes_text
from rowtide.rowtime.text import length_text, time_text
from rowtide.runtime.resubmitting.resubmit import resubmit as resubmit_rows
from rowtide.runtime.resubmitting.where_counts import Counting
from rowtide.sql.catalog.written_names import relation_name

if TYPE_CHECKING:
    from rowtide.checkpoint.ledger import ErrorRow, StoredError

app = App(
    name="errors",
    cls=PipelineFirst,
    no_args_is_help=True,
    help="List late and rejected rows, and resubmit them.",
)

AsJson = Annotated[bool, typer.Option("--json", help="Write the rows as JSON, raw bytes in base64.")]
SHOWN_BYTES = 60


class ErrorKind(Enum):
    """The two kinds of rows that become error rows."""

    LATE = "LATE"
    REJECTED = "REJECTED"


KindOption = Annotated[
    ErrorKind | None, typer.Option("--kind", help="Only late, or only rejected rows.", case_sensitive=False)
]
RelationOption = Annotated[
    str | None, typer.Option("--relation", help="Only rows of this relation.", metavar="RELATION")
]
ReasonOption = Annotated[
    str | None,
    typer.Option("--reason", help="Only rows with this reason, such as DECODE or CAST.", metavar="REASON"),
]


@app.command("list", epilog="Example: rowtide errors list pipeline.sql --kind late")
def list_errors(
    pipeline: PipelineFile,
    config: ConfigFile = None,
    kind: KindOption = None,
    relation: RelationOption = None,
    reason: ReasonOption = None,
    pending: Annotated[bool, typer.Option("--pending", help="Only rows that were not resubmitted.")] = False,
    after: Annotated[int, typer.Option(help="Only rows with a greater number, to continue a list.")] = 0,
    limit: Annotated[int, typer.Option(help="Maximum number of rows.", min=1)] = 100,
    as_json: AsJson = False,
) -> None:
    """List committed error rows, the oldest first.

    Exit code 0: listed. 3: the database is down.
    """
    with shown_to_user(), opened(pipeline, config) as (found, _):
        rows = found.ledger.errors(_filter(kind, relation, reason, pending=pending, after=after), limit)
        if as_json:
            typer.echo(json.dumps({"errors": [_as_json(row) for row in rows]}, indent=2))
            return
        for row in rows:
            typer.echo(_line(row))
        if not rows:
            typer.echo("No error row matches." if relation or reason or kind else "No error rows.")
        if len(rows) == limit:
            typer.echo(f"More may follow: --after {rows[-1].error_id}")


@app.command(epilog="Example: rowtide errors resubmit pipeline.sql --reason DIVISION_BY_ZERO --dry-run")
def resubmit(
    pipeline: PipelineFile,
    numbers: Annotated[
        list[int] | None, typer.Argument(help="The rows' numbers in the list.", metavar="[NUMBER]...")
    ] = None,
    config: ConfigFile = None,
    kind: KindOption = None,
    relation: RelationOption = None,
    reason: ReasonOption = None,
    everything: Annotated[bool, typer.Option("--all", help="All rows that can be resubmitted.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be resubmitted; change nothing.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Write the result as JSON.")] = False,
) -> None:
    """Resubmit error rows: the pipeline reads their messages again, each once.

    A row goes only to the relation that refused it. A late row takes the least rowtime that the relation
    accepts; its columns do not change. The command says from which rowtime on and in which windows it counts. A
    running service reads it within seconds, otherwise the next start does. A row that fails again becomes a new
    error row; a message that cannot be decoded stays.

    Exit code 0: resubmitted. 2: a row named by its number cannot be resubmitted, no rows are selected, or the
    pipeline runs on Spark or ran there last; nothing has changed. 3: the database is down.
    """
    with shown_to_user(), opened(pipeline, config) as (found, _):
        if not (numbers or kind or relation or reason or everything):
            raise StatementError(
                "no error rows are selected",
                hint="Name rows by number, --kind, --relation or --reason, or pass --all.",
            )
        # Of rows that are named, all are resubmitted or none.
        done = resubmit_rows(
            found,
            _filter(kind, relation, reason, numbers=tuple(numbers or ())),
            dry_run=dry_run,
            all_or_none=True,
        )
        if as_json:
            taken = [row.error_id for row in done.rows]
            document = {
                "resubmitted": [] if dry_run else taken,
                "would_resubmit": taken if dry_run else [],
                "counts": [_counting(number, each) for number, each in done.counting.items()],
                "refused": [{"number": number, "why": why} for number, why in done.stay.items()],
                "left": done.left,
            }
            typer.echo(json.dumps(document, indent=2))
            return
        for row in done.rows:
            typer.echo(_line(row))
            if (counts := done.counting.get(row.error_id)) is not None:
                typer.echo(f"{'':>6} {counts.text()}")
        for number, why in done.stay.items():
            typer.echo(f"{number:>6} stays: {why}")
        typer.echo(
            f"{len(done.rows)} rows {'would be' if dry_run else 'are'} resubmitted, {len(done.stay)} stay. "
            f"After this the pipeline may have {done.left:,} more resubmissions."
        )


@app.command(epilog="Example: rowtide errors show pipeline.sql 17")
def show(
    pipeline: PipelineFile,
    number: Annotated[int, typer.Argument(help="The row's number in the list.", metavar="NUMBER")],
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Show one error row in full, with its raw bytes.

    Exit code 0: shown. 2: the row does not exist. 3: the database is down.
    """
    with shown_to_user(), opened(pipeline, config) as (found, _):
        rows = found.ledger.errors(ErrorFilter(numbers=(number,)))
        if not rows:
            raise StatementError(
                f'error row {number} of pipeline "{found.name}" does not exist',
                hint="List error rows with `rowtide errors list`.",
            )
        shown = _as_json(rows[0])
        if as_json:
            typer.echo(json.dumps(shown, indent=2))
            return
        raw = rows[0].row.raw
        for name, value in shown.items():
            if value is not None and name != "raw_base64":
                typer.echo(f"{name:<14} {value}")
        if raw is not None:
            typer.echo(f"{'raw':<14} {bytes_text(raw)}")


def _counting(number: int, counting: Counting) -> dict[str, object]:
    windows = [{"relation": name, "ends": time_text(end)} for name, end in counting.windows]
    return {"number": number, "rowtime": time_text(counting.rowtime), "windows": windows}


def _filter(
    kind: ErrorKind | None,
    relation: str | None,
    reason: str | None,
    *,
    numbers: tuple[int, ...] = (),
    pending: bool = False,
    after: int = 0,
) -> ErrorFilter:

    return ErrorFilter(
        numbers=numbers,
        kind=None if kind is None else kind.value,
        relation=None if relation is None else relation_name(relation),
        reason=None if reason is None else reason.upper(),
        pending=pending,
        after=after,
    )


def _line(stored: StoredError) -> str:

    row = stored.row
    where = "" if row.topic is None else f" {row.topic}[{row.partition}]@{row.offset}"
    raw = "" if row.raw is None else f"  {bytes_text(row.raw, SHOWN_BYTES)}"
    again = "" if stored.resubmitted is None else "  (resubmitted)"
    return f"{stored.error_id:>6} {row.kind:<8} {row.relation}{where}: {_reason(row)}{raw}{again}"


def _reason(row: ErrorRow) -> str:
    """Return why a row is an error row; for a late row with readable times."""
    late_by, rowtime, bound = row.late_by_ms, row.rowtime, row.bound
    if late_by is None or rowtime is None or bound is None:
        return row.reason
    said = row.reason.replace(f"{late_by} ms", length_text(late_by))
    return f"{said} {time_text(bound)} (rowtime {time_text(rowtime)})"


def _as_json(stored: StoredError) -> dict[str, object]:

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
        "stream": row.stream,
        "message_time": _time(row.message_time),
        "row": row.row,
        "raw_base64": None if row.raw is None else base64.b64encode(row.raw).decode(),
        "epoch": stored.epoch,
        "committed_at": _time(stored.committed_at_ms),
        "resubmitted_at": _time(stored.resubmitted_at_ms),
    }


def _time(millis: int | None) -> str | None:

    return None if millis is None else time_text(millis)
