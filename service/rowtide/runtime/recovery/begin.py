"""The start positions of a pipeline without a commit (``run --from``), and what a start refuses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum

from rowtide.checkpoint.ledger import Ledger, Record
from rowtide.errors import StatementError
from rowtide.plan.plan import Plan
from rowtide.rows.types import MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS
from rowtide.runtime.recovery.digest import differences, tables_in
from rowtide.runtime.recovery.undeclared_keys import refuse_undeclared_keys
from rowtide.runtime.state.output import target_table
from rowtide.runtime.state.owned_tables import owned_tables
from rowtide_connectors.api import Database, TopicSource

ON_SPARK = ", on Spark"
"""The end of the name of a holder that runs the pipeline on Spark."""


class StartEdge(Enum):
    """Values of ``--from`` that are not a time."""

    WATERMARK = "watermark"
    """The positions of the last commit; without one, the earliest messages."""
    EARLIEST = "earliest"


@dataclass(frozen=True, slots=True)
class StartTimestamp:
    """The first message of each partition with timestamp ``timestamp_ms`` or later."""

    timestamp_ms: int


Begin = StartEdge | StartTimestamp


def parse_begin(text: str) -> Begin:
    """Parse ``watermark``, ``earliest`` or a time.

    Raises:
      StatementError: the text is none of these.
    """
    for edge in StartEdge:
        if text.lower() == edge.value:
            return edge
    return StartTimestamp(parse_time(text))


def parse_time(text: str) -> int:
    """Parse an ISO 8601 time (without zone: UTC) or whole milliseconds since the epoch; return ms.

    Raises:
      StatementError: the text is neither.
    """
    digits = text[1:] if text[:1] == "-" else text
    if digits.isascii() and digits.isdigit() and len(digits) > 8:
        given = int(text)
    else:
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            raise StatementError(
                f'"{text}" is not a time',
                hint='Times are UTC, such as "2026-01-31 12:00:00", or milliseconds since 1970.',
            ) from None
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        given = int(moment.timestamp() * 1000)
    if not MIN_TIMESTAMP_MS <= given <= MAX_TIMESTAMP_MS:
        raise StatementError(f'"{text}" is not within the years 1 to 9999')
    return given


def first_offsets(source: TopicSource, begin: Begin) -> Mapping[int, int]:
    """Return the first offset to read of each partition of a topic.

    Raises:
      UnavailableError, GoneError.
    """
    if isinstance(begin, StartTimestamp):
        return source.offsets_at(begin.timestamp_ms)
    return {partition: held.earliest for partition, held in source.ranges().items()}


def refuse_another_plan(name: str, record: Record, digests: Mapping[str, str]) -> None:
    """Refuse to run another plan over an existing checkpoint.

    See docs/sql/semantics.md#checkpoint-and-plan-digest.

    Raises:
      StatementError: naming what changed.
    """
    if changes := differences(record.digest, digests):
        raise StatementError(
            f'pipeline "{name}" has committed positions under another plan: {"; ".join(changes)}',
            hint="Its state would not fit. Show the change with `rowtide plan` and apply it with `rowtide "
            "apply`; or undo it; or run the changed file under another name (pipeline.name) with tables of "
            "its own.",
        )


def refuse_begin(name: str, begin: Begin) -> None:
    """Refuse ``--from`` if positions are committed.

    Raises:
      StatementError: it is not ``watermark``.
    """
    if begin is not StartEdge.WATERMARK:
        raise StatementError(
            f'pipeline "{name}" has committed positions: --from is not allowed',
            hint="Remove --from: the pipeline continues from its committed positions.",
        )


def refuse_start(name: str, record: Record, digests: Mapping[str, str], begin: Begin) -> None:
    """Refuse another plan, and ``--from``, if positions are committed.

    Raises:
      StatementError: naming what changed.
    """
    refuse_another_plan(name, record, digests)
    if record.partition_positions:
        refuse_begin(name, begin)


def refuse_tables_of_others(ledger: Ledger, plan: Plan) -> None:
    """Refuse to write to a table that another pipeline of the database has for itself.

    Two pipelines that start at once may not see each other.

    Raises:
      StatementError: naming the table and the pipeline.
      OptionError: as ``owned_tables``.
    """
    owned = owned_tables(plan)
    for pipeline, kept in sorted(ledger.other_plans().items()):
        for table in sorted(tables_in(kept).intersection(owned)):
            raise StatementError(
                f'table "{table}" is written by pipeline "{pipeline}"',
                hint=f"A copied or renamed file is another pipeline: set pipeline.name to {pipeline} to continue it. "
                "Or write to another table (table_name), add OPTIONS (shared 'TRUE') if both are to write to it, or "
                "give up the other one (rowtide state drop --all).",
            )


def prepare_tables(name: str, database: Database, plan: Plan, *, kept: bool) -> Sequence[str]:
    """Create the missing output tables, and return their names. If rows are ``kept``, none may be missing.

    Raises:
      StatementError: naming the missing tables; and as ``Database.prepare`` and ``refuse_undeclared_keys``.
    """
    tables = [target_table(table) for table in plan.foreign_tables]
    missing = database.missing(tables)
    if kept:
        refuse_missing_tables(name, missing)
    database.prepare(tables)
    refuse_undeclared_keys(database, plan)
    return missing


def refuse_missing_tables(name: str, missing: Sequence[str]) -> None:
    """Refuse to create output tables again if positions are committed: their former rows would be missing.

    Raises:
      StatementError: naming the tables.
    """
    if missing:
        listed = ", ".join(f'"{table}"' for table in missing)
        raise StatementError(
            f'pipeline "{name}" has committed positions, but its output tables {listed} do not exist',
            hint="Restore them. Or start with --recreate-tables, which creates them empty: the rows that "
            "were committed before are not in them then.",
        )
