"""The answer to "why are there no rows?", from the flow, the topics and the policy.

``explain --why-not`` shows it. Every cause states the facts, when the rows
come out under the declared policy, and what can be changed. Times in words are
UTC.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from enum import Enum

from rowtide.flow.why_not import Fate, Holder, Keeper, Silence
from rowtide.plan.nodes.node import BY_CONDITION, WhyFiltered
from rowtide.rowtime.text import time_text
from rowtide.runtime.inspect.facts import Facts, PartitionFacts, idle_streams
from rowtide_connectors.several import place_of

FLOWING_MS = 2_000
"""Longest time since the bound of a partition that flows has moved, if what is waited for is in the past.

Also the longest time since its last message, and since a row was late or rejected, that counts as now.
"""
STOOD_MS = 60_000
"""The same while messages come that are neither late nor rejected: rowtimes in whole minutes move it once a minute."""


class SilenceCause(Enum):
    """Causes of silence."""

    STARTING = "STARTING"
    """The pipeline does not run yet: it connects or recovers."""
    DATABASE_DOWN = "DATABASE_DOWN"
    BROKER_DOWN = "BROKER_DOWN"
    NOT_READ = "NOT_READ"
    """No started pump reads the relation."""
    PUMP_STOPPED = "PUMP_STOPPED"
    NOT_FED = "NOT_FED"
    """No pump inserts into a stream."""
    PAUSED = "PAUSED"
    """The partition is ahead of the others, and too many rows are held."""
    LAGGING = "LAGGING"
    """The topic has unread messages."""
    OPEN_TRANSACTION = "OPEN_TRANSACTION"
    """The topic has messages that come when a transaction of Kafka ends."""
    NO_BOUND = "NO_BOUND"
    """The partition has no rows and no bound."""
    FLOWING = "FLOWING"
    """All is well: the clock has not reached what is waited for, the bound of the partition has just moved, or messages
    come that may move it soon."""
    IDLE = "IDLE"
    """The partition is read to its end, so its bound does not advance."""
    POLLED = "POLLED"
    """A table of a database is waited for until its next poll."""
    NEEDS_ROWS = "NEEDS_ROWS"
    """A frame of n rows FOLLOWING waits for rows of any time."""
    LATE = "LATE"
    REJECTED = "REJECTED"
    FILTERED = "FILTERED"
    UNMATCHED = "UNMATCHED"
    """A join has found no match for the rows."""
    NOT_COMMITTED = "NOT_COMMITTED"
    """Rows wait for the next commit."""
    NOTHING_HELD = "NOTHING_HELD"
    """All input has been processed."""


@dataclass(frozen=True, slots=True)
class Cause:
    """One reason. ``has`` and ``needs`` are rowtime bounds in ms; None: no bound, or not known."""

    cause: str
    relation: str
    why: str
    released: str
    change: str
    topic: str | None = None
    partition: int | None = None
    has: int | None = None
    needs: int | None = None
    position: int | None = None
    end_offset: int | None = None


@dataclass(frozen=True, slots=True)
class SilenceExplanation:
    """The reasons of a relation's silence, the most important first, and the operators that hold rows."""

    pipeline: str
    relation: str
    phase: str
    causes: tuple[Cause, ...]
    holders: tuple[Holder, ...] = ()
    fates: tuple[Fate, ...] = ()
    rows_out: int | None = None

    def to_json(self) -> dict[str, object]:
        """Return it as plain values."""
        return {
            "pipeline": self.pipeline,
            "relation": self.relation,
            "phase": self.phase,
            "rows_out": self.rows_out,
            "causes": [asdict(cause) for cause in self.causes],
            "operators": [asdict(holder) for holder in self.holders],
            "accounts": [
                {
                    "relation": fate.relation,
                    "operator": fate.operator,
                    "partition": fate.partition,
                    **asdict(fate.account),
                    "held": fate.held,
                }
                for fate in self.fates
            ],
        }


def answer(pipeline: str, relation: str, silence: Silence | None, facts: Facts) -> SilenceExplanation:
    """Return why ``relation`` of a running pipeline is silent."""
    if silence is None:
        return SilenceExplanation(pipeline, relation, "running", (_not_read(relation),))
    causes = list(_causes(silence, facts))
    return SilenceExplanation(
        pipeline, relation, "running", tuple(causes), silence.holders, silence.fates, silence.rows_out
    )


def kept_back(keepers: Iterable[Keeper], sources: Iterable[Keeper], facts: Facts) -> list[Cause]:
    """Return why each of these partitions keeps rows back. ``sources`` are all partitions of the flow."""
    others = _Others(sources, facts)
    return [_kept_back(each, facts, others) for each in keepers]


def not_running(pipeline: str, relation: str, phase: str, waits_for: str | None) -> SilenceExplanation:
    """Return the answer for a pipeline that does not run yet, or no longer runs."""
    down = "" if waits_for is None else f" It waits for the {waits_for}."
    cause = Cause(
        SilenceCause.STARTING.value,
        relation,
        f"The pipeline is {phase}: no new rows are written until it runs.{down}",
        "When it has recovered.",
        f"Look after the {waits_for}." if waits_for else "Wait; the log says how far it is.",
    )
    return SilenceExplanation(pipeline, relation, phase, (cause,))


def _causes(silence: Silence, facts: Facts) -> Iterator[Cause]:
    relation = silence.relation
    if facts.database_down:
        yield Cause(
            SilenceCause.DATABASE_DOWN.value,
            relation,
            "The database does not answer, so nothing can be committed.",
            "When it is back: the commit is repeated until it goes through.",
            "Look after the database.",
        )
    uncommitted = (facts.uncommitted or {}).get(relation, 0)
    if uncommitted:
        yield Cause(
            SilenceCause.NOT_COMMITTED.value,
            relation,
            f"{_rows(uncommitted)} came out and {_verb(uncommitted)} not committed yet.",
            "With the next commit.",
            "commit.interval_ms sets how often there is one.",
        )
    others = _Others(silence.sources, facts)
    # What flows needs nothing; if anything else keeps rows back, that comes first.
    kept = [_kept_back(keeper, facts, others) for keeper in silence.keepers]
    yield from sorted(kept, key=lambda cause: cause.cause == SilenceCause.FLOWING.value)
    if silence.keepers:
        return
    if silence.holders:
        yield from map(_needs_rows, silence.holders)
        return
    unread = [
        each for each in silence.sources if _is_unread(facts.partitions.get((each.relation, each.partition)))
    ]
    for source in unread:
        yield _kept_back(source, facts, others)
    if not unread:
        yield from _lost(silence, facts)


class _Others:
    """The progress of the other partitions of a stream, and of the streams that it meets."""

    def __init__(self, sources: Iterable[Keeper], facts: Facts) -> None:
        self._bounds: dict[str, dict[int, int | None]] = {}
        for each in sources:
            self._bounds.setdefault(each.relation, {})[each.partition] = each.has
        self._idle = idle_streams(facts.partitions)
        self.met, self.alone = facts.met, facts.alone

    def furthest(self, keeper: Keeper) -> int | None:
        """Return the greatest bound of the stream's other partitions; None if they have none."""
        own = self._bounds.get(keeper.relation, {})
        others = [
            bound for partition, bound in own.items() if partition != keeper.partition and bound is not None
        ]
        return max(others, default=None)

    def idle(self, keeper: Keeper) -> list[str]:
        """Return the other streams that are idle."""
        return sorted(self._idle.intersection(self._bounds) - {keeper.relation})


def _is_unread(known: PartitionFacts | None) -> bool:
    """Return whether a partition has, or may have, unread messages."""
    if known is None:
        return False
    unread = known.end is not None and known.end + known.uncommitted > known.position
    return known.down or known.paused or unread


def _kept_back(keeper: Keeper, facts: Facts, others: _Others) -> Cause:
    """Return the reason why a partition's bound is too low."""
    known = facts.partitions.get((keeper.relation, keeper.partition))
    if known is None:
        return _unfed(keeper, facts)
    topic = f'topic "{known.topic}" ({keeper.relation})' if known.topic else f'"{keeper.relation}"'
    own = place_of(known.topic, keeper.partition)[1]
    where = f"Partition {own} of {topic}"
    if known.polled_ms is not None:
        where = f'Table "{known.topic}" ({keeper.relation})'
    wanted = _wanted(keeper)

    def cause(why: SilenceCause, said: str, released: str, change: str) -> Cause:
        return Cause(
            why.value,
            keeper.relation,
            f"{where} {said} {_stands(keeper)}",
            released,
            change,
            known.topic or None,
            own,
            keeper.has,
            keeper.needs,
            known.position,
            known.end,
        )

    if known.down:
        return cause(
            SilenceCause.BROKER_DOWN,
            f"cannot be read: {_DOWN[known.polled_ms is not None]} does not answer.",
            "When it is back.",
            "Look after it.",
        )
    behind = 0 if known.end is None else known.end - known.position
    if known.paused:
        return cause(
            SilenceCause.PAUSED,
            "is paused: it is ahead of others, and as many rows are held as limits.held_rows and "
            "limits.held_bytes allow.",
            "When the partitions after it have caught up.",
            "See what keeps those back; or raise the limit.",
        )
    if behind > 0:
        return cause(
            SilenceCause.LAGGING,
            f"is at offset {known.position} of {known.end}: {behind} messages are not read yet.",
            f"When {wanted} has been read.",
            "Wait. If the lag grows, the pipeline is slower than the topic: metrics show where time is spent.",
        )
    if known.uncommitted:
        return cause(
            SilenceCause.OPEN_TRANSACTION,
            f"is read to offset {known.position}, where a transaction of Kafka is open: the {known.uncommitted} "
            "offsets from there on are written, and cannot be read yet.",
            "When the transaction ends: its producer commits or aborts it, or Kafka aborts it after the producer's "
            "transaction.timeout.ms.",
            "Let the producer end its transactions sooner. One that has lost its producer: `kafka-transactions.sh "
            "find-hanging` names it, `kafka-transactions.sh abort` ends it.",
        )
    if known.polled_ms is not None:
        return cause(SilenceCause.POLLED, *_polled(keeper, known.polled_ms))
    if (well := _flows(keeper, known, facts)) is not None:
        next_rows = "with more rows" if keeper.needs is None else f"at {time_text(keeper.needs)}"
        return cause(
            SilenceCause.FLOWING,
            f"is read to its end{well}: all is well.",
            f"When {wanted} comes.",
            f"Nothing: the next rows come {next_rows}, in rowtime.",
        )
    if _is_heard(keeper, known):
        # Each message ends the silence, so idle_timeout does not help.
        change = f"See its late and rejected rows with `rowtide errors list`. Or {_record(keeper, known)}."
        return cause(*_silent(keeper, known), f"When {wanted} comes.", change)
    return cause(*_silent(keeper, known), *_policy(keeper, known, others, wanted))


def _flows(keeper: Keeper, known: PartitionFacts, facts: Facts) -> str | None:
    """Return why it is well that rows wait for a partition that is read to its end; None if it may not be."""
    if keeper.has is None:
        return None
    wanted, now_ms = keeper.needs if keeper.row_needs is None else keeper.row_needs, facts.now_ms
    if wanted is not None and now_ms is not None and now_ms < wanted:
        return f", and what is waited for is later than now, {time_text(now_ms)}"
    still_ms = facts.still_ms.get(keeper.step)
    if still_ms is not None and _is_now(still_ms):
        return f", and its bound moved {_length(still_ms)} ago"
    stood_ms = facts.watched_ms if still_ms is None else still_ms
    if (
        _is_heard(keeper, known)
        and not _loses(keeper, facts)
        and stood_ms is not None
        and stood_ms < STOOD_MS
    ):
        return f", messages come that are neither late nor rejected, and its bound has stood for {_length(stood_ms)}"
    return None


def _is_heard(keeper: Keeper, known: PartitionFacts) -> bool:
    """Return whether a partition that has a bound brings messages."""
    return keeper.has is not None and _is_now(known.heard_ms)


def _loses(keeper: Keeper, facts: Facts) -> bool:
    """Return whether rows of a partition are late or rejected before they can move its bound."""
    at = keeper.path.index(keeper.step) if keeper.step in keeper.path else 0
    steps = keeper.path[: at + 1]
    return _is_now(facts.rejected_ms.get(keeper.relation)) or any(
        _is_now(facts.lost_ms.get(step)) for step in steps
    )


def _is_now(ago_ms: int | None) -> bool:
    return ago_ms is not None and ago_ms <= FLOWING_MS


def _polled(keeper: Keeper, interval_ms: int) -> tuple[str, str, str]:
    """Return why a table of a database holds rows back, what releases them, and what to change."""
    length = _length(interval_ms)
    needs = "" if keeper.needs is None else f" reaches {time_text(keeper.needs)}"
    return (
        "is waiting for its next poll: nothing else moves its bound.",
        f"When its bound{needs}: each poll moves it to {length} (poll_interval) after the time of the poll.",
        f"Declare a shorter poll_interval of {keeper.relation}. If the rows that wait have times in the "
        "future, correct the clock of their producer.",
    )


_DOWN = {False: "the broker", True: "its database"}


def _silent(keeper: Keeper, known: PartitionFacts) -> tuple[SilenceCause, str]:
    if _is_heard(keeper, known):
        return (
            SilenceCause.IDLE,
            f"is read to its end, and its last message came {_length(known.heard_ms or 0)} ago. But its messages do "
            "not move its bound: they are late, rejected or not newer.",
        )
    if keeper.has is not None:
        since = "" if known.silent_ms is None else f" for {_length(known.silent_ms)}"
        return (
            SilenceCause.IDLE,
            f"is read to its end and has no newer rows{since}: time moves only with rows.",
        )
    rejected = (
        f" All {known.messages} messages read from the stream were rejected."
        if known.messages and known.messages == known.rejected
        else ""
    )
    return (
        SilenceCause.NO_BOUND,
        f"is read to its end, and has delivered neither a row nor a bound.{rejected}",
    )


def _record(keeper: Keeper, known: PartitionFacts) -> str:
    """Return how to move the bound of a partition without a row."""
    return (
        'let the producer send a bound record (header "rowtide.bound") to the partition when it is quiet, or '
        f"write one: rowtide bound PIPELINE.sql {known.topic or keeper.relation} TIME --partition "
        f"{place_of(known.topic, keeper.partition)[1]}"
        if keeper.takes_bounds
        else f'set a bound on "{keeper.clock}" itself: its clock is a promoted one, which bounds on '
        f'"{keeper.relation}" do not reach'
    )


def _policy(keeper: Keeper, known: PartitionFacts, others: _Others, wanted: str) -> tuple[str, str]:
    """Return when rows stop waiting for a silent partition under the policy, and what to change."""
    furthest, place = others.furthest(keeper), (keeper.relation, keeper.partition)
    met, alone = others.met.get(place), others.alone.get(place)
    record = _record(keeper, known)
    said = f"{record[0].upper()}{record[1:]}"
    if known.idle_timeout_ms is None:
        timeout = ""
        if furthest is not None and (keeper.has is None or furthest > keeper.has):
            timeout = (
                f"; or declare idle_timeout on {keeper.relation}: an idle partition then follows the others"
            )
        elif _does(met, keeper):
            timeout = (
                f"; or declare idle_timeout on {keeper.relation}: while it is idle it then follows the "
                "streams that it meets"
            )
        return (
            f"When {wanted} comes, and not before: without idle_timeout the pipeline waits.",
            f"{said}{timeout}.",
        )
    length = _length(known.idle_timeout_ms)
    reached = max((each for each in (furthest, met) if each is not None), default=None)
    if reached is None or (keeper.needs is not None and reached < keeper.needs):
        if _does(alone, keeper):
            idle = others.idle(keeper)
            names = " and ".join(idle)
            return (
                f"When {wanted} comes, or a row of {names}: idle_timeout ({length}) lets it follow the "
                f"streams that it meets, but {names} {'is' if len(idle) == 1 else 'are'} idle too, and idle "
                "streams do not advance each other.",
                f"{said}; or declare idle_timeout on {keeper.relation} alone.",
            )
        stands = (
            "no other partition has gone further" if reached is None else f"they are at {time_text(reached)}"
        )
        return (
            f"When {wanted} comes: idle_timeout ({length}) only lets it follow the others, and {stands}.",
            f"{said}.",
        )
    left = None if known.silent_ms is None else max(0, known.idle_timeout_ms - known.silent_ms)
    soon = f" in {_length(left)}" if left else ""
    return (
        f"When it has been silent for idle_timeout ({length}){soon}: it then follows the others, "
        f"which have reached {time_text(reached)}; or when {wanted} comes.",
        f"A shorter idle_timeout; or {record}.",
    )


def _does(bound: int | None, keeper: Keeper) -> bool:
    """Return whether a bound releases the first waiting row."""
    return bound is not None and (keeper.needs is None or bound >= keeper.needs)


def _unfed(keeper: Keeper, facts: Facts) -> Cause:
    """Name a source that no connector reads."""
    at = (keeper.partition, keeper.has, keeper.needs)
    if keeper.relation in facts.streams:
        return Cause(
            SilenceCause.NOT_FED.value,
            keeper.relation,
            f'Nothing inserts into "{keeper.relation}": it has no pump.',
            f"When {_wanted(keeper)} comes.",
            f"CREATE PUMP .. STARTED AS INSERT INTO {keeper.relation} SELECT ..",
            None,
            *at,
        )
    return Cause(
        SilenceCause.PUMP_STOPPED.value,
        keeper.relation,
        f'Pump "{keeper.relation}" is stopped. It keeps its place: what merges with its rows waits.',
        "When the pump is started, and its rows have caught up.",
        f"CREATE OR REPLACE PUMP {keeper.relation} STARTED AS ..; or drop it, so that nothing waits for it.",
        None,
        *at,
    )


def _needs_rows(holder: Holder) -> Cause:
    return Cause(
        SilenceCause.NEEDS_ROWS.value,
        holder.relation,
        f"{_rows(holder.rows)} of {holder.relation} wait for rows that follow them (ROWS .. FOLLOWING).",
        "When as many rows have followed; no bound does it.",
        "A frame in time (RANGE .. FOLLOWING) is complete when the rowtime bound has passed it.",
        partition=holder.partition,
        has=holder.bound,
    )


def _lost(silence: Silence, facts: Facts) -> Iterator[Cause]:
    """Yield the outcome of rows if none is held."""
    found = False
    table = (facts.tables or {}).get(silence.relation)
    if table is not None and table.rejected and not table.done:
        yield _gone(SilenceCause.REJECTED, silence.relation, table.rejected, table.rows_in)
        return
    if silence.rows_out:
        yield Cause(
            SilenceCause.NOTHING_HELD.value,
            silence.relation,
            f"{_rows(silence.rows_out)} came out so far, and no operator holds any for it.",
            "When new rows come.",
            "Nothing. `rowtide errors list` shows rows that were late or rejected.",
        )
        return
    for fate in silence.fates:
        account = fate.account
        if not account.rows_in or account.rows_out:
            continue
        found = True
        for why, count in (
            (SilenceCause.LATE, account.late),
            (SilenceCause.REJECTED, account.rejected),
            (SilenceCause.FILTERED, account.filtered),
        ):
            if count:
                yield _gone(why, fate.relation, count, account.rows_in, fate.why_filtered)
        if fate.joins and account.done:
            yield _gone(SilenceCause.UNMATCHED, fate.relation, account.done, account.rows_in)
    if not found:
        others = _Others(silence.sources, facts)
        for source in silence.sources:
            yield _kept_back(source, facts, others)


_GONE = {
    SilenceCause.LATE: (
        "were below the rowtime bound: they are in the error stream",
        "Rows that are not late are written.",
        "`rowtide errors list` shows by how much; ORDER BY .. WITHIN a longer interval admits them.",
    ),
    SilenceCause.REJECTED: (
        "were rejected: they are in the error stream with the reason",
        "Rows that match the declared columns are written.",
        "`rowtide errors list` shows raw bytes and reason of each.",
    ),
    SilenceCause.UNMATCHED: (
        "found no partner and are done with",
        "Rows with a match are written.",
        "Check the keys and the window of the join; an OUTER JOIN also returns rows without a match.",
    ),
}


def _gone(
    why: SilenceCause, relation: str, count: int, rows_in: int, filtered: WhyFiltered = BY_CONDITION
) -> Cause:
    if why is SilenceCause.FILTERED:
        said, released, change = filtered.said, filtered.released, filtered.change
    else:
        said, released, change = _GONE[why]
    return Cause(
        why.value, relation, f"{count} of {_rows(rows_in)} that came to {relation} {said}.", released, change
    )


def _not_read(relation: str) -> Cause:
    return Cause(
        SilenceCause.NOT_READ.value,
        relation,
        f'No started pump that ends in a foreign table reads "{relation}", so it is not computed.',
        "When one does.",
        f"CREATE PUMP .. STARTED AS INSERT INTO a foreign table SELECT .. FROM {relation}.",
    )


def _stands(keeper: Keeper) -> str:
    has = "none" if keeper.has is None else time_text(keeper.has)
    needs = "" if keeper.needs is None else f", needed is {time_text(keeper.needs)}"
    return f"Its rowtime bound is {has}{needs}."


def _wanted(keeper: Keeper) -> str:
    """Return what a partition must deliver."""
    if keeper.needs is None:
        return "a row"
    row = f"a row with rowtime {time_text(keeper.row_needs or keeper.needs)} or later"
    return f"{row}, or a bound of {time_text(keeper.needs)}," if keeper.takes_bounds else row


def _length(millis: int) -> str:
    return f"{millis / 1000:g} s"


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count} rows"


def _verb(count: int) -> str:
    return "is" if count == 1 else "are"
