"""What a runner says of an archive of messages: its parts, and the offsets and times in them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class ArchivedPart(NamedTuple):
    """Messages of one partition in an archive, from ``begin`` (inclusive, with holes) to ``end`` (exclusive).

    ``latest_ms`` is their latest timestamp. ``is_whole``: each begins where the one before ends.
    """

    topic: str
    partition: int
    begin: int
    end: int
    latest_ms: int
    is_whole: bool


class Stamps(NamedTuple):
    """Messages of one part in the order of their offsets: where each begins, with its holes; its offset; its time."""

    begins: NDArray[np.int64]
    offsets: NDArray[np.int64]
    timestamps: NDArray[np.int64]


class Wanted(NamedTuple):
    """The messages of a partition from ``begin`` (inclusive) to ``end`` (exclusive)."""

    topic: str
    partition: int
    begin: int
    end: int
