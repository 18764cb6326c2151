"""``rowtide apply --at``: the switch to a changed pipeline at one rowtime.

Both plans read the same messages from the committed positions on. Output rows
up to the rowtime come from the old plan, later ones from the new plan, until
the old plan has promised that no row up to the rowtime follows. All of this is
one commit, so every row belongs to one version, and no reader sees half of it.
A period that begins at the rowtime belongs to the new plan as a whole: it has
read all rows of the period, and a group's rowtime is its end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import structlog

from rowtide.checkpoint.ledger import Decision
from rowtide.errors import StatementError, TransientError
from rowtide.flow.flow import Flow
from rowtide.operators.contract import Fault
from rowtide.plan.plan import ForeignStream, ForeignTable
from rowtide.rowtime.bound import EARLIEST, LATEST
from rowtide.rowtime.text import time_text
from rowtide.runtime.change.applying import Applied, Succeeding, commit_switch, succeeding
from rowtide.runtime.ingest.inbox import Inbox
from rowtide.runtime.ingest.intake import Channel, Delivery
from rowtide.runtime.live.backpressure import Backpressure
from rowtide.runtime.live.read_loop import ClockDecisions, ReadLoop
from rowtide.runtime.pipeline_io import PipelineIO
from rowtide.runtime.state.context import PipelineContext
from rowtide.runtime.state.pipeline_state import CommitBatch, PipelineState

MAX_GATHERED = 2_000_000
"""Maximum number of rows of both plans that wait for the commit: about half a gigabyte."""
SAY_AGAIN_S = 10.0
"""Interval between log lines that name what is waited for."""

_log = structlog.get_logger("rowtide")


def apply_at(older: PipelineContext, newer: PipelineContext, at_ms: int) -> Applied:
    """Let the plan of ``newer`` continue once ``older`` has returned all rows up to ``at_ms``.

    Reads until then, for as long as needed, and commits nothing meanwhile.

    Raises:
      StatementError: as ``applying.apply``; or rows of that time may already be committed, or too many
        rows come before it. Only the epoch has changed.
      TransientError: a stop was requested before that time was passed. Only the epoch has changed.
    """
    first = at_ms + 1
    begun = succeeding(older, newer)
    reached = furthest(begun.work.flow)
    if reached is not None and reached >= first:
        raise StatementError(
            f"rows up to {time_text(reached)} may have been written already",
            hint="Name a later rowtime: the end of a period that is still open, for example.",
        )
    begun.after.span = (first, LATEST)
    both = _Both(begun, older.plan.targets, newer, first)
    PipelineIO(older).prepare_outputs(both)
    _read_until(both, older, first, begun.record.epoch)
    before, cut = both.cut(with_snapshot=False), begun.after.cut(with_snapshot=True)
    _count(both, begun.after)
    cut = replace(
        cut,
        writes=(*before.writes, *cut.writes),
        sends=(*before.sends, *cut.sends),
        faults=_faults(before, cut, both, first),
    )
    return commit_switch(begun, newer, cut, both.recent)


def furthest(flow: Flow) -> int | None:
    """Return the greatest rowtime that a committed row may have; None: no row is committed."""
    promised = [bound for bound in flow.promised().values() if bound not in (EARLIEST, LATEST)]
    return max(promised, default=None)


class _Both(PipelineState):
    """The running old plan, with the new plan beside it."""

    def __init__(
        self,
        begun: Succeeding,
        targets: Sequence[ForeignTable | ForeignStream],
        newer: PipelineContext,
        first: int,
    ) -> None:
        super().__init__(begun.work.flow, targets, begun.work.partition_positions())
        self.span = (EARLIEST, first)
        self.after = begun.after
        self._channels: Mapping[str, Channel] = PipelineIO(newer).channels(begun.after.flow)

    def enter(self, delivery: Delivery) -> None:
        # The new plan reads the same messages.
        super().enter(delivery)
        if delivery.relation in self._channels:
            self.after.enter(self._channels[delivery.relation].deliver(delivery.messages))

    def obey(self, decision: Decision) -> None:
        # A decision for one reader of the old plan does not apply to the new plan.
        super().obey(decision)
        if decision.relation in self._channels and decision.reader is None:
            self.after.obey(decision)

    def drain(self) -> None:
        super().drain()
        self.after.drain()


def _read_until(both: _Both, older: PipelineContext, first: int, epoch: int) -> None:
    """Read until the old plan has promised for every output that further rows are at ``first`` or later."""
    io = PipelineIO(older)
    io.feed(epoch)
    io.list_files(epoch)
    inbox = io.open_inbox(both.positions, io.channels(both.flow))
    loop = _Switch(both, inbox, io.backpressure(), io.partitions.decisions(both))
    said = older.clock.monotonic()
    both.drain()
    try:
        while any(bound < first for bound in both.flow.promised().values()):
            if older.stopping():
                raise TransientError(
                    f"{time_text(first - 1)} was not reached, and nothing was switched",
                    hint="Run the command again.",
                )
            loop.turn()
            if both.gathered + both.after.gathered > MAX_GATHERED:
                raise StatementError(
                    f"more than {MAX_GATHERED} rows come before {time_text(first - 1)}, and they must fit in one "
                    "commit",
                    hint="Let the old file run closer to that time first, or name an earlier time.",
                )
            if older.clock.monotonic() - said >= SAY_AGAIN_S:
                said = older.clock.monotonic()
                _log.info(
                    "waits_for_switch", pipeline=older.name, at_ms=first - 1, bounds_ms=both.flow.promised()
                )
    finally:
        inbox.close()


class _Switch(ReadLoop):
    """Reads as a running pipeline does, and commits nothing."""

    def __init__(
        self, both: _Both, inbox: Inbox, backpressure: Backpressure, decisions: ClockDecisions
    ) -> None:
        super().__init__(both, inbox, backpressure)
        self._decisions = decisions

    def enter(self, delivery: Delivery) -> None:
        """Pass a delivery to both plans."""
        super().enter(delivery)
        self._decisions.note_arrival(delivery)

    def decide(self) -> None:
        """Apply the decisions of the clocks to both plans."""
        self._decisions.obey(self.work)


def _faults(before: CommitBatch, after: CommitBatch, both: _Both, first: int) -> tuple[Fault, ...]:
    """Return the faults of the old plan before the switch, and those of the new plan from the switch on."""
    old = [_moved(fault, both) for fault in before.faults if _is_before(fault, first)]
    return (*old, *(fault for fault in after.faults if not _is_before(fault, first)))


def _is_before(fault: Fault, first: int) -> bool:
    return fault.rowtime is None or fault.rowtime < first


def _moved(fault: Fault, both: _Both) -> Fault:
    """Return a fault of the old plan with the origin that its partition has in the new one."""
    place = both.flow.source_of(fault.origin)
    if place is None or not both.after.flow.reads(place[0]):
        return replace(fault, origin=-1)
    return replace(fault, origin=both.after.flow.origin(*place))


def _count(both: _Both, state: PipelineState) -> None:
    """Add the rows that the old plan has written to the accounts of the new plan's tables (law 4)."""
    for name, output in both.outputs.items():
        if name in state.outputs:
            account = state.outputs[name].account
            account.rows_in += output.account.rows_in
            account.done += output.account.done
            account.rejected += output.account.rejected
