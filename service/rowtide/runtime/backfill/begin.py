"""Where a backfill begins and ends, and what it refuses.

A backfill that was killed continues after its last slice when the same command is
run again: it is the last process that took the pipeline, and its cut, which
was committed with the first slice, has not been reached. Positions that
anything else has committed are continued only if that is said
(``--from watermark``).
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from rowtide.checkpoint.ledger import (
    CUT,
    Decision,
    KeptSnapshot,
    PartitionId,
    PartitionPosition,
    Record,
    is_resubmission,
)
from rowtide.checkpoint.parts.gathered import is_in_parts
from rowtide.errors import StatementError
from rowtide.operators.contract import State
from rowtide.rowtime.text import time_text
from rowtide.runtime.backfill.slices import SliceLimits
from rowtide.runtime.ingest.intake import check_identity
from rowtide.runtime.pipeline_io import PipelineIO
from rowtide.runtime.recovery.begin import Begin, StartEdge, first_offsets, refuse_another_plan, refuse_begin
from rowtide.runtime.recovery.digest import plan_digests
from rowtide.runtime.recovery.newest import NewestSnapshot
from rowtide.runtime.recovery.recovery import begin_of_replay, check_compacted, check_ranges, usable
from rowtide.runtime.recovery.start import START_COMMITS, Claimed, recover
from rowtide.runtime.state.context import PipelineContext
from rowtide.runtime.topics import adopt_topics, compacted_topics, ids_of, known_ids
from rowtide_connectors.api import TopicSource
from rowtide_connectors.several import place_of

HOLDER = ", a backfill"
"""The end of the name that a backfill has in the checkpoint."""


@dataclass(frozen=True, slots=True)
class BackfillOrder:
    """What is ordered: the cut, where to begin, and how long slices are.

    ``until_ms``: the cut of each partition is its first message with this timestamp or a later one, else its end.
    ``begin``: where a pipeline without committed positions begins (None: at the earliest messages);
    ``StartEdge.WATERMARK`` continues from positions whatever has committed them. ``in_order``: the messages of each
    partition are read by one task, in the order of their offsets. ``take_over``: start although another
    backfill of the pipeline runs, which then cannot commit.
    """

    until_ms: int
    begin: Begin | None = None
    slices: SliceLimits = field(default_factory=SliceLimits)
    in_order: bool = False
    take_over: bool = False


@dataclass(frozen=True, slots=True)
class BackfillStart:
    """What is committed when a backfill begins. ``cut`` is that of the backfill that continues, if one does."""

    record: Record | None = None
    decisions: Sequence[Decision] = ()
    cut: Mapping[PartitionId, int] | None = None

    @property
    def partition_positions(self) -> tuple[PartitionPosition, ...]:
        """The committed positions; none if the pipeline begins."""
        return () if self.record is None else self.record.partition_positions

    @property
    def is_complete(self) -> bool:
        """Return whether the backfill has reached its cut."""
        if self.record is None or self.cut is None:
            return False
        positions = self.record.positions()
        return all(positions.get(place, offset) >= offset for place, offset in self.cut.items())


def committed(context: PipelineContext, order: BackfillOrder) -> BackfillStart:
    """Read what is committed, and refuse what a backfill cannot continue.

    Only the backfill with the latest epoch can commit, so a second one would waste the work of the
    first. Processes on other machines are not detected.

    Raises:
      StatementError: something else has committed positions, they are of another plan, another backfill of the
        pipeline runs, or it writes to topics.
    """
    if context.plan.written_streams:
        named = ", ".join(f'"{stream.name}"' for stream in context.plan.written_streams)
        raise StatementError(
            f"a backfill writes to tables only, and pumps write to foreign streams: {named}",
            hint="Let `rowtide run` fill in the history, or leave these pumps out of the file that is backfilled: "
            "`rowtide apply` adds them afterwards.",
        )
    record = context.ledger.read()
    if record is None:
        return BackfillStart()
    if not order.take_over:
        _refuse_other(context.name, record)
    if not record.partition_positions:
        return BackfillStart(record)
    refuse_another_plan(context.name, record, plan_digests(context.plan))
    decisions = context.ledger.decisions()
    found = BackfillStart(record, decisions, _cut(decisions, order.until_ms))
    _refuse_positions(context.name, found, order)
    if context.ledger.statements().applied(0, record.commits):
        raise StatementError(
            f'statements have changed tables of pipeline "{context.name}": a backfill cannot continue it',
            hint="Run the pipeline to continue from its positions.",
        )
    return found


def _cut(decisions: Sequence[Decision], until_ms: int) -> Mapping[PartitionId, int] | None:
    """Return the cut of the last backfill, if it was until this time."""
    cuts = [each for each in decisions if each.kind == CUT]
    if not cuts or cuts[-1].bound != until_ms:
        return None
    return {(each.relation, each.partition): each.next_offset for each in cuts if each.bound == until_ms}


def cut_decisions(cut: Mapping[PartitionId, int], until_ms: int) -> tuple[Decision, ...]:
    """Return the decisions by which a backfill that is run again ends at the same cut."""
    return tuple(Decision(CUT, *place, offset, until_ms) for place, offset in sorted(cut.items()))


def _refuse_positions(name: str, found: BackfillStart, order: BackfillOrder) -> None:
    record = found.record
    assert record is not None
    if any(is_resubmission(place) for place in record.positions()):
        raise StatementError(
            f'pipeline "{name}" has resubmitted error rows: a backfill cannot continue it',
            hint="Run the pipeline to continue from its positions.",
        )
    if order.begin is StartEdge.WATERMARK:
        return
    is_own = record.holder.endswith(HOLDER)
    if is_own and found.cut is not None:
        return
    other = next((each for each in reversed(found.decisions) if each.kind == CUT), None)
    if is_own and other is not None and other.bound is not None:
        before = time_text(other.bound)
        is_complete = BackfillStart(record, (), _cut(found.decisions, other.bound)).is_complete
        raise StatementError(
            f'pipeline "{name}" was backfilled until {before}'
            if is_complete
            else f'pipeline "{name}" has an unfinished backfill until {before}',
            hint=("Add" if is_complete else f"Type --until '{before}' to finish it, or add")
            + " --from watermark to continue from its last slice until another time.",
        )
    if order.begin is not None:
        refuse_begin(name, order.begin)
    raise StatementError(
        f'pipeline "{name}" has committed positions: a backfill would repeat what is there',
        hint="Stop the service and add --from watermark: the backfill then continues from the positions. Or run "
        "the pipeline. To backfill again, set another name (pipeline.name) and other tables.",
    )


def _refuse_other(name: str, record: Record) -> None:
    other = re.fullmatch(rf"(.*) process (\d+){HOLDER}", record.holder)
    if other is None:
        return
    pid = int(other[2])
    if record.holder.startswith(_process(pid)) and pid != os.getpid() and _is_running(pid):
        raise StatementError(
            f'another backfill of pipeline "{name}" is running: {_process(pid)}',
            hint="Wait until it ends, or stop it; with --take-over this backfill starts and the other one "
            "cannot commit.",
        )


class CommittedMeanwhileError(StatementError):
    """The pipeline has committed since it was read; nothing has changed."""


def refuse_changed(found: BackfillStart, record: Record) -> None:
    """Refuse to take a pipeline that has committed since it was read, as a process that was killed may still do.

    Raises:
      CommittedMeanwhileError: it has.
    """
    if record.partition_positions != found.partition_positions:
        raise CommittedMeanwhileError(
            "another process has committed meanwhile", hint="Stop it, then run the backfill again."
        )


def holder() -> str:
    """Return the name of this process in the checkpoint."""
    return f"{_process(os.getpid())}{HOLDER}"


def _process(pid: int) -> str:
    return f"{socket.gethostname()} process {pid}"


def _is_running(pid: int) -> bool:
    """Return whether a process of this machine runs. A zombie counts as ended."""
    try:
        # The name, in parentheses, may contain any character. The state follows it.
        status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return not status.rpartition(")")[2].lstrip().startswith("Z")


def first_positions(sources: Mapping[str, TopicSource], begin: Begin | None) -> list[PartitionPosition]:
    """Return the positions of a pipeline that begins.

    Raises:
      UnavailableError, GoneError.
    """
    found = []
    for relation, source in sorted(sources.items()):
        offsets = first_offsets(source, begin or StartEdge.EARLIEST)
        ids = ids_of(source, sorted(offsets))
        found += [
            PartitionPosition(
                relation, place_of(source.topic, each)[0], each, offset, offset, None, ids[each]
            )
            for each, offset in sorted(offsets.items())
        ]
    return found


def state_at(context: PipelineContext, record: Record) -> Mapping[str, State] | None:
    """Return the state of the flow at the committed positions; None: nothing but positions is committed.

    Messages after the newest snapshot are processed in this process, as at the start of a service. After a slice
    there are none.

    Raises:
      StatementError: the log no longer holds what is needed.
      TransientError: a dependency is down and is not waited for.
    """
    io = PipelineIO(context)
    snapshots = NewestSnapshot(context.ledger)
    ranges, compacted = {}, {}
    known = known_ids(record.partition_positions)
    for relation, source in sorted(context.sources.items()):
        io.broker.call(partial(check_identity, source, known.get(relation)))
        ranges[relation] = io.broker.call(source.ranges)
        if topics := io.broker.call(partial(compacted_topics, source)):
            compacted[relation] = topics
    snapshot: KeptSnapshot | None = usable(io.database.call(snapshots.look), record)
    begin = begin_of_replay(record, snapshot)
    check_ranges(record, begin, ranges)
    check_compacted(record, begin, compacted)
    if snapshot is None and record.commits == START_COMMITS:
        return None
    if snapshot is not None and is_in_parts(snapshot.state) and snapshot.commits == record.commits:
        # It is the state at the positions, of which only the names of the parts are here.
        return snapshot.state
    return recover(io, Claimed(record, ranges, compacted, (), snapshots)).flow.snapshot()


def adopt(context: PipelineContext, found: BackfillStart) -> None:
    """Let sources that read a pattern have the committed topics."""
    adopt_topics(context.sources, found.record)
