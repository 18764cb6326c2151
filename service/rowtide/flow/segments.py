"""A program cut where rows must be brought together: the stages of a parallel run.

A segment begins at one entry (the entrances of a source, or an operator that
reads more than one row) and includes all row-wise steps after it. Its output
goes to the entries of later segments, or to outputs.

A t-sort over a merged stream judges rows and orders ties by arrival, which is the order of the
rowtimes before the promotions below it. So the first of these promotions begins a segment that is not
split, and the t-sort is in it. In the same way, the judge of an engine table's changes belongs to the
table's entrance.

A merge does not change its rows, it only holds some back. So if one entry
alone reads the output of a merge and the row-wise steps after it, and the key
of that entry is in the rows before the merge, all of them are one segment: its
rows are brought together once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from rowtide.flow.program import Port, Program
from rowtide.plan.nodes import Merge, PartitionKey, Promote, Sort, Source, TableSource


@dataclass(frozen=True, slots=True)
class Segment:
    """One stage.

    ``entries`` are the positions where rows come in: the entrances of one source's partitions, or
    one step. ``steps`` are all its positions. ``exits`` are the ports outside that it feeds, with
    the step inside that feeds each; ``outputs`` the steps inside with output rows, by name.
    ``keys`` splits its input, port by port; None: it must not be split, unless it ``is_row_wise``.
    ``multiplies``: one of its row-wise steps may make several rows of one.
    """

    entries: tuple[int, ...]
    steps: tuple[int, ...]
    exits: tuple[tuple[int, Port], ...]
    outputs: tuple[tuple[str, int], ...]
    keys: PartitionKey | None
    is_row_wise: bool
    multiplies: bool

    @property
    def is_one_to_one(self) -> bool:
        """Return whether it reads rows one by one, and makes at most one row of each."""
        return self.is_row_wise and not self.multiplies

    @property
    def feeders(self) -> tuple[int, ...]:
        """The steps inside whose rows leave the segment, to exits or to outputs."""
        return tuple(sorted({at for at, _ in self.exits} | {at for _, at in self.outputs}))

    def is_merge(self, program: Program) -> bool:
        """Return whether the entry is a merge: rows only wait there, so it needs no shuffle."""
        return isinstance(program.steps[self.entries[0]].node, Merge)


def segments(program: Program) -> list[Segment]:
    """Cut a program into segments, in the order of the data."""
    home: dict[int, int] = {}
    members: list[list[int]] = []
    entries: list[list[int]] = []
    of_source: dict[str, int] = {}
    fed_by: dict[int, list[int]] = {}
    for at, step in enumerate(program.steps):
        for position, _ in step.targets:
            fed_by.setdefault(position, []).append(at)
    promoted_for = _promoted_for(program, fed_by)
    begins = frozenset(promoted_for.values())
    for at, step in enumerate(program.steps):
        feeders = fed_by.get(at, [])
        is_row_wise = step.node.is_row_wise and at not in begins
        if isinstance(step.node, Source):
            number = of_source.setdefault(step.node.relation, len(members))
            if number == len(members):
                members.append([])
                entries.append([])
            entries[number].append(at)
        elif (
            step.partition is not None
            or is_row_wise
            or at in promoted_for
            or _judges_table(program, at, feeders)
        ):
            number = home[feeders[0]]
        else:
            number = len(members)
            members.append([])
            entries.append([at])
        home[at] = number
        members[number].append(at)
    keys = {number: program.steps[entries[number][0]].node.partition_key() for number in range(len(members))}
    row_wise = {
        number for number in range(len(members)) if isinstance(program.steps[entries[number][0]].node, Merge)
    }
    for number in sorted(row_wise):
        found = _only_reader(program, members[number], home, program.outputs.values())
        if found is None:
            continue
        feeder, reader = found
        key = keys[home[reader]]
        seen = None
        if key is not None:
            (fields,) = key
            seen = _seen_before(program, entries[number][0], feeder, fields, fed_by)
            if seen is None:
                continue
        ports = len(fed_by[entries[number][0]])
        keys[number] = None if seen is None else (seen,) * ports
        row_wise.discard(number)
        taken = home[reader]
        members[number] += members[taken]
        home |= dict.fromkeys(members[taken], number)
        members[taken] = []
    return [
        Segment(
            tuple(entries[number]),
            tuple(inside),
            tuple(
                (at, target)
                for at in inside
                for target in program.steps[at].targets
                if home[target[0]] != number
            ),
            tuple((name, at) for name, at in program.outputs.items() if home[at] == number),
            keys[number],
            number in row_wise,
            any(program.steps[at].node.multiplies for at in inside),
        )
        for number, inside in enumerate(members)
        if inside
    ]


def _only_reader(
    program: Program, inside: Sequence[int], home: Mapping[int, int], outputs: Collection[int]
) -> tuple[int, int] | None:
    """Return the one entry, of one port, that reads a merge's segment, and the step that it reads."""
    exits = [
        (at, position)
        for at in inside
        for position, _ in program.steps[at].targets
        if home[position] != home[at]
    ]
    if len(exits) != 1 or not set(outputs).isdisjoint(inside):
        return None
    ((at, position),) = exits
    if isinstance(program.steps[position].node, Merge) or len(program.steps[position].node.inputs) != 1:
        return None
    return at, position


def _seen_before(
    program: Program,
    entry: int,
    feeder: int,
    fields: Sequence[int],
    fed_by: Mapping[int, Sequence[int]],
) -> tuple[int, ...] | None:
    """Return the fields of the entry's rows that a row-wise step passes on unchanged."""
    found = tuple(fields)
    at = feeder
    while at != entry:
        below = program.steps[at].node.unchanged(found)
        if below is None:
            return None
        found = below
        (at,) = fed_by[at]
    return found


def _promoted_for(program: Program, fed_by: Mapping[int, Sequence[int]]) -> dict[int, int]:
    """Return, for each t-sort over a merged stream, the first of the promotions right below it."""
    found = {}
    for sort, step in program.sorts():
        (at,) = fed_by.get(sort, [sort])
        while step.partition is None and program.steps[at].node.is_row_wise:
            if isinstance(program.steps[at].node, Promote):
                found[sort] = at
            (at,) = fed_by[at]
    return found


def _judges_table(program: Program, at: int, feeders: Sequence[int]) -> bool:
    """Return whether a step judges the changes of a table, which it must receive in order."""
    return isinstance(program.steps[at].node, Sort) and any(
        isinstance(program.steps[feeder].node, TableSource) for feeder in feeders
    )
