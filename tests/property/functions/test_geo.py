"""Distances against the angle between vectors, and polygons against their triangles in whole numbers."""

from __future__ import annotations

from itertools import pairwise
from math import atan2, cos, radians, sin, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowtide.functions.geo import EARTH_KM, distance, inside

PLACES = st.tuples(st.floats(-90, 90), st.floats(-180, 180))
DIRECTIONS = ((1, 0), (2, 1), (1, 1), (1, 2), (0, 1), (-1, 1), (-1, 0), (-2, -1), (0, -1), (1, -1))
"""By angle, no two neighbors more than a right angle apart."""
Point = tuple[int, int]


def vector(place: tuple[float, float]) -> tuple[float, float, float]:
    lat, lon = map(radians, place)
    return cos(lat) * cos(lon), cos(lat) * sin(lon), sin(lat)


def of_vectors(first: tuple[float, float], second: tuple[float, float]) -> float:
    a, b = vector(first), vector(second)
    cross = (a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0])
    return EARTH_KM * atan2(sqrt(sum(each * each for each in cross)), sum(map(float.__mul__, a, b)))


@given(st.lists(st.tuples(PLACES, PLACES), min_size=1, max_size=8))
def test_a_distance_is_that_of_the_angle_between_vectors(
    pairs: list[tuple[tuple[float, float], ...]],
) -> None:
    columns = (np.array(each) for each in zip(*[(*a, *b) for a, b in pairs], strict=True))
    found = distance(*columns)
    # The haversine formula loses half of the digits for points opposite to each other.
    assert found == pytest.approx([of_vectors(a, b) for a, b in pairs], abs=1e-3)


@pytest.mark.parametrize("wrong", [(91, 0, 0, 0), (0, 0, -91, 0), (0, 181, 0, 0), (0, 0, 0, np.nan)])
def test_what_is_not_on_the_earth_is_refused(wrong: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="tude is between"):
        distance(*(np.array([float(each)]) for each in wrong))


@st.composite
def stars(draw: st.DrawFn) -> list[Point]:
    """Return the corners of a polygon around the origin, of which every corner can be seen from there."""
    lengths = [draw(st.integers(3, 6)) for _ in DIRECTIONS]
    return [(x * length, y * length) for (x, y), length in zip(DIRECTIONS, lengths, strict=True)]


def text(*rings: list[Point]) -> str:
    written = (", ".join(f"{x} {y}" for x, y in (*ring, ring[0])) for ring in rings)
    return f"POLYGON ({', '.join(f'({ring})' for ring in written)})"


def in_triangle(point: Point, corners: tuple[Point, Point, Point]) -> bool:
    sides = [
        (b[0] - a[0]) * (point[1] - a[1]) - (b[1] - a[1]) * (point[0] - a[0])
        for a, b in pairwise((*corners, corners[0]))
    ]
    return all(side >= 0 for side in sides)


POINTS = st.tuples(st.integers(-13, 13), st.integers(-13, 13))


@given(stars(), POINTS, st.booleans(), st.integers(0, len(DIRECTIONS) - 1))
def test_a_point_is_in_a_polygon_if_it_is_in_one_of_its_triangles(
    star: list[Point], point: Point, backwards: bool, first: int
) -> None:
    turned = [*star[first:], *star[:first]]
    wanted = any(in_triangle(point, ((0, 0), a, b)) for a, b in pairwise((*star, star[0])))
    assert inside(*point, text(turned[::-1] if backwards else turned)) is wanted


@given(stars(), POINTS)
def test_a_point_in_a_hole_is_not_inside_but_its_border_is(star: list[Point], point: Point) -> None:
    hole = [(2, 0), (0, 2), (-2, 0), (0, -2)]
    wanted = any(in_triangle(point, ((0, 0), a, b)) for a, b in pairwise((*star, star[0])))
    within_hole = abs(point[0]) + abs(point[1]) < 2
    assert inside(*point, text(star, hole)) is (wanted and not within_hole)


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        "POINT (1 2)",
        "POLYGON ((0 0, 1 1, 0 0))",
        "POLYGON ((0 0, 1 0, 1 1, 0 1))",
        "POLYGON ((a b))",
        "POLYGON ()",
    ],
)
def test_a_text_that_is_not_a_polygon_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match="polygon"):
        inside(0, 0, wrong)


def test_the_radius_is_that_of_a_known_distance() -> None:
    """Berlin to Munich is 504 km."""
    (found,) = distance(*(np.array([each]) for each in (52.52, 13.405, 48.137, 11.575)))
    assert abs(found - 504.2) < 0.2
