"""The versions of a scenario's pipeline: each one is the result of the statements so far."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from rowtide.errors import StatementError
from rowtide.plan.nodes import Node
from rowtide.plan.plan import Plan
from rowtide.plan.pseudo import PSEUDO_COLUMNS
from rowtide.rowtime.idle import IdlePartitions
from rowtide.sql.catalog.notices import IDLE_TIMEOUT
from rowtide.sql.catalog.written_names import relation_name
from rowtide.sql.grammar.literals import interval_text_ms
from rowtide.sql.pipeline import SqlSession
from rowtide.testing.error_rows import ERRORS
from rowtide.testing.relations import Relations
from rowtide.testing.scenario import Insert, InsertRaw, RunSql, Scenario, SetBound, SqlText


@dataclass(frozen=True, slots=True)
class Version:
    """One version of the pipeline, as the scenario needs it.

    ``wanted`` are the nodes of the relations that the steps observe or feed, and of those that always
    run. ``partitions`` are the partitions of each source that the steps mention.
    """

    relations: Relations
    wanted: Mapping[str, Node]
    partitions: Mapping[str, Sequence[int]]

    def looked_at(self) -> list[str]:
        """Return the relations whose output is kept."""
        return [*dict.fromkeys([*self.wanted, *self.relations.names()]), ERRORS]

    def streams_since(self, older: Version) -> dict[str, tuple[Node, Node]]:
        """Return the streams that ``older`` has, too, each with its node there and here."""
        before = older.relations.streams()
        return {
            name: (before[name], node) for name, node in self.relations.streams().items() if name in before
        }

    def idle_partitions(self, now: int) -> dict[str, IdlePartitions]:
        """Return the idle partitions of the foreign streams with an idle time-out, by relation; ``now`` in ms.

        Raises:
          StatementError: if the option is not a length of time.
        """
        found = {}
        for stream in self.relations.foreign_streams():
            text = dict(stream.options).get(IDLE_TIMEOUT)
            if text is None:
                continue
            try:
                timeout_ms = interval_text_ms(text)
            except ValueError as error:
                raise StatementError(f'option "{IDLE_TIMEOUT}" of "{stream.name}": {error}') from error
            found[stream.name] = IdlePartitions(self.partitions[stream.name], timeout_ms, now)
        return found


def start_session(scenario: Scenario, pipeline: SqlText) -> SqlSession:
    """Plan the pipeline; the steps are a further producer of each relation that they insert into.

    Raises:
      StatementError: if the pipeline is refused.
    """
    steps = scenario.steps
    later = " ".join(step.text for step in steps if isinstance(step, RunSql)).upper()
    pseudo = frozenset(name for name in PSEUDO_COLUMNS if name in later)
    relations = Relations(_session(pipeline, (), pseudo).plan)
    inserted = set()
    for written in {step.relation for step in steps if isinstance(step, Insert | InsertRaw)}:
        # Ignore errors here: the step itself reports an invalid name, or a statement creates the relation.
        with suppress(StatementError):
            inserted.add(relation_name(written))
            inserted.add(relations.resolve(written))
    # A step that sets a bound is a further producer of a relation that only pumps feed.
    bounded = resolved(relations, (step.relation for step in steps if isinstance(step, SetBound)))
    inserted |= {name for name in bounded.values() if relations.has_no_clock(name)}
    return _session(pipeline, inserted, pseudo)


def _session(pipeline: SqlText, inserted: Iterable[str], pseudo: frozenset[str]) -> SqlSession:
    session = SqlSession(inserted=set(inserted), takes_rows=True, pseudo=pseudo)
    session.feed(pipeline.text, file=pipeline.file)
    return session


def version_of(scenario: Scenario, plan: Plan) -> Version:
    """Return the version of a plan, as the scenario needs it."""
    relations = Relations(plan)
    observed = dict.fromkeys(resolved(relations, scenario.observed()).values())
    mentioned = scenario.mentioned()
    fed = resolved(relations, mentioned)
    # A foreign stream that is only fed is not computed: it checks no rows itself.
    also = [name for name in fed.values() if relations.foreign_stream(name) is None]
    partitions: dict[str, set[int]] = {}
    for written, name in fed.items():
        partitions.setdefault(name, set()).update(mentioned[written])
    wanted = relations.wanted([*observed, *also], with_unread=ERRORS in observed)
    return Version(relations, wanted, relations.partitions(partitions))


def resolved(relations: Relations, names: Iterable[str]) -> dict[str, str]:
    """Return catalog names by written names, without names that do not exist."""
    found = {}
    for name in names:
        # Ignore errors here: a statement may create the relation before the step, or the step is refused.
        with suppress(StatementError):
            found[name] = relations.resolve(name)
    return found
