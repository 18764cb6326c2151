"""Slots: where the rows of each step go that later stages read. A step has one for each way in which they are split."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import count

from rowtide.flow.program import Port, Program
from rowtide.flow.segments import Segment
from rowtide.runners.spark.shuffle.blocks import STATE_SLOT
from rowtide.runners.spark.shuffle.runs import Split


def wanted_slots(
    program: Program, segments: Sequence[Segment], kept: Collection[int], folded: Mapping[str, Split]
) -> dict[int, dict[Split, int]]:
    """Return, for each step whose rows are read later, the number of the slot of each split.

    ``kept`` are steps whose rows are an output as they are, ``folded`` the keys of other outputs. Works from the
    outputs backwards: rows that only pass a merge are split when they are written.
    """
    found: dict[int, dict[Split, None]] = {at: {(): None} for at in kept}
    for name, key in folded.items():
        # Outputs with the same rows are one step, and may have different keys.
        found.setdefault(program.outputs[name], {})[key] = None
    for segment in reversed(segments):
        (entry, *_) = segment.entries
        for port, at in feeders_of(program, entry).items():
            if only_passes(program, segment, kept):
                wanted = found.get(entry, {})
            else:
                wanted = {segment.keys[port] if segment.keys else (): None}
            found.setdefault(at, {}).update(wanted)
    numbers = count(STATE_SLOT + 1)
    return {at: {split: next(numbers) for split in found[at]} for at in sorted(found)}


def slots_of_waiting(
    program: Program,
    segments: Sequence[Segment],
    kept: Collection[int],
    slots: Mapping[int, Mapping[Split, int]],
    waiting: Collection[Port],
) -> dict[Port, dict[Split, int]]:
    """Return the slots of rows that wait in merges when a run begins: those of each port are read only there."""
    last = max((slot for each in slots.values() for slot in each.values()), default=STATE_SLOT)
    numbers = count(last + 1)
    found: dict[Port, dict[Split, int]] = {}
    for segment in segments:
        (entry, *_) = segment.entries
        for at, port in sorted(each for each in waiting if each[0] == entry):
            splits: Collection[Split] = [segment.keys[port] if segment.keys else ()]
            if only_passes(program, segment, kept):
                splits = slots.get(entry, {}).keys() or [()]
            found[at, port] = {split: next(numbers) for split in splits}
    return found


def only_passes(program: Program, segment: Segment, kept: Collection[int]) -> bool:
    """Return whether a segment is only a merge, whose rows are read where its feeders put them."""
    return len(segment.steps) == 1 and segment.is_merge(program) and segment.entries[0] not in kept


def feeders_of(program: Program, entry: int) -> dict[int, int]:
    """Return the step that feeds each port of an entry, port by port."""
    found = {
        port: at
        for at, step in enumerate(program.steps)
        for position, port in step.targets
        if position == entry
    }
    return dict(sorted(found.items()))
