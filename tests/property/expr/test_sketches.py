"""Sketches: the order of values does not matter, a value that has gone leaves no trace, results are near."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowtide.expr.aggregates import Sketch
from rowtide.expr.aggregates.percentile import one_at
from rowtide.expr.aggregates.sketch import DistinctSketch, PercentileSketch, bucket_of, value_in
from rowtide.expr.aggregates.sum import Product

NUMBERS = (
    st.floats(allow_nan=False, allow_infinity=False)
    | st.integers(-1000, 1000)
    | st.sampled_from([0.0, -0.0, 5e-324])
)
FRACTIONS = st.sampled_from([Fraction(0), Fraction(1, 2), Fraction(9, 10), Fraction(1)])
Maker = Callable[[], Sketch]
MAKERS: dict[str, Maker] = {
    "distinct": lambda: DistinctSketch(growing=False),
    "percentile": lambda: PercentileSketch(Fraction(1, 3)),
    "product": Product,
}


def of(make: Maker, values: Sequence[Any]) -> Sketch:
    sketch = make()
    for value in values:
        sketch.add(value)
    return sketch


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
@given(values=st.lists(NUMBERS), data=st.data())
def test_a_sketch_depends_neither_on_order_nor_on_what_has_gone(
    make: Maker, values: list[float], data: st.DataObject
) -> None:
    stays = data.draw(st.lists(st.sampled_from(values), unique=True)) if values else []
    goes = list(values)
    for value in stays:
        goes.remove(value)
    sketch = of(make, data.draw(st.permutations(values)))
    loaded = make()
    loaded.load(sketch.save())
    for value in data.draw(st.permutations(goes)):
        loaded.remove(value)
    assert loaded.save() == of(make, stays).save()
    assert loaded.result() == of(make, stays).result()


@given(st.lists(NUMBERS))
def test_a_sketch_that_only_grows_has_the_same_result(values: list[float]) -> None:
    growing = of(lambda: DistinctSketch(growing=True), values)
    assert growing.result() == of(lambda: DistinctSketch(growing=False), values).result()
    for value in values[-1:]:
        growing.add("another")
        growing.remove("another")
        assert growing.save() == of(lambda: DistinctSketch(growing=True), values).save(), value


@given(st.lists(NUMBERS, min_size=1), FRACTIONS)
def test_a_percentile_is_within_a_128th_of_the_exact_one(values: list[float], fraction: Fraction) -> None:
    found = of(lambda: PercentileSketch(fraction), values).result()
    exact = one_at(sorted(map(float, values)), fraction)
    assert isinstance(found, float) and isinstance(exact, float)
    assert abs(Fraction(found) - Fraction(exact)) <= max(abs(Fraction(exact)) / 128, Fraction(2**-1022))


@given(NUMBERS, NUMBERS)
def test_buckets_are_in_the_order_of_their_numbers(first: float, second: float) -> None:
    low, high = sorted((float(first), float(second)))
    assert bucket_of(low) <= bucket_of(high)
    assert bucket_of(value_in(bucket_of(low))) == bucket_of(low) or math.isinf(value_in(bucket_of(low)))


@pytest.mark.parametrize("number", [*range(-256, 257), 0.1, -42.5, 1.23, 1e300, Decimal("99.5")])
def test_a_number_of_few_digits_is_itself(number: float) -> None:
    assert value_in(bucket_of(number)) == float(number)


@pytest.mark.parametrize("count", [0, 1, 7, 300, 5000, 40_000])
def test_the_number_of_different_values_is_near(count: int) -> None:
    sketch = of(lambda: DistinctSketch(growing=True), [f"{number}" for number in range(count)] * 2)
    found = sketch.result()
    assert isinstance(found, int)
    # Four standard errors.
    assert abs(found - count) <= 4 * 0.0163 * count


FACTORS = (
    NUMBERS
    | st.decimals(-1000, 1000, places=3, allow_nan=False)
    | st.sampled_from(
        [1e200, -1e-200, 2**53 + 1, -(2**62), 1.7e308, Decimal("99999999999999999999999999999999.99")]
    )
)


@given(st.lists(FACTORS, min_size=1))
def test_a_product_is_the_nearest_double_to_the_exact_one(values: list[Any]) -> None:
    exact = math.prod(map(Fraction, values))
    found = of(Product, values).result()
    try:
        wanted = float(exact)
    except OverflowError:
        assert found is None
        return
    assert isinstance(found, float)
    assert found == wanted
    assert math.copysign(1, found) == (1 if not found else math.copysign(1, exact))


@given(st.lists(NUMBERS.filter(bool), min_size=1), st.integers(1, 3))
def test_a_product_forgets_zeros_and_numbers_that_no_double_holds(values: list[Any], zeros: int) -> None:
    sketch = of(Product, [*values, *[0.0] * zeros, 1e300, 1e300])
    for value in (1e300, *[-0.0] * (zeros - 1), 1e300):
        sketch.remove(value)
        assert sketch.result() == 0
    sketch.remove(0)
    assert sketch.result() == of(Product, values).result()
