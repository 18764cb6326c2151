"""What a model keeps comes back as it was, value and type, and damaged bytes never run anything."""

from __future__ import annotations

import math
import pickle
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowtide.engine.table.snapshot import TableState
from rowtide.engine.typed_state import StateError, dump_state, load_state
from rowtide.rows.rowop import Opcode

HASHABLE = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters(codec=None), max_size=4)
    | st.binary(max_size=4)
    | st.decimals(allow_nan=False)
    | st.dates()
    | st.datetimes()
    | st.times()
    | st.timedeltas()
    | st.sampled_from(Opcode)
)
ROWS = st.integers(0, 3).flatmap(lambda width: st.lists(st.tuples(*[HASHABLE] * width), max_size=6))
VALUES = st.recursive(
    HASHABLE | ROWS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(HASHABLE | st.tuples(HASHABLE, HASHABLE), inner, max_size=4)
        | st.sets(HASHABLE, max_size=4)
        | st.frozensets(HASHABLE, max_size=4)
        | st.builds(TableState, ROWS, ROWS, st.lists(st.tuples(st.text(), st.integers(), inner), max_size=3))
    ),
    max_leaves=12,
)


def shape(value: Any) -> Any:
    """Return the value with the types that ``==`` does not see: 1, 1.0 and True are equal."""
    if isinstance(value, dict):
        return dict, [(shape(key), shape(each)) for key, each in value.items()]
    if isinstance(value, list | tuple):
        return type(value), [shape(each) for each in value]
    if isinstance(value, set | frozenset):
        return type(value), {(type(each), each) for each in value}
    return type(value), math.copysign(1, value) if value == 0 and isinstance(value, float) else str(value)


@given(VALUES)
def test_a_value_comes_back_as_it_was(value: object) -> None:
    found = load_state(dump_state(value))
    assert found == value
    assert shape(found) == shape(value)


@given(
    st.floats(allow_nan=True)
    | st.integers(0, 2**64 - 1).map(lambda bits: np.uint64(bits).view(np.float64).item())
)
def test_a_float_keeps_its_bits(value: float) -> None:
    assert np.float64(load_state(dump_state([value]))[0]).tobytes() == np.float64(value).tobytes()


@pytest.mark.parametrize("kind", ["?", "i1", "u8", "f4", "f8", "M8[ms]", "m8[s]"])
def test_arrays_and_numbers_of_numpy_come_back(kind: str) -> None:
    value = np.arange(6).astype(kind).reshape(2, 3)
    found = load_state(dump_state([value, value[1, 1]]))
    assert found[0].dtype == value.dtype
    assert np.array_equal(found[0], value)
    assert type(found[1]) is type(value[1, 1])
    assert found[1] == value[1, 1]
    # As any array, it can be changed.
    found[0][0, 0] = value[1, 1]


class Own:
    """A class of a user's module."""


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (Own(), "Own"),
        ([(1, Own())], "Own"),
        ({Own(): 1}, "Own"),
        (len, "builtin_function_or_method"),
        (1j, "complex"),
        (bytearray(b"x"), "bytearray"),
        (np.array([object()]), "NumPy array of object"),
    ],
)
def test_a_value_of_another_type_is_refused(value: object, named: str) -> None:
    with pytest.raises(StateError, match=named):
        dump_state(value)


def test_a_value_that_contains_itself_is_refused() -> None:
    endless: list[object] = []
    endless.append(endless)
    with pytest.raises(StateError, match="nested too deeply"):
        dump_state(endless)


class Touch:
    """Unpickled, it makes a file."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.file,)


def test_a_pickle_is_not_run(tmp_path: Path) -> None:
    file = tmp_path / "touched"
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(StateError, match="not a stored state"):
            load_state(pickle.dumps(Touch(file), protocol))
    assert not file.exists()


@given(VALUES, st.data())
def test_damaged_bytes_are_refused_or_are_values_that_can_be_stored(
    value: object, data: st.DataObject
) -> None:
    content = bytearray(dump_state(value))
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = load_state(bytes(content))
    except StateError:
        return
    dump_state(found)


KEPT_TYPES = (
    date(2026, 1, 1),
    datetime(2026, 1, 1, fold=1),
    time(1, 2, 3, 4),
    timedelta(-1, 5),
    Decimal("NaN"),
)


@pytest.mark.parametrize("value", KEPT_TYPES)
def test_times_and_decimals_keep_all_that_they_have(value: object) -> None:
    assert repr(load_state(dump_state(value))) == repr(value)
