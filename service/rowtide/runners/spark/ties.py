"""Whether tasks may work off some keys each, although what follows reads their rows together.

An operator that makes rows of its own (of groups, of pairs) numbers them, and rows of one rowtime stand in
the order of these numbers. Tasks that know some keys each number theirs alone: rows of one key keep their
order among each other, and rows of different keys may change places. That does no harm to what counts them,
adds them up or keeps them by that key; it would to a LAG over all of them. So a segment is split only where
nothing that follows minds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rowtide.expr.tree import AggregateCall, FieldRef
from rowtide.flow.program import Program
from rowtide.flow.segments import Segment
from rowtide.operators.value_functions import SORTED
from rowtide.operators.window_functions import SPREADS
from rowtide.plan.models import Model
from rowtide.plan.nodes import (
    AsOfJoin,
    BoundPolicy,
    Filter,
    GroupByHop,
    GroupByPeriod,
    GroupBySession,
    GroupChanges,
    JoinKind,
    KeyedTable,
    Merge,
    Node,
    Project,
    Promote,
    Sort,
    Source,
    TableSource,
    UniqueTable,
    WindowAggregate,
    WindowJoin,
    WindowsAbreast,
    partition_key,
)
from rowtide.plan.top_changes import TopChanges

Told = frozenset[int] | None
"""Fields: rows that agree on them keep their order. None: no fields say so."""

COMMUTATIVE = frozenset({"COUNT", "SUM", "AVG", "MIN", "MAX"}) | SORTED | SPREADS.keys()
"""Aggregates that give the same whatever the order of the rows (sums are exact)."""


class _MindsError(Exception):
    """Something that follows minds the order."""


def may_be_split(program: Program, segment: Segment, folded: Mapping[str, Sequence[int]]) -> bool:
    """Tell whether nothing behind a segment minds the order of rows of one rowtime and different keys.

    ``folded`` are the outputs that are kept by a key, each with its fields; the others are kept as they are.
    """
    numbering = [at for at in segment.steps if _numbers_rows(program, at)]
    names: dict[int, list[str]] = {}
    for name, at in program.outputs.items():
        names.setdefault(at, []).append(name)
    try:
        for at in numbering:
            _follow(program, at, _told_apart(program.steps[at].node), False, names, folded)
    except _MindsError:
        return False
    return True


def _numbers_rows(program: Program, at: int) -> bool:
    step = program.steps[at]
    own = step.origins == (step.place.origin,)
    return (
        own
        and not isinstance(step.node, Source | TableSource | Sort)
        and partition_key(step.node) is not None
    )


def _told_apart(node: Node) -> Told:
    """Give the fields of an operator's own rows that say in which part they were made."""
    match node:
        case GroupByPeriod(keys=keys) | GroupByHop(keys=keys) | GroupBySession(keys=keys):
            return frozenset(range(1, 1 + len(keys)))
        case GroupChanges(keys=keys, window=window):
            first = 0 if window is None else 1
            return frozenset(range(first, first + len(keys)))
        case WindowJoin(kind=JoinKind.INNER, left_key=left):
            return frozenset(left)
        case WindowJoin(left=rows, left_key=left, right_key=right):
            # A row without a match has NULLs for the other side's key.
            return frozenset((*left, *(len(rows.row_type) + index for index in right)))
        case _:
            return None


def _follow(
    program: Program,
    at: int,
    told: Told,
    is_moved: bool,
    names: Mapping[int, Sequence[str]],
    folded: Mapping[str, Sequence[int]],
) -> None:
    """Go on to whatever reads the rows of a step; ``is_moved``: their rowtimes may have changed places.

    Raises:
      _MindsError: if something minds.
    """
    for name in names.get(at, ()):
        key = folded.get(name)
        if key and not _is_within(told, key):
            raise _MindsError
    for position, port in program.steps[at].targets:
        node = program.steps[position].node
        moved = is_moved and not isinstance(node, Sort)
        if isinstance(node, Promote) and node.bounds is not BoundPolicy.MAP:
            moved = True
        if isinstance(node, Sort) and is_moved:
            # It judges lateness, and orders ties, by what came first.
            raise _MindsError
        if isinstance(node, AsOfJoin) and port == 0:
            # What a table holds at a time is looked up by its key; nothing else of it goes on.
            if not _is_within(told, node.table_key):
                raise _MindsError
            continue
        _follow(program, position, _through(node, port, told), moved, names, folded)


def _through(node: Node, port: int, told: Told) -> Told:
    """Give what tells the order of the rows that a node makes of such rows.

    Raises:
      _MindsError: if it minds.
    """
    match node:
        case Filter() | Promote() | Sort() | Merge() | AsOfJoin():
            return told
        case Project(expressions=expressions):
            if told is None:
                return None
            where = {each.index: at for at, each in enumerate(expressions) if isinstance(each, FieldRef)}
            return frozenset(where[index] for index in told) if told <= where.keys() else None
        case GroupByPeriod() | GroupByHop() | GroupBySession():
            if not _is_within(told, node.keys) and not all(map(_is_commutative, node.aggregates)):
                raise _MindsError
            return _told_apart(node)
        case GroupChanges(keys=keys):
            at_times = node.every_ms is not None and not node.of_changes
            if not _is_within(told, keys) and not (at_times and all(map(_is_commutative, node.aggregates))):
                raise _MindsError
            return _told_apart(node)
        case WindowJoin():
            return _told_apart(node)
        case UniqueTable():
            # Rows of different keys may be at odds.
            raise _MindsError
        case WindowAggregate(partition=key) | KeyedTable(key=key) | TopChanges(partition=key):
            if not _is_within(told, key):
                raise _MindsError
            return told
        case WindowsAbreast(windows=windows):
            if not all(_is_within(told, window.partition) for window in windows):
                raise _MindsError
            return told
        case Model(key=key):
            if not _is_within(told, key or ()):
                raise _MindsError
            return None
        case _:
            raise _MindsError


def _is_within(told: Told, key: Sequence[int]) -> bool:
    """Tell whether rows that agree on a key keep their order."""
    return told is not None and told <= frozenset(key)


def _is_commutative(call: AggregateCall) -> bool:
    return call.function in COMMUTATIVE
