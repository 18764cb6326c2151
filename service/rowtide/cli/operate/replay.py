"""``rowtide replay``: re-run a range from the log and compare with what was committed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from rowtide.app import context_of
from rowtide.cli.cells import row_cell
from rowtide.cli.errors import FAILED, shown_to_user
from rowtide.cli.pipeline_file import ConfigFile, PipelineFile, opened
from rowtide.errors import StatementError
from rowtide.runtime.inspect.replay import Range
from rowtide.runtime.inspect.replay import compare as compared
from rowtide.runtime.recovery.begin import parse_time

if TYPE_CHECKING:
    from rowtide.plan.plan import ForeignTable
    from rowtide.rows.rowop import Row
    from rowtide.runtime.inspect.replay import ReplayComparison, ReplayDifference

EXAMPLE = "Example: rowtide replay pipeline.sql --from '2026-01-31' --to '2026-02-01' --compare"


def replay(
    pipeline: PipelineFile,
    config: ConfigFile = None,
    begin: Annotated[
        str | None,
        typer.Option("--from", help="Only rows of this time or later, UTC.", metavar="TIME"),
    ] = None,
    end: Annotated[
        str | None, typer.Option("--to", help="Only rows before this time, UTC.", metavar="TIME")
    ] = None,
    compare: Annotated[bool, typer.Option("--compare", help="Compare with what was committed.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Write the result as JSON.")] = False,
) -> None:
    """Recompute the committed rows of a pipeline from its log, and show or compare them.

    The time of a row is the column that ROWTIME or the group's period feeds. Nothing is written; a
    running service continues. Without --compare, each row is printed as a JSON object on its own line.

    Exit code 0: equal. 1: a row differs. 2: the rows cannot be recomputed: the log has aged out, or a
    table has no time column; or the range has no rows. 3: a dependency is down.
    """
    with shown_to_user():
        wanted = range_of(begin, end)
        with opened(pipeline, config) as (found, settings):
            tables = {table.name: table for table in found.plan.foreign_tables}

            def on_row(table: str, row: Row) -> None:
                typer.echo(json.dumps({"table": table, "row": _named(row, tables[table])}))

            result = compared(context_of(found, settings), wanted, None if compare else on_row)
            if compare and not wanted.is_everything and not result.count and not any(result.rows.values()):
                raise StatementError(
                    "no row lies between --from and --to, so nothing is compared",
                    hint="Choose a range that has rows, or leave both out.",
                )
            if not compare:
                typer.echo(f"{result.messages} messages recomputed, not compared", err=True)
            elif as_json:
                typer.echo(json.dumps(comparison_as_json(result, tables), indent=2))
            else:
                show_comparison(result, tables)
    if result.count:
        raise typer.Exit(FAILED)


def range_of(begin: str | None, end: str | None) -> Range:
    """Read the times of --from and --to.

    Raises:
      StatementError: a time is invalid, or the range is empty.
    """
    wanted = Range(None if begin is None else parse_time(begin), None if end is None else parse_time(end))
    if wanted.begin_ms is not None and wanted.end_ms is not None and wanted.end_ms <= wanted.begin_ms:
        raise StatementError(f'--to "{end}" is not after --from "{begin}"', hint="No row lies between.")
    return wanted


def comparison_as_json(result: ReplayComparison, tables: dict[str, ForeignTable]) -> dict[str, object]:
    """Return the result as plain values."""
    return {
        "equal": not result.count,
        "messages": result.messages,
        "rows": dict(result.rows),
        "positions": [
            {"relation": relation, "partition": partition, "next_offset": offset}
            for (relation, partition), offset in sorted(result.positions.items())
        ],
        "differences": result.count,
        "first": [
            {
                "table": each.table,
                "committed": _named(each.committed, tables[each.table]),
                "recomputed": _named(each.recomputed, tables[each.table]),
                "offsets": [
                    {"relation": relation, "partition": partition, "first": first, "last": last}
                    for (relation, partition), (first, last) in sorted(each.offsets.items())
                ],
            }
            for each in result.differences
        ],
    }


def show_comparison(result: ReplayComparison, tables: dict[str, ForeignTable]) -> None:
    """Write the result."""
    for table, rows in sorted(result.rows.items()):
        typer.echo(f"{table}: {rows} rows recomputed")
    if not result.count:
        typer.echo(f"Equal: {result.messages} messages reproduce the committed tables.")
        return
    typer.echo(f"{result.count} rows differ; the first:")
    for each in result.differences:
        typer.echo(f"  table {each.table}")
        typer.echo(f"    committed:  {_text(each.committed, tables[each.table])}")
        typer.echo(f"    recomputed: {_text(each.recomputed, tables[each.table])}")
        for line in _offset_lines(each):
            typer.echo(f"    {line}")


def _offset_lines(difference: ReplayDifference) -> list[str]:
    return [
        f"from {relation} partition {partition}, offsets {first} to {last}"
        for (relation, partition), (first, last) in sorted(difference.offsets.items())
    ]


def _named(row: Row | None, table: ForeignTable) -> dict[str, str | None] | None:
    if row is None:
        return None
    return {
        name: None if value is None else str(value)
        for name, value in zip(table.row_type.names, row, strict=True)
    }


def _text(row: Row | None, table: ForeignTable) -> str:

    if row is None:
        return "no such row"
    fields = zip(table.row_type, row, strict=True)
    return ", ".join(f"{field.name} {row_cell(value, field.type)}" for field, value in fields)
