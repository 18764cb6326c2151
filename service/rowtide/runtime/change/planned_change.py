"""The committed state that a changed pipeline file would keep, restart and lose. Nothing is changed.

``flow.succession`` decides from the two plans which operators keep their
state. The checkpoint has digests of the plan that ran, and its text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

from rowtide.checkpoint.ledger import KeptSnapshot, Record
from rowtide.errors import StatementError
from rowtide.flow.program import Program, Step
from rowtide.flow.succession import Succession
from rowtide.plan.outputs import table_nodes
from rowtide.plan.plan import ForeignStream, ForeignTable, Plan
from rowtide.runtime.pipeline import Pipeline
from rowtide.runtime.query.contents import state_entries
from rowtide.runtime.recovery.digest import differences, plan_digests
from rowtide.runtime.recovery.recovery import partitions_of
from rowtide.runtime.state.output import target_table


@dataclass(frozen=True, slots=True)
class OperatorFate:
    """The change of one relation's operator. ``rows`` is its number of rows in the newest snapshot."""

    relation: str
    operator: str
    rows: int | None


@dataclass(frozen=True, slots=True)
class PlannedChange:
    """The differences, and their effect on state and tables.

    ``kept`` continues with its state, ``begins_empty`` is a new or changed operator, ``lost`` is state
    without an operator in the new plan. They are None if the plan that ran is not known.
    """

    changes: tuple[str, ...]
    kept: tuple[OperatorFate, ...] | None
    begins_empty: tuple[OperatorFate, ...] | None
    lost: tuple[OperatorFate, ...] | None
    tables_created: tuple[str, ...]
    tables_left: tuple[str, ...] | None
    streams_begun: tuple[str, ...] | None
    streams_left: tuple[str, ...] | None

    def to_json(self) -> Mapping[str, object]:
        """Return it as plain values."""
        return asdict(self)


def change_from(pipeline: Pipeline, older: Plan | None = None, text: str = "") -> PlannedChange:
    """Return the effect of running a pipeline instead of the one that is committed under its name.

    ``older`` is the plan of ``text``, which is a file's name or what messages call it.

    Raises:
      StatementError: the pipeline has no commit, or the committed plan is another one.
      MismatchError: a table in the database does not fit.
    """
    record = pipeline.ledger.read()
    if record is None or not record.has_begun:
        raise StatementError(f'pipeline "{pipeline.name}" has committed nothing')
    if older is not None and (wrong := differences(record.digest, plan_digests(older))):
        raise StatementError(
            f'{text} is not what pipeline "{pipeline.name}" has run: {"; ".join(wrong)}',
            hint="Pass the file as it was at the last start with --was, beside the modules that it read.",
        )
    return planned_change(
        record,
        pipeline.plan,
        older=older,
        snapshot=pipeline.ledger.newest_snapshot(),
        missing=pipeline.database.missing([target_table(table) for table in pipeline.plan.foreign_tables]),
    )


def planned_change(
    record: Record,
    newer: Plan,
    *,
    older: Plan | None,
    snapshot: KeptSnapshot | None,
    missing: Sequence[str],
) -> PlannedChange:
    """Return the effect of running ``newer`` instead of the committed plan.

    Args:
      record: the committed record.
      newer: the plan of the changed file.
      older: the plan that ran, if its file exists; its digest is committed.
      snapshot: the newest one.
      missing: foreign tables of ``newer`` that the database does not have.
    """
    changes = tuple(differences(record.digest, plan_digests(newer)))
    if older is None:
        return PlannedChange(changes, None, None, None, tuple(missing), None, None, None)
    partitions = partitions_of(record.positions())
    before, after = (Program(table_nodes(plan), partitions) for plan in (older, newer))
    succession = Succession(before, after)
    rows: Counter[tuple[str, str]] = Counter()
    for entry in () if snapshot is None else state_entries(snapshot):
        rows[entry.relation, entry.operator] += entry.rows
    goes_on = {at: old for at, old in succession.matched.items() if at not in succession.emptied}
    taken = set(goes_on.values())
    matched = [step for at, step in enumerate(before.steps) if at in taken]
    others = [step for at, step in enumerate(before.steps) if at not in taken]
    fresh = [step for at, step in enumerate(after.steps) if at not in goes_on]
    known = None if snapshot is None else rows
    return PlannedChange(
        changes,
        _fates(matched, known),
        _fates(fresh, {}),
        _fates(others, known),
        tuple(missing),
        _gone(older.foreign_tables, newer.foreign_tables),
        _gone(newer.foreign_streams, (*older.foreign_streams, *older.written_streams)),
        _gone(older.foreign_streams, (*newer.foreign_streams, *newer.written_streams)),
    )


def _fates(steps: Sequence[Step], rows: Mapping[tuple[str, str], int] | None) -> tuple[OperatorFate, ...]:
    """Return each relation's operators that keep state, once for all partitions."""
    names = [
        (step.node.relation, type(step.node).__name__)
        for step in steps
        if not step.is_source and not step.node.is_row_wise
    ]
    return tuple(
        OperatorFate(relation, operator, None if rows is None else rows.get((relation, operator), 0))
        for relation, operator in sorted(set(names))
    )


def _names(held: Iterable[ForeignTable | ForeignStream]) -> list[str]:
    return [each.name for each in held]


def _gone(
    held: Iterable[ForeignTable | ForeignStream], other: Iterable[ForeignTable | ForeignStream]
) -> tuple[str, ...]:
    left = set(_names(other))
    return tuple(name for name in _names(held) if name not in left)
