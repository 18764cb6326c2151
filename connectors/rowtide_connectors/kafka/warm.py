"""Compile the Kafka connector's loops ahead of time: ``python -m rowtide_connectors.kafka.warm``.

The compiled code is cached on disk, so that a start need not wait for it.
"""

from __future__ import annotations

import numpy as np

from rowtide_connectors.kafka.kernels import copy_bytes, destroy, read_fields


def warm() -> None:
    """Compile every loop for the types that ``native`` calls it with."""
    words, longs, ints = np.empty(0, np.uint64), np.empty(0, np.int64), np.empty(0, np.int32)
    none = np.uint64(0)
    flags = np.empty(0, np.bool_)
    read_fields(words, none, none, none, ints, longs, longs, ints, words, longs, words, longs, flags)
    copy_bytes(words, longs, none, none)
    destroy(words, none)


if __name__ == "__main__":
    warm()
