"""``rowtide apply``: a changed pipeline continues at the committed positions, in one commit.

A recovery brings the old plan to the committed positions. The new plan takes
over the operators that ``flow.succession`` names. One transaction writes the
resulting rows, the digest of the new plan and its state. Before it only the
epoch has changed; after it the new file runs. A replay of the log under the new
plan would return other rows, so the state of this commit or a later one is
needed from then on (``Record.changed_at``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import structlog

from rowtide.checkpoint.ledger import KeptSnapshot, PartitionPosition, Record
from rowtide.errors import StatementError
from rowtide.flow.flow import Flow
from rowtide.operators.contract import PARTITION_BITS, RESUBMITTED, State
from rowtide.plan.nodes import Node
from rowtide.plan.outputs import table_nodes
from rowtide.plan.plan import Plan
from rowtide.rows.tray import ORIGIN
from rowtide.runtime.pipeline_io import PipelineIO
from rowtide.runtime.query.contents import state_entries
from rowtide.runtime.recovery.begin import refuse_missing_tables, refuse_tables_of_others
from rowtide.runtime.recovery.digest import dumped, plan_digests
from rowtide.runtime.recovery.recovery import partitions_of, positions_of_others
from rowtide.runtime.recovery.start import claim, recover
from rowtide.runtime.recovery.undeclared_keys import refuse_undeclared_keys
from rowtide.runtime.state.context import PipelineContext
from rowtide.runtime.state.deadletters import RecentMessages
from rowtide.runtime.state.output import target_table
from rowtide.runtime.state.owned_tables import owned_tables
from rowtide.runtime.state.pipeline_state import CommitBatch, PipelineState
from rowtide.runtime.topics import adopt_topics

_WAITING = frozenset({"Merge", "Sort", "AsOfJoin", "AsOfJoinOn"})
"""Operators in which resubmitted rows wait before they reach the relation that had refused them."""

_log = structlog.get_logger("rowtide")


@dataclass(frozen=True, slots=True)
class Applied:
    """The result: the commit that switched, and the number of rows that it wrote by table."""

    commits: int
    rows: Mapping[str, int]
    snapshot_bytes: int


def apply(
    older: PipelineContext, newer: PipelineContext, *, empty: frozenset[tuple[str, str]] = frozenset()
) -> Applied:
    """Let the plan of ``newer`` continue at the positions of ``older``, in the same pipeline and database.

    A running service is superseded at its next commit or heartbeat. ``empty`` are relations whose operators may be
    dropped because they keep no rows.

    Raises:
      StatementError: the change cannot be applied, one of ``empty`` keeps rows, or the start of the old
        plan is refused; nothing has changed, though the epoch may have been taken.
      SupersededError, TransientError: as ``Service.run``.
    """
    begun = succeeding(older, newer)
    if empty:
        kept = state_entries(KeptSnapshot(begun.work.positions, begun.work.flow.snapshot()))
        held = {each.relation for each in kept if each.rows and (each.relation, each.operator) in empty}
        if held:
            raise state_would_be_lost(held)
    cut = begun.after.cut(with_snapshot=True)
    return commit_switch(begun, newer, cut, RecentMessages())


def state_would_be_lost(relations: Iterable[str]) -> StatementError:
    """Return the refusal of a change that leaves rows which these relations keep."""
    lost = ", ".join(sorted(set(relations)))
    return StatementError(
        f"the state of {lost} would be lost", hint="Add --lose, or run the file under another name."
    )


@dataclass(frozen=True, slots=True)
class Succeeding:
    """Two plans at the committed positions: ``work`` of the old plan, ``after`` of the new one.

    ``begun`` are partitions of new streams, ``gone`` are streams that the new plan does not read.
    """

    record: Record
    work: PipelineState
    after: PipelineState
    begun: Sequence[PartitionPosition]
    gone: Sequence[str]


def succeeding(older: PipelineContext, newer: PipelineContext) -> Succeeding:
    """Take the epoch, and let the new plan replace the old one at its positions. Nothing is committed.

    Raises:
      As ``apply``.
    """
    refuse_changed_streams(older.plan, newer.plan)
    refuse_tables_of_others(newer.ledger, newer.plan)
    before = older.ledger.read()
    if before is None or not before.has_begun:
        raise StatementError(f'pipeline "{older.name}" has committed nothing: start it with `rowtide run`')
    for each in older.ledger.resubmissions():
        if each.place not in before.positions():
            raise StatementError(
                f'resubmitted error rows of "{each.relation}" are not read yet',
                hint="Let the pipeline run until they are read, then apply the change.",
            )
    _refuse_left_messages(older, newer)
    before_and_after = {table.name for table in older.plan.foreign_tables}
    tables = [target_table(table) for table in newer.plan.foreign_tables]
    kept = [table for table in tables if table.name in before_and_after]
    refuse_missing_tables(newer.name, newer.database.missing(kept))
    newer.database.prepare(tables)
    refuse_undeclared_keys(newer.database, newer.plan)
    # A missing table of the old plan alone was dropped before the change.
    io = PipelineIO(replace(older, recreate_tables=True))
    claimed = claim(io)
    record, work = claimed.record, recover(io, claimed)
    _refuse_waiting_resubmitted(work.flow.snapshot())
    adopt_topics(newer.sources, record)
    partition_positions, begun = _partition_positions(record, newer)
    flow = Flow(table_nodes(newer.plan), partitions_of(each.place for each in partition_positions))
    flow.succeed(work.flow, streams_of_both(older.plan, newer.plan))
    after = PipelineState(flow, newer.plan.targets, partition_positions)
    PipelineIO(newer).prepare_outputs(after)
    after.drain()
    after.continue_accounts(newer.ledger.accounts())
    gone = {each.relation for each in record.partition_positions} - {
        each.relation for each in partition_positions
    }
    return Succeeding(record, work, after, begun, sorted(gone))


def commit_switch(
    begun: Succeeding, newer: PipelineContext, batch: CommitBatch, recent: RecentMessages
) -> Applied:
    """Commit the output rows, the state of the new plan, and its digest instead of the old one.

    Raises:
      As ``apply``.
    """
    digest = dumped(plan_digests(newer.plan), owned_tables(newer.plan))
    batch = replace(
        batch,
        partition_positions=(*batch.partition_positions, *begun.begun),
        moves=[lambda transaction: newer.ledger.replace_plan(transaction, digest, begun.gone, newer.text)],
    )
    rows: dict[str, int] = {}
    for writes in batch.writes:
        rows[writes.name] = rows.get(writes.name, 0) + len(writes.tray)
    for stream in newer.plan.written_streams:
        newer.ledger.outbox(stream.name).open()
    committer = PipelineIO(newer).committer(begun.record, begun.after.source_of)
    committer.commit(batch, recent)
    _log.info("applied", pipeline=newer.name, epoch=begun.record.epoch, commits=committer.commits)
    return Applied(committer.commits, rows, committer.stored.size_bytes)


def _partition_positions(
    record: Record, newer: PipelineContext
) -> tuple[list[PartitionPosition], list[PartitionPosition]]:
    """Return the positions of the new plan's partitions, and which of these partitions are new."""
    known = {each.relation for each in record.partition_positions}
    kept = [each for each in record.partition_positions if each.relation in newer.sources]
    begun = positions_of_others(newer, known, lambda held: held.earliest)
    return [*kept, *begun], begun


def streams_of_both(older: Plan, newer: Plan) -> dict[str, tuple[Node, Node]]:
    """Return the relations that both plans have, with the node of each."""
    before = dict(older.relations)
    return {name: (before[name], node) for name, node in newer.relations if name in before}


def refuse_changed_streams(older: Plan, newer: Plan) -> None:
    """Refuse a stream that has the same name but another source.

    Raises:
      StatementError: naming it.
    """
    before, after = plan_digests(older), plan_digests(newer)
    for stream in newer.written_streams:
        name = f'written stream "{stream.name}"'
        if name in before and before[name] != after[name]:
            raise StatementError(
                f"{name} has changed: messages that wait for it would go elsewhere or be mixed with others",
                hint="Rename the changed stream.",
            )
    for stream in newer.foreign_streams:
        name = f'foreign stream "{stream.name}"'
        if name in before and before[name] != after[name]:
            raise StatementError(
                f"{name} has changed: rows that were read before would be read differently",
                hint="Rename the changed stream: a new stream is read from its beginning.",
            )


def _refuse_left_messages(older: PipelineContext, newer: PipelineContext) -> None:
    """Refuse a change that leaves committed messages without a sender.

    Raises:
      StatementError: some wait for a foreign stream that the new plan does not write to.
    """
    kept = {stream.name for stream in newer.plan.written_streams}
    for stream in older.plan.written_streams:
        state = older.ledger.outbox(stream.name).state()
        if stream.name not in kept and state is not None and state.pending:
            raise StatementError(
                f'{state.pending} messages for foreign stream "{stream.name}" are not sent yet',
                hint="Let the pipeline run until they are sent, then apply the change.",
            )


def _refuse_waiting_resubmitted(state: Mapping[str, State]) -> None:
    """Refuse while resubmitted rows wait, because only the old plan knows their targets.

    Raises:
      StatementError: some wait.
    """
    for key, tables in state.items():
        if key.split("/", maxsplit=1)[0].rpartition(" ")[2] not in _WAITING:
            continue
        for table in tables.values():
            if ORIGIN not in table.column_names:
                continue
            origins = table.column(ORIGIN).to_pylist()
            if any(origin & ((1 << PARTITION_BITS) - 1) >= RESUBMITTED for origin in origins):
                raise StatementError(
                    "resubmitted error rows are not processed yet",
                    hint="They are processed when the rowtime bounds pass them; apply the change then. If "
                    "the stream has gone quiet, advance it with `rowtide bound TOPIC TIME`.",
                )
