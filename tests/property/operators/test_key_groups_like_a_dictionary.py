"""Keys have the numbers that a dictionary would give them, whatever is NULL and whatever is forgotten."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowtide.operators.aggregates.groups import key_groups
from rowtide.operators.aggregates.groups.key_groups import KeyGroups
from rowtide.rows.column import Column
from rowtide.rows.types import BIGINT, VARCHAR, Type

VALUES = st.integers(0, 12)
BATCHES = st.lists(VALUES, max_size=8) | st.lists(st.none() | VALUES, max_size=8)


@given(
    steps=st.lists(st.tuples(BATCHES, BATCHES, st.integers(0, 5)), max_size=8),
    kind=st.sampled_from([VARCHAR, BIGINT]),
    forget_over=st.sampled_from([0, 1 << 16]),
)
def test_keys_are_numbered_as_in_a_dictionary(
    steps: list[tuple[list[int | None], list[int | None], int]], kind: Type, forget_over: int
) -> None:
    def column(values: list[int | None]) -> list[Column]:
        as_text = [None if value is None else f"key {value}" for value in values]
        return [Column.from_values(kind, as_text if kind is VARCHAR else values)]

    groups, numbers = KeyGroups([kind]), dict[int | None, int]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(key_groups, "FORGET_INTERNED_OVER", forget_over)
        for given_keys, asked, dropped in steps:
            before = dict(numbers)
            for key in given_keys:
                numbers.setdefault(key, len(numbers))
            found, firsts = groups.numbered(column(given_keys), len(given_keys))
            assert found.tolist() == [numbers[key] for key in given_keys]
            assert firsts.tolist() == [given_keys.index(key) for key in numbers if key not in before]
            assert groups.find(column(asked), len(asked)).tolist() == [numbers.get(key, -1) for key in asked]
            if dropped and dropped <= groups.count:
                groups.keep(slice(dropped, None))
                numbers = {key: at for at, key in enumerate(list(numbers)[dropped:])}
            assert groups.columns()[0].to_list() == column(list(numbers))[0].to_list()


@pytest.mark.parametrize("fields", [1, 2, 3])
def test_many_keys_are_numbered_as_in_a_dictionary(fields: int) -> None:
    """More than are in the cache, and more in a call than are looked up together."""
    random = np.random.default_rng(7)
    groups, numbers = KeyGroups([BIGINT] * fields), dict[tuple[int, ...], int]()
    for rows in (300, 256, 40_000, 1, 20_000):
        keys = random.integers(0, 60_000 if fields == 1 else 300, (rows, fields))
        known = len(numbers)
        expected = [numbers.setdefault(tuple(key), len(numbers)) for key in keys.tolist()]
        columns = [Column(BIGINT, np.ascontiguousarray(keys[:, field])) for field in range(fields)]
        found, firsts = groups.numbered(columns, rows)
        assert found.tolist() == expected
        assert [tuple(key) for key in keys[firsts].tolist()] == list(numbers)[known:]
    assert groups.count == len(numbers) > 1 << 14
