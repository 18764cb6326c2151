"""Resubmits error rows: marks those that a running service then reads again.

The command and the API are its two callers. A row is marked at most once, also if several ask at the same time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from rowtide.checkpoint.database import DatabaseLedger
from rowtide.checkpoint.error_stream import (
    MAX_RESUBMISSIONS,
    ErrorFilter,
    left_after,
    parts_of,
    together,
)
from rowtide.checkpoint.ledger import StoredError
from rowtide.errors import OvertakenError, StatementError
from rowtide.runtime.pipeline import Pipeline
from rowtide.runtime.recovery.begin import ON_SPARK, refuse_another_plan
from rowtide.runtime.recovery.digest import plan_digests
from rowtide.runtime.resubmitting.resubmittable import Resubmittable
from rowtide.runtime.resubmitting.where_counts import Counting, LateRows

CHOICES = 3
"""How often rows are chosen again because others resubmit some of them at the same time."""
PORTION_ROWS = 100
"""How many rows are read at once: they are in memory before their bytes are known."""
IN_ONE_PROCESS = (
    "Stop the process on Spark, start the pipeline in one process with `rowtide run PIPELINE.sql`, and resubmit then. "
    "From then on the pipeline runs in one process, without --runner spark."
)
"""What to do to resubmit rows of a pipeline that runs on Spark."""
MISSING = "no such row, or other filters exclude it"


@dataclass(frozen=True, slots=True)
class ResubmittedRows:
    """The rows that are resubmitted, or would be, and those that stay, by number with the reason.

    ``counting`` is where late rows count, by number. ``last`` is the number of the last row that was looked at, if the
    filter may match others after it. ``left`` is how many resubmissions the pipeline may have after this.
    """

    rows: Sequence[StoredError]
    stay: Mapping[int, str]
    counting: Mapping[int, Counting]
    last: int | None = None
    left: int = MAX_RESUBMISSIONS


def resubmit(
    pipeline: Pipeline,
    wanted: ErrorFilter,
    *,
    dry_run: bool = False,
    most: int | None = None,
    all_or_none: bool = False,
) -> ResubmittedRows:
    """Resubmit the error rows that a filter matches, each once. Those that cannot be resubmitted stay.

    Args:
      pipeline: its plan reads the rows again.
      wanted: rows that it names by number; or those that it matches and that were not resubmitted.
      dry_run: change nothing.
      most: the greatest number of rows to look at, the oldest first, as far as RESUBMITTED_BYTES allow; None: all.
      all_or_none: refuse all rows if one that is named has to stay.

    Raises:
      StatementError: the checkpoint is of another plan, Spark has the pipeline, a named row has to stay
        (``all_or_none``), the pipeline has too many resubmissions, or others kept resubmitting these rows; nothing
        has changed.
      UnavailableError: the database is down.
    """
    for left in reversed(range(CHOICES)):
        found = _chosen(pipeline, wanted, most)
        if all_or_none and wanted.numbers and found.stay:
            number, why = min(found.stay.items())
            raise StatementError(
                f'error row {number} of pipeline "{pipeline.name}" cannot be resubmitted: {why}'
            )
        if dry_run or not found.rows:
            break
        try:
            pipeline.ledger.resubmit(found.rows, partial(_refuse_on_spark, pipeline.name))
            break
        except OvertakenError:
            if not left:
                raise
    return found


def _chosen(pipeline: Pipeline, wanted: ErrorFilter, most: int | None) -> ResubmittedRows:
    """Return what would be resubmitted now.

    Raises:
      StatementError: the checkpoint is of another plan, Spark has the pipeline, or it has too many resubmissions.
    """
    record = pipeline.ledger.read()
    if record is not None:
        refuse_another_plan(pipeline.name, record, plan_digests(pipeline.plan))
        _refuse_on_spark(pipeline.name, record.holder)
    matching = _matching(pipeline.ledger, replace(wanted, pending=not wanted.numbers))
    if most is None:
        looked_at, others_follow = list(matching), False
    else:
        looked_at, others_follow = next(parts_of(matching, most), ([], False))
    last = looked_at[-1].error_id if others_follow else None
    named = {each for each in wanted.numbers if each > wanted.after and (last is None or each <= last)}
    resubmittable = Resubmittable(pipeline.plan)
    late = LateRows(pipeline.plan, () if record is None else record.partition_positions)
    stay = dict.fromkeys(sorted(named - {row.error_id for row in looked_at}), MISSING)
    rows, counting = [], {}
    for row in looked_at:
        if (why := resubmittable.refusal(row)) is not None:
            stay[row.error_id] = why
            continue
        rows.append(row)
        if (counts := late.counting(row)) is not None:
            counting[row.error_id] = counts
    before = max((each.number for each in pipeline.ledger.resubmissions()), default=0)
    left = left_after(before, sum(1 for _ in together(rows)))
    return ResubmittedRows(rows, stay, counting, last, left)


def _refuse_on_spark(pipeline: str, holder: str) -> None:
    """Refuse a pipeline whose last process runs it on Spark, also if that has ended: Spark may start again.

    Raises:
      StatementError: saying what to do first.
    """
    if holder.endswith(ON_SPARK):
        raise StatementError(
            f'the last process that took pipeline "{pipeline}" reads no resubmitted rows: {holder}',
            hint=IN_ONE_PROCESS,
        )


def _matching(ledger: DatabaseLedger, wanted: ErrorFilter) -> Iterator[StoredError]:
    """Yield the rows that a filter matches, the oldest first, reading few of them at a time."""
    if wanted.numbers:
        numbers = sorted(set(wanted.numbers))
        for start in range(0, len(numbers), PORTION_ROWS):
            portion = replace(wanted, numbers=tuple(numbers[start : start + PORTION_ROWS]))
            yield from ledger.errors(portion, PORTION_ROWS)
        return
    after = wanted.after
    while found := ledger.errors(replace(wanted, after=after), PORTION_ROWS):
        yield from found
        after = found[-1].error_id
