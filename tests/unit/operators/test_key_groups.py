from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

import pytest

from rowtide.operators.aggregates.groups.key_groups import KeyGroups
from rowtide.rows.column import Column
from rowtide.rows.types import BIGINT, VARCHAR, Type, decimal

WIDE = decimal(38, 0)
FORMS: dict[Type, Callable[[int], object]] = {VARCHAR: str, BIGINT: int, WIDE: Decimal}


@pytest.mark.parametrize("types", [(VARCHAR,), (BIGINT,), (VARCHAR, BIGINT), (VARCHAR, VARCHAR), (WIDE,)])
def test_what_is_looked_up_is_not_remembered(types: tuple[Type, ...]) -> None:
    def keys(*values: int | None) -> list[Column]:
        return [
            Column.from_values(kind, [None if value is None else FORMS[kind](value) for value in values])
            for kind in types
        ]

    groups = KeyGroups(types)
    assert groups.number(keys(7, None, 8_000_000_000, 7), 4).tolist() == [0, 1, 2, 0]
    for start in range(100, 5_000, 100):
        found = groups.find(keys(*range(start, start + 98), None, 7), 100)
        assert found.tolist() == [-1] * 98 + [1, 0]
    assert groups.find(keys(8_000_000_000), 1).tolist() == [2]
    assert groups.count == 3
    assert groups.number(keys(None, 9, 7), 3).tolist() == [1, 3, 0]
    assert groups._coder.interned in (0, 3, 4)
