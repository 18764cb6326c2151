"""Mutants: a product with one defect each, which the simulation has to find."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pytest
import sqlalchemy as sa

from rowtide.checkpoint.database import DatabaseLedger
from rowtide.checkpoint.ledger import ErrorRow
from rowtide.runtime.commit.commit import Committer, RefusedInCommit
from rowtide.runtime.commit.topic_checks import TopicChecks
from rowtide.runtime.ingest.intake import StreamReader
from rowtide.runtime.leadership.release import RecordRelease
from rowtide.runtime.state.pipeline_state import CommitBatch, PipelineState
from rowtide_connectors.api import Transaction
from rowtide_connectors.rdbms.database import SqlDatabase
from rowtide_connectors.rdbms.transaction import sql_connection

Mutant = Callable[[pytest.MonkeyPatch], None]


def rows_commit_before_their_positions(patch: pytest.MonkeyPatch) -> None:
    """Two transactions a commit."""
    write = Committer._write

    def written(
        committer: Committer,
        batch: CommitBatch,
        refusals: RefusedInCommit,
        errors: Sequence[ErrorRow],
        topics: TopicChecks,
    ) -> None:
        with committer._database.begin() as transaction:
            for each in refusals.without(batch.writes):
                each.apply(transaction)
        write(committer, replace(batch, writes=()), refusals, errors, topics)

    patch.setattr(Committer, "_write", written)


def the_fence_takes_any_epoch(patch: pytest.MonkeyPatch) -> None:
    """A superseded process may commit."""

    def fence(ledger: DatabaseLedger, transaction: Transaction, *, epoch: int, commits: int) -> None:
        del epoch, commits
        sql_connection(transaction).execute(
            sa.text("update rowtide_pipelines set commits = commits + 1 where pipeline = :name"),
            {"name": ledger._pipeline},
        )

    patch.setattr(DatabaseLedger, "fence", fence)


def a_commit_in_doubt_is_repeated(patch: pytest.MonkeyPatch) -> None:
    """The ledger is not asked whether a commit without a reply has happened."""
    the_fence_takes_any_epoch(patch)
    patch.setattr(Committer, "_has_happened", lambda _: False)


def a_replay_writes_its_rows_again(patch: pytest.MonkeyPatch) -> None:
    """Recovery keeps the output that was committed before."""

    def drop(state: PipelineState) -> None:
        state._faults = []
        state._decisions.clear()
        state._moved.clear()
        state.messages = state.raw_bytes = 0
        state.recent.forget()

    patch.setattr(PipelineState, "drop", drop)


def a_snapshot_claims_to_be_older(patch: pytest.MonkeyPatch) -> None:
    """A recovery reads messages that are already in the state."""
    cut = PipelineState.cut

    def older(state: PipelineState, *, with_snapshot: bool) -> CommitBatch:
        made = cut(state, with_snapshot=with_snapshot)
        if made.snapshot is None:
            return made
        positions = {place: max(0, offset - 1) for place, offset in made.snapshot.positions.items()}
        return replace(made, snapshot=replace(made.snapshot, positions=positions))

    patch.setattr(PipelineState, "cut", older)


def a_reader_is_kept_after_an_error(patch: pytest.MonkeyPatch) -> None:
    """What a poll without a reply has taken is never read."""
    patch.setattr(StreamReader, "close", lambda _: None)


def sessions_that_began_read_only_are_kept(patch: pytest.MonkeyPatch) -> None:
    """Waiting does not help, though a restart would."""
    patch.setattr(SqlDatabase, "_renew", lambda _: None)


def silent_sessions_are_waited_for(patch: pytest.MonkeyPatch) -> None:
    """A suspended process holds the record until it continues."""
    patch.setattr(RecordRelease, "attempt", lambda _: None)


MUTANTS: Mapping[str, Mutant] = {
    each.__name__: each
    for each in (
        rows_commit_before_their_positions,
        the_fence_takes_any_epoch,
        a_commit_in_doubt_is_repeated,
        a_replay_writes_its_rows_again,
        a_snapshot_claims_to_be_older,
        a_reader_is_kept_after_an_error,
        sessions_that_began_read_only_are_kept,
        silent_sessions_are_waited_for,
    )
}
