"""Points on the earth and in the plane."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

EARTH_KM = 6371.0088
"""The mean radius of the earth (IUGG)."""
KEPT_POLYGONS = 1_024
"""Polygons whose text is read once: more than a pipeline usually has."""
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_POINT = re.compile(rf"\s*({_NUMBER})\s+({_NUMBER})\s*")
_POLYGON = re.compile(r"\s*POLYGON\s*\(\s*(\(.*\))\s*\)\s*", re.IGNORECASE | re.DOTALL)

Doubles = NDArray[np.float64]
Ring = tuple[tuple[float, float], ...]


def distance(lat1: Doubles, lon1: Doubles, lat2: Doubles, lon2: Doubles) -> Doubles:
    """Return the kilometers between points on the earth, by the haversine formula; degrees, form numpy.

    Raises:
      ValueError: a latitude is not between -90 and 90, or a longitude not between -180 and 180.
    """
    for latitude in (lat1, lat2):
        if not np.all(np.abs(latitude) <= 90):
            raise ValueError("a latitude is between -90 and 90")
    for longitude in (lon1, lon2):
        if not np.all(np.abs(longitude) <= 180):
            raise ValueError("a longitude is between -180 and 180")
    first, second = np.radians(lat1), np.radians(lat2)
    across = np.sin(np.radians(lon2 - lon1) / 2) ** 2
    half = np.sin((second - first) / 2) ** 2 + np.cos(first) * np.cos(second) * across
    kilometers: Doubles = 2 * EARTH_KM * np.arcsin(np.sqrt(np.minimum(half, 1.0)))
    return kilometers


def inside(x: float, y: float, polygon: str) -> bool:
    """Return whether a point is in a polygon or on its border, in the plane.

    The polygon is well-known text: ``POLYGON ((0 0, 4 0, 4 4, 0 0))``; further rings are holes.

    Raises:
      ValueError: the text is not a polygon.
    """
    within = False
    for ring in _rings(polygon):
        for (x1, y1), (x2, y2) in pairwise(ring):
            side = (x2 - x1) * (y - y1) - (y2 - y1) * (x - x1)
            if side == 0 and min(x1, x2) <= x <= max(x1, x2) and min(y1, y2) <= y <= max(y1, y2):
                return True
            # A ray to the right crosses the edges that have the point strictly on their left or right side.
            if (y1 <= y) != (y2 <= y) and (side > 0) == (y2 > y1):
                within = not within
    return within


@lru_cache(KEPT_POLYGONS)
def _rings(polygon: str) -> tuple[Ring, ...]:
    found = _POLYGON.fullmatch(polygon)
    if found is None:
        raise ValueError("a polygon is written POLYGON ((x y, x y, ..))")
    return tuple(_ring(text) for text in re.split(r"\)\s*,\s*\(", found[1].strip()[1:-1]))


def _ring(text: str) -> Ring:
    points = []
    for part in text.split(","):
        point = _POINT.fullmatch(part)
        if point is None:
            raise ValueError(f"not a point of a polygon: {part.strip()!r}")
        points.append((float(point[1]), float(point[2])))
    if len(points) < 4 or points[0] != points[-1]:
        raise ValueError("a ring of a polygon has four points or more, and ends where it begins")
    return tuple(points)
