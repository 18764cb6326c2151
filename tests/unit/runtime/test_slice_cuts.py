"""Where slices end: by an interval of time, by a number of messages, and always further on."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence

from hypothesis import given
from hypothesis import strategies as st

from rowtide.checkpoint.ledger import PartitionId
from rowtide.runtime.backfill.slices import MESSAGES_A_PART, SliceCuts, SliceLimits

Logs = Mapping[PartitionId, Sequence[int]]
UNTIL = 1_000


def offsets_at(logs: Logs, timestamp: int) -> dict[PartitionId, int]:
    """Return the first offsets stamped so or later; stamps need not be in order."""
    return {
        place: next((at for at, stamp in enumerate(log) if stamp >= timestamp), len(log))
        for place, log in logs.items()
    }


def slices(logs: Logs, interval: int | None, most: int | None) -> list[dict[PartitionId, int]]:
    """Return the ends of all slices."""
    end = offsets_at(logs, UNTIL)
    cuts = SliceCuts(end, UNTIL, interval, most, lambda timestamp: offsets_at(logs, timestamp))
    found: list[dict[PartitionId, int]] = []
    positions = dict.fromkeys(logs, 0)
    while True:
        after = cuts.after(positions)
        assert all(positions[place] <= offset <= end[place] for place, offset in after.items())
        found.append(after)
        if after == end:
            return found
        assert after != positions
        positions = after


LOGS = st.dictionaries(
    st.tuples(st.sampled_from(["A", "B"]), st.integers(0, 2)),
    st.lists(st.integers(-1, UNTIL + 100), max_size=30),
    min_size=1,
)


@given(LOGS, st.none() | st.integers(1, 400), st.none() | st.integers(1, 40))
def test_slices_lead_to_the_cut_within_their_limits(
    logs: Logs, interval: int | None, most: int | None
) -> None:
    before = dict.fromkeys(logs, 0)
    for after in slices(logs, interval, most):
        assert most is None or sum(after.values()) - sum(before.values()) <= most
        before = after
    if interval is None and most is None:
        assert before == offsets_at(logs, UNTIL)


@given(st.lists(st.integers(0, UNTIL - 1), max_size=30).map(sorted), st.integers(1, 400))
def test_each_interval_with_messages_is_a_slice(stamps: Sequence[int], interval: int) -> None:
    ends = [each["A", 0] for each in slices({("A", 0): stamps}, interval, None)]
    wanted = [
        bisect_left(stamps, (each + 1) * interval) for each in sorted({at // interval for at in stamps})
    ]
    assert ends == (wanted or [0])


@given(st.lists(st.integers(0, 50), min_size=1, max_size=60).map(sorted), st.integers(1, 20))
def test_a_slice_of_a_number_of_messages_ends_all_partitions_at_one_time(
    stamps: Sequence[int], most: int
) -> None:
    logs = {("A", 0): stamps[::2], ("A", 1): stamps[1::2]}
    for after in slices(logs, None, most):
        left = [logs[place][offset] for place, offset in after.items() if offset < len(logs[place])]
        taken = [logs[place][offset - 1] for place, offset in after.items() if offset]
        # Messages of one millisecond that are too many are divided.
        assert not left or not taken or max(taken) <= min(left)


def test_the_limit_grows_with_the_parts_unless_it_is_set() -> None:
    assert SliceLimits().most(8) == 8 * MESSAGES_A_PART
    assert SliceLimits(messages=5).most(8) == 5
    assert SliceLimits(messages=0).most(8) is None
